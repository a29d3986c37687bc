"""Sentences of the page's stops: the verdict where sliders of doubts stand as nobody moved them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, product
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ssdsim.answers.decision import Candidate, decide, knowable, knowable_timings, simplest
from ssdsim.answers.grid import Evaluator
from ssdsim.answers.own_best import Variant
from ssdsim.answers.verdict import Rates, cannot_run, verdict
from ssdsim.base.checks import Array
from ssdsim.base.intervals import Draws
from ssdsim.base.record import Record
from ssdsim.question.many import RateDraws, estimate
from ssdsim.question.token_errors import KnownTokens
from ssdsim.reports.explorer.space import SEARCHED, GridAxis, Space
from ssdsim.reports.explorer.strategy_grid import ErrorDraws, PricedPoints
from ssdsim.reports.explorer.table import Floats

_MOST = 800  # sentences: each takes some milliseconds
_LAST = ("backup", "context", "f")  # axes whose stops are the first to have none


class StopText(Record):
    """The verdict in words, and how sure it is."""

    sentence: str
    sure: str = ""


class Stops(Record):
    """What is told at every one of the stops of some axes, the last of them fastest."""

    stops: Mapping[str, tuple[Any, ...]]
    texts: tuple[StopText, ...]

    def first(self, space: Space) -> str:
        """The sentence with which the page opens."""
        opens = [space.axis(name).opens if space.axis(name).opens in of else of[0] for name, of in self.stops.items()]
        places = [of.index(each) for of, each in zip(self.stops.values(), opens, strict=True)]
        shape = [*map(len, self.stops.values())]
        return self.texts[int(np.ravel_multi_index(places, shape)) if shape else 0].sentence

    @classmethod
    def joined(cls, parts: Sequence[Stops], along: str) -> Stops:
        """The whole of parts, which hold the stops of one axis in order."""
        names, first = list(parts[0].stops), parts[0]
        if along not in names or len(parts) == 1:
            return first
        shapes = ([*map(len, part.stops.values())] for part in parts)
        numbers = np.cumsum([0, *(len(part.texts) for part in parts)])
        each = [start + np.arange(prod(shape)).reshape(shape) for start, shape in zip(numbers, shapes, strict=False)]
        whole = np.concatenate(each, axis=names.index(along)).reshape(-1)
        told = [one for part in parts for one in part.texts]
        stops = tuple(stop for part in parts for stop in part.stops[along])
        return cls({**first.stops, along: stops}, tuple(told[number] for number in whole.tolist()))


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
    known = (
        {} if errors is None else knowable(chain.from_iterable(side.known for side in sides.values()), errors.errors)
    )
    return Stops(own, tuple(_told(space.subject, sides, known, place) for place in places))


class _Side(Record, eq=False):
    """A strategy at the points of its own stops: draws of its tokens/s, and those with the doubts known."""

    name: str
    axes: tuple[GridAxis, ...]
    at: PricedPoints
    rate: Floats
    gpus: Floats
    joint: Draws | None = None
    timings: Draws | None = None

    @classmethod
    def of(cls, space: Space, name: str, evaluator: Evaluator, errors: ErrorDraws | None) -> _Side:
        axes = tuple(space.axis(each) for each in space.read[name] if not space.axis(each).continuous)
        names = [axis.name for axis in axes]
        at = PricedPoints.of(name, space.grid(name, names, space.unsaid), evaluator)
        rows = at.side_by_side
        if rows is None:
            return cls(name, axes, at, np.full(len(at), np.nan), np.full(len(at), np.nan))
        found = estimate(rows)
        rate, gpus = (at.spread(np.broadcast_to(each, len(rows))) for each in (found.tokens_per_second, found.gpus))
        if errors is None:
            return cls(name, axes, at, rate, gpus)
        known = PricedPoints.of(name, space.grid(name, names), evaluator).side_by_side if space.doubts else rows
        assert known is not None  # what is known needs no more room
        joint, timings = (at.spread(errors.joint(each)) for each in (rows, known))
        return cls(name, axes, at, rate, gpus, joint, timings)

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
        """The best of some points, by the one rule."""
        levels = np.array([np.log(self.speeds(point)).mean() for point in points.tolist()])
        return int(points[simplest([self.candidate(point) for point in points.tolist()], levels, range(points.size))])

    @property
    def known(self) -> Sequence[KnownTokens]:
        """What its tokens rest on."""
        rows = self.at.side_by_side
        return () if rows is None else rows.known

    def speeds(self, point: int) -> Draws:
        return self.rate[point : point + 1] if self.joint is None else self.joint[point]

    def candidate(self, point: int) -> Candidate[Variant]:
        places = np.unravel_index(point, [len(axis.values) for axis in self.axes]) if self.axes else ()
        numbers = [int(place) for axis, place in zip(self.axes, places, strict=True) if axis.name in SEARCHED]
        return Candidate.of((self.name, (("stop", point),)), self.name, float(self.gpus[point]), *numbers)

    def draws(self, point: int) -> RateDraws | None:
        if self.joint is None or self.timings is None:
            return None
        return RateDraws(self.joint[point], self.timings[point])


def _told(subject: str, sides: Mapping[str, _Side], known: Mapping[str, Array], place: Mapping[str, Any]) -> StopText:
    points = {name: side.points(place) for name, side in sides.items()}
    refused = {name: sides[name].why_not(place) for name, each in points.items() if not each.size}
    best = {name: sides[name].best(each) for name, each in points.items() if each.size}
    if not best:
        return StopText(cannot_run(subject, refused[subject]))
    every = {name: [sides[name].candidate(point) for point in points[name].tolist()] for name in best}
    speeds = {each.key: sides[name].speeds(each.key[1][0][1]) for name, some in every.items() for each in some}
    draws = {name: each for name, point in best.items() if (each := sides[name].draws(point)) is not None}
    decision = decide(chain.from_iterable(every.values()), speeds, {**known, **knowable_timings(draws.values())})
    rates = {name: float(sides[name].rate[point]) for name, point in best.items()}
    gpus = {name: float(sides[name].gpus[point]) for name, point in best.items()}
    found = verdict(subject, Rates(rates, gpus, draws or None), decision, refused)
    return StopText(found.sentence, found.sure)
