"""Measurements as files: a row for each point, with the rounds that the engine counted, and a pair of many rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import asdict

from calibration.bench.load import LoadPoint
from calibration.bench.server import Server, TimedAnswer
from ssdsim import __version__
from ssdsim.base.documents import as_record
from ssdsim.base.errors import InputError
from ssdsim.base.record import Record, replace
from ssdsim.hardware.catalog import transformer_called
from ssdsim.readers.acceptance import llama_cpp, sglang, trtllm, vllm_counters
from ssdsim.readers.acceptance.counts import Counts, ImportOptions, Source, of_positions, of_totals, pooled
from ssdsim.readers.acceptance.fields import count
from ssdsim.readers.acceptance.findings import findings_of
from ssdsim.readers.acceptance.read import NO_HITS
from ssdsim.readers.agreement import model_of
from ssdsim.readers.row import Row
from ssdsim.tokens.pair_file import AtTemperature, Pair, PairProvenance, PairSettings, Participant

SOURCE = "ssdsim bench"
_DRAFTING = ("k", "acceptance_length", "draft", "drafter")
METRICS = "/metrics"


def described(server: Server, given: Mapping[str, Any], at: str) -> dict[str, Any]:
    """The columns that all rows of a server share."""
    if "hardware" not in given:
        raise InputError(f"{at}: does not say the hardware; give its profile by --hardware")
    said = {name: given[name] for name in given if name not in _DRAFTING}
    tp = count(server.settings, ("tp_size",), at)
    return {
        **({} if tp is None else {"tp": tp}),
        **said,
        "model": model_of(server.loaded if transformer_called(server.loaded or "") else server.served, given, at),
        "engine": server.engine,
        "engine_version": server.version,
        "source": SOURCE,
    }


def said_of_draft(given: Mapping[str, Any]) -> dict[str, Any]:
    """The columns about the draft that the user stated."""
    return {name: given.get(name) for name in ("draft", "drafter")} | ({"k": given["k"]} if "k" in given else {})


def drafting(counts: Counts | None, given: Mapping[str, Any], at: str) -> dict[str, Any]:
    """The columns about the draft if the server speculates; ``k`` None if it does not."""
    named = {name: given[name] for name in ("draft", "drafter") if name in given}
    if counts is None:
        if not named and "k" not in given:
            return {"k": None}
        if "k" in given and "acceptance_length" in given:
            return {"k": given["k"], **named}
        raise InputError(
            f"{at}: counts no round of speculation: start it with speculation (SGLang, TensorRT-LLM: with metrics), or "
            "leave out --draft, --drafter and --k (or add --acceptance-length, if you know it)"
        )
    if not named:
        raise InputError(f"{at}: speculates; say what drafts: --draft CARD of a model, or --drafter eagle3, ngram, ...")
    k = counts.k or (max(1, round(counts.drafted / counts.rounds)) if counts.drafted and counts.rounds else None)
    k = given.get("k", k)
    if k is None:
        raise InputError(f"{at}: does not say how many tokens it drafts a round; give them by --k")
    return {"k": k, **named}


def row_of(
    point: LoadPoint,
    answers: Sequence[TimedAnswer],
    counts: Counts | None,
    setting: Mapping[str, Any],
    given: Mapping[str, Any],
    at: str,
) -> Row:
    """The row of a point: means over its measured answers, and rounds of all."""
    measured = [answer for answer in answers if answer.measured]
    tpot = 1e3 * float(np.mean([answer.tpot_s for answer in measured]))
    tokens = sum(answer.tokens for answer in measured)
    columns = {
        **setting,
        **drafting(counts, given, at),
        "batch": point.concurrency,
        "input_tokens": float(np.mean([answer.prompt_tokens for answer in measured])),
        "output_tokens": float(np.mean([answer.tokens for answer in measured])),
        "metric": "tpot_ms",
        "value": tpot,
        "repeat": point.repeat,
        "ttft_ms": 1e3 * float(np.mean([answer.ttft_s for answer in measured])),
        "itl_ms": 1e3 * float(np.mean(np.concatenate([answer.gaps_s for answer in measured]))),
        "output_tokens_per_s": point.concurrency * tokens / sum(answer.whole_s for answer in measured),
        **(_rounds(counts, answers) if counts is not None else {}),
    }
    if counts is None and columns["k"] is not None:
        columns["acceptance_length"] = given["acceptance_length"]
    return as_record(Row, columns, at, "row")


def _rounds(counts: Counts, answers: Sequence[TimedAnswer]) -> dict[str, Any]:
    """Fields of a row about its rounds. Tokens cut at the ends of answers are left out, though they took time."""
    put_out = sum(answer.tokens - 1 for answer in answers)
    if counts.rounds is None:
        return {"acceptance_length": counts.length}
    steps = counts.rounds + (counts.undrafted or 0.0)
    survived = counts.survived and [min(1.0, each / counts.rounds) for each in counts.survived]
    return {
        "acceptance_length": max(1.0, put_out / steps),
        "rounds": counts.rounds,
        "undrafted_rounds": counts.undrafted,
        "drafted_per_round": None if counts.drafted is None else counts.drafted / counts.rounds,
        "accepted_by_position": survived,
    }


class CounterSnapshots(Record):
    """Some answers, and the server's ``/metrics`` page before and after them (None: it has none)."""

    before: str | None
    after: str | None
    answers: Sequence[TimedAnswer]


