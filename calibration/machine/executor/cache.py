"""The cache that the draft looks an outcome up in, and the outcomes that a target finds.

Tokens are synthetic: numbers that only their place in the run gives a meaning. Which outcome the target finds comes
from the simulator's stream; whether it is a hit is found out by looking it up.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ssdsim.base.record import Record
from ssdsim.rounds.outcomes import OutcomeBlock

Outcome = NDArray[np.int64]  # shape (b, 2): accepted tokens and bonus token of each sequence
OUTCOME_VALUES = 2


class Guesses(Record):
    """The bonus tokens that the draft guesses: ``fan_out[k]`` of them after ``k`` accepted tokens (K+1 fan-outs).

    Where nothing is cached there are none, and every bonus token is one that was not guessed.
    """

    fan_out: tuple[int, ...] = ()

    def token(self, round_: int, sequence: int, accepted: int, index: int) -> int:
        """The guess of rank ``index``; the first that is not cached is a token that was not guessed."""
        place = (round_ << 20 | sequence) * max(1, len(self.fan_out)) + accepted
        return place * (max(self.fan_out, default=0) + 1) + index

    def outcomes(self, block: OutcomeBlock, miss: str | None) -> NDArray[np.int64]:
        """Outcomes that the target finds a round, shape ``(rounds, b, 2)``: on a hit some guess, else none of them.

        What leads to the state ``miss`` is no hit; None where no state says so.
        """
        accepted = block.tokens - 1
        hits = np.zeros(accepted.shape, dtype=np.bool_) if miss is None else ~block.leads_to(miss)
        outcomes = np.empty((block.rounds, block.batch, OUTCOME_VALUES), dtype=np.int64)
        for (sequence, round_), k in np.ndenumerate(accepted):
            cached = self.fan_out[k] if k < len(self.fan_out) else 0
            index = round_ % cached if hits[sequence, round_] and cached else cached
            outcomes[round_, sequence] = k, self.token(round_, sequence, int(k), index)
        return outcomes


@dataclass
class SpeculationCache:
    """The outcomes that the draft speculated for in a round: (sequence, accepted, bonus token) -> branch."""

    guesses: Guesses
    _branches: dict[tuple[int, int, int], int] = field(default_factory=dict)

    def fill(self, round_: int, sequences: int) -> None:
        """Forget the last round; a branch for every guess."""
        keys = (
            (sequence, accepted, self.guesses.token(round_, sequence, accepted, index))
            for sequence in range(sequences)
            for accepted, cached in enumerate(self.guesses.fan_out)
            for index in range(cached)
        )
        self._branches = {key: branch for branch, key in enumerate(keys)}

    def look_up(self, outcome: Outcome) -> list[int | None]:
        """The branch of each sequence, None for a miss."""
        return [self._branches.get((i, int(k), int(bonus))) for i, (k, bonus) in enumerate(outcome)]
