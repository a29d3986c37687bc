"""Numbers on the points of some axes, and between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ssdsim.base.record import Record, replace
from ssdsim.reports.explorer.interpolation import Floats, interpolated
from ssdsim.reports.explorer.space import Axis


class Table(Record):
    """``values`` have an axis for each of ``axes``, whose own values are its places, and last the ``columns``.

    NaN where a point is not possible. Columns of ``logs`` hold logarithms: they are interpolated so.
    """

    axes: tuple[Axis, ...]
    columns: tuple[str, ...]
    values: Floats

    @classmethod
    def of(cls, axes: Sequence[Axis], columns: Sequence[str], rows: Floats) -> Table:
        """``rows`` are in the order of the axes, the last of them fastest."""
        shape = [len(axis.values) for axis in axes]
        return cls(tuple(axes), tuple(columns), rows.reshape(*shape, len(columns)))

    @classmethod
    def joined(cls, parts: Sequence[Table], along: str) -> Table:
        """Parts that hold stops of one axis, in the order of its stops; the first of them where none has the axis."""
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
        """The columns at a place: a stop of each axis, or anything between the ends of one that is interpolated."""
        stops = tuple(slice(None) if a.continuous else a.values.index(place[a.name]) for a in self.axes)
        between = [(a.values, place[a.name]) for a in self.axes if a.continuous]
        found = interpolated(self.values[stops], between)
        return dict(zip(self.columns, found.tolist(), strict=True))
