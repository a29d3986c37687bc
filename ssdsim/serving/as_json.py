"""A serving answer as one JSON object."""

from __future__ import annotations

from typing import Any

from msgspec.structs import asdict

from ssdsim.answers.predict import configured
from ssdsim.base.intervals import Measured, low_and_high
from ssdsim.base.plain import Shown, document, picked
from ssdsim.serving.capacity import Capacity
from ssdsim.serving.closed_form import Served
from ssdsim.serving.crossing import Crossing
from ssdsim.serving.metrics import Metrics, Summary
from ssdsim.serving.policy import Policy
from ssdsim.serving.serve import Point, Serving


def as_json(serving: Serving, gpu_hour: float | None = None) -> dict[str, Any]:
    """The object of ``ssdsim serve --json`` (schema 3); times in milliseconds, None where there is no number.

    ``gpu_hour`` is the price of a GPU for an hour.
    """
    configuration = serving.policies.configuration
    answer = {
        "schema": 3,
        "engine": serving.engine,
        "seed": serving.how.seed,
        "replicas": serving.how.fleet.replicas,
        **picked(serving, "draft_pool"),
        "batching": serving.how.batching,
        "attainment": serving.goal.searched,
        "within_slo": serving.within_slo,
        **picked(serving, "crossings", "verdict", "warnings"),
        **configured(configuration, left_out=("b", "context")),
        "no_room": serving.policies.no_room,
        "apart": {name: picked(each, "capacity", "worth", "sentence") for name, each in serving.apart.items()},
        "slo": None if serving.how.slo is None else serving.how.slo.bounds_ms,
        "points": [_point(serving, point, gpu_hour) for point in serving.points],
        "capacities": {name: {"rate": r, **low_and_high(within)} for name, (r, within) in serving.capacities.items()},
        "schedule": _schedule(serving),
        "variants": _variants(serving),
    }
    shown: Shown = {
        Capacity: lambda each: picked(each, "rate", "low", "high", "too_much", "runs"),
        Crossing: _crossing,
        Measured: Measured.as_mean,
        Served: _closed,
        Summary: _summary,
    }
    return document(answer, shown)


def _point(serving: Serving, point: Point, gpu_hour: float | None) -> dict[str, Any]:
    """One load."""
    strategies = {
        name: {
            "gpus": policy.gpus,
            "closed": point.closed.get(name),
            **(_metrics(point.metrics[name], gpu_hour) if name in point.metrics else {}),
        }
        for name, policy in serving.policies.by_name.items()
    }
    return {
        "rate": point.rate,
        "workload": point.workload.described(),
        "strategies": strategies,
        **(_fixed_k(point) if point.fixed_k else {}),
    }


def _fixed_k(point: Point) -> dict[str, Any]:
    """Each K for good, and the best by either time."""
    return {
        "fixed_k": {k: pace.tpot for k, pace in point.fixed_k.items()},
        "fixed_k_e2el": {k: pace.e2el for k, pace in point.fixed_k.items()},
        **picked(point, "best_k", "best_k_e2el"),
    }


def _metrics(metrics: Metrics, gpu_hour: float | None) -> dict[str, Any]:
    """Record of what a run measured."""
    left_out = ("of_requests", "variant_share")
    own = {name: value for name, value in asdict(metrics).items() if name not in left_out}
    own |= {f"{name}_ms": summary for name, summary in metrics.of_requests.items()}
    own["itl_ms"] = None if metrics.itl_ms is None else {f"p{q}": value for q, value in metrics.itl_ms.items()}
    for cost, hours in (
        ("cost_per_million_tokens", metrics.gpu_hours_per_million_tokens),
        ("cost_per_thousand_good", metrics.gpu_hours_per_thousand_good),
    ):
        own[cost] = None if gpu_hour is None or hours is None else gpu_hour * hours
    return own


def _summary(summary: Summary) -> dict[str, Any]:
    percentiles = {f"p{q}": asdict(each) for q, each in summary.percentiles.items()}
    return {"mean": summary.mean, **percentiles, "requests": summary.count, "few": summary.few}


def _closed(served: Served) -> dict[str, Any]:
    times = {"tpot": served.tpot_s, "queue": served.queue_s, "ttft": served.ttft_s, "e2el": served.e2e_s}
    return {"running": served.running, **{f"{name}_ms": 1e3 * seconds for name, seconds in times.items()}}


def _crossing(crossing: Crossing) -> dict[str, Any]:
    names = {"of": crossing.of.name, "over": crossing.over.name, "basis": crossing.basis}
    gpus = {"of_gpus": crossing.of.gpus, "over_gpus": crossing.over.gpus}
    return {**names, **gpus, "rate": crossing.rate, **low_and_high(crossing.interval), **_across(crossing)}


def _across(crossing: Crossing) -> dict[str, Any]:
    """Record of where it lies over the ranges of tokens, and whether that leaves the sign open."""
    lowest, highest = (crossing.across.low, crossing.across.high) if crossing.across else (None, None)
    return {"lowest": lowest, "highest": highest, **picked(crossing, "running", "decided")}


def _switching(serving: Serving) -> Policy | None:
    return next((policy for policy in serving.policies.by_name.values() if policy.is_schedule), None)


def _variants(serving: Serving) -> list[str] | None:
    """Variants that the schedule may run, by its numbers."""
    policy = _switching(serving)
    return None if policy is None else [variant.label for variant in policy.variants]


def _schedule(serving: Serving) -> list[dict[str, Any]] | None:
    """Record of the schedule's cells and their variants."""
    policy = _switching(serving)
    if policy is None:
        return None
    cells = sorted(policy.cells.items(), key=lambda item: (item[0][1], item[0][0]))
    variants = [policy.variants[number] for _, number in cells]
    return [
        {"b": b, "context": context, "number": number, "strategy": variant.name, "label": variant.label}
        for ((b, context), number), variant in zip(cells, variants, strict=True)
    ]
