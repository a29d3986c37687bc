"""Saguaro sampling (SSD paper, 4.2): trading acceptance for residual mass on the cached tokens.

Distributions are float arrays ``(..., V)`` over a vocabulary of ``V`` tokens; leading axes are independent
cases.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ssdsim.base.checks import Array, FloatOrArray, distribution, float_or_array, whole, within
from ssdsim.base.errors import InputError

_ROUNDING = 1e-12  # a rejection rate below this is rounding of two equal distributions


def saguaro_distribution(logits: ArrayLike, fan_out: int, c: float) -> Array:
    """``sigma_{F,C}(z)``, shape ``(..., V)``: softmax of ``logits``, its top ``F`` tokens scaled by ``C``.

    ``C = 1`` is the plain softmax; equal logits rank by token number. Source: SSD paper, Definition 14.
    """
    within("c", c, 0, 1)
    logits = np.asarray(logits, dtype=float)
    cached = _ranked(logits)[..., : whole("fan_out", fan_out, 0)]
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    np.put_along_axis(weights, cached, c * np.take_along_axis(weights, cached, axis=-1), axis=-1)
    total = weights.sum(axis=-1, keepdims=True)
    if not np.all(total > 0):
        raise InputError(f"c = {c:g} with fan_out = {fan_out} leaves no token to sample: c must be above 0 there")
    return np.asarray(weights / total)


def acceptance_rate(p_target: ArrayLike, p_draft: ArrayLike) -> FloatOrArray:
    """``alpha = sum_t min(p_target, p_draft)``, shape ``(...)``: P(a token drawn from the draft is accepted)."""
    return float_or_array(np.minimum(distribution("p_target", p_target), distribution("p_draft", p_draft)).sum(axis=-1))


def residual(p_target: ArrayLike, p_draft: ArrayLike) -> Array:
    """``max(p_target - p_draft, 0)`` normalised, shape ``(..., V)``: the bonus token after a rejection.

    All zeros where the two are equal: nothing is ever rejected. With the arguments exchanged it is the
    distribution of the rejected token.
    """
    excess = np.maximum(distribution("p_target", p_target) - distribution("p_draft", p_draft), 0)
    total = excess.sum(axis=-1, keepdims=True)
    return np.asarray(np.divide(excess, total, out=np.zeros_like(excess), where=total > _ROUNDING))


def residual_hit_rate(p_target: ArrayLike, p_draft: ArrayLike, fan_out: int, draft_scores: ArrayLike) -> FloatOrArray:
    """P(the bonus token after a rejection is cached), shape ``(...)``, averaged over the rejected token.

    The draft token was sampled from ``p_draft`` (such as a Saguaro distribution). The cache holds the top
    ``fan_out`` tokens by ``draft_scores`` (logits or probabilities of the unbiased draft), the rejected token
    left out, as in the proof of SSD paper Theorem 19. 1 where nothing is ever rejected (Theorem 15's
    convention).

    Theorem 15 (the hit rate never falls as ``C`` does) is about one fixed set of tokens. Leaving out the
    rejected one makes room for the token of rank ``F+1``, and a lower ``C`` moves rejections out of the top
    ``F``, which takes that room away: here it holds on average, not for every pair of distributions.
    """
    fan_out = whole("fan_out", fan_out, 0)
    ranked = _ranked(np.asarray(draft_scores, dtype=float))
    bonus, rejected = residual(p_target, p_draft), residual(p_draft, p_target)
    # The residual is 0 at the rejected token itself, so leaving that token out costs no mass: if it ranks
    # among the top F, the cache is worth the top F+1, else the top F.
    mass, mass_with_next = _mass(bonus, ranked[..., :fan_out]), _mass(bonus, ranked[..., : fan_out + 1])
    rejected_in_top = _mass(rejected, ranked[..., :fan_out])
    hit = rejected_in_top * mass_with_next + (1 - rejected_in_top) * mass
    return float_or_array(np.where(bonus.any(axis=-1), hit, 1.0))


def _ranked(scores: Array) -> NDArray[np.int64]:
    """Tokens from the highest score to the lowest, equal scores by token number; shape ``(..., V)``."""
    return np.argsort(-scores, axis=-1, kind="stable")


def _mass(probabilities: Array, tokens: NDArray[np.int64]) -> Any:
    """Probability of ``tokens``, shape ``(...)``."""
    return np.take_along_axis(probabilities, tokens, axis=-1).sum(axis=-1)
