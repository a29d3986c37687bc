"""Intervals over requests: what is measured in a request is correlated, so requests are drawn, not rounds."""

from __future__ import annotations

import numpy as np

from ssdsim.base.checks import Floats
from ssdsim.base.intervals import student_quantile

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
        """Low and high of the 95 % interval along the first axis; NaN where no draw says anything, or of one request.

        The percentiles are those further out by which an interval for few requests covers as often as it says: of
        Student's t in place of the normal, times sqrt(n / (n - 1)). Source: Hesterberg, What teachers should know about
        the bootstrap, 2014, expanded percentile interval.
        """
        from scipy.special import ndtr

        if self.requests < 2:
            return np.full(draws.shape[1:], np.nan), np.full(draws.shape[1:], np.nan)
        reach = student_quantile(0.95, self.requests - 1) * np.sqrt(self.requests / (self.requests - 1))
        tail = 100.0 * float(ndtr(-reach))
        known = np.isfinite(draws).any(axis=0)
        low, high = np.nanpercentile(np.where(known, draws, 0.0), (tail, 100.0 - tail), axis=0)
        return np.where(known, low, np.nan), np.where(known, high, np.nan)
