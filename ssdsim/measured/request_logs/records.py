"""Logs in JSON: Mooncake's traces, and the benchmarks of vLLM, SGLang and AIPerf that kept a line a request."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ssdsim.checks import Array
from ssdsim.errors import InputError, told
from ssdsim.measured import aiperf, guidellm, sglang_bench, vllm_bench
from ssdsim.measured.guidellm import benchmarks, model_of
from ssdsim.measured.request_logs.conversations import read_conversations
from ssdsim.measured.request_logs.log import RequestLog
from ssdsim.pairs.importers.fields import text_in

Record = Mapping[str, Any]
Read = Callable[[Sequence[Record], str], RequestLog]

_NAMES = {
    "timestamp": ("timestamp", "created_time"),
    "input_length": ("input_length", "input_tokens"),
    "output_length": ("output_length", "output_tokens"),
}
"""Of Mooncake's traces, with what others call the same."""


def read_records(records: Sequence[Any], where: str, tokenizer: Path | None = None) -> RequestLog:
    """A log of the kind that its first record shows; of conversations a ``tokenizer`` counts the tokens.

    Raises
    ------
    InputError : of no known kind, or something in it is not what it must be.
    """
    found = [record for record in records if isinstance(record, Mapping)]
    if not found or len(found) < len(records):
        raise InputError(f"{where}: JSON objects wanted, one a request or one a benchmark")
    if "conversations" in found[0]:
        return read_conversations(found, where, tokenizer)
    for _, knows, read in _FORMS:
        if knows(found[0]):
            return read(found, where)
    known = ", ".join([*dict.fromkeys(name for name, _, _ in _FORMS), "ShareGPT"])
    raise InputError(f"{where}: no log of requests that is known here (those of {known}, or a CSV table)")


def _mooncake(records: Sequence[Record], where: str) -> RequestLog:
    inputs, outputs = (_column(records, _NAMES[name], where) for name in ("input_length", "output_length"))
    timed = any(name in records[0] for name in _NAMES["timestamp"])
    arrival_s = _column(records, _NAMES["timestamp"], where) / 1e3 if timed else None
    notes = []
    if any("hash_ids" in record for record in records):
        notes.append("hash_ids: prompts that share a beginning are processed whole here, so TTFT is an upper bound")
    if any("session_id" in record or "delay" in record for record in records):
        notes.append("sessions: turns come at their own times here, not after the answer before")
    return RequestLog("Mooncake", arrival_s, inputs, outputs, notes=tuple(notes))


def _vllm(records: Sequence[Record], where: str) -> RequestLog:
    """One benchmark: lists with an entry a request, in seconds."""
    return _benchmark("vLLM bench serve", records, where)


def _sglang(records: Sequence[Record], where: str) -> RequestLog:
    return _benchmark("SGLang bench_serving", records, where)


def _benchmark(form: str, records: Sequence[Record], where: str) -> RequestLog:
    if len(records) > 1:
        raise InputError(f"{where}: {len(records)} benchmarks in one file; keep the line of one")
    record = records[0]
    inputs, outputs = (_list(record, name, where) for name in ("input_lens", "output_lens"))
    count = inputs.size
    errors = record.get("errors") or [""] * count
    failed = np.array([bool(error) for error in errors[:count]]) | (outputs < 1)
    start = _list(record, "start_times", where) if record.get("start_times") else None
    measured = _of_benchmark(record, outputs, where) if record.get("ttfts") else {}
    notes = [f"{int(failed.sum())} of {count} requests failed: left out"] if failed.any() else []
    kept = ~failed
    concurrency = record.get("max_concurrency")
    if start is None and concurrency is None:
        notes.append("the file says neither when requests started nor how many were in flight")
    return RequestLog(
        form,
        None if start is None else start[kept],
        inputs[kept],
        outputs[kept],
        {name: values[kept] for name, values in measured.items()},
        None if start is not None or concurrency is None else int(concurrency),
        tuple(notes),
        text_in(record.get("model_id")),
    )


def _of_benchmark(record: Record, outputs: Array, where: str) -> dict[str, Array]:
    """Times of the requests, from the time to the first token and the gaps after it."""
    ttfts = _list(record, "ttfts", where)
    gaps = record.get("itls")
    if not isinstance(gaps, list) or len(gaps) != ttfts.size:
        raise InputError(f"{where}: itls must be a list with an entry a request; run with --save-detailed")
    after = np.array([float(sum(each)) if isinstance(each, list) else np.nan for each in gaps])
    with np.errstate(divide="ignore", invalid="ignore"):
        tpot = np.where(outputs > 1, after / (outputs - 1.0), np.nan)
    return {"ttft": 1e3 * ttfts, "tpot": 1e3 * tpot, "e2el": 1e3 * (ttfts + after)}


