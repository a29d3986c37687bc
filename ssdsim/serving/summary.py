"""Intervals of means and percentiles of requests that follow each other, and what of a run is only its start."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ssdsim.base.checks import Array
from ssdsim.base.intervals import Measured
from ssdsim.base.record import Record

_BATCHES = 20
_T = 2.093024  # the 95 % quantile of Student's t with 19 degrees of freedom, which takes longer to load than to read
_SORTED, _BINS = 20_000, 1000  # values that are sorted rather than counted, and bins to count them in
_FEW = 1000  # requests below which a p99 rests on fewer than ten of them


def warm_up(values: Array, group: int = 5) -> int:
    """Count how many of the first values are the start of a run: MSER-5 (White, 1997), at most half of them.

    The cut that leaves the mean of the rest, in groups of five, with the smallest standard error.
    """
    means = values[: values.size // group * group].reshape(-1, group).mean(axis=1)
    if means.size < 4:
        return 0
    rest = means.size - np.arange(means.size)
    tails = (np.cumsum(each[::-1])[::-1] for each in (means, means**2))
    sums, squares = tails
    errors = (squares - sums**2 / rest) / rest**2
    return int(np.argmin(errors[: means.size // 2 + 1])) * group


def mean(values: Array) -> Measured:
    """Mean with the interval of batch means, which are taken in the order of the values."""
    middle = float(values.mean())
    if values.size < 2 * _BATCHES:
        return Measured(middle, np.nan, np.nan)
    means = np.array([part.mean() for part in np.array_split(values, _BATCHES)])
    half = _T * float(means.std(ddof=1)) / np.sqrt(_BATCHES)
    return Measured(middle, middle - half, middle + half)


def percentile(values: Array, percent: float) -> Measured:
    """Percentile with the interval of order statistics.

    Neighbours are alike, so a share of values below the percentile varies more than that of independent ones: by how
    much, batches of values in their order tell.
    """
    share = percent / 100.0
    quantile = float(np.percentile(values, percent))
    if values.size < 2 * _BATCHES:
        return Measured(quantile, np.nan, np.nan)
    below = np.array([part.mean() for part in np.array_split((values <= quantile).astype(float), _BATCHES)])
    error = max(float(below.std(ddof=1)) / np.sqrt(_BATCHES), np.sqrt(share * (1.0 - share) / values.size))
    half = _T * error
    low, high = np.percentile(values, np.clip([100.0 * (share - half), 100.0 * (share + half)], 0.0, 100.0))
    return Measured(quantile, float(low), float(high))


class Summary(Record):
    """Mean and percentiles of one metric over requests; ``few`` where a p99 rests on too few of them."""

    mean: Measured
    percentiles: dict[int, Measured]
    count: int

    @property
    def few(self) -> bool:
        return self.count < _FEW


def summary(values: Array, percents: tuple[int, ...] = (50, 90, 99)) -> Summary | None:
    """Sum up the values that are defined; None of none."""
    values = values[np.isfinite(values)]
    if not values.size:
        return None
    return Summary(mean(values), {percent: percentile(values, percent) for percent in percents}, int(values.size))


def weighted_percentiles(values: Array, weights: Array, percents: Sequence[int]) -> dict[int, float]:
    """Percentiles of values that stand for ``weights`` each."""
    total = weights.sum()
    return {percent: _weighted(values, weights, percent / 100.0 * total) for percent in percents}


def _weighted(values: Array, weights: Array, wanted: float) -> float:
    """The least value up to which values weigh as much as ``wanted``: among many, it is narrowed down to few."""
    while values.size > _SORTED and np.ptp(values) > 2 * _BINS * np.spacing(np.abs(values).max()):  # room for bins
        in_bins, edges = np.histogram(values, _BINS, weights=weights)
        share = np.cumsum(in_bins)
        at = min(int(np.searchsorted(share, wanted)), _BINS - 1)
        inside = values >= edges[at]
        if at < _BINS - 1:
            inside &= values < edges[at + 1]
        wanted -= share[at - 1] if at else 0.0
        values, weights = values[inside], weights[inside]
    order = np.argsort(values)
    at = min(int(np.searchsorted(np.cumsum(weights[order]), wanted)), values.size - 1)  # sums round
    return float(values[order[at]])
