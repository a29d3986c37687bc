"""The grid behind the page: rates and errors at every point, sentences, and exact answers between points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from math import prod
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ssdsim.answers.grid import Evaluator
from ssdsim.answers.predict import DRAWS
from ssdsim.answers.workers import Workers
from ssdsim.base.errors import InputError
from ssdsim.base.record import Record, replace
from ssdsim.pricing.cost import TimingErrors
from ssdsim.question.configuration import configure
from ssdsim.question.many import DrawnRates
from ssdsim.reports.explorer.doubts import Basis, Doubt
from ssdsim.reports.explorer.errors import (
    FEW_PLACES,
    Error,
    Exact,
    Place,
    beyond_default,
    interpolation_errors,
    random_places,
)
from ssdsim.reports.explorer.space import GridAxis, Ranges, Space, random_value, space_of
from ssdsim.reports.explorer.stop_sentences import Stops, stops_of, told_stops
from ssdsim.reports.explorer.strategy_grid import (
    ErrorDraws,
    PricedPoints,
    RateTable,
    error_table,
    memory_table,
    rate_table,
)
from ssdsim.reports.explorer.table import GridTable, chosen_nodes

MOST_POINTS = 1_000_000
_MOST_OF_PAIR = 3_000  # each takes some 0.1 s: rounds under every rate of the pair that may be off
_NODES = {"alpha": 6, "hit_c": 6, "hit_r": 5}  # of an axis that is interpolated, at most
_OTHERS_NODES = 5
_SAMPLE = 40  # points of a strategy whose errors are looked at
_PLACES = 34
_FEW = 2_000  # points: 2 s
_CASES = 60  # at which the curvature is looked at
_CASES_OF_OTHERS = 8  # some of which search a tree at each point


class ExplorerGrid(Record, eq=False):
    """All that the page holds, or a part of it: one stop of the axis along which the work is split.

    ``errors`` of a strategy are numbers on the ``basis``. ``stops`` are the sentences, ``exact`` are answers at random
    places between the points.
    """

    space: Space
    doubts: tuple[Doubt, ...]
    basis: Basis
    rates: Mapping[str, RateTable]
    memory: Mapping[str, GridTable]
    errors: Mapping[str, GridTable]
    exact: Exact
    seed: int
    stops: Stops | None = None

    @property
    def points(self) -> int:
        """Number of points at which strategies were priced."""
        return sum(int(np.prod(each.table.values.shape[:-1])) for each in self.rates.values())

    @cached_property
    def off(self) -> tuple[Error, ...]:
        """How far off interpolation is at the places of the exact answers."""
        rates = {name: each.table for name, each in self.rates.items()}
        return tuple(interpolation_errors(self.exact, self.space, rates, self.errors, self.basis, self.doubts))


def explorer_grid(
    seed: int = 0,
    workers: Workers | None = None,
    exact: bool = False,
    start: Mapping[str, Any] = MappingProxyType({}),
    checked: int = 0,
    **options: Any,
) -> ExplorerGrid:
    """The grid of a page; lists among the options are stops, as in a sweep.

    Parameters
    ----------
    seed : of the draws behind intervals.
    workers : of the parts, which are the stops of the axis that prices differ in most; their progress counts parts.
    exact : the grid has only the lists, and nothing is interpolated.
    start : where sliders stand as the page opens, instead of their own start.
    checked : number of random places with exact answers, if something is interpolated.
    """
    workers = workers or Workers()  # which look from now on for idle cores
    by = DrawnRates(TimingErrors(DRAWS, seed)) if exact else None  # an exact page has a sweep's points
    space, evaluator = space_of(options, exact, start), Evaluator(by)
    axes = [_nodes(space, axis, evaluator) if axis.continuous else axis for axis in space.axes]
    space = space.with_axes(axes)
    _check_size(space)
    split = None if exact and _is_quick(space) else _split_axis(space)
    job = _Job(space, split, random_places(space, checked, seed), seed, evaluator)
    done = workers.each(_numbered_part, [(job, number) for number in range(len(job.parts))])
    return job.joined([done[number] for number in range(len(job.parts))])


class _Job:
    """The work that processes share: parts of the space, random places in it, and memory of what was priced.

    Rates come in parts along one axis, sentences along another: each of these looks at all stops of the first.
    """

    def __init__(
        self, space: Space, split: str | None, places: Sequence[Place], seed: int, evaluator: Evaluator
    ) -> None:
        self._space, self._split, self._places, self._seed = space, split, places, seed
        self._evaluator, self._errors = evaluator, ErrorDraws(DRAWS, seed)
        self._told = told_stops(space)
        self._told_along = next((name for name, stops in self._told.items() if len(stops) > 1 and name != split), None)
        self._doubts = tuple(Doubt.of(each, space.axis(each.name), self._errors.errors) for each in space.doubts)
        self._basis = self._common_basis()
        self.parts: list[tuple[str, Space]] = []
        for what, along in (("rates", split), ("stops", self._told_along if split else None)):
            values = space.axis(along).values if along else [None]
            self.parts += [(what, space.restricted(along, value) if along else space) for value in values]

    def _errors_of(self, within: Ranges) -> ErrorDraws | None:
        """Draws of errors; None if nothing is uncertain."""
        base = configure(**self._space.options(self._space.start, within))
        return None if base.is_sure else self._errors

    def _common_basis(self) -> Basis:
        """The basis of the errors of all points, from those at random ones."""
        errors, rng = self._errors_of({}), np.random.default_rng(self._seed)
        if errors is None:
            return Basis(np.empty((0, DRAWS)), DRAWS if self._doubts else 0)
        off = []
        for name in (self._space.subject, *self._space.rivals):
            points = [
                self._space.alone(name, {axis.name: random_value(axis, rng) for axis in self._space.axes})
                for _ in range(_SAMPLE)
            ]
            rows = PricedPoints.of(name, points, self._evaluator).side_by_side
            off += [] if rows is None else [*errors.off(rows)]
        return Basis.of(np.concatenate(off))

    def part(self, number: int) -> ExplorerGrid | Stops:
        what, space = self.parts[number]
        if what == "stops":
            return stops_of(space, self._told, self._evaluator, self._errors_of(space.unsaid))
        return self._rates(space)

    def _rates(self, space: Space) -> ExplorerGrid:
        places = self._places
        if self._split is not None:
            places = [place for place in places if place[self._split] in space.axis(self._split).values]
        at = {name: PricedPoints.of(name, space.grid(name, space.read[name]), self._evaluator) for name in space.names}
        found = {name: rate_table([space.axis(axis) for axis in space.read[name]], each) for name, each in at.items()}
        shares = {name: each for name in space.names if (each := memory_table(space, name)) is not None}
        known, errors = self._errors_of({}), {}
        for name in space.names:
            axes = [space.axis(each) for each in space.read[name]]
            coarse = [_coarse(axis) if axis.continuous else axis for axis in axes]
            errors[name] = error_table(coarse, at[name].select(_among(axes, coarse)), self._basis, known)
        exact = Exact.of(space, places, self._evaluator, self._doubts, self._errors if self._basis.draws else None)
        return ExplorerGrid(space, self._doubts, self._basis, found, shares, errors, exact, self._seed)

    def joined(self, parts: Sequence[ExplorerGrid | Stops]) -> ExplorerGrid:
        """The whole of all parts, in their order."""
        rates = [part for part in parts if isinstance(part, ExplorerGrid)]
        stops = [part for part in parts if isinstance(part, Stops)]
        first, along = rates[0], self._split or ""
        return replace(
            first,
            space=self._space,
            rates={name: RateTable.joined([part.rates[name] for part in rates], along) for name in first.rates},
            memory={name: GridTable.joined([part.memory[name] for part in rates], along) for name in first.memory},
            errors={name: GridTable.joined([part.errors[name] for part in rates], along) for name in first.errors},
            exact=Exact.joined([part.exact for part in rates]),
            stops=Stops.joined(stops, self._told_along or ""),
        )


def _coarse(axis: GridAxis) -> GridAxis:
    """The axis with few nodes: errors bend little."""
    return replace(axis, values=tuple(sorted({axis.values[0], axis.start, axis.values[-1]})))


def _among(fine: Sequence[GridAxis], coarse: Sequence[GridAxis]) -> NDArray[np.intp]:
    """Numbers of the points of ``coarse`` axes among those of ``fine`` axes, which have all their values."""
    found = np.zeros(1, dtype=np.intp)
    for whole, some in zip(fine, coarse, strict=True):
        places = np.array([whole.values.index(value) for value in some.values], dtype=np.intp)
        found = (found[:, None] * len(whole.values) + places).reshape(-1)
    return found


def _numbered_part(job: _Job, number: int) -> tuple[int, ExplorerGrid | Stops]:
    return number, job.part(number)


def _split_axis(space: Space) -> str | None:
    """The axis that most kernels and prices differ in, so that processes price little twice."""
    stops = [axis for axis in space.axes if not axis.continuous]
    return next((axis.name for axis in stops if axis.name == "k"), stops[0].name if stops else None)


def _is_quick(space: Space) -> bool:
    """Say whether splitting does not pay: each part configures the question again, a fifth of the work."""
    few = all(_points(space, name) <= _FEW for name in space.names)
    return few and not beyond_default(space) and most_points(space.fixed) == MOST_POINTS


def _points(space: Space, name: str) -> int:
    """Number of points of a strategy."""
    return prod(len(space.axis(each).values) for each in space.read[name])


def most_points(options: Mapping[str, Any]) -> int:
    """The number of points per strategy that a page can hold."""
    return _MOST_OF_PAIR if options.get("pair") is not None else MOST_POINTS


def limits(space: Space) -> list[str]:
    """Reasons why the page has fewer points or exact answers than others; none if it has as many."""
    said = []
    if most_points(space.fixed) < MOST_POINTS:
        said.append(
            "A measured pair has rounds of its own at each point for every rate that may be off. So a page with --pair "
            f"has at most {_MOST_OF_PAIR:,} points of a strategy: --b, --k, --f and --context choose them."
        )
    if beyond_default(space) and any(axis.continuous for axis in space.axes):
        said.append(
            f"Some of these strategies search at each point, so interpolation is held against {FEW_PLACES} exact "
            "answers only."
        )
    return said


def _check_size(space: Space) -> None:
    most = most_points({**space.fixed, **space.start})
    for name in space.names:
        if (points := _points(space, name)) > most:
            pair = " with --pair" if most < MOST_POINTS else ""
            raise InputError(f"the page would hold {points:,} points of {name}, at most {most:,}{pair}: give fewer")


def _some(values: Sequence[Any], most: int) -> tuple[Any, ...]:
    """At most ``most`` of the values, evenly, with both ends."""
    at = dict.fromkeys(round(float(each)) for each in np.linspace(0, len(values) - 1, min(most, len(values))))
    return tuple(values[each] for each in at)


def _nodes(space: Space, axis: GridAxis, evaluator: Evaluator) -> GridAxis:
    rng, most = np.random.default_rng(0), _NODES.get(axis.name, _OTHERS_NODES)
    cases = _CASES_OF_OTHERS if beyond_default(space) else _CASES
    places = _places(axis)
    readers = [name for name in space.names if axis.name in space.read[name]]
    points = []
    for _ in range(cases):
        at = {each.name: random_value(each, rng) for each in space.axes}
        name = readers[int(rng.integers(len(readers)))]
        points += [space.alone(name, {**at, axis.name: place}) for place in places]
    found = np.array([rate or np.nan for rate in evaluator.fastest(points).tokens_per_second])
    curves = found.reshape(cases, len(places))
    curves = curves[np.isfinite(curves).all(axis=1)]
    if not len(curves):
        return replace(axis, values=_with(axis.start, _some(places, most)))
    scaled = [axis.scaled(place) for place in places]
    nodes = chosen_nodes(scaled, curves, most, axis.scaled(axis.start))
    return replace(axis, values=_with(axis.start, [places[scaled.index(node)] for node in nodes]))


def _places(axis: GridAxis) -> list[float]:
    """Even places from end to end, the nearest of them replaced by the start."""
    between = np.linspace(axis.scaled(axis.values[0]), axis.scaled(axis.values[-1]), _PLACES)
    even = [float(f"{each:.6g}") for each in (np.exp(between) if axis.log else between)]
    even[min(range(1, _PLACES - 1), key=lambda at: abs(even[at] - axis.start))] = axis.start
    ends = axis.values[0], axis.values[-1]
    return sorted({*ends, *(place for place in even[1:-1] if ends[0] < place < ends[1])})


def _with(start: float, nodes: Sequence[float]) -> tuple[float, ...]:
    """The nodes with the start among them, where the page is exact."""
    return tuple(sorted({*nodes, start}))
