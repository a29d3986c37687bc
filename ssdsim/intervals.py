"""95 % intervals of tokens/s from draws under the timings' errors."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Draws = NDArray[np.float64]


def centred_on(rate: Any, draws: ArrayLike) -> Draws:
    """``draws`` (along the last axis) by the factor that brings their median to ``rate``, which broadcasts with them.

    The error of a sum of timings is skewed; the prediction itself stays in the middle.
    """
    draws = np.asarray(draws, dtype=float)
    return np.asarray(rate * (draws / np.median(draws, axis=-1, keepdims=True)))


def bounds_95(draws: Draws) -> tuple[Any, Any]:
    """Low and high along the last axis."""
    low, high = np.percentile(draws, (2.5, 97.5), axis=-1)
    return low, high
