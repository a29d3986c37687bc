"""Looks at where the inputs of tokens may lie: evenly over their ranges, and at the ends of all of them.

The same input stands at the same place in a look whoever reads it, so that strategies are held against each other
under the same tokens. Each look is worked out as it is: a tree that is planned anew has no smooth way between two.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from ssdsim.base.checks import Array
from ssdsim.pricing.cost import TimingErrors
from ssdsim.question.standing import TokenInput

LOOKS = 64
"""Looks over the ranges, a stratum each: a Latin hypercube. Each meets as many draws of the timings' errors."""
ENDS = 128
"""Looks at ends, chosen by chance, alike for every seed: of four ranges they hold all corners but by bad luck."""


def looks(inputs: Sequence[TokenInput], errors: TimingErrors) -> dict[str, list[float]]:
    """Values of each input: at one end of every range in :data:`ENDS` looks, then in each of :data:`LOOKS` strata."""
    found = {}
    for each in inputs:
        low, high = each.within or (each.value, each.value)
        places = np.concatenate([_ends(each.name), errors.strata(f"range of {each.name}", LOOKS)])
        found[each.name] = (low + places * (high - low)).tolist()
    return found


@cache
def _ends(name: str) -> Array:
    return np.random.default_rng([*name.encode()]).integers(0, 2, ENDS).astype(float)
