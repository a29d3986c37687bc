"""Rates of a strategy at every point of its axes: tokens/s, where a round's time goes, GPUs and memory."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ssdsim import strategies
from ssdsim.base.record import Record, replace
from ssdsim.base.settings import Choosing, TrackedSettings
from ssdsim.pricing.occupancy import usable_bytes
from ssdsim.pricing.site import Site
from ssdsim.question.given import possible
from ssdsim.question.many import estimate
from ssdsim.question.points import Points, Sides
from ssdsim.question.price import occupied
from ssdsim.question.remembered import Made, Remembered
from ssdsim.reports.explorer.at_points import AtPoints
from ssdsim.reports.explorer.space import Axis, Space
from ssdsim.reports.explorer.table import Table
from ssdsim.rounds.estimate import PARTS, Estimate
from ssdsim.strategies.protocols.strategy import Strategy

COLUMNS = ("log_rate", "gpus", "tokens_per_round", *PARTS)


class Rates(Record):
    """A strategy's ``table`` of :data:`COLUMNS`.

    ``refused`` has an axis for each of the table's, of length 1 where it is interpolated: -1, or the number of the one
    of ``reasons`` why the strategy is not possible there.
    """

    table: Table
    refused: NDArray[np.int64]
    reasons: tuple[str, ...]

    @classmethod
    def joined(cls, parts: Sequence[Rates], along: str) -> Rates:
        """Parts that hold stops of one axis, in the order of its stops."""
        table = Table.joined([part.table for part in parts], along)
        if along not in parts[0].table.names:
            return replace(parts[0], table=table)
        reasons = list(dict.fromkeys(reason for part in parts for reason in part.reasons))
        refused = [np.array([*map(reasons.index, part.reasons), -1])[part.refused] for part in parts]
        at = parts[0].table.names.index(along)
        return cls(table, np.concatenate(refused, axis=at), tuple(reasons))


def rates(axes: Sequence[Axis], at: AtPoints) -> Rates:
    """A strategy at every point of ``axes``, the last of them fastest."""
    rows = at.side_by_side
    columns = np.empty((0, len(COLUMNS))) if rows is None else _columns(estimate(rows), len(rows))
    table = Table.of(axes, COLUMNS, at.spread(columns))
    reasons = list(dict.fromkeys(each for each in at.why_not if each is not None))
    number = {reason: each for each, reason in enumerate(reasons)}
    refused = np.array([-1 if each is None else number[each] for each in at.why_not])
    first = tuple(slice(0, 1) if axis.continuous else slice(None) for axis in axes)
    return Rates(table, refused.reshape(table.values.shape[:-1])[first], tuple(reasons))


def _columns(found: Estimate, count: int) -> Any:
    """A row a scenario."""
    columns = [
        np.log(found.tokens_per_second),
        found.gpus,
        found.tokens_per_round,
        *(found.breakdown_s[part] for part in PARTS),
    ]
    return np.stack([np.broadcast_to(np.asarray(each, dtype=float), count) for each in columns], axis=-1)


MEMORY = ("share",)


def memory(space: Space, name: str) -> Table | None:
    """Share of the usable memory of its fullest device that a strategy takes; None without hardware."""
    if space.unit_free:
        return None
    axes = [each for each in space.read[name] if not space.axis(each).continuous]
    points = Points(space.grid(name, axes))
    rows = possible(points.errors)
    found = points.found(Remembered(partial(_share, strategies.ALL.named(name))), rows)
    shares = np.full((points.columns.size, 1), np.nan)
    shares[rows, 0] = np.array([each.result if isinstance(each, Made) else np.nan for each in found.made])[found.of]
    return Table.of([space.axis(each) for each in axes], MEMORY, shares)


def _share(strategy: Strategy, settings: TrackedSettings, sides: Sides, site: Site) -> float:
    """Raises :class:`InputError` where it has not even devices."""
    chosen = next(iter(strategy.alternatives(Choosing(settings))))
    found = occupied(chosen, strategy, site, sides.drafter)
    return max(each.needs_bytes(int(settings["b"])) / usable_bytes(each.profile) for each in found)
