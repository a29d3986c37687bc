"""The grid behind the page: every strategy at every point, who wins there, and exact answers between points."""

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
from ssdsim.question.configuration import configure
from ssdsim.reports.explorer.contests import Contests, contests
from ssdsim.reports.explorer.errors import (
    FEW_PLACES,
    Error,
    Exact,
    Place,
    beyond_default,
    interpolation_errors,
    random_places,
)
from ssdsim.reports.explorer.space import GridAxis, Space, random_value, space_of
from ssdsim.reports.explorer.strategy_grid import (
    ErrorDraws,
    PricedPoints,
    RateTable,
    StrategyGrid,
    memory_table,
    rate_table,
)
from ssdsim.reports.explorer.table import GridTable, chosen_nodes

MOST_POINTS = 1_000_000
_MOST_OF_PAIR = 3_000  # each takes some 0.1 s: rounds under every rate of the pair that may be off
_NODES = {"alpha": 8, "hit_c": 6, "hit_r": 3}  # of an axis that is interpolated, at most
_OTHERS_NODES = 5
_END_NODES = {"alpha": 5}  # intervals bend less
_OTHERS_END_NODES = 3
_PLACES = 34
_FEW = 2_000  # points: 2 s
_CASES = 60  # at which the curvature is looked at
_CASES_OF_OTHERS = 8  # some of which search a tree at each point


class ExplorerGrid(Record):
    """All that the page holds, or a part of it: one stop of the axis along which the work is split.

    In the contests ``measured`` every rate is given. In those ``assumed`` nobody gave the rates that the space assumes;
    None if it assumes none. ``exact`` are answers at random places between the points.
    """

    space: Space
    rates: Mapping[str, RateTable]
    memory: Mapping[str, GridTable]
    measured: Contests
    assumed: Contests | None
    exact: Exact
    seed: int

    @property
    def points(self) -> int:
        """Number of points at which strategies were priced."""
        return sum(int(np.prod(each.table.values.shape[:-1])) for each in self.rates.values())

    @cached_property
    def errors(self) -> tuple[Error, ...]:
        """How far off interpolation is at the places of the exact answers."""
        return tuple(interpolation_errors(self.exact, self.space, self.rates, self.measured.table))


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
    space = space_of(options, exact, start)
    space = _with_nodes(space, Evaluator())
    _check_size(space)
    split = _split_axis(space)
    if split is None or (exact and _is_quick(space)):
        parts = [space]
    else:
        parts = [space.restricted(split, value) for value in space.axis(split).values]
    job = _Job(parts, split, random_places(space, checked, seed), seed)
    done = workers.each(_numbered_part, [(job, number) for number in range(len(parts))])
    return _joined(space, split or "", [done[number] for number in range(len(parts))])


