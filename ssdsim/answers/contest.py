"""Who is faster under the same draws of what is uncertain, and the one rule of when that is decided."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

import numpy as np

from ssdsim.intervals import Draws, Interval

DECIDED = 0.95  # the probability of a sign from which on it is said; below it a verdict is "undecided"
SIGN_OPEN = "the timings' errors leave the sign open"

Outcome = Literal["wins", "loses", "undecided"]
Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True)
class Versus:
    """One side's rate over another's: the ratio, its 95 % interval, P(faster); None where nothing errs."""

    ratio: float
    low: float | None = None
    high: float | None = None
    probability_faster: float | None = None

    @property
    def interval(self) -> Interval | None:
        return None if self.low is None or self.high is None else Interval(self.low, self.high)

    @property
    def as_fast(self) -> bool:
        """An interval that rounds to 1 leaves nothing open."""
        return self.low is not None and f"{self.low:.2f} {self.high:.2f}" == "1.00 1.00"

    @property
    def loses(self) -> bool:
        """Or is as fast."""
        if self.probability_faster is None:
            return self.ratio <= 1.0
        return self.as_fast or self.probability_faster <= 1.0 - DECIDED

    @property
    def wins(self) -> bool:
        return not self.loses and (self.probability_faster is None or self.probability_faster >= DECIDED)


@dataclass(frozen=True)
class Contest(Generic[Key]):
    """A subject against its rivals; ``probability`` is that of its being the fastest, None where nothing errs."""

    over: Mapping[Key, Versus]
    probability: float | None

    @property
    def outcome(self) -> Outcome:
        """The one rule: what is said of the subject holds with a probability of :data:`DECIDED`.

        It loses where a single rival is faster, or as fast; it wins where it is the fastest of all.
        """
        if any(versus.loses for versus in self.over.values()):
            return "loses"
        return "wins" if self.probability is None or self.probability >= DECIDED else "undecided"

    @property
    def decided(self) -> bool:
        return self.outcome != "undecided"

    @property
    def open(self) -> list[Key]:
        """Rivals of whom the sign is not known."""
        return [rival for rival, versus in self.over.items() if not (versus.wins or versus.loses)]

    @property
    def closest(self) -> Key:
        """The fastest rival of those that decide: that beat the subject, else that leave it open, else of all."""
        lost = [rival for rival, versus in self.over.items() if versus.loses]
        return min(lost or self.open or self.over, key=lambda rival: self.over[rival].ratio)

    @property
    def why_open(self) -> str:
        if self.open:
            return SIGN_OPEN
        return f"that it is faster than all of them has P {self.probability:.2f}"


def contest(
    subject: Key, rivals: Iterable[Key], rates: Mapping[Key, float], draws: Mapping[Key, Draws] | None
) -> Contest[Key]:
    """The subject against ``rivals``, in their order.

    Parameters
    ----------
    rates : what is held against each other, such as tokens/s: of the subject and of each rival.
    draws : of the rates, the same draws for all; None where nothing errs.
    """
    rivals = tuple(rivals)
    if draws is None:
        return Contest({rival: Versus(rates[subject] / rates[rival]) for rival in rivals}, None)
    over = {}
    for rival in rivals:
        ratios = Interval.of(draws[subject] / draws[rival])
        faster = float(share_fastest(draws[subject], [draws[rival]]))
        over[rival] = Versus(rates[subject] / rates[rival], ratios.low, ratios.high, faster)
    return Contest(over, float(share_fastest(draws[subject], [draws[rival] for rival in rivals])))


def share_fastest(subject: Draws, rivals: Sequence[Draws]) -> Any:
    """In which share of the draws (along the last axis) the subject is the fastest of all.

    Those that are as fast have equal parts of it.
    """
    sides = np.stack([subject, *rivals])
    fastest = sides == sides.max(axis=0)
    return np.mean(fastest[0] / fastest.sum(axis=0), axis=-1)
