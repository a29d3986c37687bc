"""A strategy at the points of a contest, with its rates under draws of what is not known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from ssdsim.base.intervals import Draws, bounds_95
from ssdsim.base.record import Record
from ssdsim.pricing.cost import TimingErrors
from ssdsim.question.many import Rates, SideBySide, across, estimate
from ssdsim.reports.explorer.at_points import AtPoints
from ssdsim.reports.explorer.interpolation import Floats
from ssdsim.reports.explorer.space import Axis

AT_ONCE = 64  # points of draws: 256 kB a column, which the allocator keeps instead of handing it back each time


class Errors:
    """Draws of what is not known, and the rates under them, which know the drawn steps of prices that come again."""

    def __init__(self, draws: int, seed: int) -> None:
        self.errors = TimingErrors(draws, seed)
        self._rates = Rates(self.errors)

    def joint(self, rows: SideBySide) -> Draws:
        """Tokens/s of each row under each draw, in single precision: sorted in half of the time, wrong by 1e-7."""
        return np.concatenate([self._rates(part).astype(np.float32) for part in _parts(rows)])

    def across(self, rows: SideBySide) -> Floats:
        """Tokens/s of each row over the ranges of its tokens."""
        return np.concatenate([across(part, self.errors) for part in _parts(rows)])


def _parts(rows: SideBySide) -> Iterator[SideBySide]:
    for start in range(0, len(rows), AT_ONCE):
        yield rows.taken(np.arange(start, min(start + AT_ONCE, len(rows))))


class Side(Record):
    """A strategy ``at`` the points of its ``axes``: its rate and GPUs, and its rate under draws of what is not known.

    ``joint`` is None where nothing errs. ``open`` are points at which tokens lie in ranges, and ``across`` its rates
    over these there, and its one rate elsewhere; None where they do nowhere. ``doubt`` numbers what of tokens may be
    otherwise: the same ranges, or the same tokens of a measured pair.
    """

    axes: tuple[Axis, ...]
    at: AtPoints
    rate: Floats
    gpus: Floats
    doubt: NDArray[np.intp]
    open: NDArray[np.bool_]
    joint: Draws | None
    across: Floats | None

    @classmethod
    def of(cls, axes: Sequence[Axis], at: AtPoints, errors: Errors | None) -> Side:
        """``errors`` None: nothing errs."""
        rows = at.side_by_side
        nowhere, no = np.full(len(at), np.nan), np.zeros(len(at), dtype=bool)
        if rows is None:
            never = None if errors is None else np.broadcast_to(np.float32(np.nan), (len(at), errors.errors.draws))
            return cls(tuple(axes), at, nowhere, nowhere, np.zeros(len(at), dtype=np.intp), no, never, None)
        means = estimate(rows)
        rate, gpus = (at.spread(np.broadcast_to(each, len(rows))) for each in (means.tokens_per_second, means.gpus))
        doubt, open_ = np.zeros(len(at), dtype=np.intp), no.copy()
        kinds = [known.open if known.open or known.is_sure else id(known) for known in rows.known]
        doubt[at.possible] = np.array([*map(list(dict.fromkeys(kinds)).index, kinds)])[rows.known_of]
        open_[at.possible] = np.array([bool(known.open) for known in rows.known])[rows.known_of]
        if errors is None:
            return cls(tuple(axes), at, rate, gpus, doubt, open_, None, None)
        over = _across(at, rate, np.flatnonzero(open_), errors) if open_.any() else None
        return cls(tuple(axes), at, rate, gpus, doubt, open_, at.spread(errors.joint(rows)), over)

    def rows(self, axes: Sequence[Axis]) -> NDArray[np.int64]:
        """The number of its own point at every point of ``axes``, the last of them fastest."""
        shape = [len(axis.values) for axis in axes]
        found = np.zeros(shape, dtype=np.int64)
        mine = [axis.name for axis in self.axes]
        for name in mine:
            at = [axis.name for axis in axes].index(name)
            places = np.arange(shape[at]).reshape([-1 if number == at else 1 for number in range(len(shape))])
            found = found * shape[at] + places
        return np.broadcast_to(found, shape).reshape(-1)

    def ends(self, rows: NDArray[np.int64]) -> tuple[Floats, Floats]:
        """Ends of tokens/s relative to it, as logarithms; NaN where nothing errs."""
        if self.joint is None:
            return np.full(len(rows), np.nan), np.full(len(rows), np.nan)
        low, high = bounds_95(self.joint)
        return np.log(low / self.rate)[rows], np.log(high / self.rate)[rows]

    def over_ranges(self, rows: NDArray[np.int64]) -> Floats:
        """Rates over the ranges of tokens; one where they lie in none."""
        return self.rate[rows, None] if self.across is None else self.across[rows]


def _across(at: AtPoints, rate: Floats, points: NDArray[np.intp], errors: Errors) -> Floats:
    rows = at.taken(points).side_by_side
    assert rows is not None  # open are only those possible
    looked = errors.across(rows)
    found = np.repeat(rate[:, None], looked.shape[1], axis=1)
    found[points] = looked
    return found
