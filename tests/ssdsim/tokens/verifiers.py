"""Verifiers of several guesses of one token: how often each is accepted, by the test that verifies them.

Distributions are float arrays ``(V,)`` over a vocabulary of ``V`` tokens. The rates are a row of
:data:`ssdsim.tokens.trees.shape.Rates`. (With greedy decoding the rate of rank r is how often the target's token
is the draft's r-th, whatever the verifier.)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ssdsim.base.checks import Array, distribution, whole
from ssdsim.tokens.sampling import residual
from tests.ssdsim.tokens.rejection import acceptance_rate

Tokens = NDArray[np.int64]


def with_replacement(p_target: ArrayLike, p_draft: ArrayLike, guesses: int) -> Array:
    """SpecInfer's multi-step sampling: each guess is drawn anew and tested against what the ones before left.

    Shape ``(guesses,)``: P(guess k is the accepted one). Miao et al., 2023, arXiv 2305.09781.

    Raises
    ------
    InputError : an input is not a distribution, or guesses below 1.
    """
    left, drawn_from = distribution("p_target", p_target), distribution("p_draft", p_draft)
    rates, reached = [], 1.0
    for _ in range(whole("guesses", guesses, 1)):
        accepted = float(acceptance_rate(left, drawn_from)) if reached > 0.0 else 0.0
        rates.append(reached * accepted)
        reached = max(0.0, reached * (1.0 - accepted))
        if reached > 0.0:
            left = _left(left, drawn_from)
    return np.array(rates)


def without_replacement(p_target: ArrayLike, p_draft: ArrayLike, guesses: int) -> Array:
    """Sequoia's: a rejected token is not drawn again; drawn evenly from the rest where the draft's mass is used up.

    Shape ``(guesses,)``: P(guess k is the accepted one); the sum over all orders of rejected tokens, exact.

    Raises
    ------
    InputError : an input is not a distribution, or guesses below 1.
    """
    rates = np.zeros(whole("guesses", guesses, 1))
    _try(distribution("p_target", p_target), distribution("p_draft", p_draft), np.zeros(0, dtype=np.int64), 1.0, rates)
    return rates


def _try(left: Array, drawn_from: Array, rejected: Tokens, p: float, rates: Array) -> None:
    """Add what the next guess, reached with probability ``p`` after the ``rejected`` tokens, and those after it win."""
    at = rejected.size
    if at == rates.size or p <= 0.0 or at == left.size:
        return
    rates[at] += p * float(np.minimum(left, drawn_from).sum())
    after = _left(left, drawn_from)
    for token in np.flatnonzero(drawn_from > left):
        now = np.append(rejected, token)
        _try(after, _without(drawn_from, now), now, p * float(drawn_from[token] - left[token]), rates)


def _left(left: Array, drawn_from: Array) -> Array:
    """The target's distribution after a rejection; as it was where nothing can be rejected."""
    rest = residual(left, drawn_from)
    return rest if rest.any() else left


def _without(drawn_from: Array, rejected: Tokens) -> Array:
    rest = drawn_from.copy()
    rest[rejected] = 0.0
    if rest.sum() <= 0.0:
        rest = np.ones_like(drawn_from)
        rest[rejected] = 0.0
    total = rest.sum()
    return rest / total if total > 0.0 else rest
