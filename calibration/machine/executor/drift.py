"""Drift of the machine against its profile: the GEMMs of a layer of each pass, timed between runs.

Shared machines drift by tens of percent within minutes. Only microbenchmarks are timed: no pass, no round.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from calibration.machine.executor.plan import role_of
from calibration.machine.ranks import Ranks
from ssdsim.hardware.profile import HardwareProfile
from ssdsim.pricing.step import Pass, PassKey
from ssdsim.question.scenario import Scenario
from ssdsim.rounds.actor import kind_of
from ssdsim.transformer.operations import Gemm

Drift = Mapping[PassKey, float]
"""Slowdown factor of each pass."""

_AT_LEAST_S = 0.1  # of each pass: a mood of the machine that lasts less would pass for a drift
_FEWEST = 3
_ANSWER_S = 60.0


def time_drift(scenarios: Mapping[str, Scenario], first_ranks: Mapping[str, int], ranks: Ranks) -> dict[str, Drift]:
    """Measured over predicted seconds of the GEMMs of each strategy's passes, on the first rank of the pass's role.

    ``first_ranks`` are by kind of role. Equal GEMMs on one rank are timed once, whichever strategies and passes have
    them.
    """
    known: dict[tuple[int, tuple[Gemm, ...]], float] = {}
    drifts: dict[str, Drift] = {}
    for name, scenario in scenarios.items():
        drift = {}
        for work, role in _passes(scenario):
            gemms = tuple(op for op in work.forward.layer if isinstance(op, Gemm))
            key = first_ranks[kind_of(role)], gemms
            if key not in known:
                known[key] = _slower(ranks, *key, work.profile)
            drift[work.key] = known[key]
        drifts[name] = drift
    return drifts


def _passes(scenario: Scenario) -> Iterator[tuple[Pass, str]]:
    """Every pass of a strategy with the role that runs it."""
    roles = scenario.strategy.programs(scenario.settings, scenario.drafter)
    for step in scenario.steps.values():
        for work in step.every_pass:
            yield work, role_of(work.model, roles)


def _slower(ranks: Ranks, rank: int, gemms: Sequence[Gemm], profile: HardwareProfile) -> float:
    predicted_s = sum(profile.seconds(op).seconds for op in gemms)
    runs = max(_FEWEST, math.ceil(_AT_LEAST_S / predicted_s))
    request = {"gemms": [(op.m, op.n, op.k) for op in gemms], "runs": runs, "rank": rank}
    seconds = next(answer for answer in ranks.ask(request, _ANSWER_S) if answer is not None)
    return float(seconds / predicted_s)


def mean_drift(timed: Sequence[Drift]) -> Drift:
    """The mean for each pass."""
    return {key: float(np.mean([drift[key] for drift in timed])) for key in timed[0]}
