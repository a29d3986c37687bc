"""Looks at where the inputs of tokens may lie: evenly over their ranges, and at the ends of all of them.

The same input stands at the same place in a look whoever reads it, so that strategies are held against each other
under the same tokens. Each look is worked out as it is: a tree that is planned anew has no smooth way between two.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ssdsim.base.checks import Array
from ssdsim.pricing.cost import TimingErrors
from ssdsim.scenario.standing import TokenInput

LOOKS = 64
"""Looks over the ranges, a stratum each: a Latin hypercube. Each meets as many draws of the timings' errors."""
ENDS = 128
"""Looks at ends, chosen by chance, alike for every seed: of four ranges they hold all corners but by bad luck."""

Look = tuple[float, ...]
"""A value of each input, in their order."""


def looks_over(inputs: Sequence[TokenInput], errors: TimingErrors) -> list[Look]:
    """A look in each of :data:`LOOKS` strata of every range."""
    return _values(inputs, [errors.strata(f"range of {each.name}", LOOKS) for each in inputs])


def looks_at_ends(inputs: Sequence[TokenInput]) -> list[Look]:
    """Looks at one end of every range."""
    return _values(inputs, [_rng(each.name).integers(0, 2, ENDS).astype(float) for each in inputs])


def _values(inputs: Sequence[TokenInput], places: Sequence[Array]) -> list[Look]:
    columns = []
    for each, place in zip(inputs, places, strict=True):
        low, high = each.within or (each.value, each.value)
        columns.append((low + place * (high - low)).tolist())
    return list(zip(*columns, strict=True))


def _rng(name: str) -> np.random.Generator:
    return np.random.default_rng([*name.encode()])
