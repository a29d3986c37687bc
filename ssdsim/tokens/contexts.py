"""Acceptance where text is easy in places and hard in others: rounds walk a text whose positions have states.

A round that follows a rejection begins where the text is hard, and a long draft jumps over what is easy, so that rates
by position depend on K: those measured at one K do not hold at another. No rate by position, and no spread between
requests, shows either. The model is ours, made for what vLLM measured (issue 48892).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ssdsim.base.checks import Array
from ssdsim.base.errors import InputError
from ssdsim.tokens.chains import long_run


def context_pmf(rates: Sequence[float], stays: float, k: int) -> Array:
    """P(exactly j of K tokens are accepted) in the long run, shape ``(K+1,)``.

    Each position of the text has a state with its own acceptance rate, which the next position keeps with probability
    ``stays`` and otherwise changes for one of the others, all alike. A round begins after the last one's bonus token.
    """
    if len(rates) < 2:
        raise InputError(f"contexts need at least two rates, got {len(rates)}")
    alpha, states = np.asarray(rates, dtype=float), len(rates)
    moves = np.full((states, states), (1.0 - stays) / (states - 1))
    np.fill_diagonal(moves, stays)
    ends = _ends(alpha, moves, k)
    share = long_run(ends.sum(axis=1) @ moves).mean(axis=0)  # from all alike, where states never change
    return np.asarray(share @ ends.sum(axis=2))


def _ends(alpha: Array, moves: Array, k: int) -> Array:
    """P(j tokens are accepted, and the bonus token's position has the state t | the round began in s)."""
    at = np.eye(alpha.size)
    ends = np.zeros((alpha.size, k + 1, alpha.size))
    for accepted in range(k):
        ends[:, accepted] = at * (1.0 - alpha)
        at = (at * alpha) @ moves
    ends[:, k] = at
    return ends
