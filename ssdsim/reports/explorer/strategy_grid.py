"""A strategy at the points of its axes: tokens/s, a round's parts, memory, and the errors of its tokens/s."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ssdsim import strategies
from ssdsim.answers.grid import Evaluator
from ssdsim.base.intervals import Draws
from ssdsim.base.record import Record, replace
from ssdsim.base.settings import TrackedSettings
from ssdsim.pricing.cost import TimingErrors
from ssdsim.pricing.occupancy import usable_bytes
from ssdsim.pricing.site import Site
from ssdsim.question.checked_options import PointsLike
from ssdsim.question.many import DrawnRates, ScenarioTable, estimate
from ssdsim.question.point_table import MemoizedStep, Result
from ssdsim.question.points import Points, Scenarios
from ssdsim.question.price import occupied
from ssdsim.question.question import Contestants
from ssdsim.question.scenario import Scenario
from ssdsim.reports.explorer.doubts import Basis
from ssdsim.reports.explorer.space import GridAxis, Space
from ssdsim.reports.explorer.table import GridTable
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

    def off(self, rows: ScenarioTable) -> Iterator[Draws]:
        """How far off the tokens/s of some rows after others are in each draw, in logarithms."""
        for part in _parts(rows):
            rate = np.broadcast_to(estimate(part).tokens_per_second, len(part))
            yield np.log(self._rates(part).astype(np.float32) / rate[:, None].astype(np.float32))


def _parts(rows: ScenarioTable) -> Iterator[ScenarioTable]:
    """Rows, few enough at once for their draws."""
    starts = range(0, len(rows), _AT_ONCE)
    return (rows.select(np.arange(start, min(start + _AT_ONCE, len(rows)))) for start in starts)


def error_table(axes: Sequence[GridAxis], at: PricedPoints, basis: Basis, errors: ErrorDraws | None) -> GridTable:
    """The errors of a strategy at every point of ``axes``, as numbers on the basis."""
    rows, columns = at.side_by_side, tuple(f"error {number}" for number in range(len(basis.vectors)))
    found = np.zeros((len(at.possible), len(columns)))
    if rows is not None and errors is not None and columns:
        found = np.concatenate([basis.numbers(off) for off in errors.off(rows)])
    return GridTable.of(axes, columns, at.spread(found))
