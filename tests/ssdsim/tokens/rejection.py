"""What becomes of one drafted token, in sums over a vocabulary: the rates that token models are held to."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ssdsim.base.checks import Array, FloatOrArray, distribution, float_or_array, whole
from ssdsim.tokens.sampling import residual


def acceptance_rate(p_target: ArrayLike, p_draft: ArrayLike) -> FloatOrArray:
    """``alpha = sum_t min(p_target, p_draft)``, shape ``(...)``: P(a token drawn from the draft is accepted)."""
    return float_or_array(np.minimum(distribution("p_target", p_target), distribution("p_draft", p_draft)).sum(axis=-1))


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
    ranked = np.argsort(-np.asarray(draft_scores, dtype=float), axis=-1, kind="stable")
    bonus, rejected = residual(p_target, p_draft), residual(p_draft, p_target)
    # The residual is 0 at the rejected token itself, so leaving that token out costs no mass: if it ranks
    # among the top F, the cache is worth the top F+1, else the top F.
    mass, mass_with_next = _mass(bonus, ranked[..., :fan_out]), _mass(bonus, ranked[..., : fan_out + 1])
    rejected_in_top = _mass(rejected, ranked[..., :fan_out])
    hit = rejected_in_top * mass_with_next + (1 - rejected_in_top) * mass
    return float_or_array(np.where(bonus.any(axis=-1), hit, 1.0))


def _mass(probabilities: Array, tokens: NDArray[np.int64]) -> Array:
    """Probability of ``tokens``, shape ``(...)``."""
    return np.asarray(np.take_along_axis(probabilities, tokens, axis=-1).sum(axis=-1))
