"""guidellm's report (0.8)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ssdsim.base.documents import within
from ssdsim.base.errors import InputError
from ssdsim.readers.bench import Format, JsonObject, Run, number, part_of
from ssdsim.readers.facts import Facts, RunSpeed


def _knows(record: JsonObject) -> bool:
    return isinstance(record.get("benchmarks"), list) and within(record, "metadata", "guidellm_version") is not None


def guidellm_benchmarks(record: JsonObject) -> Sequence[JsonObject]:
    """The benchmarks of a report."""
    return [each for each in record["benchmarks"] if isinstance(each, dict)]


def _runs(record: JsonObject, where: str) -> Iterator[Run]:
    """A run a benchmark, at the mean number of requests that were in flight. Rounds are not counted."""
    model = within(record, "config", "spec", "backend", "model")
    for number_of, each in enumerate(guidellm_benchmarks(record), 1):
        yield _run(each, model if isinstance(model, str) else None, f"{where}: benchmark {number_of}")


def _run(benchmark: JsonObject, model: str | None, where: str) -> Run:
    """``inter_token_latency_ms`` is (latency - time to the first token) / (tokens - 1)."""
    metrics = part_of(benchmark, "metrics", where)

    def mean(name: str) -> float:
        """The mean over the requests that succeeded."""
        each = part_of(metrics, name, where)
        return number(part_of(each, "successful", where), "mean", f"{where}: {name}")

    if not within(metrics, "inter_token_latency_ms", "successful", "count"):
        raise InputError(f"{where}: no time between tokens; have guidellm stream the answers")
    tokens = (mean(f"{which}_token_count") for which in ("prompt", "output"))
    timed = RunSpeed("tpot_ms", mean("inter_token_latency_ms"), *tokens)
    return Facts(model=model, batch=max(1, round(mean("request_concurrency")))), timed


GUIDELLM = Format("guidellm", _knows, _runs)
FORMATS = (GUIDELLM,)
