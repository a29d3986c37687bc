"""AIPerf's ``profile_export_aiperf.json`` (schema 1.0 to 1.5): a block of statistics a metric, in one JSON object.

Only these blocks are read: where the model and the concurrency stand among the options differs between versions, so
both are given. A streamed run has ``inter_token_latency``, the mean of ``(latency - TTFT) / (tokens - 1)``.
"""

from __future__ import annotations

from ssdsim.base.errors import InputError, told
from ssdsim.readers.bench import Format, Given, JsonObject, bench_row, has, model_in, number, one, part_of, speculation
from ssdsim.readers.row import Row


def row_of(record: JsonObject, given: Given, where: str) -> Row:
    """The row of one run: the mean time between tokens."""
    if "inter_token_latency" not in record:
        raise InputError(f"{where}: has no inter_token_latency; run aiperf with --streaming")
    if "batch" not in given:
        raise InputError(f"{where}: does not say how many sequences were in flight; give them by --batch")
    fields = {
        "model": model_in(None, given, where),
        "batch": given["batch"],
        "input_tokens": _mean(record, "input_sequence_length", where),
        "output_tokens": _mean(record, "output_sequence_length", where),
        "metric": "tpot_ms",
        "value": _milliseconds(record, where),
        "engine": given.get("engine", ""),
        **speculation(None, None, given, where),
    }
    return bench_row(fields, given, where)


def _mean(record: JsonObject, name: str, where: str) -> float:
    return number(part_of(record, name, where), "avg", f"{where}: {name}")


def _milliseconds(record: JsonObject, where: str) -> float:
    unit = part_of(record, "inter_token_latency", where).get("unit")
    if unit != "ms":
        raise InputError(f"{where}: inter_token_latency must be in ms, got {told(unit)}")
    return _mean(record, "inter_token_latency", where)


FORMAT = Format("aiperf", has("request_latency", "output_sequence_length"), one(row_of))