class _Job:
    """The work that processes share: parts of the space, random places in it, and memory of what was priced."""

    def __init__(self, parts: Sequence[Space], split: str | None, places: Sequence[Place], seed: int) -> None:
        self._parts, self._split, self._places, self._seed = parts, split, places, seed
        self._evaluator, self._errors = Evaluator(), ErrorDraws(DRAWS, seed)

    def part(self, number: int) -> ExplorerGrid:
        space, places = self._parts[number], self._places
        if self._split is not None:
            places = [place for place in places if place[self._split] in space.axis(self._split).values]
        at = {name: PricedPoints.of(name, space.grid(name, space.read[name]), self._evaluator) for name in space.names}
        found = {name: rate_table([space.axis(axis) for axis in space.read[name]], each) for name, each in at.items()}
        shares = {name: each for name in space.names if (each := memory_table(space, name)) is not None}
        errors = self._errors_of(space, measured=True)
        exact = Exact.of(space, places, self._evaluator, None if space.unit_free else errors)
        measured, assumed = self._measured(space, at, errors), self._assumed(space)
        return ExplorerGrid(space, found, shares, measured, assumed, exact, self._seed)

    def _errors_of(self, space: Space, measured: bool) -> ErrorDraws | None:
        """Draws of errors; None if nothing is uncertain."""
        return None if configure(**space.options(space.start, measured)).is_sure else self._errors

    def _measured(self, space: Space, at: Mapping[str, PricedPoints], errors: ErrorDraws | None) -> Contests:
        """Contests at the points ``at``, whose rates are given."""
        coarse = space.with_axes(_coarse(axis) for axis in space.axes if axis.continuous)
        sides = {}
        for name in (space.subject, *space.rivals):
            axes = [coarse.axis(axis) for axis in space.read[name]]
            kept = _among([space.axis(axis.name) for axis in axes], axes)
            sides[name] = StrategyGrid.of(axes, at[name].select(kept), errors)
        return contests(coarse, sides, [axis.name for axis in space.axes])

    def _assumed(self, space: Space) -> Contests | None:
        """Contests where nobody gave the assumed rates; None if none is assumed."""
        if not space.assumed:
            return None
        errors, sides = self._errors_of(space, measured=False), {}
        names = [axis.name for axis in space.axes if axis.name not in space.assumed]
        coarse = space.with_axes(_coarse(axis) for axis in space.axes if axis.continuous)
        for name in (space.subject, *space.rivals):
            axes = [each for each in names if each in space.read[name]]
            at = PricedPoints.of(name, coarse.grid(name, axes, measured=False), self._evaluator)
            sides[name] = StrategyGrid.of([coarse.axis(each) for each in axes], at, errors)
        return contests(coarse, sides, names)


def _coarse(axis: GridAxis) -> GridAxis:
    nodes = _some(axis.values, _END_NODES.get(axis.name, _OTHERS_END_NODES))
    return replace(axis, values=_with(axis.start, nodes))


def _among(fine: Sequence[GridAxis], coarse: Sequence[GridAxis]) -> NDArray[np.intp]:
    """Numbers of the points of ``coarse`` axes among those of ``fine`` axes, which have all their values."""
    found = np.zeros(1, dtype=np.intp)
    for whole, some in zip(fine, coarse, strict=True):
        places = np.array([whole.values.index(value) for value in some.values], dtype=np.intp)
        found = (found[:, None] * len(whole.values) + places).reshape(-1)
    return found


def _numbered_part(job: _Job, number: int) -> tuple[int, ExplorerGrid]:
    return number, job.part(number)


def _joined(space: Space, along: str, parts: Sequence[ExplorerGrid]) -> ExplorerGrid:
    """The whole of parts, which hold the stops of one axis in order."""
    first, assumed = parts[0], [part.assumed for part in parts if part.assumed is not None]
    return replace(
        first,
        space=space,
        rates={name: RateTable.joined([part.rates[name] for part in parts], along) for name in first.rates},
        memory={name: GridTable.joined([part.memory[name] for part in parts], along) for name in first.memory},
        measured=Contests.joined([part.measured for part in parts], along),
        assumed=Contests.joined(assumed, along) if assumed else None,
        exact=Exact.joined([part.exact for part in parts]),
    )


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


def _with_nodes(space: Space, evaluator: Evaluator) -> Space:
    """The space with nodes on its continuous axes, where the curvature of rates needs them."""
    axes = [_nodes(space, axis, evaluator) if axis.continuous else axis for axis in space.axes]
    return space.with_axes(axes)


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
    nodes = chosen_nodes(places, curves, most, axis.start) if len(curves) else _some(places, most)
    return replace(axis, values=_with(axis.start, nodes))


def _places(axis: GridAxis) -> list[float]:
    """Even places from end to end, the nearest of them replaced by the start."""
    even = [float(f"{each:.6g}") for each in np.linspace(axis.values[0], axis.values[-1], _PLACES)]
    even[min(range(1, _PLACES - 1), key=lambda at: abs(even[at] - axis.start))] = axis.start
    ends = axis.values[0], axis.values[-1]
    return sorted({*ends, *(place for place in even[1:-1] if ends[0] < place < ends[1])})


def _with(start: float, nodes: Sequence[float]) -> tuple[float, ...]:
    """The nodes with the start among them, where the page is exact."""
    return tuple(sorted({*nodes, start}))
