"""Acceptance: how many tokens a verification accepts, and so how many a round of SD or SSD yields."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate
from operator import mul

import numpy as np
from numpy.typing import ArrayLike

from ssdsim.base.checks import Array, FloatOrArray, distribution, float_or_array, whole, within
from ssdsim.base.errors import InputError

_SURE, _FAR = 1e-9, 60.0


def expected_tokens(alpha: ArrayLike, k: ArrayLike) -> FloatOrArray:
    """Tokens of a round with its bonus: ``E(alpha, K) = sum_{j=0..K} alpha^j = (1-alpha^(K+1)) / (1-alpha)``.

    ``alpha`` (acceptance rate, in [0, 1]) and ``k`` (lookahead, >= 0) broadcast. Accurate to rounding
    everywhere: ``K + 1`` at ``alpha = 1``, 1 at ``alpha = 0`` and at ``K = 0``. Source: Leviathan et al.
    2023, SSD paper Theorem 1.
    """
    alpha = within("alpha", alpha, 0, 1)
    k = within("k", k, 0)
    gap = 1 - alpha
    log_alpha = np.log(np.maximum(alpha, np.finfo(float).tiny))  # finite, so that K = 0 at alpha = 0 is no NaN
    # expm1 keeps 1 - alpha^K accurate where alpha -> 1 cancels it against 1
    geometric = -alpha * np.expm1(k * log_alpha) / np.where(gap == 0, 1, gap)
    return float_or_array(1 + np.where(gap == 0, k, geometric))


@lru_cache(maxsize=256)
def rate_of(tokens: float, k: float) -> float:
    """Acceptance rate whose rounds yield ``tokens`` on average, as nearly as one rate can.

    The inverse of :func:`expected_tokens`, by bisection.
    """
    if not 1.0 < tokens < k + 1.0:
        return 0.0 if tokens <= 1.0 else 1.0
    low, high = 0.0, 1.0
    while low < (middle := (low + high) / 2.0) < high:
        low, high = (middle, high) if _tokens(middle, k) < tokens else (low, middle)
    return high


def _tokens(alpha: float, k: float) -> float:
    """:func:`expected_tokens` of numbers, strictly between 0 and 1."""
    return 1.0 - alpha * math.expm1(k * math.log(alpha)) / (1.0 - alpha)


def one_rate(rates: float | Sequence[float]) -> float:
    """The one rate that yields as many tokens as rates by position."""
    if isinstance(rates, int | float):
        return float(rates)
    return rate_of(1.0 + math.fsum(accumulate(rates, mul)), len(rates))


def accepted_length_pmf(alpha: ArrayLike, k: int) -> Array:
    """P(exactly ``j`` of ``K`` draft tokens are accepted), shape ``(K+1,)``.

    ``alpha`` is one rate, giving ``alpha^j (1 - alpha)`` for ``j < K`` and ``alpha^K``; or ``K`` rates, one
    for each position given that all before it were accepted, whose running product takes the place of
    ``alpha^j``. A column, shape ``(n, 1)`` or ``(n, K)``, gives a row each.
    """
    known = isinstance(alpha, float | tuple) and type(k) is int
    return _of_known_rates(alpha, k) if known else _accepted_length_pmf(alpha, k)  # type: ignore[arg-type]


def _accepted_length_pmf(alpha: ArrayLike, k: int) -> Array:
    k = whole("k", k, 0)
    rates = within("alpha", alpha, 0, 1)
    if rates.ndim and rates.shape[-1] not in ({k} if rates.ndim == 1 else {1, k}):
        raise InputError(f"alpha must be one rate or k = {k} rates, one a position, got shape {rates.shape}")
    rates = np.broadcast_to(rates, (*rates.shape[:-1], k))
    reached = np.concatenate([np.ones((*rates.shape[:-1], 1)), np.cumprod(rates, axis=-1)], axis=-1)
    pmf = np.concatenate([reached[..., :-1] * (1 - rates), reached[..., -1:]], axis=-1)
    pmf.flags.writeable = False
    return pmf


_of_known_rates = lru_cache(maxsize=4096)(_accepted_length_pmf)
"""Cached: all that is compared has the same rates."""


def expected_tokens_of_pmf(pmf: ArrayLike) -> float:
    """Tokens of a round with accepted-length distribution ``pmf``, shape ``(K+1,)``: mean plus bonus token."""
    pmf = distribution("pmf", pmf)
    return float(np.arange(1, pmf.size + 1) @ pmf)


def rates_of(pmf: Array) -> Array:
    """Acceptance rates by position, shape ``(K,)``, of a distribution of accepted lengths (0 where none gets there)."""
    return rates_of_survival(np.minimum(1.0, np.cumsum(pmf[..., ::-1], axis=-1)[..., ::-1]))


def rates_of_survival(reached: Array) -> Array:
    """Acceptance rates by position, shape ``(K,)``, of P(at least k accepted), shape ``(K+1,)`` (0 where none is)."""
    before = reached[..., :-1]
    return np.divide(reached[..., 1:], before, out=np.zeros(before.shape), where=before > 0)


def pooled_rate(rates: ArrayLike, k: int) -> float:
    """Share accepted of the K drafted tokens that are judged: those before were accepted.

    ``rates``, by position, are at least K.
    """
    reached = np.concatenate([[1.0], np.cumprod(np.asarray(rates, dtype=float)[:k])])
    return float(reached[1:].sum() / reached[:-1].sum())


def moved_to(pooled: float, rates: ArrayLike, k: int) -> Array:
    """Scale the odds of all rates by position by one factor, so that they have this :func:`pooled_rate`."""
    from scipy.optimize import brentq  # here, because predict must start fast

    pooled = float(within("alpha", pooled, 0, 1))
    known = np.clip(np.asarray(rates, dtype=float), _SURE, 1.0 - _SURE)
    logits = np.log(known) - np.log1p(-known)

    def moved(by: float) -> Array:
        return np.asarray(1.0 / (1.0 + np.exp(-(logits + by))))

    def over(by: float) -> float:
        return pooled_rate(moved(by), k) - pooled

    if over(-_FAR) >= 0.0:
        return np.zeros(logits.size)
    return np.ones(logits.size) if over(_FAR) <= 0.0 else moved(float(brentq(over, -_FAR, _FAR)))
