"""Rounds that an engine counted: between two looks at its counters, or in its answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from calibration.bench.answer import Answer
from calibration.bench.server import Server
from ssdsim.base.errors import InputError
from ssdsim.base.record import Record
from ssdsim.readers.acceptance import llama_cpp, sglang, trtllm, vllm_counters
from ssdsim.readers.acceptance.counts import Counts, ImportOptions, Source, pooled

METRICS = "/metrics"


class Seen(Record):
    """The answers of some work, and the server's ``/metrics`` before and after it, where it has them."""

    before: str | None
    after: str | None
    answers: Sequence[Answer]


def rounds_of(server: Server, seen: Seen) -> Counts | None:
    """The rounds of that work; None of a server that did not speculate, or does not tell."""
    read = _READERS.get(server.engine)
    return read(server, seen) if read is not None else None


def _of_vllm(server: Server, seen: Seen) -> Counts | None:
    if seen.before is None or seen.after is None:
        return None
    before, after = (Source(Path(METRICS), text) for text in (seen.before, seen.after))
    return vllm_counters.between(before, after, server.served)


def _of_tensorrt(server: Server, seen: Seen) -> Counts | None:
    """Count TensorRT-LLM's iterations since it was asked before."""
    if seen.after is None or not seen.after.lstrip().startswith(("[", "{")):
        return None
    try:
        return trtllm.read_one(Source(Path(METRICS), seen.after), ImportOptions()).counts[0]
    except InputError:  # none of them drafted
        return None


def _of_sglang(server: Server, seen: Seen) -> Counts | None:
    k = sglang.lookahead_of(server.settings, server.engine)
    counts = [sglang.of_request(answer.own, f"answer {number}", k) for number, answer in enumerate(seen.answers, 1)]
    speculated = [each for each in counts if each is not None]
    return pooled(server.engine, speculated) if speculated else None


def _of_llama_cpp(server: Server, seen: Seen) -> Counts | None:
    return llama_cpp.of_all_timings([answer.own for answer in seen.answers], server.engine)


_READERS: Mapping[str, Callable[[Server, Seen], Counts | None]] = {
    "vllm": _of_vllm,
    "sglang": _of_sglang,
    "llama.cpp": _of_llama_cpp,
    "tensorrt-llm": _of_tensorrt,
}
