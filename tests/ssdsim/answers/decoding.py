"""What is found at a point where something has a given speed."""

from __future__ import annotations

from ssdsim import configure
from ssdsim.answers.grid import PointResult
from ssdsim.pricing.cost import Cost
from ssdsim.pricing.step import Piece, Step

AR = configure(t_sd=0.2, strategies="ar").scenarios["ar"]


def decoding(tokens_per_second: float) -> PointResult:
    """One sequence at that speed."""
    decode = Step("verify", (Piece("decode", Cost.of_units(1.0 / tokens_per_second)),))
    scenario = AR.with_steps({**AR.steps, "decode": decode})
    return PointResult([scenario], 0, float(scenario.estimate.tokens_per_second), {})
