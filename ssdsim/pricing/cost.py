"""Durations as sums of terms, so that an error of a timing moves all that rests on it together."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import NamedTuple

import numpy as np

from ssdsim.base.checks import Array, whole

_KEPT = 2_000_000  # draws of costs: 16 MB

Seconds = float | Array


class Terms(NamedTuple):
    """What a duration rests on.

    ``timings`` maps a timing's key to ``(seconds, log_sd)``: the same matrix in two passes has the same key, so an
    error of its timing moves both passes together and cancels in their ratio. ``shared`` maps a direction in which a
    fit's coefficients wander to the seconds of one standard deviation: it moves all operations of a model together.
    """

    timings: Mapping[str, tuple[float, float]]
    shared: Mapping[str, float]


class Cost:
    """A duration as a sum of :class:`Terms`, one for each timing that it rests on.

    Searches ask thousands of costs for their seconds and a few for their errors: terms are made when they are asked
    for.
    """

    __slots__ = ("_terms", "seconds", "warnings")

    def __init__(
        self,
        timings: Mapping[str, tuple[float, float]] | None = None,
        warnings: frozenset[str] = frozenset(),
        shared: Mapping[str, float] | None = None,
    ) -> None:
        self.seconds = sum(seconds for seconds, _ in timings.values()) if timings else 0.0
        self.warnings = warnings
        self._terms: Terms | Callable[[], Terms] = Terms(timings or {}, shared or {})

    @classmethod
    def of(cls, seconds: float, terms: Callable[[], Terms], warnings: frozenset[str] = frozenset()) -> Cost:
        """A duration whose ``terms`` are computed when somebody reads them."""
        cost = cls.__new__(cls)
        cost.seconds, cost.warnings, cost._terms = seconds, warnings, terms
        return cost

    @classmethod
    def of_units(cls, seconds: float) -> Cost:
        """A given duration in units of T_v: no timing, no error."""
        return cls({"given": (seconds, 0.0)}) if seconds else cls()

    @classmethod
    def total(cls, counted: Iterable[tuple[Cost, float]]) -> Cost:
        """Sum of costs, each times its count."""
        summands = tuple(counted)
        seconds = sum(times * cost.seconds for cost, times in summands)
        warnings = frozenset().union(*(cost.warnings for cost, _ in summands if cost.warnings))
        return cls.of(seconds, partial(merged, summands), warnings)

    @property
    def terms(self) -> Terms:
        if not isinstance(self._terms, Terms):
            self._terms = self._terms()
        return self._terms

    @property
    def log_sd(self) -> float:
        """Standard deviation of the logarithm, to first order."""
        timings, shared = self.terms
        squares = sum((seconds * sd) ** 2 for seconds, sd in timings.values())
        squares += sum(moved**2 for moved in shared.values())
        return math.sqrt(squares) / self.seconds if self.seconds else 0.0

    def __add__(self, other: Cost) -> Cost:
        return Cost.total(((self, 1), (other, 1)))

    def __mul__(self, times: float) -> Cost:
        return self if times == 1.0 else Cost.total(((self, times),))

    def off_by(self, direction: str, log_sd: float) -> Cost:
        """Add an error that moves all seconds together."""
        timings, shared = self.terms
        moved = shared.get(direction, 0.0) + log_sd * self.seconds
        return Cost(timings, self.warnings, {**shared, direction: moved})

    def by_kind(self) -> dict[str, float]:
        """Seconds by kind of operation (a key is ``kind:shape@profile``)."""
        kinds: dict[str, float] = {}
        for key, (seconds, _) in self.terms.timings.items():
            kind = key.split("@")[0].split(":")[0]
            kinds[kind] = kinds.get(kind, 0.0) + seconds
        return kinds

    def sample(self, errors: TimingErrors) -> Array:
        """The duration under each draw of ``errors``, shape ``(draws,)``."""
        timings, shared = self.terms
        total = np.zeros(errors.draws)
        for key, (seconds, log_sd) in timings.items():
            total += seconds * errors.factor(key, log_sd)
        moved = np.zeros(errors.draws)
        for direction, seconds in shared.items():
            moved += seconds * errors.standard_normal(direction)
        # As 1 + ``moved`` where that is small, and above 0. To second order it is the exponential, but it grows no
        # faster than ``moved``: an error of a millisecond in a step that takes a tenth of one stays milliseconds.
        return total * np.exp(np.arcsinh(moved / self.seconds)) if self.seconds else total


def merged(counted: Iterable[tuple[Cost | Terms, float]]) -> Terms:
    """Merge terms by key: terms of one key err together, by the larger of their errors."""
    timings: dict[str, tuple[float, float]] = {}
    shared: dict[str, float] = {}
    for summand, times in counted:
        terms = summand if isinstance(summand, Terms) else summand.terms
        for key, (seconds, log_sd) in terms.timings.items():
            before, before_sd = timings.get(key, (0.0, 0.0))
            timings[key] = before + times * seconds, max(before_sd, log_sd)
        for direction, seconds in terms.shared.items():
            shared[direction] = shared.get(direction, 0.0) + times * seconds
    return Terms(timings, shared)


class TimingErrors:
    """Draws of every timing's error and of every other open input. The key seeds them: the order does not matter."""

    def __init__(self, draws: int, seed: int) -> None:
        self.draws = draws
        self.seed = whole("--seed", seed, 0)
        self._draws: dict[str, Array] = {}
        self._factors: dict[tuple[str, float], Array] = {}
        self._strata: dict[tuple[str, int], Array] = {}
        self._seconds: dict[Cost, Array] = {}

    def standard_normal(self, key: str) -> Array:
        if key not in self._draws:
            self._draws[key] = np.random.default_rng([self.seed, *key.encode()]).standard_normal(self.draws)
        return self._draws[key]

    def factor(self, key: str, log_sd: float) -> Array:
        """Factor by which a timing, or a whole step, is off."""
        if (key, log_sd) not in self._factors:
            self._factors[key, log_sd] = np.exp(log_sd * self.standard_normal(key))
        return self._factors[key, log_sd]

    def seconds(self, cost: Cost) -> Array:
        """Draws of a duration, cached until they are too many: rounds of different lengths share passes."""
        if cost not in self._seconds:
            if len(self._seconds) * self.draws >= _KEPT:
                self._seconds.clear()
            self._seconds[cost] = cost.sample(self)
        return self._seconds[cost]

    def strata(self, key: str, count: int) -> Array:
        """Stratified numbers in [0, 1]: one in each of ``count`` equal parts, in random order."""
        if (key, count) not in self._strata:
            rng = np.random.default_rng([self.seed, *key.encode()])
            self._strata[key, count] = (rng.permutation(count) + rng.random(count)) / count
        return self._strata[key, count]
