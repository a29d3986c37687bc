"""Files of request logs, told by what is in them; those in JSON: traces, and benchmarks that kept a line a request."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from ssdsim.base.card import Excerpt
from ssdsim.base.checks import Array
from ssdsim.base.documents import as_record, as_records, is_json, parse_records, read_text, within
from ssdsim.base.errors import InputError
from ssdsim.readers.bench import JsonObject, has
from ssdsim.readers.request_logs.log import (
    Milliseconds,
    RequestLog,
    Seconds,
    TimeUnit,
    Tokens,
    in_seconds,
    read_conversations,
    read_table,
)
from ssdsim.readers.results.aiperf import AIPERF
from ssdsim.readers.results.guidellm import GUIDELLM, guidellm_benchmarks
from ssdsim.readers.results.sglang import SGLANG_BENCH
from ssdsim.readers.results.vllm import VLLM_BENCH
from ssdsim.readers.strangers import stranger

_BLOCK = 1 << 16  # lines that are records at a time: they take more room than their columns

_VLLM, _SGLANG = "vLLM bench serve", "SGLang bench_serving"
Read = Callable[[Sequence[JsonObject], str], RequestLog]


def read_records(records: Sequence[Any], where: str, tokenizer: Path | None = None) -> RequestLog:
    """A log of the kind that its first record shows; of conversations a ``tokenizer`` counts the tokens."""
    if not records or not all(isinstance(record, dict) for record in records):
        raise InputError(f"{where}: JSON objects wanted, one a request or one a benchmark")
    if isinstance(records[0].get("response"), dict):
        records = [_inner(record) for record in records]
    if "conversations" in records[0]:
        return read_conversations(records, where, tokenizer)
    for _, knows, read in _FORMS:
        if knows(records[0]):
            return read(records, where)
    known = ", ".join([*dict.fromkeys(name for name, _, _ in _FORMS), "ShareGPT"])
    said = stranger(records[0]) or "no log of requests that is known here"
    raise InputError(f"{where}: {said} (known: those of {known}, or a CSV table)")


def _inner(record: JsonObject) -> JsonObject:
    """A line with the answer that it wraps: a batch of OpenAI's has it in the body of a response."""
    answer = within(record, "response", "body") or record.get("response")
    return {**record, **answer} if isinstance(answer, dict) else record


class _Benchmark(Excerpt):
    """Benchmark's results: lists with an entry a request, in seconds."""

    input_lens: Annotated[list[Tokens], Meta(min_length=1)]
    output_lens: Annotated[list[Tokens], Meta(min_length=1)]
    errors: list[Any] | None = None
    start_times: list[Seconds] | None = None
    max_concurrency: Annotated[int, Meta(ge=1, le=10**6)] | None = None

    def __post_init__(self) -> None:
        count = len(self.input_lens)
        for name in ("output_lens", "errors", "start_times"):
            values = getattr(self, name)
            if values and len(values) != count:
                raise ValueError(f"{name} has {len(values)} requests, input_lens {count}")

    @property
    def failed(self) -> NDArray[np.bool_]:
        errors = self.errors or [""] * len(self.input_lens)
        return np.array([bool(error) for error in errors]) | (np.array(self.output_lens) < 1)


def _benchmark(form: str, records: Sequence[JsonObject], where: str) -> RequestLog:
    if len(records) > 1:
        raise InputError(f"{where}: {len(records)} benchmarks in one file; keep the line of one")
    record = as_record(_Benchmark, records[0], where, "benchmark", written=True)
    failed, start = record.failed, np.array(record.start_times) if record.start_times else None
    notes = [f"{int(failed.sum())} of {failed.size} requests failed: left out"] if failed.any() else []
    kept = ~failed
    if start is None and record.max_concurrency is None:
        notes.append("the file says neither when requests started nor how many were in flight")
    return RequestLog(
        form,
        None if start is None else start[kept],
        np.array(record.input_lens)[kept],
        np.array(record.output_lens)[kept],
        concurrency=None if start is not None else record.max_concurrency,
        notes=tuple(notes),
    )


class _Metric(Excerpt):
    """A number of tokens."""

    value: Tokens


class _Metadata(Excerpt):
    request_start_ns: Annotated[float, Meta(ge=0.0, le=1e21)] | None = None


class _AiperfMetrics(Excerpt):
    input_sequence_length: _Metric
    output_sequence_length: _Metric


class _AiperfRecord(Excerpt):
    """A request that was answered."""

    metadata: _Metadata = _Metadata()
    metrics: _AiperfMetrics


def _aiperf(records: Sequence[JsonObject], where: str) -> RequestLog:
    """``profile_export.jsonl``: a record a request, each metric with its value and unit."""
    answered = {number: record for number, record in enumerate(records, 1) if not record.get("error")}
    if not answered:
        raise InputError(f"{where}: every request failed")
    failed = len(records) - len(answered)
    notes = (f"{failed} of {len(records)} requests failed: left out",) if failed else ()
    good = as_records(_AiperfRecord, answered, where, "record", written=True)
    starts = [record.metadata.request_start_ns for record in good]
    arrival_s = None if None in starts else np.array(starts, dtype=float) / 1e9

    def of(name: str) -> Array:
        return np.array([getattr(record.metrics, name).value for record in good])

    return RequestLog("AIPerf", arrival_s, of("input_sequence_length"), of("output_sequence_length"), notes=notes)


class _GuidedRequest(Excerpt):
    """A request of a guidellm report."""

    request_start_time: Seconds
    prompt_tokens: Tokens
    output_tokens: Tokens


