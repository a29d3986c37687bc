"""When a run ends: after a number of rounds, or when the mean is known well enough."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ssdsim.engine.recorder import Recorder

MOST_ROUNDS = 10_000_000
_LEAST_BLOCKS = 32  # before an interval is trusted to stop a run


@dataclass(frozen=True)
class Stopping:
    """Stop after ``rounds``, or as soon as the 95 % interval of tokens/s is within ``precision`` of it.

    Blocks have equal lengths of at most ``largest_block`` rounds (the last one takes what is left). Where they begin
    with a shorter ``first_block``, they grow as the run's batches do.
    """

    rounds: int | None
    precision: float | None = None
    largest_block: int = 1024
    batches: int = 64  # blocks that a given number of rounds is cut into: enough for batch means
    first_block: int | None = None

    def blocks(self, recorder: Recorder) -> Iterator[int]:
        limit = self.rounds or MOST_ROUNDS
        size = max(1, min(self.first_block or self.largest_block, limit // self.batches))
        done = 0
        while done < limit:
            together = min(recorder.means.chunks_a_batch, self.largest_block // size)
            step = min(size * together, limit - done)
            yield step
            done += step
            if self.precision is not None and done >= _LEAST_BLOCKS * size and self._is_precise(recorder):
                return

    def _is_precise(self, recorder: Recorder) -> bool:
        rate = recorder.tokens_per_second()
        return (rate.high - rate.low) / 2.0 <= (self.precision or 0.0) * rate.value
