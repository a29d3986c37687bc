"""The subject against its rivals at every point: intervals, and which sentence a verdict has there.

A sentence is one of a few templates with numbers in it. Which template it is depends on which numbers lie above 1. So
each point has a ``case``: the places of its numbers among :data:`THRESHOLDS`. Between points, the page finds the
template from the interpolated numbers, without rules of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, reduce
from itertools import combinations, compress

import numpy as np
from numpy.typing import NDArray

from ssdsim.answers.contest import DECIDED, Contest, Outcome, Versus, share_fastest
from ssdsim.answers.evidence import RatioEvidence, Uncertainty, alike, token_uncertainties
from ssdsim.answers.swings import inputs_of, swings_over
from ssdsim.answers.verdict import template
from ssdsim.base.intervals import Draws, quantiles
from ssdsim.base.record import Record
from ssdsim.question.scenario import Scenario
from ssdsim.reports.explorer.space import Space
from ssdsim.reports.explorer.strategy_grid import StrategyGrid, chunks
from ssdsim.reports.explorer.table import Floats, GridTable

THRESHOLDS: Mapping[str, tuple[float, ...]] = {
    "ratio": (0.995, 1.0, 1.005),
    "low": (0.995, 1.005),
    "high": (0.995, 1.005),
    "surely": (1.0,),
    "hardly": (1.0,),
    "lowest": (1.0,),
    "highest": (1.0,),
    "per_gpu": (1.0,),
    "lowest_per_gpu": (1.0,),
    "highest_per_gpu": (1.0,),
}
"""Of the numbers of a rival: on which side of these they lie decides the words. From 0.995 to 1.005 is ``1.00``."""
OF_RIVAL = ("low", "high", "surely", "hardly", "lowest", "highest", "faster")
"""Columns of a rival, relative to the ratio and as logarithms but for ``faster``, the probability.