def _guidellm(records: Sequence[JsonObject], where: str) -> RequestLog:
    """The requests of a report that succeeded, in all of its benchmarks."""
    (record,) = records
    lists = [within(one, "requests", "successful") for one in guidellm_benchmarks(record)]
    requests = [each for one in lists if isinstance(one, list) for each in one]
    if not requests:
        raise InputError(f"{where}: has no requests; let guidellm keep them in its report (sample-size)")
    read = [
        as_record(_GuidedRequest, each, f"{where} request {number}", "one", written=True)
        for number, each in enumerate(requests, 1)
    ]

    def of(name: str) -> Array:
        return np.array([getattr(each, name) for each in read], dtype=float)

    return RequestLog("guidellm", of("request_start_time"), of("prompt_tokens"), of("output_tokens"))


def _summary(needs: str) -> Read:
    """Refuse a benchmark whose file has sums alone."""

    def read(records: Sequence[JsonObject], where: str) -> RequestLog:
        raise InputError(f"{where}: a benchmark without a line a request; {needs}")

    return read


class _Line(Excerpt):
    """A line of a trace, by Mooncake's names or by those that others call the same."""

    timestamp: Milliseconds | None = None
    created_time: Milliseconds | None = None
    input_length: Tokens | None = None
    input_tokens: Tokens | None = None
    output_length: Tokens | None = None
    output_tokens: Tokens | None = None

    @property
    def row(self) -> tuple[float | None, float | None, float | None]:
        """Arrival, input and output tokens, by the first of each two names that the line has."""
        return (
            self.created_time if self.timestamp is None else self.timestamp,
            self.input_tokens if self.input_length is None else self.input_length,
            self.output_tokens if self.output_length is None else self.output_length,
        )


class _Usage(Excerpt):
    prompt_tokens: Tokens
    completion_tokens: Tokens


class _Answer(Excerpt):
    """A line of a gateway: what OpenAI's API says of an answer, with its ``usage`` inside or spread out."""

    timestamp: Seconds | None = None
    created: Seconds | None = None
    usage: _Usage | None = None
    prompt_tokens: Tokens | None = None
    completion_tokens: Tokens | None = None

    @property
    def row(self) -> tuple[float | None, float | None, float | None]:
        """Arrival, input and output tokens."""
        used = self if self.usage is None else self.usage
        return self.created if self.timestamp is None else self.timestamp, used.prompt_tokens, used.completion_tokens


def _trace(
    form: str, line: type[_Line | _Answer], unit: TimeUnit, records: Sequence[JsonObject], where: str
) -> RequestLog:
    """Lines that are a request each, whose arrivals are read in a ``unit``; a missing number is NaN."""
    blocks = [_numbers(line, records[first : first + _BLOCK], first, where) for first in range(0, len(records), _BLOCK)]
    arrivals, inputs, outputs = np.concatenate(blocks, axis=1)
    notes = []
    if any("hash_ids" in record for record in records):
        notes.append("hash_ids: prompts that share a beginning are processed whole here, so TTFT is an upper bound")
    if any("session_id" in record or "delay" in record for record in records):
        notes.append("sessions: turns come at their own times here, not after the answer before")
    if np.isnan(arrivals[0]):
        return RequestLog(form, None, inputs, outputs, notes=tuple(notes))
    return RequestLog(form, arrivals * (1e-3 if unit == "ms" else 1.0), inputs, outputs, unit, notes=tuple(notes))


def _numbers(line: type[_Line | _Answer], records: Sequence[JsonObject], first: int, where: str) -> Array:
    """A block of lines as columns: arrivals, input and output tokens."""
    read = as_records(line, dict(enumerate(records, first + 1)), where, "line", written=True)
    return np.array([each.row for each in read], dtype=float).T


_mooncake = partial(_trace, "Mooncake", _Line, "ms")
_openai = partial(_trace, "OpenAI's usage", _Answer, "s")
_FORMS: tuple[tuple[str, Callable[[JsonObject], bool], Read], ...] = (
    (_SGLANG, has("input_lens", "output_lens", "accept_length"), partial(_benchmark, _SGLANG)),
    (_VLLM, has("input_lens", "output_lens"), partial(_benchmark, _VLLM)),
    (_SGLANG, SGLANG_BENCH.knows, _summary("run bench_serving with --output-details")),
    (_VLLM, VLLM_BENCH.knows, _summary("run vllm bench serve with --save-detailed")),
    ("guidellm", GUIDELLM.knows, _guidellm),
    ("AIPerf", AIPERF.knows, _summary("run aiperf with --export-level records, and give profile_export.jsonl")),
    ("AIPerf", has("metrics", "metadata"), _aiperf),
    ("Mooncake", has("input_length", "output_length"), _mooncake),
    ("Mooncake's aliases", has("input_tokens", "output_tokens"), _mooncake),
    ("OpenAI's usage", has("prompt_tokens", "completion_tokens"), _openai),
    ("OpenAI's usage", has("usage"), _openai),
)


def read_log(path: str | Path, tokenizer: Path | None = None) -> RequestLog:
    """CSV by its header (Azure, BurstGPT, ..., plain), JSON by its keys (Mooncake, vLLM, ShareGPT, ...).

    Raises
    ------
    InputError : no such file, one of no known kind, or something in it is not what it must be.
    """
    path = Path(path)
    text = read_text(path, "log of requests")
    if not is_json(text):
        try:
            return in_seconds(read_table(text, path))
        except InputError:
            if (said := stranger(text)) is None:
                raise
        raise InputError(f"{path}: {said}")
    return in_seconds(read_records(parse_records(text, path), str(path), tokenizer))
