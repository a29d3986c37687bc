"""The durations of a scenario's steps as streams of blocks, one seed each."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ssdsim.engine.durations import Durations
from ssdsim.rounds.scenario import Scenario

STEPS = (
    "ar_pass_s",
    "sd_draft_s",
    "sd_verify_s",
    "sd_message_s",
    "verify_s",
    "prespeculate_s",
    "fallback_s",
    "post_s",
    "send_s",
    "respond_s",
    "lookup_s",
)


class Steps:
    """Every step's durations. The order of asking does not matter: each step has its own random stream."""

    def __init__(self, scenario: Scenario, seed: np.random.SeedSequence) -> None:
        shared = {"prespeculate_s": scenario.draft_devices}
        self._streams = {
            name: Durations(float(getattr(scenario.times, name)), scenario.spread, child, shared.get(name, 1))
            for name, child in zip(STEPS, seed.spawn(len(STEPS)), strict=True)
        }

    def block(self, name: str, rounds: int) -> NDArray[np.float64]:
        """The next ``rounds`` durations of one step."""
        return self._streams[name].block(rounds)
