"""Saguaro sampling (SSD paper, 4.2): trading acceptance for residual mass on the cached tokens.

Distributions are float arrays ``(..., V)`` over a vocabulary of ``V`` tokens; leading axes are independent
cases.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ssdsim.base.checks import Array, distribution, whole, within
from ssdsim.base.errors import InputError

_ROUNDING = 1e-12  # a rejection rate below this is rounding of two equal distributions


def saguaro_distribution(logits: ArrayLike, fan_out: int, c: float) -> Array:
    """``sigma_{F,C}(z)``, shape ``(..., V)``: softmax of ``logits``, its top ``F`` tokens scaled by ``C``.

    ``C = 1`` is the plain softmax; equal logits rank by token number. Source: SSD paper, Definition 14.
    """
    within("c", c, 0, 1)
    logits = np.asarray(logits, dtype=float)
    cached = np.argsort(-logits, axis=-1, kind="stable")[..., : whole("fan_out", fan_out, 0)]
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    np.put_along_axis(weights, cached, c * np.take_along_axis(weights, cached, axis=-1), axis=-1)
    total = weights.sum(axis=-1, keepdims=True)
    if not np.all(total > 0):
        raise InputError(f"c = {c:g} with fan_out = {fan_out} leaves no token to sample: c must be above 0 there")
    return np.asarray(weights / total)


def residual(p_target: ArrayLike, p_draft: ArrayLike) -> Array:
    """``max(p_target - p_draft, 0)`` normalised, shape ``(..., V)``: the bonus token after a rejection.

    All zeros where the two are equal: nothing is ever rejected. With the arguments exchanged it is the
    distribution of the rejected token.
    """
    excess = np.maximum(distribution("p_target", p_target) - distribution("p_draft", p_draft), 0)
    total = excess.sum(axis=-1, keepdims=True)
    return np.asarray(np.divide(excess, total, out=np.zeros_like(excess), where=total > _ROUNDING))
