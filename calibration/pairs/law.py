"""The power law of hits by the number of guesses, ``h(F) = 1 - c F^-r``, fitted to how many guesses were needed."""

from __future__ import annotations

import numpy as np

from ssdsim.base.checks import Floats
from ssdsim.base.record import Record

_STEEPEST = 12.0
_HALVINGS = 40


class Fit(Record):
    """The law, R^2 of ``log(1 - h)`` over ``log F``, and the largest absolute error of a hit rate."""

    c: float
    r: float
    r2: float
    max_error: float


def hit_rates(needed: Floats) -> Floats:
    """``h(F)`` at F = 1, 2, ... from weights by guesses needed, shape ``(..., most + 2)``; NaN where there are none."""
    total = needed.sum(axis=-1, keepdims=True)
    running = np.cumsum(needed[..., 1:-1], axis=-1)
    rates = np.divide(running, total, out=np.full_like(running, np.nan), where=total > 0)
    return np.asarray(np.minimum(rates, 1.0))  # two sums of the same weights may differ in the last bit


def most_likely(needed: Floats) -> tuple[Floats, Floats]:
    """The c and r of the highest likelihood for each row of weights by guesses needed, shape ``(..., most + 2)``.

    A round that needs f guesses has the likelihood ``h(f) - h(f - 1)``, and one that needs more than ``most``
    ``1 - h(most)``. It splits in two: c is the share that one guess misses; r, of those, solves a concave
    equation in one unknown. Where all needed one guess c = 0 and r is NaN.
    """
    most = needed.shape[-1] - 2
    total = needed.sum(axis=-1)
    missed = needed[..., 2:]
    share = np.divide(missed.sum(axis=-1), total, out=np.full_like(total, np.nan), where=total > 0)
    c = np.minimum(share, 1.0)  # as in hit_rates
    log_before = np.log(np.arange(1, most))
    step = np.log(np.arange(2, most + 1)) - log_before

    def slope(r: Floats) -> Floats:
        # d/dr log((f-1)^-r - f^-r) = -log(f-1) + s / expm1(r s), s = log f/(f-1)
        within = -log_before + step / np.expm1(r[..., None] * step)
        return np.asarray((missed[..., :-1] * within).sum(axis=-1) - missed[..., -1] * np.log(most))

    low, high = np.full_like(total, 1e-9), np.full_like(total, _STEEPEST)
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        rising = slope(middle) > 0.0
        low, high = np.where(rising, middle, low), np.where(rising, high, middle)
    return c, np.where(c > 0, 0.5 * (low + high), np.nan)


def fit(needed: Floats) -> Fit | None:
    """The law of one row of weights; None where no round missed its first guess, or there was no round."""
    c, r = (float(value) for value in most_likely(needed))
    if not (c > 0.0 and np.isfinite(r)):
        return None
    curve = hit_rates(needed)
    fan_outs = np.arange(1, curve.size + 1)
    law = 1.0 - c * fan_outs**-r
    missing = curve < 1.0 - 1e-6
    measured = np.log(1.0 - curve[missing])
    scatter = ((measured - measured.mean()) ** 2).sum()
    r2 = 1.0 - ((measured - np.log(1.0 - law[missing])) ** 2).sum() / scatter if scatter > 0 else 0.0
    return Fit(c, r, float(r2), float(np.abs(curve - law).max()))
