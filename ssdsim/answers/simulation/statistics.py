"""Statistics of a run's correlated rounds in constant memory, and the rules that end the run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ssdsim.base.checks import Array, FloatOrArray
from ssdsim.base.intervals import Measured, binomial_interval, student_quantile
from ssdsim.base.progress import Progress
from ssdsim.base.record import Record
from ssdsim.rounds.round import PARTS, RoundBlock

_MOST_BATCHES = 128  # collapsed in pairs to half when full: between 64 and 127 degrees of freedom
FEW = 50  # below so many, an event's count is not yet normal
_BIN = 1e-3  # relative width of a histogram's bins
_SPREAD = 4  # bins a value, up to which counting them all is faster than sorting
_LEAST_BLOCKS = 32  # before an interval is trusted to stop a run
MOST_ROUNDS = 10_000_000


class BatchMeans:
    """Ratios of sums by the method of batch means.

    Rounds arrive in chunks of equal length; neighbouring chunks are merged in pairs whenever there are too many, so
    a batch grows with the run, outlives the rounds' correlation, and memory stays constant.
    """

    def __init__(self, *columns: str) -> None:
        self._index = {name: i for i, name in enumerate(columns)}
        self._batches: list[Array] = []
        self._per_batch = 1
        self._open = np.zeros(len(columns))
        self._chunks_open = 0

    @property
    def chunks_a_batch(self) -> int:
        """A power of two; so many chunks may be added at once."""
        return self._per_batch

    def add(self, chunks: int = 1, **sums: float) -> None:
        """Add the sums of a chunk, or of some together, one for each column."""
        self._open += [sums[name] for name in self._index]
        self._chunks_open += chunks
        if self._chunks_open < self._per_batch:
            return
        self._batches.append(self._open)
        self._open, self._chunks_open = np.zeros_like(self._open), 0
        if len(self._batches) == _MOST_BATCHES:
            pairs = np.array(self._batches).reshape(-1, 2, self._open.size).sum(axis=1)
            self._batches, self._per_batch = list(pairs), 2 * self._per_batch

    def total(self, column: str) -> float:
        """The sum of a column over every chunk."""
        i = self._index[column]
        return float(sum(batch[i] for batch in self._batches) + self._open[i])

    def ratio(self, above: str, below: str, confidence: float = 0.95) -> Measured:
        """``sum(above) / sum(below)`` with a Student interval by the delta method.

        The interval rests on the full batches; it is infinite with fewer than two.
        """
        value = self.total(above) / self.total(below) if self.total(below) else float("nan")
        n = len(self._batches)
        if n < 2:
            return Measured(value, -np.inf, np.inf)
        x, y = (np.array([batch[self._index[c]] for batch in self._batches]) for c in (above, below))
        residual = x - value * y
        error = np.sqrt(residual @ residual / (n - 1) / n) / abs(y.mean())
        half = float(student_quantile(confidence, n - 1) * error)
        return Measured(value, value - half, value + half)

    def share(self, above: str, below: str, confidence: float = 0.95) -> Measured:
        """A ratio of counts; where successes or failures are few, the exact binomial interval if that is wider.

        Batch means know nothing of an event that never happened, and too little of a rare one.
        """
        by_batches = self.ratio(above, below, confidence)
        successes, trials = self.total(above), self.total(below)
        if min(successes, trials - successes) >= FEW:
            return by_batches.of_a_share
        low, high = binomial_interval(successes, trials, confidence)
        return Measured(by_batches.value, min(low, by_batches.low), max(high, by_batches.high)).of_a_share


class Histogram:
    """Weighted counts of positive values in bins of 0.1 %, with the mean of each bin, for quantiles."""

    def __init__(self) -> None:
        self._bins: dict[int, tuple[float, float]] = {}
        self.weight = 0.0

    def add(self, values: Array, weights: Array | None = None) -> None:
        if values.size == 0:
            return
        keys = np.floor(np.log(np.maximum(values, 1e-300)) / _BIN).astype(np.int64)
        known, places = _numbered(keys)
        counts = np.bincount(places, weights)
        sums = np.bincount(places, values if weights is None else weights * values)
        for place in np.flatnonzero(counts).tolist():
            before, before_total = self._bins.get(key := known[place], (0.0, 0.0))
            self._bins[key] = (before + float(counts[place]), before_total + float(sums[place]))
        self.weight += float(counts.sum())

    def quantile(self, q: float) -> float:
        """The value at or below which a share ``q`` of the weight lies (nan when empty)."""
        reached = 0.0
        for key in sorted(self._bins):
            count, total = self._bins[key]
            reached += count
            if reached >= q * self.weight * (1.0 - 1e-12):
                return float(total / count)
        return float("nan")


def _numbered(keys: NDArray[np.int64]) -> tuple[Sequence[int], NDArray[np.intp]]:
    """Sorted keys, perhaps with others between them, and each key's place among them."""
    least, most = int(keys.min()), int(keys.max())
    if most - least <= _SPREAD * keys.size:
        return range(least, most + 1), keys - least
    unique, places = np.unique(keys, return_inverse=True)
    return unique.tolist(), places


_COLUMNS = ("rounds", "sequence_rounds", "tokens", "seconds", "hits", "clean", "missed", "missed_seconds", *PARTS)


class Recorder:
    """Sums over every round of one strategy; memory does not grow with the rounds.

    ``miss`` is the state that a cache miss leads to; None where nothing is cached.
    """

    def __init__(self, batch: int, miss: str | None = None) -> None:
        self.batch = batch
        self._miss = miss
        self._chunk = 0
        self.means = BatchMeans(*_COLUMNS)
        self.round_s = Histogram()

    def add(self, block: RoundBlock) -> None:
        """Add a block: as long as the first block, or a multiple of it; a shorter last block is no batch of its own."""
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
    """The sum over rounds of an array, or of one number for all rounds."""
    return float(np.sum(seconds)) if np.ndim(seconds) else float(rounds * seconds)


class Stopping(Record):
    """The rule that ends a run: after ``rounds``, or when the 95 % interval of tokens/s is within ``precision`` of it.

    Blocks have equal lengths of at most ``largest_block`` rounds; the last one takes the rest. If the first is a
    shorter ``first_block``, blocks grow as the run's batches do. A run that is not precise ends after ``most`` rounds.
    Every block is of whole ``stretches``: rounds of one depend on each other, those of two do not.
    """

    rounds: int | None
    precision: float | None = None
    largest_block: int = 1024
    batches: int = 64  # blocks that a given number of rounds is cut into: enough for batch means
    first_block: int | None = None
    stretch: int = 1
    most: int = MOST_ROUNDS
    progress: Progress | None = None

    def blocks(self, recorder: Recorder) -> Iterator[int]:
        limit = self.rounds or self.most
        size = min(self.first_block or self.largest_block, limit // self.batches)
        size = self.stretch * max(1, size // self.stretch)
        done = 0
        while done < limit:
            together = max(1, min(recorder.means.chunks_a_batch, self.largest_block // size))
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
        """A guess of the rounds that are missing for that precision; 0 where it is reached."""
        rate = recorder.tokens_per_second()
        half, wanted = (rate.high - rate.low) / 2.0, precision * rate.value
        if half <= wanted:
            return 0
        times = min(half / wanted, MOST_ROUNDS) if wanted > 0.0 else MOST_ROUNDS
        return max(1, int(min(done * (times**2 - 1.0), MOST_ROUNDS)))


class InTurn:
    """The progress of ``count`` runs, one after the other, as one whole.

    It never goes back, although a run's number of rounds may be a guess and differs from run to run.
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
