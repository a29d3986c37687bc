"""A serving answer as one JSON object."""

from __future__ import annotations

from typing import Any

from ssdsim.answers.serving.capacity import Capacity
from ssdsim.answers.serving.closed_form import Served
from ssdsim.answers.serving.compared import Comparison
from ssdsim.answers.serving.crossing import Crossing
from ssdsim.answers.serving.metrics import Metrics
from ssdsim.answers.serving.policies import Policies
from ssdsim.answers.serving.serve import Point, Serving
from ssdsim.answers.serving.spread import Summary
from ssdsim.answers.serving.workload import Workload
from ssdsim.intervals import Interval, Measured
from ssdsim.plain import Shown, plain


def as_json(found: Serving, gpu_hour: float | None = None) -> dict[str, Any]:
    """The object of ``ssdsim serve --json`` (schema 1); times in milliseconds, None where there is no number.

    ``gpu_hour`` is the price of a GPU for an hour.
    """
    configuration = found.policies.configuration
    settings = configuration.settings
    left_out = ("b", "context")
    answer = {
        "schema": 1,
        "engine": found.engine,
        "seed": found.seed,
        "replicas": found.replicas,
        "draft_pool": found.draft_pool,
        "scenario": {n: {"value": v, "source": settings.source(n)} for n, v in settings.items() if n not in left_out},
        "batching": found.batching,
        "slo": None if found.slo is None else found.slo.bounds_ms,
        "points": [_point(found, point, gpu_hour) for point in found.points],
        "capacities": {
            name: {"rate": rate, **_bounds(interval)} for name, (rate, interval) in found.capacities.items()
        },
        "attainment": found.attainment,
        "within_slo": found.within_slo,
        "crossings": found.crossings,
        "schedule": _schedule(found),
        "verdict": found.verdict,
        "no_room": found.policies.no_room,
        "provenance": configuration.provenance,
        "runtime": configuration.runtime,
        "pair": configuration.pair,
        "warnings": found.warnings,
    }
    shown: Shown = {
        Capacity: lambda each: {name: value for name, value in vars(each).items() if name != "metrics"},
        Crossing: _crossing,
        Measured: Measured.as_mean,
        Served: _closed,
        Summary: _summary,
    }
    return plain(answer, shown)


def comparison_json(name: str, found: Policies, requests: Workload, comparison: Comparison) -> dict[str, Any]:
    """The object of ``ssdsim serve --compare --json`` (schema 1), in milliseconds."""
    answer = {
        "schema": 1,
        "strategy": name,
        "workload": requests.described(),
        "compared": [{**vars(row), "difference": row.difference} for row in comparison.rows],
        "quantiles": comparison.quantiles,
        "provenance": found.configuration.provenance,
        "runtime": found.configuration.runtime,
    }
    return plain(answer)


def _point(found: Serving, point: Point, gpu_hour: float | None) -> dict[str, Any]:
    """One load."""
    strategies = {
        name: {
            "gpus": policy.gpus,
            "closed": point.closed.get(name),
            **(_metrics(point.metrics[name], gpu_hour) if name in point.metrics else {}),
        }
        for name, policy in found.policies.by_name.items()
    }
    return {"rate": point.rate, "workload": point.workload.described(), "strategies": strategies}


def _metrics(metrics: Metrics, gpu_hour: float | None) -> dict[str, Any]:
    """What a run measured."""
    left_out = ("of_requests", "variant_share")
    own = {name: value for name, value in vars(metrics).items() if name not in left_out}
    own |= {f"{name}_ms": summary for name, summary in metrics.of_requests.items()}
    own["itl_ms"] = None if metrics.itl_ms is None else {f"p{q}": value for q, value in metrics.itl_ms.items()}
    for cost, hours in (
        ("cost_per_million_tokens", metrics.gpu_hours_per_million_tokens),
        ("cost_per_thousand_good", metrics.gpu_hours_per_thousand_good),
    ):
        own[cost] = None if gpu_hour is None or hours is None else gpu_hour * hours
    return own


def _summary(found: Summary) -> dict[str, Any]:
    percentiles = {f"p{q}": vars(each) for q, each in found.percentiles.items()}
    return {"mean": found.mean, **percentiles, "requests": found.count, "few": found.few}


def _closed(served: Served) -> dict[str, Any]:
    times = {"tpot": served.tpot_s, "queue": served.queue_s, "ttft": served.ttft_s, "e2el": served.e2e_s}
    return {"running": served.running, **{f"{name}_ms": 1e3 * seconds for name, seconds in times.items()}}


def _bounds(interval: Interval | None) -> dict[str, float | None]:
    return {"low": None, "high": None} if interval is None else dict(vars(interval))


def _crossing(found: Crossing) -> dict[str, Any]:
    names = {"of": found.of.name, "over": found.over.name, "basis": found.basis}
    gpus = {"of_gpus": found.of.gpus, "over_gpus": found.over.gpus}
    return {**names, **gpus, "rate": found.rate, **_bounds(found.interval), "running": found.running}


def _schedule(found: Serving) -> list[dict[str, Any]] | None:
    """Which variant the schedule has in each of its cells."""
    policy = next((policy for policy in found.policies.by_name.values() if policy.is_schedule), None)
    if policy is None:
        return None
    cells = sorted(policy.cells.items(), key=lambda item: (item[0][1], item[0][0]))
    shown = ((b, context, number, policy.variants[number]) for (b, context), number in cells)
    return [
        {"b": b, "context": context, "number": number, "strategy": variant.name, "label": variant.label}
        for b, context, number, variant in shown
    ]
