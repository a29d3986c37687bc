"""Durations of the rounds' steps: constant, or lognormal with a given relative spread, drawn in blocks."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ssdsim.base.checks import Array

Drawn = Callable[[np.random.Generator, int], Array]


class Durations:
    """Draws of one step's duration. The mean is the given one; the logarithm is normal (``spread`` is its sd).

    With several ``devices`` that share the step, the duration is that of the slowest. ``drawn_s`` draws what the mean
    is of, where that is not the same in every round.
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
