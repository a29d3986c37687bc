"""What tests of tables that others drew ask of the deviations from them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from ssdsim.answers.simulation.simulate import simulate
from ssdsim.question.scenario import Scenario

_OUTSIDE_99 = 2.576


def deviations_are_chance(deviations: Sequence[float]) -> None:
    """In standard errors: at most 3 % (or one of few) are outside 99 % intervals, none is beyond 4.5."""
    outside = sum(abs(each) > _OUTSIDE_99 for each in deviations)
    assert outside <= max(1, 0.03 * len(deviations)), deviations
    assert max(map(abs, deviations)) <= 4.5, deviations


def deviation(
    case: Scenario, solver: Literal["closed", "mc", "des"], expected: float, error: float, rounds: int, seed: int = 3
) -> float:
    """Of a solver's tokens/s from those of a loop apart from this code, in the standard errors of both."""
    if solver == "closed":
        return (float(case.estimate.tokens_per_second) - expected) / error
    tokens_per_second = simulate(case, solver=solver, rounds=rounds, seed=seed, confidence=0.99).tokens_per_second
    drawing = (tokens_per_second.high - tokens_per_second.low) / 2.0 / _OUTSIDE_99
    return (tokens_per_second.value - expected) / math.hypot(drawing, error)
