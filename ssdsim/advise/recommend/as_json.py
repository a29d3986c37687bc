"""A recommendation as one JSON object."""

from __future__ import annotations

from typing import Any

from ssdsim.advise.recommend.answer import Answer, Apart, Recommendation
from ssdsim.advise.recommend.deployment import Deployment
from ssdsim.advise.recommend.door import Door
from ssdsim.advise.recommend.request import Request
from ssdsim.base.intervals import low_and_high
from ssdsim.base.plain import document, picked


def as_json(recommendation: Recommendation, entrance: Door | None = None) -> dict[str, Any]:
    """The stable JSON object of ``ssdsim recommend --json`` (schema 4), with what to deploy where that was asked."""
    request = recommendation.request
    answer = {
        "schema": 4,
        "verb": "recommend",
        "request": {
            **asked(request),
            **picked(request, "rank", "gpu_hour", "use", "subject"),
            "b": request.batches,
            "at_least": request.at_least or None,
        },
        "verdict": {"sentence": recommendation.sentence},
        "engine": ranked_by(request),
        **picked(recommendation, "answers", "focus", "elasticities", "swings", "evaluated"),
        **picked(recommendation, "provenance", "runtime", "pair", "inputs", "warnings"),
        "equal_gpus": recommendation.equal_counts,
        "break_even": recommendation.break_evens,
        "deploy": None if entrance is None else _deploy(entrance),
    }
    return document(answer, {Answer: _answer, Deployment: lambda d: deployed(d, request.gpu_hour)})


def _deploy(entrance: Door) -> dict[str, Any]:
    needed, everything = entrance.cost or (None, None)
    return {
        **picked(entrance, "deployment", "worth", "paying", "not_served", "command"),
        "k_by_batch": [{"b": batch, "k": k} for batch, k in entrance.k_by_batch],
        "cost_needed": needed,
        "cost_all": everything,
    }


def asked(request: Request) -> dict[str, Any]:
    """Record of what a search was asked for."""
    return picked(request, "gpus", "seed", "strategies", "options", "searched")


def ranked_by(request: Request) -> dict[str, Any]:
    """Whose strategies were ranked; all of them where no engine is named."""
    return {"called": request.engine.called, "ranked": request.ranked}


def _answer(answer: Answer) -> dict[str, Any]:
    return {
        "b": answer.batch,
        **picked(answer, "error", "best", "runner_up", "margin", "probability", "by_strategy", "impossible", "pareto"),
        "apart": {name: _apart(each) for name, each in answer.apart.items()},
        **low_and_high(answer.interval),
        "equal_gpus": answer.equal,
    }


def _apart(each: Apart) -> dict[str, Any]:
    return picked(each, "deployment", "worth", "sentence")


def deployed(d: Deployment, gpu_hour: float | None = None) -> dict[str, Any]:
    """A deployment; its price where a GPU has one."""
    return {
        **picked(d, "name", "copies", "gpus"),
        **picked(d.shape, "strategy", "tp", "ep", "settings"),
        **picked(d.rate, "tokens_per_round", "p_hit", "p_all_hit"),
        "draft_gpus": d.shape.devices.draft,
        "sequences_per_target": d.copy_batch,
        "tokens_per_second": d.total,
        "tokens_per_second_per_user": d.per_user,
        "tokens_per_second_per_gpu": d.per_gpu,
        "cost_per_million_tokens": None if gpu_hour is None else d.cost_per_million(gpu_hour),
        "round_ms": 1e3 * d.rate.round_s,
    }