def _aiperf(records: Sequence[Record], where: str) -> RequestLog:
    """``profile_export.jsonl``: a record a request, each metric with its value and unit."""
    good = [record for record in records if not record.get("error")]
    if not good:
        raise InputError(f"{where}: every request failed")
    notes = (
        (f"{len(records) - len(good)} of {len(records)} requests failed: left out",) if len(good) < len(records) else ()
    )
    starts = [record.get("metadata", {}).get("request_start_ns") for record in good]
    arrival_s = None if None in starts else np.array(starts, dtype=float) / 1e9
    ttft, whole = (_metric(good, name, where, "ms") for name in ("time_to_first_token", "request_latency"))
    inputs, outputs = (_metric(good, f"{side}_sequence_length", where) for side in ("input", "output"))
    with np.errstate(divide="ignore", invalid="ignore"):
        tpot = np.where(outputs > 1, (whole - ttft) / (outputs - 1.0), np.nan)
    return RequestLog("AIPerf", arrival_s, inputs, outputs, {"ttft": ttft, "tpot": tpot, "e2el": whole}, notes=notes)


def _guidellm(records: Sequence[Record], where: str) -> RequestLog:
    """The requests of a report that succeeded, in all of its benchmarks."""
    (record,) = records
    found = [each for one in benchmarks(record) for each in (one.get("requests") or {}).get("successful") or ()]
    if not found:
        raise InputError(f"{where}: has no requests; let guidellm keep them in its report (sample-size)")
    start, inputs, outputs = (
        _column(found, (name,), where) for name in ("request_start_time", "prompt_tokens", "output_tokens")
    )
    ttft, tpot = (_column(found, (f"{name}_ms",), where) for name in ("time_to_first_token", "inter_token_latency"))
    whole = 1e3 * _column(found, ("request_latency",), where)
    measured = {"ttft": ttft, "tpot": tpot, "e2el": whole}
    return RequestLog("guidellm", start, inputs, outputs, measured, model=text_in(model_of(record)))


def _summary(needs: str) -> Read:
    """Of a benchmark whose file has sums alone."""

    def read(records: Sequence[Record], where: str) -> RequestLog:
        raise InputError(f"{where}: a benchmark without a line a request; {needs}")

    return read


def _metric(records: Sequence[Record], name: str, where: str, unit: str | None = None) -> Array:
    found = []
    for number, record in enumerate(records, 1):
        metric = record.get("metrics", {}).get(name)
        if not isinstance(metric, Mapping) or not _is_number(metric.get("value")):
            raise InputError(f"{where} record {number}: metrics.{name}.value must be a number, got {told(metric)}")
        if unit is not None and metric.get("unit") != unit:
            raise InputError(f"{where} record {number}: {name} must be in {unit}, got {told(metric.get('unit'))}")
        found.append(float(metric["value"]))
    return np.array(found)


def _column(records: Sequence[Record], names: tuple[str, ...], where: str) -> Array:
    """A number of each record, under the first of ``names`` that it has; a missing one is NaN."""
    found = []
    for number, record in enumerate(records, 1):
        value = next((record[name] for name in names if name in record), None)
        if value is not None and not _is_number(value):
            raise InputError(f"{where} record {number}: {names[0]} must be a number, got {told(value)}")
        found.append(np.nan if value is None else float(value))
    return np.array(found)


def _list(record: Record, name: str, where: str) -> Array:
    value = record.get(name)
    if not isinstance(value, list) or not value or not all(_is_number(each) for each in value):
        raise InputError(f"{where}: {name} must be a list of numbers, got {told(value)}")
    return np.array(value, dtype=float)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _has(*names: str) -> Callable[[Record], bool]:
    return lambda record: set(names) <= record.keys()


_FORMS: tuple[tuple[str, Callable[[Record], bool], Read], ...] = (
    ("SGLang bench_serving", _has("input_lens", "output_lens", "accept_length"), _sglang),
    ("vLLM bench serve", _has("input_lens", "output_lens"), _vllm),
    ("SGLang bench_serving", sglang_bench.knows, _summary("run bench_serving with --output-details")),
    ("vLLM bench serve", vllm_bench.knows, _summary("run vllm bench serve with --save-detailed")),
    ("guidellm", guidellm.knows, _guidellm),
    ("AIPerf", aiperf.knows, _summary("run aiperf with --export-level records, and give profile_export.jsonl")),
    ("AIPerf", _has("metrics", "metadata"), _aiperf),
    ("Mooncake", _has("input_length", "output_length"), _mooncake),
    ("Mooncake's aliases", _has("input_tokens", "output_tokens"), _mooncake),
)
