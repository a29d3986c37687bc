"""A prediction as one JSON object."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ssdsim.answers.columns import COLUMNS
from ssdsim.answers.predict import Prediction
from ssdsim.base.intervals import low_and_high
from ssdsim.base.plain import document, picked
from ssdsim.question.configuration import Configuration


def as_json(prediction: Prediction) -> dict[str, Any]:
    """The stable JSON object of ``ssdsim predict --json`` (schema 4); durations are in ms, or in T_v unit-free."""
    return document(
        {
            "schema": 4,
            **picked(prediction, "unit", "engine", "verdict"),
            **configured(prediction.configuration),
            "strategies": {name: _strategy(prediction, name) for name in prediction.estimates},
            "warnings": prediction.configuration.warnings,
        }
    )


def configured(configuration: Configuration, left_out: Collection[str] = ()) -> dict[str, Any]:
    """Each option with where its value comes from, but for those left out, and what the numbers rest on."""
    settings = configuration.settings
    shown = {name: value for name, value in settings.items() if name not in left_out}
    return {
        "scenario": {name: {"value": value, "source": settings.source(name)} for name, value in shown.items()},
        **picked(configuration, "no_room", "provenance", "runtime", "pair", "inputs"),
    }


def _strategy(prediction: Prediction, name: str) -> dict[str, Any]:
    estimate, seconds = prediction.estimates[name], prediction.unit == "s"
    rates = {other: each.tokens_per_second for other, each in prediction.estimates.items()}
    return {
        **{column.key: column.value(estimate, seconds) for column in COLUMNS},
        "breakdown_ms": {part: (1e3 if seconds else 1.0) * part_s for part, part_s in estimate.breakdown_s.items()},
        "speedup_over": {other: rates[name] / rate for other, rate in rates.items() if other != name},
        **low_and_high(prediction.intervals[name]),
    }