def rounds_of(server: Server, seen: CounterSnapshots) -> Counts | None:
    """The rounds of the answers; None if the server did not speculate, or does not count them."""
    read = _READERS.get(server.engine)
    return read(server, seen) if read is not None else None


def _of_vllm(server: Server, seen: CounterSnapshots) -> Counts | None:
    if seen.before is None or seen.after is None:
        return None
    before, after = (Source(Path(METRICS), text) for text in (seen.before, seen.after))
    return vllm_counters.between(before, after, server.served)


def _of_tensorrt(server: Server, seen: CounterSnapshots) -> Counts | None:
    """Count TensorRT-LLM's iterations since it was asked before."""
    if seen.after is None or not seen.after.lstrip().startswith(("[", "{")):
        return None
    try:
        return trtllm.read_one(Source(Path(METRICS), seen.after), ImportOptions()).counts[0]
    except InputError:  # none of them drafted
        return None


def _of_sglang(server: Server, seen: CounterSnapshots) -> Counts | None:
    k = sglang.lookahead_of(server.settings, server.engine)
    counts = [sglang.of_request(answer.own, f"answer {number}", k) for number, answer in enumerate(seen.answers, 1)]
    speculated = [each for each in counts if each is not None]
    return pooled(server.engine, speculated) if speculated else None


def _of_llama_cpp(server: Server, seen: CounterSnapshots) -> Counts | None:
    return llama_cpp.of_all_timings([answer.own for answer in seen.answers], server.engine)


_READERS: Mapping[str, Callable[[Server, CounterSnapshots], Counts | None]] = {
    "vllm": _of_vllm,
    "sglang": _of_sglang,
    "llama.cpp": _of_llama_cpp,
    "tensorrt-llm": _of_tensorrt,
}


def pair_of(rows: Sequence[Row], temperature: float, file: str, created: str) -> Pair:
    """The pair of all rounds of the rows, which must be of one target and one drafter."""
    told = [row for row in rows if row.rounds]
    if not told:
        raise InputError(f"{file}: no row counts rounds of speculation, so there is no pair")
    if len({(row.model, row.draft, row.drafter) for row in told}) > 1:
        raise InputError(f"{file}: rows of several pairs; keep those of one for --pair")
    counts = pooled(file, [_counts(row, f"{file}, batch {row.batch}") for row in told])
    k = min(row.k for row in told if row.k is not None)
    findings = findings_of([counts], file, None if counts.varied else k)
    return Pair(
        target=Participant(id=told[0].model),
        draft=Participant(id=told[0].draft),
        how="bench",
        settings=PairSettings(temperature=temperature, k=findings.k),
        by_temperature=(AtTemperature(**asdict(findings.findings), temperature=temperature),),
        provenance=PairProvenance(
            ssdsim=__version__,
            created=created,
            engine=" ".join(filter(None, (told[0].engine, told[0].engine_version))),
            files=(file,),
            warnings=findings.warnings,
            notes=(NO_HITS,),
        ),
    )


def _counts(row: Row, where: str) -> Counts:
    assert row.rounds
    drafted = None if row.drafted_per_round is None else row.drafted_per_round * row.rounds
    if row.accepted_by_position is not None:
        survived = [share * row.rounds for share in row.accepted_by_position]
        counts = of_positions(where, row.rounds, sum(survived), drafted, survived)
    else:
        steps = row.rounds + (row.undrafted_rounds or 0.0)
        accepted = ((row.acceptance_length or 1.0) - 1.0) * steps
        counts = of_totals(where, row.rounds, accepted, drafted, row.k)
    return replace(counts, undrafted=row.undrafted_rounds)
