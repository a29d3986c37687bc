"""Sentences of the page's stops: the verdict where sliders of doubts stand as nobody moved them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ssdsim.answers.decision import TIED
from ssdsim.answers.grid import Evaluator
from ssdsim.answers.predict import judged
from ssdsim.answers.verdict import no_room
from ssdsim.base.intervals import Draws
from ssdsim.base.record import Record
from ssdsim.pricing.cost import TimingErrors
from ssdsim.question.many import RateDraws, across, estimate
from ssdsim.reports.explorer.space import GridAxis, Space
from ssdsim.reports.explorer.strategy_grid import ErrorDraws, PricedPoints
from ssdsim.reports.explorer.table import Floats

_MOST = 800  # sentences: each takes some milliseconds
_LAST = ("backup", "context", "f")  # axes whose stops are the first to have none


class Stops(Record):
    """The sentence at every one of the stops of some axes, the last of them fastest."""

    stops: Mapping[str, tuple[Any, ...]]
    sentences: tuple[str, ...]

    @classmethod
    def joined(cls, parts: Sequence[Stops], along: str) -> Stops:
        """The whole of parts, which hold the stops of one axis in order."""
        names, first = list(parts[0].stops), parts[0]
        if along not in names or len(parts) == 1:
            return first
        each = [np.reshape(part.sentences, [*map(len, part.stops.values())]) for part in parts]
        whole = np.concatenate(each, axis=names.index(along))
        stops = tuple(stop for part in parts for stop in part.stops[along])
        return cls({**first.stops, along: stops}, tuple(whole.reshape(-1).tolist()))


def told_stops(space: Space) -> dict[str, tuple[Any, ...]]:
    """The stops with sentences, by axis; if all would be too many, those of some axes only where they start."""
    stops = {axis.name: axis.stops for axis in space.axes if not axis.continuous}
    for name in [*_LAST, *stops]:
        if name in stops and prod(map(len, stops.values())) > _MOST:
            stops[name] = (space.axis(name).opens,)
    return stops


def stops_of(
    space: Space, stops: Mapping[str, Sequence[Any]], evaluator: Evaluator, errors: ErrorDraws | None
) -> Stops:
    """The sentences at stops of a space."""
    sides = {name: _Side.of(space, name, evaluator, errors) for name in (space.subject, *space.rivals)}
    own = {name: tuple(each for each in of if each in space.axis(name).stops) for name, of in stops.items()}
    places = (dict(zip(own, each, strict=True)) for each in product(*own.values()))
    drawn = None if errors is None else errors.errors
    return Stops(own, tuple(_sentence(space, sides, place, drawn) for place in places))


class _Side(Record, eq=False):
    """A strategy at the points of its own stops: draws of its tokens/s, and those with the doubts known."""

    axes: tuple[GridAxis, ...]
    at: PricedPoints
    rate: Floats
    joint: Draws | None
    timings: Draws | None
    across: Draws | None

    @classmethod
    def of(cls, space: Space, name: str, evaluator: Evaluator, errors: ErrorDraws | None) -> _Side:
        axes = tuple(space.axis(each) for each in space.read[name] if not space.axis(each).continuous)
        names = [axis.name for axis in axes]
        at = PricedPoints.of(name, space.grid(name, names, space.unsaid), evaluator)
        rows = at.side_by_side
        if rows is None:
            return cls(axes, at, np.full(len(at), np.nan), None, None, None)
        rate = at.spread(np.broadcast_to(estimate(rows).tokens_per_second, len(rows)))
        if errors is None:
            return cls(axes, at, rate, None, None, None)
        known = PricedPoints.of(name, space.grid(name, names), evaluator).side_by_side if space.doubts else rows
        assert known is not None  # what is known needs no more room
        looked = across(rows, errors.errors) if any(each.open for each in rows.known) else None
        joint, timings = (at.spread(errors.joint(each)) for each in (rows, known))
        return cls(axes, at, rate, joint, timings, None if looked is None else at.spread(looked))

    def points(self, place: Mapping[str, Any]) -> NDArray[np.intp]:
        """The numbers of the possible points at a place: several where it leaves the choice of the best."""
        numbers = self._points(place)
        return numbers[self.at.number[numbers] >= 0]

    def why_not(self, place: Mapping[str, Any]) -> str:
        """The reason why the strategy is not possible at a place."""
        return self.at.why_not[self._points(place)[0]] or ""

    def _points(self, place: Mapping[str, Any]) -> NDArray[np.intp]:
        stops = [
            range(len(axis.values)) if place[axis.name] not in axis.values else [axis.values.index(place[axis.name])]
            for axis in self.axes
        ]
        shape = [len(axis.values) for axis in self.axes]
        return np.array([np.ravel_multi_index(each, shape) if shape else 0 for each in product(*stops)], dtype=np.intp)

    def best(self, points: NDArray[np.intp]) -> int:
        """The best of some points, by the one rule: of those that are tied with it the first."""
        if self.joint is None:
            return int(points[np.argmax(self.rate[points])])
        levels = np.log(self.joint[points]).mean(axis=1)
        return int(points[np.argmax(levels >= levels.max() - TIED)])

    def draws(self, point: int) -> RateDraws | None:
        if self.joint is None or self.timings is None:
            return None
        return RateDraws(self.joint[point], self.timings[point], None if self.across is None else self.across[point])


def _sentence(space: Space, sides: Mapping[str, _Side], place: Mapping[str, Any], errors: TimingErrors | None) -> str:
    chosen: dict[str, int] = {}
    refused: dict[str, str] = {}
    for name, side in sides.items():
        points = side.points(place)
        if points.size:
            chosen[name] = side.best(points)
        else:
            refused[name] = side.why_not(place)
    if not chosen:
        return no_room(space.subject, refused[space.subject])
    scenarios = {name: sides[name].at.scenario(point) for name, point in chosen.items()}
    draws = {name: sides[name].draws(point) for name, point in chosen.items()}
    told = {name: each for name, each in draws.items() if each is not None}
    estimates = {name: each.estimate for name, each in scenarios.items()}
    return judged(space.subject, scenarios, estimates, told or None, refused, errors if told else None).sentence
