"""Durations of the rounds' steps: constant, or lognormal with a given relative spread, drawn in blocks."""

from __future__ import annotations

import numpy as np

from ssdsim.base.checks import Array


class Durations:
    """Draws of one step's duration. The mean is the given one; the logarithm is normal (``spread`` is its sd).

    With several ``devices`` that share the step, the duration is that of the slowest.
    """

    def __init__(self, mean_s: float, spread: float, seed: np.random.SeedSequence, devices: int = 1) -> None:
        self._mean_s = mean_s
        self._spread = spread
        self._devices = devices
        self._rng = np.random.default_rng(seed)

    def block(self, rounds: int) -> Array:
        """The next ``rounds`` durations in seconds."""
        if self._spread == 0.0 or self._mean_s == 0.0:
            return np.full(rounds, self._mean_s)
        normal = self._rng.standard_normal((rounds, self._devices)).max(axis=1)  # the same for blocks of any length
        return np.asarray(self._mean_s * np.exp(self._spread * normal - self._spread**2 / 2.0))
