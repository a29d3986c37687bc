"""Durations as sums of terms, so that an error of a timing moves all that rests on it together."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import field
from functools import cached_property

import numpy as np

from ssdsim.base.checks import Array
from ssdsim.base.record import record

Seconds = float | Array


@record
class Cost:
    """A duration as a sum of terms, one for each timing that it rests on.

    ``terms`` maps a timing's key to ``(seconds, log_sd)``: the same matrix in two passes has the same key, so an
    error of its timing moves both passes together and cancels in their ratio. ``shared`` maps a direction in which a
    fit's coefficients wander to the seconds of one standard deviation: it moves all operations of a model together.
    """

    terms: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    warnings: frozenset[str] = frozenset()
    shared: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of_units(cls, seconds: float) -> Cost:
        """A duration that is given, in units of T_v: it rests on no timing and has no error."""
        return cls({"given": (seconds, 0.0)}) if seconds else cls()

    @classmethod
    def total(cls, counted: Iterable[tuple[Cost, float]]) -> Cost:
        """Each cost so many times, all together."""
        terms: dict[str, tuple[float, float]] = {}
        shared: dict[str, float] = {}
        warnings: frozenset[str] = frozenset()
        for cost, times in counted:
            for key, (seconds, log_sd) in cost.terms.items():
                if key in terms:
                    before, before_sd = terms[key]
                    terms[key] = before + times * seconds, max(before_sd, log_sd)
                else:
                    terms[key] = times * seconds, log_sd
            for direction, seconds in cost.shared.items():
                shared[direction] = shared.get(direction, 0.0) + times * seconds
            if cost.warnings:
                warnings |= cost.warnings
        return cls(terms, warnings, shared)

    @cached_property
    def seconds(self) -> float:
        return sum(seconds for seconds, _ in self.terms.values())

    @property
    def log_sd(self) -> float:
        """Standard deviation of the logarithm, to first order."""
        squares = sum((seconds * sd) ** 2 for seconds, sd in self.terms.values())
        squares += sum(moved**2 for moved in self.shared.values())
        return math.sqrt(squares) / self.seconds if self.seconds else 0.0

    def __add__(self, other: Cost) -> Cost:
        return Cost.total(((self, 1), (other, 1)))

    def __mul__(self, times: float) -> Cost:
        if times == 1.0:
            return self
        terms = {key: (times * seconds, log_sd) for key, (seconds, log_sd) in self.terms.items()}
        return Cost(terms, self.warnings, {direction: times * seconds for direction, seconds in self.shared.items()})

    def off_by(self, direction: str, log_sd: float) -> Cost:
        """The same seconds, all of which one more error moves together."""
        moved = self.shared.get(direction, 0.0) + log_sd * self.seconds
        return Cost(self.terms, self.warnings, {**self.shared, direction: moved})

    def by_kind(self) -> dict[str, float]:
        """Seconds by kind of operation (a key is ``kind:shape@profile``)."""
        kinds: dict[str, float] = {}
        for key, (seconds, _) in self.terms.items():
            kind = key.split("@")[0].split(":")[0]
            kinds[kind] = kinds.get(kind, 0.0) + seconds
        return kinds

    def sample(self, errors: TimingErrors) -> Array:
        """The duration under each draw of ``errors``, shape ``(draws,)``."""
        total = np.zeros(errors.draws)
        for key, (seconds, log_sd) in self.terms.items():
            total += seconds * np.exp(log_sd * errors.standard_normal(key))
        moved = np.zeros(errors.draws)
        for direction, seconds in self.shared.items():
            moved += seconds * errors.standard_normal(direction)
        return total * _factor(moved / self.seconds) if self.seconds else total


def _factor(moved: Array) -> Array:
    """What multiplies seconds that move by so many times themselves: above 0, and 1 + ``moved`` where that is small.

    As the exponential to second order, but it grows no faster than what moved: an error of a millisecond in a step
    that takes a tenth of one stays milliseconds.
    """
    return np.exp(np.arcsinh(moved))


class TimingErrors:
    """Draws of every timing's error, and of whatever else is not known: the same for the same key, which seeds them."""

    def __init__(self, draws: int, seed: int) -> None:
        self.draws = draws
        self._seed = seed
        self._draws: dict[str, Array] = {}

    def standard_normal(self, key: str) -> Array:
        if key not in self._draws:
            self._draws[key] = self._rng(key).standard_normal(self.draws)
        return self._draws[key]

    def strata(self, key: str, count: int) -> Array:
        """Numbers from 0 to 1, one in each of ``count`` equal parts, in any order."""
        rng = self._rng(key)
        return np.asarray((rng.permutation(count) + rng.random(count)) / count)

    def _rng(self, key: str) -> np.random.Generator:
        return np.random.default_rng([self._seed, *key.encode()])  # by name: the order of asking does not matter
