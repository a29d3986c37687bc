"""A serving answer as one JSON object."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from ssdsim.answers.serving.closed_form import Served
from ssdsim.answers.serving.compared import Comparison
from ssdsim.answers.serving.crossing import Crossing
from ssdsim.answers.serving.metrics import Metrics
from ssdsim.answers.serving.policies import Policies
from ssdsim.answers.serving.serve import Point, Serving
from ssdsim.answers.serving.spread import Summary
from ssdsim.answers.serving.workload import Workload
from ssdsim.intervals import Interval, Measured


def as_json(found: Serving, gpu_hour: float | None = None) -> dict[str, Any]:
    """The object of ``ssdsim serve --json`` (schema 1); times in milliseconds, None where there is no number.

    ``gpu_hour`` is the price of a GPU for an hour.
    """
    configuration = found.policies.configuration
    settings = configuration.settings
    left_out = ("b", "context")
    scenario = {n: {"value": v, "source": settings.source(n)} for n, v in settings.items() if n not in left_out}
    return {
        "schema": 1,
        "engine": found.engine,
        "seed": found.seed,
        "replicas": found.replicas,
        "draft_pool": found.draft_pool,
        "scenario": scenario,
        "batching": asdict(found.batching),
        "slo": None if found.slo is None else dict(found.slo.bounds_ms),
        "points": [point_json(found, point, gpu_hour) for point in found.points],
        "capacities": {name: _with_bounds(*capacity) for name, capacity in found.capacities.items()},
        "attainment": found.attainment,
        "within_slo": {
            name: {"rate": each.rate, "low": each.low, "high": each.high, "too_much": each.too_much, "runs": each.runs}
            for name, each in found.within_slo.items()
        },
        "crossings": [_crossing(each) for each in found.crossings],
        "schedule": _schedule(found),
        "verdict": {
            "subject": found.subject,
            "sentence": found.verdict.sentence,
            "above": found.verdict.above,
            "best": list(found.verdict.best),
        },
        "no_room": dict(found.policies.no_room),
        "provenance": configuration.provenance,
        "runtime": configuration.runtime,
        "pair": configuration.pair,
        "warnings": list(found.warnings),
    }


def comparison_json(name: str, found: Policies, requests: Workload, comparison: Comparison) -> dict[str, Any]:
    """The object of ``ssdsim serve --compare --json`` (schema 1), in milliseconds."""
    fields = ("metric", "statistic", "measured", "predicted", "difference")
    return {
        "schema": 1,
        "strategy": name,
        "workload": requests.described(),
        "compared": [{field: getattr(row, field) for field in fields} for row in comparison.rows],
        "quantiles": {metric: asdict(each) for metric, each in comparison.quantiles.items()},
        "provenance": found.configuration.provenance,
        "runtime": found.configuration.runtime,
    }


def point_json(found: Serving, point: Point, gpu_hour: float | None = None) -> dict[str, Any]:
    """One load."""
    policies = found.policies.by_name
    return {
        "rate": point.rate,
        "workload": point.workload.described(),
        "strategies": {
            name: {
                "gpus": policies[name].gpus,
                "closed": _closed(point.closed[name]) if name in point.closed else None,
                **(metrics_json(point.metrics[name], gpu_hour) if name in point.metrics else {}),
            }
            for name in policies
        },
    }


def metrics_json(metrics: Metrics, gpu_hour: float | None = None) -> dict[str, Any]:
    """What a run measured."""
    own = {
        name: getattr(metrics, name)
        for name in (
            "offered", "completed", "rejected", "dropped", "saturated", "requests_per_s", "tokens_per_s",
            "tokens_per_s_per_gpu", "tokens_per_s_per_user", "goodput", "running", "most_held", "preemptions",
            "wasted_tokens", "clean_share", "hit_share", "forced_share", "gpu_hours_per_million_tokens",
            "gpu_hours_per_thousand_good", "rounds",
        )
    }  # fmt: skip
    own = {name: number(value) for name, value in own.items()}
    own["attainment"] = measured(metrics.attainment)
    for name, summary in metrics.of_requests.items():
        own[f"{name}_ms"] = _summary(summary)
    own["itl_ms"] = None if metrics.itl_ms is None else {f"p{q}": value for q, value in metrics.itl_ms.items()}
    price = None if gpu_hour is None else float(gpu_hour)
    own["cost_per_million_tokens"] = number(_times(price, metrics.gpu_hours_per_million_tokens))
    own["cost_per_thousand_good"] = number(_times(price, metrics.gpu_hours_per_thousand_good))
    own["minute"] = metrics.minute
    own["batch_histogram"] = {str(n): share for n, share in metrics.batch_histogram.items()}
    return own


def number(value: Any) -> Any:
    """None in the place of what is no number."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def measured(value: Measured | None) -> dict[str, Any] | None:
    """With its interval."""
    return None if value is None else {"mean": value.value, "low": number(value.low), "high": number(value.high)}


def _times(price: float | None, hours: float | None) -> float | None:
    return None if price is None or hours is None else price * hours


def _summary(found: Summary | None) -> dict[str, Any] | None:
    if found is None:
        return None
    quantiles = {
        f"p{q}": {"value": each.value, "low": number(each.low), "high": number(each.high)}
        for q, each in found.percentiles.items()
    }
    return {"mean": measured(found.mean), **quantiles, "requests": found.count, "few": found.few}


def _closed(served: Served) -> dict[str, Any]:
    return {
        "running": number(float(served.running)),
        "tpot_ms": number(1e3 * float(served.tpot_s)),
        "queue_ms": number(1e3 * float(served.queue_s)),
        "ttft_ms": number(1e3 * float(served.ttft_s)),
        "e2el_ms": number(1e3 * float(served.e2e_s)),
    }


def _with_bounds(value: float, interval: Interval | None) -> dict[str, Any]:
    return {
        "rate": number(value),
        "low": interval.low if interval else None,
        "high": interval.high if interval else None,
    }


def _crossing(found: Crossing) -> dict[str, Any]:
    names = {"of": found.of.name, "over": found.over.name, "basis": found.basis}
    gpus = {"of_gpus": found.of.gpus, "over_gpus": found.over.gpus}
    rate = {"rate": found.rate, "low": None, "high": None, "running": found.running}
    bounds: Mapping[str, Any] = {"low": found.interval.low, "high": found.interval.high} if found.interval else {}
    return {**names, **gpus, **rate, **bounds}


def _schedule(found: Serving) -> list[dict[str, Any]] | None:
    """Which variant the schedule has in each of its cells."""
    policy = next((policy for policy in found.policies.by_name.values() if policy.is_schedule), None)
    if policy is None:
        return None
    return [
        {
            "b": b,
            "context": context,
            "number": n,
            "strategy": policy.variants[n].name,
            "label": policy.variants[n].label,
        }
        for (b, context), n in sorted(policy.cells.items(), key=lambda item: (item[0][1], item[0][0]))
    ]
