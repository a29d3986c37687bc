"""The law of how wide intervals are: one for all bundled cards, from rows that they had not seen."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.stats import norm

from calibration.runtimes.unseen import Unseen, independent
from calibration.timings.fit import significant
from ssdsim.base.checks import Array
from ssdsim.base.record import Record
from ssdsim.hardware.extrapolation import STEPS, ExtrapolationError
from ssdsim.hardware.runtime_card import Runtime

_Z = float(norm.ppf(0.975))
_PRICE = 40.0  # 2 / 5 %: of what lies outside an interval of 95 %

_STARTS = (0.1, 0.2)
_MOST = 1.0
_SHRINKS = 0.02  # of the score, for a log-sd of 1 more a step: what no row shows stays 0
_LEAST = 1e-3


def scores(low: Array, high: Array) -> Array:
    """Interval scores (Gneiting and Raftery 2007) of 95 % intervals over measured values of 1: their width, and 40
    times what lies outside.
    """
    outside = np.maximum(low - 1.0, 0.0) + np.maximum(1.0 - high, 0.0)
    return np.asarray(high - low + _PRICE * outside)


def scores_of(logs: Array, log_sds: Array) -> Array:
    """Scores of predictions that are off by ``logs`` with such log-sds."""
    return scores(np.exp(logs - _Z * log_sds), np.exp(logs + _Z * log_sds))


def best_constant(logs: Array) -> tuple[float, float]:
    """The one half-width, in logs, for all predictions that scores best, and its mean score: chosen in hindsight."""
    tried = np.linspace(0.02, 1.0, 197)
    scores = [float(scores_of(logs, np.full(len(logs), each / _Z)).mean()) for each in tried]
    best = int(np.argmin(scores))
    return float(tried[best]), scores[best]


class Law(Record):
    """Log-sds besides those of kernels and numbers: of seconds beside matrices, of a mixture's, and of being away."""

    beside: float
    experts: float
    away: ExtrapolationError

    def log_sds(self, unseen: Unseen) -> Array:
        """The log-sd of each row, everything together."""
        added = unseen.squares_of(self.beside, self.experts, [getattr(self.away, way) for way in STEPS])
        return np.sqrt(unseen.known**2 + added)

    def of(self, card: Runtime) -> Runtime:
        """The card with these errors."""
        errors = {"beside_log_sd": self.beside, "experts_log_sd": self.experts}
        return card.changed(errors=card.errors.changed(**errors), away=self.away)


def fit_law(unseen: Unseen, weights: Array | None = None) -> Law:
    """The law whose intervals score best, each series weighing as many independent errors as its rows count for.

    A log-sd that the rows do not show is 0: each costs a little.
    """
    weights = weights_of(unseen.series) if weights is None else weights
    weights = weights / weights.sum()

    def cost(log_sds: Array) -> float:
        beside, experts, *away = (float(each) for each in log_sds)
        made = np.sqrt(unseen.known**2 + unseen.squares_of(beside, experts, away) + np.float64(_LEAST**2))
        return float(weights @ scores_of(unseen.logs, made)) + _SHRINKS * sum(away)

    bounds = [(0.0, _MOST)] * (2 + len(STEPS))
    fit = min(
        (minimize(cost, np.full(len(bounds), start), bounds=bounds, method="L-BFGS-B") for start in _STARTS),
        key=lambda each: float(each.fun),
    )
    kept = [significant(float(each)) if each > _LEAST else 0.0 for each in fit.x]
    return Law(kept[0], kept[1], ExtrapolationError(**dict(zip(STEPS, kept[2:], strict=True))))


def weights_of(series: Sequence[str] | NDArray[np.str_]) -> Array:
    """The rows' weights: those of a series together weigh as many errors as they count for."""
    _, at, counts = np.unique(series, return_inverse=True, return_counts=True)
    own = np.array([independent(np.array([count])) / count for count in counts])
    return np.asarray(own[at])


def some_of(unseen: Unseen, kept: NDArray[np.bool_]) -> Unseen:
    """Some of the rows."""
    return Unseen(*(getattr(unseen, name)[kept] for name in Unseen.__struct_fields__))