``surely`` and ``hardly`` are what the ratio is above in a share :data:`~ssdsim.answers.contest.DECIDED` of the draws,
and below.
"""
_SWITCHED = 3  # rivals, at most, of which every set may be switched on


class SentenceCase(Record):
    """A template and its outcome for the subject, by the ``code`` of the places of the numbers."""

    code: str
    sentence: str
    outcome: Outcome


class Contests(Record):
    """Intervals at all points in a ``table``, and the number of the case by point and set of rivals.

    The number is -1 where there is no case: the subject has no room, or no rival has.
    """

    table: GridTable
    sets: tuple[tuple[str, ...], ...]
    cases: NDArray[np.int64]
    known: tuple[SentenceCase, ...]

    @classmethod
    def joined(cls, parts: Sequence[Contests], along: str) -> Contests:
        """Parts that hold stops of one axis, in the order of its stops."""
        known = list(dict.fromkeys(case for part in parts for case in part.known))
        renumbered = [
            GridTable(part.table.axes, part.table.columns, _renumbered(part, known).astype(float)) for part in parts
        ]
        table = GridTable.joined([part.table for part in parts], along)
        return cls(table, parts[0].sets, GridTable.joined(renumbered, along).values.astype(np.int64), tuple(known))


def _renumbered(part: Contests, known: Sequence[SentenceCase]) -> NDArray[np.int64]:
    number = {case: at for at, case in enumerate(known)}
    numbers = np.array([*(number[case] for case in part.known), -1], dtype=np.int64)
    return numbers[part.cases]


def _rival_sets(rivals: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """Sets of rivals that may be switched on together: every set of a few, else all of them or one."""
    if len(rivals) > _SWITCHED:
        return (tuple(rivals), *((rival,) for rival in rivals))
    return tuple(each for size in range(len(rivals), 0, -1) for each in combinations(rivals, size))


def contests(space: Space, sides: Mapping[str, StrategyGrid], names: Sequence[str]) -> Contests:
    """The subject against each set of rivals at every point of the axes ``names``.

    The axes of ``space`` have the values of the points; ``sides`` are the strategies by name.
    """
    axes = [space.axis(name) for name in names]
    rows = {name: side.rows(axes) for name, side in sides.items()}
    numbers = {rival: _Numbers.of(sides, rows, space.subject, rival) for rival in space.rivals}
    sets = _rival_sets(space.rivals)
    found = _Cases(space.subject, sides, rows, numbers)
    cases, best = [], []
    for each in sets:
        surely = found.surely_best(each) if len(each) > 1 else numbers[each[0]].surely
        cases.append(found.numbers_of(each, surely))
        best.append(surely)
    columns = [f"{name}:{of}" for name in numbers for of in OF_RIVAL] + [f"best:{at}" for at in range(len(sets))]
    ends = [f"rate of {name}:{end}" for name in sides for end in ("low", "high")]
    values = [column for each in numbers.values() for column in each.columns()] + [np.log(each) for each in best]
    values += [column for name, side in sides.items() for column in side.ends(rows[name])]
    table = GridTable.of(axes, [*columns, *ends], np.stack(values, axis=-1))
    return Contests(
        table, sets, np.stack(cases, axis=-1).reshape(*table.values.shape[:-1], len(sets)), tuple(found.known)
    )


class _Numbers(Record):
    """Numbers of the subject over one rival at every point; NaN where one of them is not possible."""

    ratio: Floats
    low: Floats
    high: Floats
    surely: Floats
    hardly: Floats
    lowest: Floats
    highest: Floats
    faster: Floats
    per_gpu: Floats

    @classmethod
    def of(
        cls, sides: Mapping[str, StrategyGrid], rows: Mapping[str, NDArray[np.int64]], subject: str, rival: str
    ) -> _Numbers:
        own, other, at, its = sides[subject], sides[rival], rows[subject], rows[rival]
        ratio = own.rate[at] / other.rate[its]
        nothing = np.full(len(ratio), np.nan)
        found = {name: nothing.copy() for name in (*OF_RIVAL, "per_gpu")}
        found["per_gpu"] = ratio * other.gpus[its] / own.gpus[at]
        if own.joint is not None and other.joint is not None:
            for chunk in chunks(len(ratio)):
                mine, theirs = own.joint[at[chunk]], other.joint[its[chunk]]
                low, surely, hardly, high = quantiles(mine / theirs, 0.025, 1.0 - DECIDED, DECIDED, 0.975)
                found["low"][chunk], found["high"][chunk] = low, high
                found["surely"][chunk], found["hardly"][chunk] = surely, hardly
                known = np.flatnonzero(~np.isnan(low))
                found["faster"][chunk.start + known] = share_fastest(mine[known], [theirs[known]])
        for chunk in chunks(len(ratio)):
            moved = own.open[at[chunk]] | other.open[its[chunk]]
            if moved.any():
                across = own.over_ranges(at[chunk]) / other.over_ranges(its[chunk])
                found["lowest"][chunk] = np.where(moved, np.minimum(ratio[chunk], across.min(axis=-1)), np.nan)
                found["highest"][chunk] = np.where(moved, np.maximum(ratio[chunk], across.max(axis=-1)), np.nan)
        return cls(ratio=ratio, **found)

    def columns(self) -> list[Floats]:
        """The columns of :data:`OF_RIVAL`."""
        return [
            each if name == "faster" else np.log(each / self.ratio)
            for name, each in ((name, getattr(self, name)) for name in OF_RIVAL)
        ]

    def codes(self) -> NDArray[np.str_]:
        """A code per point: for each number a digit, how many of its thresholds it reaches, or ``x`` if it is NaN."""
        values = {
            **{name: getattr(self, name) for name in THRESHOLDS if hasattr(self, name)},
            "lowest_per_gpu": self.lowest / self.ratio * self.per_gpu,
            "highest_per_gpu": self.highest / self.ratio * self.per_gpu,
        }
        return _joined([_digits(values[name], places) for name, places in THRESHOLDS.items()])

    @cached_property
    def stays(self) -> NDArray[np.bool_]:
        """Mask of points whose bounds over all ranges print alike."""
        lowest, highest = (np.char.mod("%.2f", each) for each in (self.lowest, self.highest))
        return np.asarray(lowest == highest) & ~np.isnan(self.lowest)

    def versus(self, at: int) -> Versus:
        """The numbers at one point as a contest has them, without the effect of timings alone."""

        def number(of: Floats) -> float | None:
            return None if np.isnan(of[at]) else float(of[at])

        return Versus(
            float(self.ratio[at]),
            number(self.low),
            number(self.high),
            number(self.faster),
            number(self.lowest),
            number(self.highest),
        )


def _digits(values: Floats, thresholds: Sequence[float]) -> NDArray[np.str_]:
    found = np.searchsorted(np.array(thresholds), values, side="right").astype(str)
    return np.where(np.isnan(values), "x", found)


def _joined(parts: Sequence[NDArray[np.str_]]) -> NDArray[np.str_]:
    return reduce(np.char.add, parts)


_TemplateParts = tuple[Contest[str], str, Mapping[str, float]]
"""What a template is made of: the contest, the subject, and the GPUs of each strategy."""


class _Cases:
    """The cases of points, numbered as they come."""

    def __init__(
        self,
        subject: str,
        sides: Mapping[str, StrategyGrid],
        rows: Mapping[str, NDArray[np.int64]],
        numbers: Mapping[str, _Numbers],
    ) -> None:
        self._subject, self._sides, self._rows, self._numbers = subject, sides, rows, numbers
        self._codes = {rival: each.codes() for rival, each in numbers.items()}
        self.known: dict[SentenceCase, int] = {}

    def surely_best(self, rivals: Sequence[str]) -> Floats:
        """What the smallest ratio to the rivals exceeds in a share ``DECIDED`` of the draws."""
        own, at = self._sides[self._subject], self._rows[self._subject]
        found = np.full(len(at), np.nan)
        if own.joint is None:
            return found
        for chunk in chunks(len(at)):
            others = [self._joint(rival)[self._rows[rival][chunk]] for rival in rivals]
            fastest = np.fmax.reduce(others)
            (found[chunk],) = quantiles(own.joint[at[chunk]] / fastest, 1.0 - DECIDED)
        return found

    def _joint(self, name: str) -> Draws:
        joint = self._sides[name].joint
        assert joint is not None  # errors are of all or of none
        return joint

    def numbers_of(self, rivals: Sequence[str], best: Floats) -> NDArray[np.int64]:
        """The number of every point's case against these rivals."""
        codes = _joined([*(self._codes[rival] for rival in rivals), _digits(best, (1.0,)), self._order(rivals)])
        present = np.stack([~np.isnan(self._numbers[rival].ratio) for rival in rivals])
        found = np.full(len(best), -1, dtype=np.int64)
        groups: dict[tuple[str, bool], list[tuple[NDArray[np.intp], _TemplateParts]]] = {}
        for points in self._alike(codes, rivals, np.flatnonzero(present.any(axis=0))):
            parts = self._template_parts(points[0], list(compress(rivals, present[:, points[0]])))
            groups.setdefault((parts[0].decisive_rival, parts[0].decided), []).append((points, parts))
        for (rival, decided), of in groups.items():
            sure = np.zeros(len(best), dtype=np.intp), [()]
            numbers, doubts = sure if decided else self._doubted(rival, np.concatenate([points for points, _ in of]))
            for points, parts in of:
                inputs = inputs_of(*(self._scenario(name, points[0]) for name in (self._subject, rival)))
                for number in np.unique(numbers[points]).tolist():
                    sentence = template(RatioEvidence(inputs, doubts[number]), *parts)
                    case = SentenceCase(str(codes[points[0]]), sentence, parts[0].outcome)
                    found[points[numbers[points] == number]] = self.known.setdefault(case, len(self.known))
        return found

    def _order(self, rivals: Sequence[str]) -> NDArray[np.str_]:
        """Places of the rivals by ratio, the smallest first."""
        ratios = np.stack([self._numbers[rival].ratio for rival in rivals], axis=-1)
        return _joined([each.astype(str) for each in np.argsort(ratios, axis=-1, kind="stable").T])

    def _alike(
        self, codes: NDArray[np.str_], rivals: Sequence[str], points: NDArray[np.intp]
    ) -> Iterator[NDArray[np.intp]]:
        """Groups of points whose words rest on the same: code, GPUs, open token inputs, and whether ratios stay."""
        key = np.unique(codes[points], return_inverse=True)[1]
        for name in (self._subject, *rivals):
            for each in (self._gpus(name), self._doubt(name)):
                values, of = np.unique(each[points], return_inverse=True)
                key = key * len(values) + of
        for rival in rivals:
            key = key * 2 + self._numbers[rival].stays[points]
        yield from _groups(key, points)

    def _gpus(self, name: str) -> Floats:
        return self._sides[name].gpus[self._rows[name]]

    def _template_parts(self, at: int, rivals: Sequence[str]) -> _TemplateParts:
        over = {rival: self._numbers[rival].versus(at) for rival in rivals}
        gpus = {name: float(self._gpus(name)[at]) for name in (self._subject, *rivals)}
        return Contest(over, self._probability(at, rivals)), self._subject, gpus

    def _probability(self, at: int, rivals: Sequence[str]) -> float | None:
        own = self._sides[self._subject]
        if own.joint is None:
            return None
        others = [self._joint(rival)[self._rows[rival][at]] for rival in rivals]
        return float(share_fastest(own.joint[self._rows[self._subject][at]], others))

    def _doubted(
        self, rival: str, points: NDArray[np.intp]
    ) -> tuple[NDArray[np.intp], Sequence[tuple[Uncertainty, ...]]]:
        """Doubts of tokens that move the ratio: a number per point, and the doubts by number."""
        found = np.zeros(len(self._rows[rival]), dtype=np.intp)
        doubts: list[tuple[Uncertainty, ...]] = [()]
        key = self._doubt(self._subject)[points] * (1 + self._doubt(rival).max()) + self._doubt(rival)[points]
        for group in _groups(key, points):
            own, its = (self._sides[name].at.together(self._rows[name][group]) for name in (self._subject, rival))
            moving = swings_over(own, its)
            if not moving:
                continue
            numbers = alike(moving)
            found[group] = len(doubts) + numbers
            first = np.unique(numbers, return_index=True)[1]
            doubts += [token_uncertainties([swing.at(row) for swing in moving]) for row in first.tolist()]
        return found, doubts

    def _doubt(self, name: str) -> NDArray[np.intp]:
        return self._sides[name].doubt[self._rows[name]]

    def _scenario(self, name: str, at: int) -> Scenario:
        return self._sides[name].at.scenario(int(self._rows[name][at]))


def _groups(key: NDArray[np.intp], points: NDArray[np.intp]) -> Iterator[NDArray[np.intp]]:
    """The points of each key, in the order of their first."""
    if not points.size:  # nowhere are both possible
        return
    order = np.argsort(key, kind="stable")
    starts = np.flatnonzero(np.diff(key[order], prepend=-1))
    yield from sorted(np.split(points[order], starts[1:]), key=lambda group: int(group[0]))
