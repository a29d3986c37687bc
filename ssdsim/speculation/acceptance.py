"""How many tokens a verification accepts, and so how many a round of SD or SSD yields."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ssdsim.checks import FloatOrArray, distribution, plain, whole, within
from ssdsim.errors import InputError


def expected_tokens(alpha: ArrayLike, k: ArrayLike) -> FloatOrArray:
    """Tokens of a round with its bonus: ``E(alpha, K) = sum_{j=0..K} alpha^j = (1-alpha^(K+1)) / (1-alpha)``.

    ``alpha`` (acceptance rate, in [0, 1]) and ``k`` (lookahead, >= 0) broadcast. Accurate to rounding
    everywhere: ``K + 1`` at ``alpha = 1``, 1 at ``alpha = 0`` and at ``K = 0``. Source: Leviathan et al.
    2023, SSD paper Theorem 1.

    Raises
    ------
    InputError : alpha outside [0, 1], or k below 0.
    """
    alpha = within("alpha", alpha, 0, 1)
    k = within("k", k, 0)
    gap = 1 - alpha
    log_alpha = np.log(np.maximum(alpha, np.finfo(float).tiny))  # finite, so that K = 0 at alpha = 0 is no NaN
    # expm1 keeps 1 - alpha^K accurate where alpha -> 1 cancels it against 1
    geometric = -alpha * np.expm1(k * log_alpha) / np.where(gap == 0, 1, gap)
    return plain(1 + np.where(gap == 0, k, geometric))


def accepted_length_pmf(alpha: ArrayLike, k: int) -> NDArray[np.float64]:
    """P(exactly ``j`` of ``K`` draft tokens are accepted), shape ``(K+1,)``.

    ``alpha`` is one rate, giving ``alpha^j (1 - alpha)`` for ``j < K`` and ``alpha^K``; or ``K`` rates, one
    for each position given that all before it were accepted, whose running product takes the place of
    ``alpha^j``.

    Raises
    ------
    InputError : a rate outside [0, 1], k not a whole number >= 0, or a number of rates other than 1 and K.
    """
    k = whole("k", k, 0)
    rates = within("alpha", alpha, 0, 1)
    if rates.ndim > 1 or (rates.ndim == 1 and rates.size != k):
        raise InputError(f"alpha must be one rate or k = {k} rates, one a position, got shape {rates.shape}")
    rates = np.broadcast_to(rates, (k,))
    reached = np.concatenate([[1.0], np.cumprod(rates)])
    return np.append(reached[:-1] * (1 - rates), reached[-1])


def expected_tokens_of_pmf(pmf: ArrayLike) -> float:
    """Tokens of a round with accepted-length distribution ``pmf``, shape ``(K+1,)``: mean plus bonus token.

    Raises
    ------
    InputError : pmf is not a distribution.
    """
    pmf = distribution("pmf", pmf)
    return float(np.arange(1, pmf.size + 1) @ pmf)


def rates_of(pmf: NDArray[np.float64]) -> NDArray[np.float64]:
    """Acceptance rates by position, shape ``(K,)``, of a distribution of accepted lengths (0 where none gets there)."""
    reached = np.minimum(1.0, np.cumsum(pmf[::-1])[::-1])  # P(at least k accepted)
    return np.divide(reached[1:], reached[:-1], out=np.zeros(pmf.size - 1), where=reached[:-1] > 0)
