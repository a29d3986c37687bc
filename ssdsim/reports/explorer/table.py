"""Numbers on the points of some axes, and between points: polynomials through the nearest nodes of an axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ssdsim.base.checks import FloatOrArray
from ssdsim.base.record import Record, replace
from ssdsim.reports.explorer.space import GridAxis


class GridTable(Record):
    """``values`` with an axis for each of ``axes``, and last the ``columns``; NaN where a point is not possible."""

    axes: tuple[GridAxis, ...]
    columns: tuple[str, ...]
    values: Floats

    @classmethod
    def of(cls, axes: Sequence[GridAxis], columns: Sequence[str], rows: Floats) -> GridTable:
        """A table of ``rows`` in the order of the axes, the last axis fastest."""
        shape = [len(axis.values) for axis in axes]
        return cls(tuple(axes), tuple(columns), rows.reshape(*shape, len(columns)))

    @classmethod
    def joined(cls, parts: Sequence[GridTable], along: str) -> GridTable:
        """The whole of parts, which hold the stops of one axis in order; the first part if none has that axis."""
        first = parts[0]
        at = [axis.name for axis in first.axes].index(along) if along in first.names else None
        if at is None:
            return first
        stops = tuple(value for part in parts for value in part.axes[at].values)
        axes = [replace(axis, values=stops) if axis.name == along else axis for axis in first.axes]
        return cls(tuple(axes), first.columns, np.concatenate([part.values for part in parts], axis=at))

    @property
    def names(self) -> list[str]:
        return [axis.name for axis in self.axes]

    def at(self, place: Mapping[str, Any]) -> dict[str, float]:
        """The columns at a place: a stop of each axis, or any value between the ends of an interpolated one."""
        stops = tuple(slice(None) if a.continuous else a.values.index(place[a.name]) for a in self.axes)
        between = [(a.nodes, a.scaled(place[a.name])) for a in self.axes if a.continuous]
        found = interpolated(self.values[stops], between)
        return dict(zip(self.columns, found.tolist(), strict=True))


WIDTH = 6  # nodes that a value between them rests on: of fewer, all of them

Floats = NDArray[np.float64]


def weights(nodes: Sequence[float], at: float) -> Floats:
    """Weights of each node's value at ``at``: Lagrange's polynomial through the nearest :data:`WIDTH` nodes.

    >>> weights([0.0, 1.0, 2.0, 3.0], 1.5).round(4).tolist()
    [-0.0625, 0.5625, 0.5625, -0.0625]
    >>> weights([0.0, 1.0], 0.25).tolist()
    [0.75, 0.25]
    """
    found = np.zeros(len(nodes))
    above = int(np.searchsorted(nodes, at))
    start = max(0, min(above - WIDTH // 2, len(nodes) - WIDTH))
    near = range(start, min(start + WIDTH, len(nodes)))
    for one in near:
        found[one] = np.prod([(at - nodes[other]) / (nodes[one] - nodes[other]) for other in near if other != one])
    return found


def interpolated(values: FloatOrArray, axes: Sequence[tuple[Sequence[float], float]]) -> Floats:
    """``values`` (an axis of nodes each, then others) at a place; ``axes`` are pairs of nodes and the place on them."""
    found = np.asarray(values, dtype=float)
    for nodes, at in axes:
        found = np.tensordot(weights(nodes, at), found, axes=(0, 0))
    return found


def chosen_nodes(places: Sequence[float], values: Floats, most: int, between: float | None = None) -> list[float]:
    """Nodes among ``places`` from which the values at all places are interpolated well.

    Parameters
    ----------
    places : many, along an axis.
    values : a row per case, a column per place; positive.
    most : of the nodes. Each new one is where the worst case but a few is farthest off.
    between : a place that is a node like the ends; by default the middle one.
    """
    at = sorted({0, places.index(between) if between is not None else (len(places) - 1) // 2, len(places) - 1})
    while len(at) < most:
        nodes = [places[each] for each in at]
        by = np.array([weights(nodes, place) for place in places])
        off = np.abs(np.log(values)[:, at] @ by.T - np.log(values))
        worst = np.quantile(off, _BUT_A_FEW, axis=0)
        if worst.max() < _NEAR:
            break
        at = sorted({*at, int(worst.argmax())})
    return [places[each] for each in at]


_BUT_A_FEW = 0.98  # a whole number of guesses makes a few cases jump, which no node mends
_NEAR = 2e-3
