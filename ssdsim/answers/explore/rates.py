"""What a strategy does at every point of its axes: tokens/s, where a round's time goes, hits, GPUs and memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ssdsim import strategies
from ssdsim.answers.explore.space import Space
from ssdsim.answers.explore.table import Table
from ssdsim.answers.grid import Evaluator
from ssdsim.base.errors import InputError
from ssdsim.pricing.memory import usable_bytes
from ssdsim.rounds.estimate import PARTS, Estimate
from ssdsim.scenario.asked import Asked
from ssdsim.scenario.many import SideBySide, estimate
from ssdsim.scenario.price import occupied
from ssdsim.scenario.scenario import Scenario

COLUMNS = ("log_rate", "gpus", "tokens_per_round", *PARTS, "p_hit", "p_all_hit")


@dataclass(frozen=True)
class Rates:
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


def rates(space: Space, name: str, evaluator: Evaluator) -> Rates:
    """A strategy at every point of the axes that it reads."""
    axes = [space.axis(each) for each in space.read[name]]
    points = [space.alone(name, at) for at in space.points(space.read[name])]
    found = evaluator.fastest(points).found
    rows = np.full((len(points), len(COLUMNS)), np.nan)
    at, possible = those_possible(found)
    if possible:
        rows[at] = _columns(estimate(SideBySide.of(possible)), len(possible))
    table = Table.of(axes, COLUMNS, rows)
    reasons = list(dict.fromkeys(each for each in found if isinstance(each, str)))
    refused = np.array([reasons.index(each) if isinstance(each, str) else -1 for each in found])
    first = tuple(slice(0, 1) if axis.continuous else slice(None) for axis in axes)
    return Rates(table, refused.reshape(table.values.shape[:-1])[first], tuple(reasons))


def scenarios(
    space: Space, name: str, axes: Sequence[str], evaluator: Evaluator, measured: bool
) -> list[Scenario | str]:
    """A strategy's scenario at every point of ``axes``, or why it is not possible there."""
    return list(evaluator.fastest([space.alone(name, at, measured) for at in space.points(axes)]).found)


def those_possible(found: Sequence[Scenario | str]) -> tuple[list[int], list[Scenario]]:
    """Numbers of the points that are possible, and what is there."""
    numbered = [(number, each) for number, each in enumerate(found) if not isinstance(each, str)]
    return [number for number, _ in numbered], [each for _, each in numbered]


def _columns(found: Estimate, count: int) -> Any:
    """A row a scenario."""
    columns = [
        np.log(found.tokens_per_second),
        found.gpus,
        found.tokens_per_round,
        *(found.breakdown_s[part] for part in PARTS),
        np.nan if found.p_hit is None else found.p_hit,
        np.nan if found.p_all_hit is None else found.p_all_hit,
    ]
    return np.stack([np.broadcast_to(np.asarray(each, dtype=float), count) for each in columns], axis=-1)


MEMORY = ("share",)


def memory(space: Space, name: str) -> Table | None:
    """Of the usable memory of its fullest device, the share that a strategy takes; None without hardware."""
    if space.unit_free:
        return None
    axes = [each for each in space.read[name] if not space.axis(each).continuous]
    rows = [[_share(space.alone(name, at), name)] for at in space.points(axes)]
    return Table.of([space.axis(each) for each in axes], MEMORY, np.array(rows))


def _share(options: Mapping[str, Any], name: str) -> float:
    """NaN where it has not even devices."""
    strategy = strategies.ALL.named(name)
    try:
        asked = Asked.of(options)
        assert asked.site is not None
        settings = next(iter(strategy.alternatives(asked.settings.copy()))).copy()
        found = occupied(settings, strategy, asked.site, asked.drafter)
    except InputError:
        return float("nan")
    return max(each.needs_bytes(int(settings["b"])) / usable_bytes(each.profile) for each in found)
