"""One run of one strategy in the event engine: its clock, its random streams, what it records and when it stops."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from simpy import Environment

from ssdsim.engine.devices import Device
from ssdsim.engine.recorder import Recorder
from ssdsim.engine.steps import Steps
from ssdsim.engine.stopping import Stopping
from ssdsim.engine.trace import Trace
from ssdsim.rounds.outcomes import OutcomeSource
from ssdsim.rounds.scenario import Scenario


class Run:
    """What a strategy's processes share."""

    def __init__(
        self,
        scenario: Scenario,
        outcomes: OutcomeSource,
        seed: np.random.SeedSequence,
        stopping: Stopping,
        recorder: Recorder,
        trace: Trace | None = None,
    ) -> None:
        self.env = Environment()
        self.scenario = scenario
        self.outcomes = outcomes
        self.steps = Steps(scenario, seed)
        self.recorder = recorder
        self.trace = trace
        self.devices: dict[str, Device] = {}
        self._stopping = stopping

    def device(self, role: str, tracks: list[str]) -> Device:
        """A device of this run; its utilisation is reported under ``role``."""
        self.devices[role] = Device(self.env, tracks, self.trace)
        return self.devices[role]

    def blocks(self) -> Iterator[int]:
        """The number of rounds of each block, until the stop rule is met."""
        return self._stopping.blocks(self.recorder)

    def utilisation(self) -> dict[str, float]:
        """Busy share of every device so far."""
        now = self.env.now
        return {role: device.busy_s / now if now else 0.0 for role, device in self.devices.items()}
