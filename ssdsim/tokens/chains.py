"""Markov chains in the long run."""

from __future__ import annotations

import numpy as np

from ssdsim.base.checks import Array

_NOTHING = 1e-200  # a chance below it is none: arithmetic on the smallest numbers takes a hundred times as long
_AGREE = 1e-14  # of the rows, once the start is forgotten
_DOUBLINGS = 64  # of the rounds after which a chain has forgotten its start: 2^64


def long_run(transitions: Array) -> Array:
    """The share of each state in the long run, averaged over a period, from each start; shapes ``(..., s, s)``."""
    lazy = (np.eye(transitions.shape[-1]) + transitions) / 2.0  # the same shares, without a period
    for _ in range(_DOUBLINGS):
        lazy = lazy @ lazy
        lazy = np.where(lazy < _NOTHING, 0.0, lazy)
        lazy /= lazy.sum(axis=-1, keepdims=True)
        if np.ptp(lazy, axis=-2).max() < _AGREE:
            break
    return lazy
