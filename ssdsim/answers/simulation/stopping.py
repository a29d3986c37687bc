"""Rules that end a run: after a number of rounds, or when the mean is known well enough."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from ssdsim.answers.simulation.recorder import Recorder
from ssdsim.base.progress import Progress
from ssdsim.base.record import Record

MOST_ROUNDS = 10_000_000
_LEAST_BLOCKS = 32  # before an interval is trusted to stop a run


class Stopping(Record):
    """Stop after ``rounds``, or as soon as the 95 % interval of tokens/s is within ``precision`` of it.

    Blocks have equal lengths of at most ``largest_block`` rounds (the last one takes what is left). Where they begin
    with a shorter ``first_block``, they grow as the run's batches do. ``most`` rounds end a run that is not precise.
    """

    rounds: int | None
    precision: float | None = None
    largest_block: int = 1024
    batches: int = 64  # blocks that a given number of rounds is cut into: enough for batch means
    first_block: int | None = None
    most: int = MOST_ROUNDS
    progress: Progress | None = None

    def blocks(self, recorder: Recorder) -> Iterator[int]:
        limit = self.rounds or self.most
        size = max(1, min(self.first_block or self.largest_block, limit // self.batches))
        done = 0
        while done < limit:
            together = min(recorder.means.chunks_a_batch, self.largest_block // size)
            step = min(size * together, limit - done)
            yield step
            done += step
            left = limit - done
            if self.precision is not None and done >= _LEAST_BLOCKS * size:
                left = min(left, self._more(done, recorder, self.precision))
            if self.progress is not None:
                self.progress(done, done + left)
            if left == 0:
                return

    def _more(self, done: int, recorder: Recorder, precision: float) -> int:
        """About how many rounds more would make the mean as precise; 0 where it is."""
        rate = recorder.tokens_per_second()
        half, asked = (rate.high - rate.low) / 2.0, precision * rate.value
        if half <= asked:
            return 0
        return max(1, int(min(done * ((half / asked) ** 2 - 1.0), MOST_ROUNDS))) if asked > 0.0 else MOST_ROUNDS


class InTurn:
    """The progress of ``count`` runs, one after the other, as that of one whole. It never goes back, though how many
    rounds a run takes may be a guess and differs from run to run.
    """

    def __init__(self, progress: Progress | None, count: int) -> None:
        self._progress, self._count = progress, count
        self._share, self._total = 0.0, 0

    def of(self, at: int) -> Progress | None:
        """Progress of run number ``at``, from 0."""
        return None if self._progress is None else partial(self._hear, self._progress, at)

    def _hear(self, progress: Progress, at: int, done: int, total: int) -> None:
        self._share = max(self._share, (at + done / max(done, total, 1)) / self._count)
        self._total = max(self._total, self._count * total)
        progress(round(self._share * self._total), self._total)
