"""Statistics over requests: intervals by resampling them, and how their acceptance rates differ (a Beta-binomial)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ssdsim.base.checks import Array, Floats
from ssdsim.base.intervals import student_quantile
from ssdsim.base.record import Record
from ssdsim.tokens.pair_file import Independence, RequestSpread

DRAWS = 1000


class Resampled:
    """``draws`` resamplings of R requests with replacement: how often each was drawn, the same for every quantity."""

    def __init__(self, requests: int, seed: int, draws: int = DRAWS) -> None:
        self.requests = requests
        rng = np.random.default_rng(seed)
        self.weights: Floats = rng.multinomial(requests, np.full(requests, 1.0 / requests), size=draws).astype(float)

    def sums(self, per_request: Floats) -> Floats:
        """Sums over the drawn requests of ``(R, ...)``, shape ``(draws, ...)``."""
        return np.asarray(np.tensordot(self.weights, per_request, axes=1))

    def ratio(self, numerator: Floats, denominator: Floats) -> Floats:
        """Quotient of two sums, shape ``(draws, ...)``; NaN where nothing was counted."""
        above, below = self.sums(numerator), self.sums(denominator)
        above, below = np.broadcast_arrays(above, below.reshape(below.shape + (1,) * (above.ndim - below.ndim)))
        return np.asarray(np.divide(above, below, out=np.full(above.shape, np.nan), where=below > 0))

    def bounds(self, draws: Floats) -> tuple[Floats, Floats]:
        """Bounds of the 95 % interval along the first axis; NaN where no draw is finite, and for a single request.

        For few requests the percentiles lie further out, so that the interval still covers 95 %: Student's t in place
        of the normal, times sqrt(n / (n - 1)). Source: Hesterberg, What teachers should know about the bootstrap, 2014,
        expanded percentile interval.
        """
        from scipy.special import ndtr

        if self.requests < 2:
            return np.full(draws.shape[1:], np.nan), np.full(draws.shape[1:], np.nan)
        reach = student_quantile(0.95, self.requests - 1) * np.sqrt(self.requests / (self.requests - 1))
        tail = 100.0 * float(ndtr(-reach))
        known = np.isfinite(draws).any(axis=0)
        low, high = np.nanpercentile(np.where(known, draws, 0.0), (tail, 100.0 - tail), axis=0)
        return np.where(known, low, np.nan), np.where(known, high, np.nan)


Whole = NDArray[np.int64]
Counted = Array

_LEVEL = 0.05
_LARGEST = 1e5
_ENOUGH = 5.0  # expected rounds in a bin of the chi-square test


class Course(Record):
    """The rounds of one answer, one after the other: accepted tokens, and the guesses needed to hold the bonus."""

    accepted: Whole
    needed: Whole

    def __len__(self) -> int:
        return len(self.accepted)


def fit_requests_of_courses(courses: Sequence[Course], k: int) -> RequestSpread:
    """Fit the spread of requests to drawn rounds.

    Rounds are drawn, not averaged: averages vary less than an engine's requests do, and would look more alike.
    """
    drawn = [course.accepted for course in courses if len(course) > 0]
    looked_at = [np.minimum(accepted + 1, k).sum() for accepted in drawn]  # the first rejected one ends a round
    return fit_requests([accepted.sum() for accepted in drawn], looked_at)


def fit_requests(accepted_tokens: ArrayLike, judged_tokens: ArrayLike) -> RequestSpread:
    """Fit the spread of acceptance rates over requests to each one's accepted and judged tokens.

    The concentration has a 95 % profile interval. Requests are ``alike`` where one rate fits as well (likelihood ratio,
    p > 0.05): the concentration is then None.
    """
    from scipy.optimize import minimize
    from scipy.special import betaln, chdtrc

    accepted, looked_at = (np.asarray(each, dtype=float) for each in (accepted_tokens, judged_tokens))
    accepted, looked_at = accepted[looked_at > 0], looked_at[looked_at > 0]
    if not len(accepted):
        return RequestSpread()
    mean = float(accepted.sum() / looked_at.sum())
    rates = tuple((accepted / looked_at).tolist())
    if mean in (0.0, 1.0) or len(accepted) < 3:
        return RequestSpread(beta_mean=mean, alike=True, rates=rates)

    def log_likelihood(m: float, size: float) -> float:
        a, b = m * size, (1.0 - m) * size
        return float((betaln(accepted + a, looked_at - accepted + b) - betaln(a, b)).sum())

    def worst(at: Whole) -> float:
        return -log_likelihood(1.0 / (1.0 + np.exp(-at[0])), float(np.exp(at[1])))

    start = np.log(mean / (1.0 - mean)), np.log(_moments(accepted, looked_at, mean))
    limits = ((-15.0, 15.0), (np.log(1e-2), np.log(_LARGEST)))
    best = minimize(worst, start, method="L-BFGS-B", bounds=limits)
    m, size = 1.0 / (1.0 + np.exp(-best.x[0])), float(np.exp(best.x[1]))
    one_rate = float((accepted * np.log(mean) + (looked_at - accepted) * np.log1p(-mean)).sum())
    # at the edge of the parameter half of the chi-square's mass is at 0
    p = 0.5 * float(chdtrc(1, max(0.0, 2.0 * (-best.fun - one_rate))))
    low, high = _profile(lambda value: log_likelihood(m, value), size, -best.fun)
    return RequestSpread(
        beta_mean=float(m),
        concentration=None if p > _LEVEL else size,
        low=low,
        high=high,
        alike=p > _LEVEL,
        rates=rates,
    )


def _moments(accepted: Counted, looked_at: Counted, mean: float) -> float:
    """Starting value of the concentration: the scatter of rates beyond the binomial's."""
    scatter = float(np.average((accepted / looked_at - mean) ** 2, weights=looked_at))
    binomial = mean * (1.0 - mean) * float(len(looked_at) / looked_at.sum())
    return float(np.clip(mean * (1.0 - mean) / max(scatter - binomial, 1e-6) - 1.0, 0.1, 1e4))


