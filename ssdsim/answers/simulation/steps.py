"""The durations of a scenario's steps as streams of blocks, one seed each."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ssdsim.answers.simulation.durations import Durations
from ssdsim.base.checks import Array
from ssdsim.pricing.step import Step
from ssdsim.rounds.outcomes import OutcomeBlock

_BLOCK = 1024  # rounds


class Steps:
    """Every step's durations. Each step's stream is seeded by its name: it depends on no other step or strategy."""

    def __init__(self, steps: Mapping[str, Step], spread: float, seed: np.random.SeedSequence) -> None:
        self._steps, self._spread, self._seed = steps, spread, seed
        self.tables = {name: step.by_rows for name, step in steps.items() if step.by_rows is not None}
        means = {name: 1.0 if name in self.tables else step.seconds for name, step in steps.items()}
        self.constant = means if spread == 0.0 and not any(step.rounds for step in steps.values()) else None
        self._means = means
        self._streams = {name: self.stream(name) for name in steps}

    def stream(self, name: str, role: str = "") -> Durations:
        """A step's durations from the first round on; over the table's where rounds differ in its rows.

        Where several roles do it, each has its own.
        """
        seed, step = _seed_of(name + role, self._seed), self._steps[name]
        return Durations(self._means[name], self._spread, seed, step.devices, step.drawn_s if step.rounds else None)

    def block(self, outcomes: OutcomeBlock) -> Mapping[str, float | Array]:
        """The durations of every step in the next rounds; one number where they do not vary."""
        durations: dict[str, float | Array] = {}
        for name, stream in self._streams.items():
            varies = self._spread != 0.0 or self._steps[name].rounds
            durations[name] = stream.block(outcomes.rounds) if varies else self._means[name]
        return durations | {name: durations[name] * self.over(name, outcomes) for name in self.tables}

    def over(self, name: str, outcomes: OutcomeBlock) -> Array:
        """The table's durations of a step in which rounds differ."""
        assert outcomes.rows is not None
        return self.tables[name].at(outcomes.rows)


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
