"""The grid behind the page: what every strategy does at every point, who wins there, and how far off between points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from ssdsim.answers.explore.contests import Contests, contests
from ssdsim.answers.explore.interpolation import chosen_nodes
from ssdsim.answers.explore.rates import Rates, memory, rates
from ssdsim.answers.explore.sides import Side
from ssdsim.answers.explore.space import Axis, Space, anywhere, space_of
from ssdsim.answers.explore.table import Table
from ssdsim.answers.grid import Evaluator
from ssdsim.answers.predict import DRAWS
from ssdsim.answers.workers import Workers
from ssdsim.base.errors import InputError
from ssdsim.scenario.configuration import configure

MOST_POINTS = 1_000_000
MOST_OF_PAIR = 3_000  # each takes some 0.1 s: rounds under every rate of the pair that may be off
_RATE_NODES = {"alpha": 10}  # of an axis that is interpolated, at most
_OTHERS_NODES = 5
_END_NODES = {"alpha": 5}  # intervals bend less
_OTHERS_END_NODES = 3
_PLACES = 34
_CASES = 60  # at which the curvature is looked at


@dataclass(frozen=True)
class Explored:
    """All that the page holds.

    ``given`` are contests where every rate is given, ``assumed`` those where nobody gave the rates that the space
    assumes; None where it assumes none.
    """

    space: Space
    rates: Mapping[str, Rates]
    memory: Mapping[str, Table]
    given: Contests
    assumed: Contests | None
    seed: int

    @property
    def points(self) -> int:
        """At which a strategy was worked out."""
        return sum(int(np.prod(each.table.values.shape[:-1])) for each in self.rates.values())


def explored(
    seed: int = 0,
    workers: Workers | None = None,
    exact: bool = False,
    start: Mapping[str, Any] = MappingProxyType({}),
    **options: Any,
) -> Explored:
    """Work out the grid of a page; lists among the options are its stops, as in a sweep.

    Parameters
    ----------
    seed : of the draws behind intervals.
    workers : of the parts, which are the stops of the axis that most prices differ in; they hear of each.
    exact : the grid is that of the lists alone, and nothing is interpolated.
    start : where sliders stand as the page opens; elsewhere it is theirs to say.

    Raises
    ------
    InputError : a mistake in the options, no strategy has room, a grid of too many points, or workers that died.
    """
    workers = workers or Workers()  # which look from now on for idle cores
    space = space_of(options, exact, start)
    evaluator = Evaluator()
    space = _with_nodes(space, evaluator)
    _check_size(space)
    split = _split_axis(space)
    stops = space.axis(split).values if split else (None,)
    job = _Job(space, split, seed)
    done = workers.each(_piece, [(job, number) for number in range(len(stops))])
    return _joined(space, split, [done[number] for number in range(len(stops))], seed)


@dataclass(frozen=True)
class _Piece:
    """One stop of the axis that the work is split along."""

    rates: Mapping[str, Rates]
    memory: Mapping[str, Table]
    given: Contests
    assumed: Contests | None


class _Job:
    """What pieces share: the space, and what was learnt of it."""

    def __init__(self, space: Space, split: str | None, seed: int) -> None:
        self.space, self.split, self.seed = space, split, seed
        self.evaluator = Evaluator()
        self._errors = {
            measured: configure(**space.options(space.start, measured)).errors(DRAWS, seed)
            for measured in (True, False)
        }

    def piece(self, number: int) -> _Piece:
        space = self.space
        if self.split is not None:
            space = space.restricted(self.split, space.axis(self.split).values[number])
        found = {name: rates(space, name, self.evaluator) for name in space.names}
        held = {name: each for name in space.names if (each := memory(space, name)) is not None}
        given = self._contests(space, True)
        assumed = self._contests(space, False) if space.assumed else None
        return _Piece(found, held, given, assumed)

    def _contests(self, space: Space, measured: bool) -> Contests:
        errors = self._errors[measured]
        coarse = space.with_axes(_coarse(axis) for axis in space.axes if axis.continuous)
        names = [axis.name for axis in space.axes if measured or axis.name not in space.assumed]
        sides = {}
        for name in (space.subject, *space.rivals):
            axes = [each for each in names if each in space.read[name]]
            sides[name] = Side.of(coarse, name, axes, self.evaluator, errors, measured)
        return contests(coarse, sides, names)


def _coarse(axis: Axis) -> Axis:
    nodes = _some(axis.values, _END_NODES.get(axis.name, _OTHERS_END_NODES))
    return replace(axis, values=_with(axis.start, nodes))


def _piece(job: _Job, number: int) -> tuple[int, _Piece]:
    return number, job.piece(number)


def _joined(space: Space, split: str | None, pieces: Sequence[_Piece], seed: int) -> Explored:
    first = pieces[0]
    along = split or ""
    held = {name: Table.joined([each.memory[name] for each in pieces], along) for name in first.memory}
    given = Contests.joined([each.given for each in pieces], along)
    assumed = [each.assumed for each in pieces if each.assumed is not None]
    return Explored(
        space,
        {name: Rates.joined([each.rates[name] for each in pieces], along) for name in first.rates},
        held,
        given,
        Contests.joined(assumed, along) if assumed else None,
        seed,
    )


def _split_axis(space: Space) -> str | None:
    """What most kernels and prices differ in, so that processes learn little twice."""
    stops = [axis for axis in space.axes if not axis.continuous]
    return next((axis.name for axis in stops if axis.name == "k"), stops[0].name if stops else None)


def most_points(options: Mapping[str, Any]) -> int:
    """So many points of a strategy a page can hold."""
    return MOST_OF_PAIR if options.get("pair") is not None else MOST_POINTS


def _check_size(space: Space) -> None:
    most = most_points({**space.fixed, **space.start})
    for name in space.names:
        points = int(np.prod([len(space.axis(each).values) for each in space.read[name]], dtype=float))
        if points > most:
            pair = " with --pair" if most < MOST_POINTS else ""
            raise InputError(f"the page would hold {points:,} points of {name}, at most {most:,}{pair}: give fewer")


def _some(values: Sequence[Any], most: int) -> tuple[Any, ...]:
    """So many of the values, both ends among them."""
    at = dict.fromkeys(round(float(each)) for each in np.linspace(0, len(values) - 1, min(most, len(values))))
    return tuple(values[each] for each in at)


def _with_nodes(space: Space, evaluator: Evaluator) -> Space:
    """Each continuous axis with nodes where the curvature of rates asks for them."""
    axes = [_nodes(space, axis, evaluator) if axis.continuous else axis for axis in space.axes]
    return space.with_axes(axes)


def _nodes(space: Space, axis: Axis, evaluator: Evaluator) -> Axis:
    rng, most = np.random.default_rng(0), _RATE_NODES.get(axis.name, _OTHERS_NODES)
    places = [float(f"{each:.6g}") for each in np.linspace(axis.values[0], axis.values[-1], _PLACES)]
    curves = []
    readers = [name for name in space.names if axis.name in space.read[name]]
    for _ in range(_CASES):
        at = {each.name: anywhere(each, rng) for each in space.axes}
        name = readers[int(rng.integers(len(readers)))]
        points = [space.alone(name, {**at, axis.name: place}) for place in places]
        found = np.array([rate or np.nan for rate in evaluator.fastest(points).tokens_per_second])
        if np.isfinite(found).all():
            curves.append(found)
    nodes = chosen_nodes(places, np.array(curves), most) if curves else _some(tuple(places), most)
    return replace(axis, values=_with(axis.start, nodes))


def _with(start: float, nodes: Sequence[float]) -> tuple[float, ...]:
    """Where the page starts it is exact; a node that is hardly anywhere else gives way to it."""
    apart = (nodes[-1] - nodes[0]) / _PLACES
    inside = [each for each in nodes[1:-1] if abs(each - start) > apart]
    return tuple(sorted({nodes[0], nodes[-1], start, *inside}))
