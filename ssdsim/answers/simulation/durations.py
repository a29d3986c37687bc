"""Durations of a scenario's steps, drawn in blocks: constant, or lognormal with a given spread."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from ssdsim.base.checks import Array
from ssdsim.pricing.step import Step
from ssdsim.rounds.outcomes import OutcomeBlock

Drawn = Callable[[np.random.Generator, int], Array]


class Durations:
    """Draws of one step's duration. The mean is the given one; the logarithm is normal (``spread`` is its sd).

    The slowest of ``devices`` that share the step sets the duration. ``drawn_s`` draws the means of rounds that
    differ.
    """

    def __init__(
        self, mean_s: float, spread: float, seed: np.random.SeedSequence, devices: int = 1, drawn_s: Drawn | None = None
    ) -> None:
        self._mean_s = mean_s
        self._spread = spread
        self._devices = devices
        self._drawn_s = drawn_s
        self._rng = np.random.default_rng(seed)
        self._rounds_rng = np.random.default_rng(seed.spawn(1)[0]) if drawn_s is not None else self._rng

    def block(self, rounds: int) -> Array:
        """The next ``rounds`` durations in seconds."""
        mean_s = np.full(rounds, self._mean_s) if self._drawn_s is None else self._drawn_s(self._rounds_rng, rounds)
        if self._spread == 0.0 or self._mean_s == 0.0:
            return mean_s
        normal = self._rng.standard_normal((rounds, self._devices)).max(axis=1)  # the same for blocks of any length
        return np.asarray(mean_s * np.exp(self._spread * normal - self._spread**2 / 2.0))


_BLOCK = 1024  # rounds


class StepStreams:
    """The durations of all steps. A step's stream is seeded by its name: it depends on no other step or strategy."""

    def __init__(self, steps: Mapping[str, Step], spread: float, seed: np.random.SeedSequence) -> None:
        self._steps, self._spread, self._seed = steps, spread, seed
        self.tables = {name: step.by_rows for name, step in steps.items() if step.by_rows is not None}
        means = {name: 1.0 if name in self.tables else step.seconds for name, step in steps.items()}
        self.constant = means if spread == 0.0 and not any(step.rounds for step in steps.values()) else None
        self._means = means
        self._streams = {name: self.stream(name) for name in steps}

    def stream(self, name: str, role: str = "") -> Durations:
        """A step's durations from the first round on: factors on its table's where rounds differ in its rows.

        Roles that share the step have streams of their own.
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
        """The durations of a step with a table, a round each."""
        counted = outcomes.passes if self.tables[name].of_passes else outcomes.rows
        assert counted is not None
        return self.tables[name].at(counted)


def _seed_of(name: str, seed: np.random.SeedSequence) -> np.random.SeedSequence:
    return np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, *name.encode()))


class StepDurations:
    """One step's durations by the round's number, for a role that reads them one at a time."""

    def __init__(self, steps: StepStreams, name: str, role: str = "") -> None:
        self._stream = steps.stream(name, role)
        self._first = 0
        self._block: list[float] = []

    def of_round(self, number: int) -> float:
        """The duration in that round; numbers only rise, and may leave rounds out."""
        while number >= self._first + len(self._block):
            self._first += len(self._block)
            self._block = self._stream.block(_BLOCK).tolist()
        return self._block[number - self._first]
