"""A block of rounds as a recorder takes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class RoundBlock:
    """Tokens and misses over the batch, the parts of each round's time and the whole, all of shape ``(rounds,)``.

    ``misses`` is None where nothing is cached. Parts are those of :data:`ssdsim.rounds.estimate.PARTS`; one that is
    absent takes no time.
    """

    tokens: NDArray[np.uint32]
    misses: NDArray[np.uint32] | None
    parts_s: Mapping[str, Array]
    round_s: Array

    @classmethod
    def without_speculation(cls, batch: int, rounds: int, parts_s: Mapping[str, Array]) -> RoundBlock:
        """Rounds in which every sequence gets one token."""
        return cls(np.full(rounds, batch, dtype=np.uint32), None, parts_s, total(parts_s))

    def timed(self, round_s: Array) -> RoundBlock:
        """The same rounds with the durations that a clock measured."""
        return replace(self, round_s=round_s)


def total(parts_s: Mapping[str, Array]) -> Array:
    """The sum of a round's parts, shape ``(rounds,)``."""
    return np.asarray(sum(parts_s.values()), dtype=float)
