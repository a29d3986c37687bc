"""The kernel of requests that are alike, or of several kinds of them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ssdsim.rounds.kernel import Kernel, Mix, Tokens
from ssdsim.speculation.accepted import Accepted


def tokens_of(accepted: Accepted, kernel_of: Callable[[NDArray[np.float64]], Kernel]) -> Tokens:
    """``kernel_of(accepted_pmf)`` of the requests, or of each kind of them."""
    if accepted.kinds is None:
        return kernel_of(accepted.pmf)
    kernels = tuple(kernel_of(pmf) for pmf in accepted.kinds.pmfs)
    return Mix(accepted.kinds.weights, accepted.output_tokens, kernels)
