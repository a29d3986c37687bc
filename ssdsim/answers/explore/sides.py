"""A strategy at the points of a contest, with its rates under draws of what is not known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ssdsim.answers.explore.interpolation import Floats
from ssdsim.answers.explore.rates import scenarios, those_possible
from ssdsim.answers.explore.space import Axis, Space
from ssdsim.answers.grid import Evaluator
from ssdsim.base.intervals import bounds_95
from ssdsim.pricing.cost import TimingErrors
from ssdsim.scenario.many import Drawn, Rates, SideBySide, estimate
from ssdsim.scenario.scenario import Scenario

AT_ONCE = 256  # points of draws: 2 MB a column


def drawn_rates(rows: Sequence[Scenario], errors: TimingErrors) -> Floats:
    """Tokens/s of each row under each draw."""
    of_errors = Rates(errors)
    pieces = [of_errors(SideBySide.of(rows[start : start + AT_ONCE])) for start in range(0, len(rows), AT_ONCE)]
    return np.concatenate(pieces) if pieces else np.empty((0, errors.draws))


@dataclass(frozen=True)
class Side:
    """A strategy at the points of its ``axes``: what it is, its rate, and under draws of what is not known.

    ``draws`` are there where ranges or a measured pair leave tokens open, point by point; ``joint`` alone elsewhere.
    """

    axes: tuple[Axis, ...]
    scenarios: Sequence[Scenario | str]
    rate: Floats
    gpus: Floats
    joint: Floats | None
    draws: Sequence[Drawn | None] | None

    @classmethod
    def of(
        cls,
        space: Space,
        name: str,
        axes: Sequence[str],
        evaluator: Evaluator,
        errors: TimingErrors | None,
        measured: bool,
    ) -> Side:
        """At every point of ``axes``; ``measured``: rates that nobody gave are given. ``errors`` None: nothing errs."""
        found = scenarios(space, name, axes, evaluator, measured)
        at, rows = those_possible(found)
        rate, gpus = np.full(len(found), np.nan), np.full(len(found), np.nan)
        joint = None if errors is None else np.full((len(found), errors.draws), np.nan)
        draws: list[Drawn | None] | None = None
        if rows:
            means = estimate(SideBySide.of(rows))
            rate[at], gpus[at] = means.tokens_per_second, means.gpus
        if errors is None or joint is None:
            return cls(tuple(map(space.axis, axes)), found, rate, gpus, None, None)
        joint[at] = drawn_rates(rows, errors)
        if any(row.known.open for row in rows):
            of_errors, draws = Rates(errors), [None] * len(found)
            for number, row in zip(at, rows, strict=True):
                draws[number] = Drawn.of(row, errors, of_errors)
        return cls(tuple(map(space.axis, axes)), found, rate, gpus, joint, draws)

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

    def across(self, row: int) -> Floats:
        """Its rate over the ranges of tokens; one number where it reads none of them."""
        drawn = None if self.draws is None else self.draws[row]
        return np.array([self.rate[row]]) if drawn is None or drawn.across is None else drawn.across
