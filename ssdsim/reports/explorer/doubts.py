"""What the page draws where it is asked: doubts about inputs that its sliders move, and all other errors.

A doubt is a range of an input about its value. A slider moves the value, and the range moves with it. So such inputs
are known at the points of the grid, and the page looks up the rates over the range between them. The other errors,
those of timings first of all, differ little from point to point: a point has a few numbers on a basis that all share.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from ssdsim.base.intervals import Draws
from ssdsim.base.record import Record, replace
from ssdsim.pricing.cost import TimingErrors
from ssdsim.question.token_errors import look_values
from ssdsim.question.token_inputs import TokenInput
from ssdsim.reports.explorer.space import GridAxis
from ssdsim.reports.explorer.table import Floats, GridTable, weights

_NEAR = 2e-3  # of a rate: how far off draws on the basis may be
_MOST = 16  # vectors of a basis
_VALUES = 33  # of a slider, between which ranges are interpolated


class Doubt(Record, eq=False):
    """A range of an input about its ``value``, and about each of the values that a slider may give it.

    A row of ``looks`` are values over the range about one of ``values``, those of the draws in turn. ``ends`` are the
    range's: it moves with the value, as far as the slider goes.
    """

    name: str
    what: str
    value: float
    values: Floats
    ends: Floats
    looks: Floats

    @classmethod
    def of(cls, each: TokenInput, axis: GridAxis, errors: TimingErrors) -> Doubt:
        assert each.within is not None  # it is open
        first, last = axis.values[0], axis.values[-1]
        values = np.unique([*np.linspace(first, last, _VALUES), each.value])
        ends = np.clip(np.array(each.within) + (values - each.value)[:, None], first, last)
        about = [replace(each, value=value, within=tuple(of)) for value, of in zip(values, ends.tolist(), strict=True)]
        found = [look_values(one, errors) for one in about]
        return cls(each.name, each.what, each.value, values, ends, np.array(found))

    def about(self, value: float) -> tuple[Floats, Floats]:
        """The ends and the looks of the range about another value."""
        ends, looks = (
            np.array([np.interp(value, self.values, of) for of in rows.T]) for rows in (self.ends, self.looks)
        )
        return ends, looks


class Basis(Record, eq=False):
    """Errors in each of so many ``draws``, of which those at any point are sums; 0 draws where nothing is uncertain."""

    vectors: Floats
    draws: int

    @classmethod
    def of(cls, sample: Draws) -> Basis:
        """The fewest vectors that make up all errors (logarithms) of a sample."""
        kept = sample[np.isfinite(sample).all(axis=1)]
        if not np.abs(kept).max(initial=0.0):
            return cls(np.empty((0, sample.shape[1])), sample.shape[1])
        _, sizes, vectors = np.linalg.svd(kept, full_matrices=False)
        left = np.sqrt(np.append(np.cumsum(sizes[::-1] ** 2)[::-1], 0.0) / kept.size)
        return cls(vectors[: min(_MOST, int(np.argmax(left < _NEAR)))], sample.shape[1])

    def numbers(self, errors: Draws) -> Floats:
        """The numbers of errors, a row each."""
        return np.asarray(errors @ self.vectors.T, dtype=float)


def drawn_at(
    place: Mapping[str, Any], rates: GridTable, errors: GridTable, basis: Basis, doubts: Collection[Doubt]
) -> Draws:
    """Logarithms of tokens/s at a place in each draw, as the page has them."""
    over = {each.name: each.about(place[each.name])[1] for each in doubts}
    count = max(map(len, over.values()), default=1)

    def at_stops(table: GridTable) -> tuple[Floats, list[Floats]]:
        """The numbers at the stops, and the weights of the nodes of each interpolated axis, a row a look."""
        stops = tuple(slice(None) if a.continuous else a.values.index(place[a.name]) for a in table.axes)
        between = [(a, over.get(a.name, [place[a.name]] * count)) for a in table.axes if a.continuous]
        return table.values[stops], [
            np.stack([weights(axis.nodes, axis.scaled(at)) for at in looked]) for axis, looked in between
        ]

    numbers, of_nodes = at_stops(rates)
    logs = np.broadcast_to(numbers[..., 0], (count, *numbers.shape[:-1]))
    for weight in of_nodes:
        logs = np.einsum("ln,ln...->l...", weight, logs)
    numbers, of_nodes = at_stops(errors)
    for weight in of_nodes:
        numbers = np.tensordot(weight.mean(axis=0), numbers, axes=(0, 0))
    return np.asarray(logs[np.arange(basis.draws) % count] + numbers @ basis.vectors)
