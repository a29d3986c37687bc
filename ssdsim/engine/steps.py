"""The durations of a scenario's steps as streams of blocks, one seed each."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ssdsim.engine.durations import Durations
from ssdsim.pricing.step import Step

_BLOCK = 1024  # rounds


class Steps:
    """Every step's durations. Each step's stream is seeded by its name: it depends on no other step or strategy."""

    def __init__(self, steps: Mapping[str, Step], spread: float, seed: np.random.SeedSequence) -> None:
        self._steps, self._spread, self._seed = steps, spread, seed
        self.constant = {name: step.seconds for name, step in steps.items()} if spread == 0.0 else None
        self._streams = {name: self.stream(name) for name in steps}

    def stream(self, name: str, role: str = "") -> Durations:
        """A step's durations from the first round on; where several roles do it, each has its own."""
        step = self._steps[name]
        return Durations(step.seconds, self._spread, _seed_of(name + role, self._seed), step.devices)

    def block(self, rounds: int) -> Mapping[str, float | NDArray[np.float64]]:
        """The next ``rounds`` durations of every step; one number where durations do not vary."""
        if self.constant is not None:
            return self.constant
        return {name: stream.block(rounds) for name, stream in self._streams.items()}


def _seed_of(name: str, seed: np.random.SeedSequence) -> np.random.SeedSequence:
    return np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, *name.encode()))


class StepDurations:
    """One step's durations by the number of the round, for a role that asks for them one at a time."""

    def __init__(self, steps: Steps, name: str, role: str = "") -> None:
        self._stream = steps.stream(name, role)
        self._first = 0
        self._block: list[float] = []

    def of_round(self, number: int) -> float:
        """The duration in that round; rounds are asked for in their order, some perhaps not at all."""
        while number >= self._first + len(self._block):
            self._first += len(self._block)
            self._block = self._stream.block(_BLOCK).tolist()
        return self._block[number - self._first]
