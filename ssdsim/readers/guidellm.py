"""guidellm's report (0.8): one JSON object with a list of benchmarks, each at its load.

``inter_token_latency_ms`` is (latency - time to the first token) / (tokens - 1). It counts no rounds of speculation.
"""

from __future__ import annotations

from collections.abc import Sequence

from ssdsim.base.documents import within
from ssdsim.base.errors import InputError
from ssdsim.readers.bench import Format, Given, JsonObject, bench_row, model_in, number, part_of, speculation
from ssdsim.readers.row import Row


def knows(record: JsonObject) -> bool:
    """Say whether a record is such a report."""
    return isinstance(record.get("benchmarks"), list) and within(record, "metadata", "guidellm_version") is not None


def rows_of(record: JsonObject, given: Given, where: str) -> Sequence[Row]:
    """A row a benchmark, at the mean number of requests that were in flight."""
    model = model_of(record)
    return [_row(each, model, given, f"{where}: benchmark {n}") for n, each in enumerate(benchmarks(record), 1)]


def benchmarks(record: JsonObject) -> Sequence[JsonObject]:
    """The benchmarks of a report."""
    return [each for each in record["benchmarks"] if isinstance(each, dict)]


def model_of(record: JsonObject) -> object:
    """The name that the model was served by."""
    return within(record, "config", "spec", "backend", "model")


def _row(benchmark: JsonObject, model: object, given: Given, where: str) -> Row:
    metrics = part_of(benchmark, "metrics", where)

    def mean(name: str) -> float:
        """The mean over the requests that succeeded."""
        each = part_of(metrics, name, where)
        return number(part_of(each, "successful", where), "mean", f"{where}: {name}")

    if not within(metrics, "inter_token_latency_ms", "successful", "count"):
        raise InputError(f"{where}: no time between tokens; have guidellm stream the answers")
    fields = {
        "model": model_in(model, given, where),
        "batch": max(1, round(mean("request_concurrency"))),
        "input_tokens": mean("prompt_token_count"),
        "output_tokens": mean("output_token_count"),
        "metric": "tpot_ms",
        "value": mean("inter_token_latency_ms"),
        **speculation(None, None, given, where),
    }
    return bench_row(fields, given, where)


FORMAT = Format("guidellm", knows, rows_of)
