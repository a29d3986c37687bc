"""Intervals: of simulated and measured means, of shares, and of tokens/s from draws of what is not known."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ssdsim.base.record import Record

Draws = NDArray[np.floating[Any]]


def centred_on(rate: Any, draws: ArrayLike) -> Draws:
    """``draws`` (along the last axis) by the factor that brings their median to ``rate``, which broadcasts with them.

    The error of a sum of timings is skewed; the prediction itself stays in the middle.
    """
    draws = np.asarray(draws, dtype=float)
    return np.asarray(rate * (draws / median(draws)[..., None]))


def median(draws: Draws) -> Draws:
    """The median along the last axis."""
    (middle,) = quantiles(draws, 0.5)
    return middle


def bounds_95(draws: Draws) -> tuple[Any, Any]:
    """The ends of a 95 % interval along the last axis."""
    low, high = quantiles(draws, 0.025, 0.975)
    return low, high


def quantiles(draws: Draws, *shares: float) -> Iterator[Draws]:
    """Quantiles as numpy has them along the last axis, but without numpy.ma, which takes 20 ms of a verb's start."""
    ordered = np.sort(draws, axis=-1)
    last = ordered.shape[-1] - 1
    unknown = np.isnan(ordered[..., last])  # nan is sorted behind all numbers
    for share in shares:
        place = share * last
        before = int(place)
        low, high = ordered[..., before], ordered[..., min(before + 1, last)]
        yield np.where(unknown, np.nan, low + (place - before) * (high - low))


class Interval(Record):
    """A 95 % interval."""

    low: float
    high: float

    @staticmethod
    def of(draws: Draws) -> Interval:
        low, high = bounds_95(draws)
        return Interval(float(low), float(high))


def low_and_high(interval: Interval | None) -> dict[str, float | None]:
    """The JSON form: null where there is no interval."""
    return {"low": None, "high": None} if interval is None else {"low": interval.low, "high": interval.high}


class Measured(Record):
    """A simulated or measured mean with the bounds of its confidence interval."""

    value: float
    low: float
    high: float

    def covers(self, truth: float) -> bool:
        # A quantity without variance has an interval of no width: rounding must not push the truth out of it.
        slack = 1e-9 * abs(truth)
        return self.low - slack <= truth <= self.high + slack

    @property
    def of_a_share(self) -> Measured:
        """The interval with its bounds clipped to [0, 1]."""
        return Measured(self.value, float(np.clip(self.low, 0.0, 1.0)), float(np.clip(self.high, 0.0, 1.0)))

    def as_mean(self, scale: float = 1.0) -> dict[str, float]:
        """The JSON form of a mean."""
        return {"mean": scale * self.value, "low": scale * self.low, "high": scale * self.high}


def binomial_interval(successes: float, trials: float, confidence: float) -> tuple[float, float]:
    """Clopper and Pearson's exact interval of a probability."""
    from scipy.special import betaincinv

    tail = 0.5 - confidence / 2.0
    failures = trials - successes
    low = float(betaincinv(successes, failures + 1.0, tail)) if successes else 0.0
    high = float(betaincinv(successes + 1.0, failures, 1.0 - tail)) if failures else 1.0
    return low, high


def wilson_interval(successes: float, trials: float, z: float = 1.96) -> tuple[float, float]:
    """Wilson's interval of a probability, at 95 % by default; of shares it takes fractions of successes too."""
    if trials <= 0.0:
        return 0.0, 1.0
    share, shrink = min(1.0, successes / trials), 1.0 + z * z / trials
    middle = (share + z * z / (2.0 * trials)) / shrink
    half = z / shrink * float(np.sqrt(share * (1.0 - share) / trials + z * z / (4.0 * trials * trials)))
    return max(0.0, middle - half), min(1.0, middle + half)


def student_quantile(confidence: float, degrees: int) -> float:
    """The two-sided quantile of Student's t."""
    from scipy.special import stdtrit  # here, because predict needs no scipy and must start fast

    return float(stdtrit(degrees, 0.5 + confidence / 2.0))
