"""A strategy's rounds measured and predicted, and what they say of speedups."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from calibration.validation.grid import GridPoint
from ssdsim import strategies
from ssdsim.base.intervals import Measured, student_quantile
from ssdsim.base.record import Record


class Comparison(Record):
    """A strategy at a grid point: mean round measured (with its interval over repeats) and predicted, in seconds.

    ``devices`` are the target's and the draft's; ``parts`` holds measured and predicted means of a round's parts.
    ``tokens_per_round`` is what a sequence's predicted rounds yield, ``tokens_repeats`` what the measured ones of each
    repeat yielded.
    """

    point: GridPoint
    strategy: str
    devices: tuple[int, int]
    measured: Measured
    predicted_s: float
    tokens_per_round: float
    tokens_repeats: tuple[float, ...]
    parts: Mapping[str, tuple[float, float]]
    repeats_s: tuple[float, ...]

    def __post_init__(self) -> None:
        numbers = (self.measured.value, self.predicted_s, self.tokens_per_round, *self.tokens_repeats, *self.repeats_s)
        if not all(0.0 < number < math.inf for number in numbers):
            raise ValueError("times and tokens of rounds must be positive and finite")
        if len(self.tokens_repeats) != len(self.repeats_s):
            raise ValueError("tokens_repeats and repeats_s must be lists of one length")

    @property
    def error(self) -> float:
        return self.predicted_s / self.measured.value - 1.0

    @property
    def worst_part(self) -> str:
        """The part that is off by most seconds."""
        return max(self.parts, key=lambda name: abs(self.parts[name][1] - self.parts[name][0]), default="-")


def interval(repeats: Sequence[float]) -> Measured:
    """The mean over repeats with its 95 % Student interval."""
    mean = float(np.mean(repeats))
    if len(repeats) < 2:
        return Measured(mean, float("-inf"), float("inf"))
    half = student_quantile(0.95, len(repeats) - 1) * float(np.std(repeats, ddof=1)) / len(repeats) ** 0.5
    return Measured(mean, mean - half, mean + half)


def speedups(comparisons: Sequence[Comparison]) -> list[tuple[str, str, Measured, float]]:
    """Each strategy's speed over its rival's at one grid point, where both ran: measured (by repeats, paired) and
    predicted, after the two names.
    """
    by_name = {c.strategy: c for c in comparisons}
    rivals = {name: strategies.ALL.named(name).rival for name in by_name}
    speedups = []
    for above, below in rivals.items():
        if below is None or below not in by_name:
            continue
        a, b = by_name[above], by_name[below]
        rates = [[t / s for t, s in zip(c.tokens_repeats, c.repeats_s, strict=True)] for c in (a, b)]
        pairs = [faster / slower for faster, slower in zip(*rates, strict=True)]
        predicted = (a.tokens_per_round / a.predicted_s) / (b.tokens_per_round / b.predicted_s)
        speedups.append((above, below, interval(pairs), predicted))
    return speedups
