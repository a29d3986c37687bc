"""The record of a run's rounds, block by block: sums for the means, histograms for the quantiles."""

from __future__ import annotations

import numpy as np

from ssdsim.answers.simulation.statistics import BatchMeans, Histogram
from ssdsim.base.checks import FloatOrArray
from ssdsim.base.intervals import Measured
from ssdsim.rounds.block import RoundBlock
from ssdsim.rounds.estimate import PARTS

_COLUMNS = ("rounds", "sequence_rounds", "tokens", "seconds", "hits", "clean", "missed", "missed_seconds", *PARTS)


class Recorder:
    """Sums over every round of one strategy; memory does not grow with the rounds.

    ``miss`` is the state that an outcome which was not foreseen leads to; None where nothing is cached.
    """

    def __init__(self, batch: int, miss: str | None = None) -> None:
        self.batch = batch
        self._miss = miss
        self._chunk = 0
        self.means = BatchMeans(*_COLUMNS)
        self.round_s = Histogram()

    def add(self, block: RoundBlock) -> None:
        """Add a block: as long as the first, or as several of it; a last, shorter one is not a batch of its own."""
        rounds = block.outcomes.rounds
        self._chunk = self._chunk or rounds
        self.round_s.add(block.round_s)
        misses = np.zeros(rounds, dtype=np.uint32) if self._miss is None else block.outcomes.count_to(self._miss)
        missed = misses > 0
        missed_rounds = int(np.count_nonzero(missed))
        self.means.add(
            max(1, rounds // self._chunk),
            rounds=rounds,
            sequence_rounds=rounds * self.batch,
            tokens=float(block.outcomes.total_tokens.sum(dtype=np.int64)),
            seconds=float(block.round_s.sum()),
            hits=float(rounds * self.batch - misses.sum(dtype=np.int64)),
            clean=float(rounds - missed_rounds),
            missed=float(missed_rounds),
            missed_seconds=float(np.sum(block.round_s * missed)),
            **{part: _over(rounds, seconds) for part, seconds in block.parts_s.items()},
        )

    def tokens_per_second(self, confidence: float = 0.95) -> Measured:
        return self.means.ratio("tokens", "seconds", confidence)


def _over(rounds: int, seconds: FloatOrArray) -> float:
    """The sum over rounds of a number a round, or of one for all."""
    return float(np.sum(seconds)) if np.ndim(seconds) else float(rounds * seconds)
