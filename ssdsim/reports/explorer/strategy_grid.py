"""A strategy at the points of its axes: tokens/s, a round's parts, memory, and rates under draws of the errors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ssdsim import strategies
from ssdsim.answers.grid import Evaluator
from ssdsim.base.intervals import Draws, bounds_95
from ssdsim.base.record import Record, replace
from ssdsim.base.settings import TrackedSettings
from ssdsim.pricing.cost import TimingErrors
from ssdsim.pricing.occupancy import usable_bytes
from ssdsim.pricing.site import Site
from ssdsim.question.checked_options import PointsLike
from ssdsim.question.many import DrawnRates, ScenarioTable, across, estimate
from ssdsim.question.point_table import MemoizedStep, Result
from ssdsim.question.points import Points, Scenarios
from ssdsim.question.price import occupied
from ssdsim.question.question import Contestants
from ssdsim.question.scenario import Scenario
from ssdsim.reports.explorer.space import GridAxis, Space
from ssdsim.reports.explorer.table import Floats, GridTable
from ssdsim.rounds.round import PARTS, Estimate
from ssdsim.strategies.protocols.strategy import Strategy

Float = TypeVar("Float", bound=np.floating[Any])


class PricedPoints(Record):
    """A strategy at points: its ``scenarios`` (None if it is possible nowhere), and their ``number`` by point.

    The number is -1 where the strategy is not possible; ``why_not`` says why.
    """

    why_not: Sequence[str | None]
    scenarios: Scenarios | None
    number: NDArray[np.intp]

    @classmethod
    def of(cls, name: str, points: PointsLike, evaluator: Evaluator) -> PricedPoints:
        """The strategy ``name`` at points that ask only for it."""
        found = evaluator.fastest(points)
        scenarios = found.side_by_side(name)
        number = np.full(len(found.errors), -1, dtype=np.intp)
        if scenarios is not None:
            number[scenarios.rows] = np.arange(len(scenarios))
        return cls(found.errors, scenarios, number)

    def __len__(self) -> int:
        return len(self.number)

    def select(self, points: NDArray[np.intp]) -> PricedPoints:
        """Some of the points."""
        return PricedPoints([self.why_not[each] for each in points.tolist()], self.scenarios, self.number[points])

    def scenario(self, point: int) -> Scenario:
        """The scenario at a possible point."""
        assert self.scenarios is not None
        return self.scenarios[int(self.number[point])]

    def together(self, points: NDArray[np.intp]) -> ScenarioTable:
        """The scenarios at possible points, as a table."""
        assert self.scenarios is not None
        return self.scenarios.side_by_side.select(self.number[points])

    @cached_property
    def possible(self) -> NDArray[np.intp]:
        """The possible points."""
        return np.flatnonzero(self.number >= 0)

    @cached_property
    def side_by_side(self) -> ScenarioTable | None:
        """The scenarios at all possible points, as a table; None if there is none."""
        if self.scenarios is None or not len(self.possible):
            return None
        return self.together(self.possible)

    def spread(self, values: NDArray[Float]) -> NDArray[Float]:
        """Values at possible points (the first axis) spread over all points; NaN elsewhere."""
        if len(self.possible) == len(self):
            return values
        found = np.full((len(self), *values.shape[1:]), np.nan, dtype=values.dtype)
        found[self.possible] = values
        return found


COLUMNS = ("log_rate", "gpus", "tokens_per_round", *PARTS)


class RateTable(Record):
    """A strategy's ``table`` of :data:`COLUMNS`, and why it is not possible at some points.

    ``refused`` has the table's axes, of length 1 if they are interpolated. It holds the number of one of ``reasons``,
    or -1.
    """

    table: GridTable
    refused: NDArray[np.int64]
    reasons: tuple[str, ...]

    @classmethod
    def joined(cls, parts: Sequence[RateTable], along: str) -> RateTable:
        """The whole of parts, which hold the stops of one axis in order."""
        table = GridTable.joined([part.table for part in parts], along)
        if along not in parts[0].table.names:
            return replace(parts[0], table=table)
        reasons = list(dict.fromkeys(reason for part in parts for reason in part.reasons))
        refused = [np.array([*map(reasons.index, part.reasons), -1])[part.refused] for part in parts]
        at = parts[0].table.names.index(along)
        return cls(table, np.concatenate(refused, axis=at), tuple(reasons))


def rate_table(axes: Sequence[GridAxis], at: PricedPoints) -> RateTable:
    """Rates of a strategy at every point of ``axes``, the last axis fastest."""
    rows = at.side_by_side
    columns = np.empty((0, len(COLUMNS))) if rows is None else _columns(estimate(rows), len(rows))
    table = GridTable.of(axes, COLUMNS, at.spread(columns))
    reasons = list(dict.fromkeys(each for each in at.why_not if each is not None))
    number = {reason: each for each, reason in enumerate(reasons)}
    refused = np.array([-1 if each is None else number[each] for each in at.why_not])
    first = tuple(slice(0, 1) if axis.continuous else slice(None) for axis in axes)
    return RateTable(table, refused.reshape(table.values.shape[:-1])[first], tuple(reasons))


def _columns(found: Estimate, count: int) -> Any:
    """A row per scenario."""
    columns = [
        np.log(found.tokens_per_second),
        found.gpus,
        found.tokens_per_round,
        *(found.breakdown_s[part] for part in PARTS),
    ]
    return np.stack([np.broadcast_to(np.asarray(each, dtype=float), count) for each in columns], axis=-1)


MEMORY = ("share",)


def memory_table(space: Space, name: str) -> GridTable | None:
    """The share of usable memory that a strategy takes of its fullest device; None without hardware."""
    if space.unit_free:
        return None
    axes = [each for each in space.read[name] if not space.axis(each).continuous]
    points = Points(space.grid(name, axes))
    found = points.each(MemoizedStep(partial(_share, strategies.ALL.named(name))))
    shares = np.full((len(points.errors), 1), np.nan)
    shares[points.table.rows, 0] = found.map(lambda each: each.value if isinstance(each, Result) else np.nan).of_each()
    return GridTable.of([space.axis(each) for each in axes], MEMORY, shares)


def _share(strategy: Strategy, settings: TrackedSettings, contestants: Contestants, site: Site) -> float:
    """The share at one point; raises :class:`InputError` if there are not even enough devices."""
    chosen = next(iter(strategy.alternatives(settings)))
    found = occupied(chosen, strategy, site, contestants.drafter)
    return max(each.needs_bytes(int(settings["b"])) / usable_bytes(each.profile) for each in found)


_AT_ONCE = 64  # points of draws: 256 kB a column, which the allocator keeps instead of handing it back each time


class ErrorDraws:
    """Rates under draws of the errors; drawn steps that come again are remembered."""

    def __init__(self, draws: int, seed: int) -> None:
        self.errors = TimingErrors(draws, seed)
        self._rates = DrawnRates(self.errors)

    def joint(self, rows: ScenarioTable) -> Draws:
        """Tokens/s per row and draw, in single precision: half the time to sort, and 1e-7 off."""
        return np.concatenate([self._rates(part).astype(np.float32) for part in _parts(rows)])

    def across(self, rows: ScenarioTable) -> Floats:
        """Tokens/s per row over the ranges of its token inputs."""
        return np.concatenate([across(part, self.errors) for part in _parts(rows)])


def chunks(count: int) -> Iterator[slice]:
    """Slices of ``count`` points, few enough at once for their draws."""
    return (slice(start, min(start + _AT_ONCE, count)) for start in range(0, count, _AT_ONCE))


def _parts(rows: ScenarioTable) -> Iterator[ScenarioTable]:
    return (rows.select(np.arange(chunk.start, chunk.stop)) for chunk in chunks(len(rows)))


class StrategyGrid(Record):
    """A strategy ``at`` the points of its ``axes``: its rates, its GPUs, and its rates under draws of the errors.

    ``joint`` are the draws, None if nothing is uncertain. ``open`` marks points with token inputs in ranges. ``across``
    are the rates over these ranges there and the one rate elsewhere, None if no point is open. ``doubt`` numbers the
    uncertain token inputs: points of one number have the same ranges, or the same tokens of a measured pair.
    """

    axes: tuple[GridAxis, ...]
    at: PricedPoints
    rate: Floats
    gpus: Floats
    doubt: NDArray[np.intp]
    open: NDArray[np.bool_]
    joint: Draws | None
    across: Floats | None

    @classmethod
    def of(cls, axes: Sequence[GridAxis], at: PricedPoints, errors: ErrorDraws | None) -> StrategyGrid:
        """The strategy's grid; without ``errors``, nothing is uncertain."""
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

    def rows(self, axes: Sequence[GridAxis]) -> NDArray[np.int64]:
        """The number of its own point at every point of ``axes``, the last axis fastest."""
        shape = [len(axis.values) for axis in axes]
        found = np.zeros(shape, dtype=np.int64)
        mine = [axis.name for axis in self.axes]
        for name in mine:
            at = [axis.name for axis in axes].index(name)
            places = np.arange(shape[at]).reshape([-1 if number == at else 1 for number in range(len(shape))])
            found = found * shape[at] + places
        return np.broadcast_to(found, shape).reshape(-1)

    def ends(self, rows: NDArray[np.int64]) -> tuple[Floats, Floats]:
        """Ends of tokens/s relative to the rate, as logarithms; NaN if nothing is uncertain."""
        if self.joint is None:
            return np.full(len(rows), np.nan), np.full(len(rows), np.nan)
        low, high = bounds_95(self.joint)
        return np.log(low / self.rate)[rows], np.log(high / self.rate)[rows]

    def over_ranges(self, rows: NDArray[np.int64]) -> Floats:
        """Rates over the ranges of token inputs; a single one if no point is open."""
        return self.rate[rows, None] if self.across is None else self.across[rows]


def _across(at: PricedPoints, rate: Floats, points: NDArray[np.intp], errors: ErrorDraws) -> Floats:
    rows = at.select(points).side_by_side
    assert rows is not None  # open are only those possible
    looked = errors.across(rows)
    found = np.repeat(rate[:, None], looked.shape[1], axis=1)
    found[points] = looked
    return found
