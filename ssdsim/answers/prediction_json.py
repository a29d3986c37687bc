"""A prediction as one JSON object."""

from __future__ import annotations

from typing import Any

import numpy as np

from ssdsim.answers.predict import Prediction
from ssdsim.answers.verdict import as_json as verdict_json
from ssdsim.rounds.estimate import PARTS


def as_json(prediction: Prediction) -> dict[str, Any]:
    """The stable JSON object of ``ssdsim predict --json`` (schema 2); durations are in ms, or in T_v unit-free."""
    configuration = prediction.configuration
    settings = configuration.settings
    return {
        "schema": 2,
        "unit": prediction.unit,
        "engine": prediction.engine,
        "scenario": {
            name: {"value": _plain(value), "source": settings.source(name)} for name, value in settings.items()
        },
        "strategies": {name: _strategy(prediction, name) for name in prediction.estimates},
        "no_room": dict(configuration.no_room),
        "verdict": verdict_json(prediction.verdict),
        "provenance": configuration.provenance,
        "runtime": configuration.runtime,
        "pair": configuration.pair,
        "warnings": list(configuration.warnings),
    }


def _strategy(prediction: Prediction, name: str) -> dict[str, Any]:
    estimate, interval = prediction.estimates[name], prediction.intervals[name]
    scale = 1e3 if prediction.unit == "s" else 1.0
    rate = float(estimate.tokens_per_second)
    round_time = scale * float(estimate.round_s)
    paper = estimate.paper_tokens_per_second
    return {
        "tokens_per_second": rate,
        "tokens_per_second_per_sequence": rate / estimate.batch,
        "tokens_per_second_per_gpu": rate / estimate.gpus,
        "gpus": estimate.gpus,
        "tpot_ms": round_time / estimate.tokens_per_round,
        "tokens_per_round": estimate.tokens_per_round,
        "round_ms": round_time,
        "breakdown_ms": {part: scale * float(estimate.breakdown_s[part]) for part in PARTS},
        "speedup_over": {
            other: rate / float(found.tokens_per_second)
            for other, found in prediction.estimates.items()
            if other != name
        },
        "p_hit": estimate.p_hit,
        "p_all_hit": estimate.p_all_hit,
        "paper_tokens_per_second": None if paper is None else float(paper),
        "low": interval.low if interval else None,
        "high": interval.high if interval else None,
    }


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray) else value
