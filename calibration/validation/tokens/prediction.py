"""Prediction of real runs from a pair's file and the steps' times: the closed form, in seconds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from calibration.validation.tokens.calibration import Size
from ssdsim.base.record import replace
from ssdsim.question.configuration import configure
from ssdsim.question.scenario import Scenario
from ssdsim.rounds.estimate import Estimate

Seconds = Mapping[str, float]
"""The seconds of a strategy's steps."""

_WHOLE_ROUNDS = 4096  # tokens of an answer: the last round counts whole, here and as it is measured


def scenarios_of(pair: Path, strategies: Sequence[str], size: Size) -> Mapping[str, Scenario]:
    """Greedy, one request at a time, as many guesses after each number of accepted tokens; rates by the pair."""
    drafting: dict[str, Any] = (
        {"f": size.fan_out, "fan_out_policy": "uniform", "backup": "jit"} if "ssd" in strategies else {}
    )
    configuration = configure(
        strategies=tuple(strategies),
        pair=str(pair),
        temperature=0.0,
        k=size.k,
        b=1,
        output_tokens=_WHOLE_ROUNDS,
        t_sd=1.0,  # its durations are not read
        extrapolate=True,  # a run of real models may be asked for more guesses than the pair was measured at
        **drafting,
    )
    return configuration.scenarios


def predicted(scenario: Scenario, seconds: Seconds) -> Estimate:
    """The mean round with these steps."""
    return scenario.strategy.closed_form(replace(scenario.round, seconds=seconds))


def mean_of(around: Sequence[Seconds]) -> Seconds:
    """Steps timed before and after a run."""
    return {step: sum(each[step] for each in around) / len(around) for step in around[0]}
