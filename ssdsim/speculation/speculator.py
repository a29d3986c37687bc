"""How good a speculation is: how many of its tokens are accepted, and whether the next outcome is foreseen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Fallback = Literal["jit", "fast"]


@dataclass(frozen=True)
class Speculator:
    """How good a speculation is.

    ``accepted_pmf[k]`` is P(exactly k of the K tokens are accepted) and ``hit_given_accepted[k]`` is P(the bonus
    token after k accepted ones is in the speculation cache); both have shape ``(K+1,)``.
    """

    accepted_pmf: NDArray[np.float64]
    hit_given_accepted: NDArray[np.float64]

    @property
    def lookahead(self) -> int:
        """K."""
        return self.accepted_pmf.size - 1

    @property
    def expected_tokens(self) -> float:
        """Tokens that a round produces: the accepted ones and the bonus token."""
        return float(self.accepted_pmf @ np.arange(1, self.accepted_pmf.size + 1))

    @property
    def p_hit(self) -> float:
        """P(hit | this speculator made the previous speculation)."""
        return min(1.0, float(self.accepted_pmf @ self.hit_given_accepted))  # rounding may pass 1
