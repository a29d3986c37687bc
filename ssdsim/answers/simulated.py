"""Every point of a grid simulated by itself."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np

from ssdsim import strategies
from ssdsim.answers import columns as named
from ssdsim.answers.grid import Evaluated
from ssdsim.answers.predict import Prediction, predict_configured
from ssdsim.answers.simulation.simulate import Engine
from ssdsim.base.errors import InputError
from ssdsim.pricing.room import why_no_room
from ssdsim.question.configuration import configure


def simulate_each(
    points: Iterable[Mapping[str, Any]],
    engine: Engine,
    precision: float | None = None,
    seed: int = 0,
    names: Collection[str] = (),
) -> Evaluated:
    """Simulate every point by itself; the columns of :func:`ssdsim.evaluate` with intervals.

    ``precision`` is the half width of the 95 % interval of tokens/s at which a run ends, relative; by default that of
    :func:`ssdsim.predict`. Intervals hold the simulation's error and, on hardware, the timings'. Every point has the
    same seed, so neighbours differ by less than their intervals say. ``names`` are strategies that have columns even
    where no point asks for them.
    """
    answers: list[Prediction | InputError] = []
    for point in points:
        try:
            answers.append(predict_configured(configure(**point), seed, engine, precision))
        except InputError as error:
            answers.append(error)
    predictions = [each for each in answers if isinstance(each, Prediction)]
    present = {name for each in predictions for name in (*each.estimates, *each.configuration.no_room)} | {*names}
    shown = [strategy.name for strategy in strategies.ALL if strategy.name in present] or list(strategies.default())
    rows = [_row(shown, each) if isinstance(each, Prediction) else {"error": str(each)} for each in answers]
    words = named.texts(shown)
    columns = {
        name: np.array([row.get(name) for row in rows], dtype=object if name in words else float)
        for name in (*named.results(shown), *named.intervals(shown))
    }
    warnings = sorted({line for each in predictions for line in each.configuration.warnings})
    return Evaluated(columns, [row.get("error") for row in rows], warnings)


def _row(names: list[str], prediction: Prediction) -> dict[str, Any]:
    configuration = prediction.configuration
    row: dict[str, Any] = {}
    for name, estimate in prediction.estimates.items():
        row |= named.of_estimate(names, estimate)
        for told in strategies.ALL.named(name).told:
            row[named.own(names, name, told)] = configuration.settings[told]
        interval = prediction.intervals[name]
        row |= {f"{name}_low": interval.low, f"{name}_high": interval.high} if interval else {}
    row |= named.over(named.ratios(names), row)
    for name, rival in named.contests(names):
        row[named.probability(name, rival)] = prediction.probability(name, rival)
    if configuration.no_room:
        row["error"] = why_no_room(configuration.subject, configuration.no_room)
    return row
