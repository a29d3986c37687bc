"""A contest of strategies under the same draws of all errors, and the one rule of when it is decided."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, Generic, Literal, TypeVar

import numpy as np

from ssdsim.base.intervals import Draws, Interval, bounds_95, median
from ssdsim.base.record import Record
from ssdsim.question.many import RateDraws

DECIDED = 0.95  # the least probability at which a sign is certain enough; below it a verdict is "undecided"

OPEN = "the timings' errors leave open who is faster"

Outcome = Literal["wins", "loses", "undecided"]
Key = TypeVar("Key", bound=Hashable)


def is_decided(share: float | None, everywhere: bool) -> bool:
    """The one rule of decision, for the sign of a difference.

    The sign must hold in a share :data:`DECIDED` of the joint draws of timings and tokens. At the predicted timings it
    must hold ``everywhere`` in the ranges of the token inputs. Without errors there is no share (None).
    """
    return (share is None or share >= DECIDED) and everywhere


class Versus(Record):
    """One side's rate over another's: the ratio, its 95 % interval, P(faster); None without errors.

    ``lowest`` and ``highest`` bound the ratio over the ranges of token inputs, at the predicted timings; None if no
    input has a range. ``timings`` is half the ratio's relative 95 % interval under the timings' errors alone.
    """

    ratio: float
    low: float | None = None
    high: float | None = None
    probability_faster: float | None = None
    lowest: float | None = None
    highest: float | None = None
    timings: float | None = None

    @property
    def interval(self) -> Interval | None:
        return None if self.low is None or self.high is None else Interval(self.low, self.high)

    @property
    def is_tie(self) -> bool:
        """Say whether the interval rounds to 1: a tie is decided."""
        return self.low is not None and f"{self.low:.2f} {self.high:.2f}" == "1.00 1.00"

    @property
    def constant_ratio(self) -> str:
        """The ratio, if it is the same over all ranges to the digits that are shown; else empty."""
        if self.lowest is None or self.highest is None:
            return ""
        lowest, highest = f"{self.lowest:.2f}x", f"{self.highest:.2f}x"
        return lowest if lowest == highest else ""

    @property
    def sign_depends_on_inputs(self) -> bool:
        """Say whether the faster side changes within the ranges of token inputs, at the predicted timings."""
        return self.lowest is not None and self.highest is not None and self.lowest <= 1.0 < self.highest

    @property
    def loses(self) -> bool:
        """Say whether the other side is faster, or as fast."""
        if self.probability_faster is None:
            return self.ratio <= 1.0
        return self.is_tie or is_decided(1.0 - self.probability_faster, not self.sign_depends_on_inputs)

    @property
    def wins(self) -> bool:
        return not self.loses and is_decided(self.probability_faster, not self.sign_depends_on_inputs)


class Contest(Record, Generic[Key]):
    """A subject against its rivals. ``probability`` is P(subject is the fastest); None without errors."""

    over: Mapping[Key, Versus]
    probability: float | None

    @property
    def outcome(self) -> Outcome:
        """``loses`` if one rival is faster or as fast, ``wins`` if the subject is the fastest of all."""
        if any(versus.loses for versus in self.over.values()):
            return "loses"
        everywhere = not any(versus.sign_depends_on_inputs for versus in self.over.values())
        return "wins" if is_decided(self.probability, everywhere) else "undecided"

    @property
    def decided(self) -> bool:
        return self.outcome != "undecided"

    @property
    def open(self) -> list[Key]:
        """Rivals with an undecided sign."""
        return [rival for rival, versus in self.over.items() if not (versus.wins or versus.loses)]

    @property
    def decisive_rival(self) -> Key:
        """The rival that decides: the fastest of those that beat the subject, else of those left open, else of all."""
        lost = [rival for rival, versus in self.over.items() if versus.loses]
        return min(lost or self.open or self.over, key=lambda rival: self.over[rival].ratio)


def contest(
    subject: Key, rivals: Iterable[Key], rates: Mapping[Key, float], draws: Mapping[Key, RateDraws] | None
) -> Contest[Key]:
    """The subject against ``rivals``, in their order.

    Parameters
    ----------
    rates : what is compared, such as tokens/s, of the subject and of each rival.
    draws : of the rates, the same draws for all; None without errors.
    """
    rivals = tuple(rivals)
    if draws is None:
        return Contest({rival: Versus(rates[subject] / rates[rival]) for rival in rivals}, None)
    own = draws[subject]
    probability = float(share_fastest(own.joint, [draws[rival].joint for rival in rivals]))
    return Contest({rival: _versus(rates[subject] / rates[rival], own, draws[rival]) for rival in rivals}, probability)


def _versus(ratio: float, own: RateDraws, other: RateDraws) -> Versus:
    faster = float(share_fastest(own.joint, [other.joint]))
    interval = Interval.of(own.joint / other.joint)
    low, high = bounds_95(own.timings / other.timings)
    timings = float(np.sqrt(high / low) - 1.0)
    if own.across is None and other.across is None:
        return Versus(ratio, interval.low, interval.high, faster, timings=timings)
    # over the ranges of token inputs, of which a side that reads none has one rate
    mine, theirs = [median(each.timings) if each.across is None else each.across for each in (own, other)]
    across = np.asarray(mine / theirs)
    lowest, highest = min(ratio, float(across.min())), max(ratio, float(across.max()))
    return Versus(ratio, interval.low, interval.high, faster, lowest, highest, timings)


def share_fastest(subject: Draws, rivals: Sequence[Draws]) -> Any:
    """The share of draws (along the last axis) in which the subject is the fastest; ties are shared equally."""
    sides = np.stack([subject, *rivals])
    fastest = sides == sides.max(axis=0)
    return np.mean(fastest[0] / fastest.sum(axis=0), axis=-1)
