"""A block of rounds as a recorder takes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from ssdsim.base.checks import Array, FloatOrArray
from ssdsim.base.record import Record, replace

if TYPE_CHECKING:
    from ssdsim.rounds.outcomes import OutcomeBlock


class RoundBlock(Record):
    """Outcomes of rounds, the parts of each round's time and the whole.

    Parts are those of :data:`ssdsim.rounds.estimate.PARTS`, each of shape ``(rounds,)`` or one number for all rounds;
    ``round_s`` has shape ``(rounds,)``.
    """

    outcomes: OutcomeBlock
    parts_s: Mapping[str, FloatOrArray]
    round_s: Array


def total(parts_s: Mapping[str, FloatOrArray], rounds: int) -> Array:
    """The sum of a round's parts, shape ``(rounds,)``."""
    return np.asarray(sum(parts_s.values()) * np.ones(rounds), dtype=float)


def with_rest(part: str, block: RoundBlock) -> RoundBlock:
    """Copy rounds where ``part`` is what the other parts leave of each."""
    others = sum(seconds for name, seconds in block.parts_s.items() if name != part)
    return replace(block, parts_s={**block.parts_s, part: block.round_s - others})