def _profile(log_likelihood: Callable[[float], float], best: float, highest: float) -> tuple[float, float | None]:
    """The ends at which the likelihood has fallen by 1.92; None where it does not before the largest concentration."""
    sizes = np.exp(np.linspace(np.log(1e-2), np.log(_LARGEST), 400))
    inside = [size for size in sizes if log_likelihood(size) >= highest - 1.92]
    inside.append(best)
    return float(min(inside)), (None if max(inside) >= 0.95 * _LARGEST else float(max(inside)))


def one_rate(histogram: Sequence[int] | Whole, alpha: float) -> Independence | None:
    """Chi-square test of one acceptance rate: ``histogram[j]`` rounds accepted j tokens. None with too few bins.

    ``alpha`` is the likeliest rate: accepted tokens over judged ones. Neighbouring lengths share a bin until 5 rounds
    are expected in it.
    """
    from scipy.special import chdtrc

    from ssdsim.tokens.acceptance import accepted_length_pmf, expected_tokens

    counts = np.asarray(histogram, dtype=float)
    k = counts.size - 1
    expected = counts.sum() * accepted_length_pmf(alpha, k)
    bins: list[list[float]] = [[0.0, 0.0]]
    for seen, due in zip(counts, expected, strict=True):
        if bins[-1][1] >= _ENOUGH:
            bins.append([0.0, 0.0])
        bins[-1][0] += seen
        bins[-1][1] += due
    if len(bins) > 1 and bins[-1][1] < _ENOUGH:
        last = bins.pop()
        bins[-1] = [a + b for a, b in zip(bins[-1], last, strict=True)]
    if len(bins) < 3:
        return None
    value = sum((each - due) ** 2 / due for each, due in bins)
    p = float(chdtrc(len(bins) - 2, value))
    return Independence(chi2=value, p=p, length=float(expected_tokens(alpha, k)))
