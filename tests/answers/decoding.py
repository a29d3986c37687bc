"""A scenario of a given speed."""

from __future__ import annotations

from ssdsim import configure
from ssdsim.pricing.step import unit_free
from ssdsim.scenario.scenario import Scenario

AR = configure(t_sd=0.2, strategies="ar").scenarios["ar"]


def decoding(tokens_per_second: float) -> Scenario:
    """One sequence at that speed."""
    return AR.with_steps({**AR.steps, "decode": unit_free("verify", ("decode", 1.0 / tokens_per_second, 1))})
