"""A prediction as one JSON object."""

from __future__ import annotations

from typing import Any

from ssdsim.answers.columns import COLUMNS
from ssdsim.answers.predict import Prediction
from ssdsim.plain import plain


def as_json(prediction: Prediction) -> dict[str, Any]:
    """The stable JSON object of ``ssdsim predict --json`` (schema 2); durations are in ms, or in T_v unit-free."""
    configuration = prediction.configuration
    settings = configuration.settings
    return plain(
        {
            "schema": 2,
            "unit": prediction.unit,
            "engine": prediction.engine,
            "scenario": {name: {"value": value, "source": settings.source(name)} for name, value in settings.items()},
            "strategies": {name: _strategy(prediction, name) for name in prediction.estimates},
            "no_room": configuration.no_room,
            "verdict": prediction.verdict,
            "provenance": configuration.provenance,
            "runtime": configuration.runtime,
            "pair": configuration.pair,
            "warnings": configuration.warnings,
        }
    )


def _strategy(prediction: Prediction, name: str) -> dict[str, Any]:
    estimate, interval = prediction.estimates[name], prediction.intervals[name]
    seconds = prediction.unit == "s"
    rates = {other: found.tokens_per_second for other, found in prediction.estimates.items()}
    return {
        **{column.key: column.value(estimate, seconds) for column in COLUMNS},
        "breakdown_ms": {part: (1e3 if seconds else 1.0) * part_s for part, part_s in estimate.breakdown_s.items()},
        "speedup_over": {other: rates[name] / rate for other, rate in rates.items() if other != name},
        "low": interval.low if interval else None,
        "high": interval.high if interval else None,
    }
