"""A scenario of a given speed."""

from __future__ import annotations

from ssdsim import configure
from ssdsim.pricing.cost import Cost
from ssdsim.pricing.step import Piece, Step
from ssdsim.scenario.scenario import Scenario

AR = configure(t_sd=0.2, strategies="ar").scenarios["ar"]


def decoding(tokens_per_second: float) -> Scenario:
    """One sequence at that speed."""
    decode = Step("verify", (Piece("decode", Cost.of_units(1.0 / tokens_per_second)),))
    return AR.with_steps({**AR.steps, "decode": decode})
