"""A recommendation as one JSON object."""

from __future__ import annotations

from typing import Any

from ssdsim.answers.recommend.answer import Answer, Recommendation
from ssdsim.answers.recommend.deployment import Deployment
from ssdsim.answers.recommend.request import Request
from ssdsim.plain import plain


def as_json(found: Recommendation) -> dict[str, Any]:
    """The stable JSON object of ``ssdsim recommend --json`` (schema 2)."""
    request = found.request
    answer = {
        "schema": 2,
        "verb": "recommend",
        "request": {
            **asked(request),
            "b": request.batches,
            "rank": request.rank,
            "gpu_hour": request.gpu_hour,
            "at_least": request.at_least or None,
            "subject": request.subject,
        },
        "verdict": {"sentence": found.sentence},
        "answers": found.answers,
        "focus": found.focus,
        "equal_gpus": found.equal_counts,
        "break_even": found.break_evens,
        "elasticities": found.elasticities,
        "swings": found.swings,
        "provenance": [{"profile": name, "summary": text} for name, text in found.provenance],
        "runtime": found.runtime,
        "pair": found.pair,
        "warnings": found.warnings,
        "evaluated": found.evaluated,
    }
    return plain(answer, {Answer: _answer, Deployment: lambda d: deployed(d, request.gpu_hour)})


def asked(request: Request) -> dict[str, Any]:
    """What a search was asked for."""
    names = ("gpus", "seed", "strategies", "options", "searched")
    return {name: getattr(request, name) for name in names}


def _answer(answer: Answer) -> dict[str, Any]:
    names = ("error", "best", "runner_up", "margin", "probability", "by_strategy", "impossible", "pareto")
    return {
        "b": answer.batch,
        **{name: getattr(answer, name) for name in names},
        "low": answer.interval.low if answer.interval else None,
        "high": answer.interval.high if answer.interval else None,
        "equal_gpus": answer.equal,
    }


def deployed(d: Deployment, gpu_hour: float | None = None) -> dict[str, Any]:
    """A deployment; its price where a GPU has one."""
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
        "cost_per_million_tokens": None if gpu_hour is None else d.cost_per_million(gpu_hour),
        "tokens_per_round": d.rate.tokens_per_round,
        "round_ms": 1e3 * d.rate.round_s,
        "p_hit": d.rate.p_hit,
        "p_all_hit": d.rate.p_all_hit,
    }
