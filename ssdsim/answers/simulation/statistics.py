"""Means with honest intervals from correlated rounds, in constant memory."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ssdsim.base.checks import Array
from ssdsim.base.intervals import Measured, binomial_interval, student_quantile

_MOST_BATCHES = 128  # collapsed in pairs to half when full: between 64 and 127 degrees of freedom
_FEW = 50  # below so many, an event's count is not yet normal
_BIN = 1e-3  # relative width of a histogram's bins
_SPREAD = 4  # bins a value, up to which counting them all is faster than sorting


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
        if min(successes, trials - successes) >= _FEW:
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
    """The keys in their order, perhaps with others between them, and the place of each."""
    least, most = int(keys.min()), int(keys.max())
    if most - least <= _SPREAD * keys.size:
        return range(least, most + 1), keys - least
    unique, places = np.unique(keys, return_inverse=True)
    return unique.tolist(), places
