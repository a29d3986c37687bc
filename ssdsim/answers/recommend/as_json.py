"""A recommendation as one JSON object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ssdsim.answers.recommend.answer import Answer, Recommendation
from ssdsim.answers.recommend.deployment import Deployment
from ssdsim.answers.recommend.equal_count import EqualCount


def as_json(found: Recommendation) -> dict[str, Any]:
    """The stable JSON object of ``ssdsim recommend --json`` (schema 2)."""
    request, price = found.request, found.request.gpu_hour
    return {
        "schema": 2,
        "verb": "recommend",
        "request": {
            "gpus": request.gpus,
            "b": list(request.batches),
            "rank": request.rank,
            "gpu_hour": price,
            "at_least": request.at_least or None,
            "seed": request.seed,
            "strategies": list(request.strategies),
            "subject": request.subject,
            "options": dict(request.options),
            "searched": {name: values and list(values) for name, values in request.searched.items()},
        },
        "verdict": {"sentence": found.sentence},
        "answers": [_answer(answer, price) for answer in found.answers],
        "focus": found.focus,
        "equal_gpus": [_equal(count, price) for count in found.equal_counts],
        "break_even": [vars(bound) for bound in found.break_evens],
        "elasticities": [vars(elasticity) for elasticity in found.elasticities],
        "swings": [vars(each) for each in found.swings],
        "provenance": [{"profile": name, "summary": text} for name, text in found.provenance],
        "runtime": found.runtime,
        "pair": found.pair,
        "warnings": list(found.warnings),
        "evaluated": found.evaluated,
    }


def _answer(answer: Answer, price: float | None) -> dict[str, Any]:
    by_strategy: Mapping[str, Deployment] = answer.by_strategy
    return {
        "b": answer.batch,
        "error": answer.error,
        "best": deployment_as_json(answer.best, price),
        "low": answer.interval.low if answer.interval else None,
        "high": answer.interval.high if answer.interval else None,
        "runner_up": deployment_as_json(answer.runner_up, price),
        "margin": answer.margin,
        "probability": answer.probability,
        "by_strategy": {name: deployment_as_json(deployment, price) for name, deployment in by_strategy.items()},
        "impossible": dict(answer.impossible),
        "pareto": [deployment_as_json(deployment, price) for deployment in answer.pareto],
        "equal_gpus": _equal(answer.equal, price) if answer.equal else None,
    }


def deployment_as_json(d: Deployment | None, price: float | None) -> dict[str, Any] | None:
    """A deployment; its price where a GPU has one."""
    if d is None:
        return None
    shape = d.shape
    return {
        "name": d.name,
        "strategy": shape.strategy,
        "tp": shape.tp,
        "ep": shape.ep,
        "draft_gpus": shape.devices.draft,
        "copies": d.copies,
        "gpus": d.gpus,
        "sequences_per_copy": d.copy_batch,
        "settings": shape.settings,
        "tokens_per_second": d.total,
        "tokens_per_second_per_user": d.per_user,
        "tokens_per_second_per_gpu": d.per_gpu,
        "cost_per_million_tokens": None if price is None else d.cost_per_million(price),
        "tokens_per_round": d.rate.tokens_per_round,
        "round_ms": 1e3 * d.rate.round_s,
        "p_hit": d.rate.p_hit,
        "p_all_hit": d.rate.p_all_hit,
    }


def _equal(count: EqualCount, price: float | None) -> dict[str, Any]:
    return {
        "gpus": count.gpus,
        "subject": deployment_as_json(count.subject, price),
        "best": deployment_as_json(count.best, price),
        "probability": count.probability,
        "sentence": count.sentence,
        "over": [{**vars(rival), "deployment": deployment_as_json(rival.deployment, price)} for rival in count.over],
    }
