"""How far off a page is between its points: against exact answers at random places."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ssdsim import strategies
from ssdsim.answers.explore.explore import Explored
from ssdsim.answers.explore.interpolation import Floats
from ssdsim.answers.explore.rates import those_possible
from ssdsim.answers.explore.sides import drawn_rates
from ssdsim.answers.explore.space import anywhere
from ssdsim.answers.grid import Evaluator
from ssdsim.answers.predict import DRAWS
from ssdsim.base.intervals import bounds_95
from ssdsim.pricing.cost import TimingErrors
from ssdsim.scenario.many import SideBySide, estimate

POINTS = 2000
OF_OTHERS = 400  # where other strategies than the default ones are compared: some search a tree at each point
Place = Mapping[str, Any]


@dataclass(frozen=True)
class Error:
    """Relative, of a quantity at so many random ``points``: the ``worst``, and what 99 of 100 are below."""

    what: str
    worst: float
    most: float
    points: int

    @classmethod
    def of(cls, what: str, shown: Floats, exact: Floats) -> Error:
        off = np.abs(shown / exact - 1.0)
        off = off[np.isfinite(off)]
        return cls(what, float(off.max()), float(np.quantile(off, 0.99)), len(off))


def interpolation_errors(found: Explored, points: int | None = None) -> list[Error]:
    """Of tokens/s, of ratios and of the ends of their intervals; none where nothing is interpolated."""
    space = found.space
    if points is None:
        points = POINTS if {*space.names} <= {*strategies.default()} else OF_OTHERS
    if not any(axis.continuous for axis in space.axes):
        return []
    rng, evaluator = np.random.default_rng(found.seed), Evaluator()
    places = [{axis.name: anywhere(axis, rng) for axis in space.axes} for _ in range(points)]
    exact = {name: _Exact.of(found, name, places, evaluator) for name in (space.subject, *space.rivals)}
    return [error for error in _errors(found, places, exact) if error.points]


def _errors(found: Explored, places: Sequence[Place], exact: Mapping[str, _Exact]) -> Iterator[Error]:
    space = found.space
    own, title = exact[space.subject], strategies.ALL.named(space.subject).title
    given = [found.given.table.at(place) for place in places]
    shown = {name: np.array([np.exp(found.rates[name].table.at(p)["log_rate"]) for p in places]) for name in exact}
    for name in exact:
        if any(axis.continuous for axis in found.rates[name].table.axes):
            yield Error.of(f"tokens/s of {strategies.ALL.named(name).title}", shown[name], exact[name].rate)
    for rival in space.rivals:
        other, said = exact[rival], f"{title} over {strategies.ALL.named(rival).title}"
        ratio = shown[space.subject] / shown[rival]
        yield Error.of(said, ratio, own.rate / other.rate)
        if own.joint is None or other.joint is None:
            continue
        for end, bound in zip(("low", "high"), bounds_95(own.joint / other.joint), strict=True):
            off = np.exp([each[f"{rival}:{end}"] for each in given])
            yield Error.of(f"{'lower' if end == 'low' else 'upper'} end of {said}", ratio * off, bound)


@dataclass(frozen=True)
class _Exact:
    """A strategy at the random places; NaN where it has no room."""

    rate: Floats
    joint: Floats | None

    @classmethod
    def of(cls, found: Explored, name: str, places: Sequence[Place], evaluator: Evaluator) -> _Exact:
        scenes = evaluator.fastest([found.space.alone(name, place) for place in places]).found
        at, rows = those_possible(scenes)
        rate, joint = np.full(len(scenes), np.nan), np.full((len(scenes), DRAWS), np.nan)
        rate[at] = estimate(SideBySide.of(rows)).tokens_per_second
        if found.space.unit_free or not all(row.known.is_sure for row in rows):
            return cls(rate, None)
        joint[at] = drawn_rates(rows, TimingErrors(DRAWS, found.seed))
        return cls(rate, joint)
