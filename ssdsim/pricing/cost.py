"""Seconds of forward passes and messages on a hardware profile, with the timings that they rest on kept apart."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ssdsim.hardware.profile import HardwareProfile, Timing
from ssdsim.transformer.card import ForwardPass
from ssdsim.transformer.operations import Operation

Seconds = float | NDArray[np.float64]

_REMEMBERED = 65536  # passes and messages a profile


@dataclass(frozen=True)
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
                before, before_sd = terms.get(key, (0.0, log_sd))
                terms[key] = (before + times * seconds, max(before_sd, log_sd))
            for direction, seconds in cost.shared.items():
                shared[direction] = shared.get(direction, 0.0) + times * seconds
            warnings |= cost.warnings
        return cls(terms, warnings, shared)

    @cached_property
    def seconds(self) -> float:
        return sum(seconds for seconds, _ in self.terms.values())

    def __add__(self, other: Cost) -> Cost:
        return Cost.total(((self, 1), (other, 1)))

    def __mul__(self, times: float) -> Cost:
        if times == 1.0:
            return self
        terms = {key: (times * seconds, log_sd) for key, (seconds, log_sd) in self.terms.items()}
        return Cost(terms, self.warnings, {direction: times * seconds for direction, seconds in self.shared.items()})

    def by_kind(self) -> dict[str, float]:
        """Seconds by kind of operation (a key is ``kind:shape@profile``)."""
        kinds: dict[str, float] = {}
        for key, (seconds, _) in self.terms.items():
            kind = key.split("@")[0].split(":")[0]
            kinds[kind] = kinds.get(kind, 0.0) + seconds
        return kinds

    def sample(self, errors: TimingErrors) -> NDArray[np.float64]:
        """The duration under each draw of ``errors``, shape ``(draws,)``."""
        total = np.zeros(errors.draws)
        for key, (seconds, log_sd) in self.terms.items():
            total += seconds * np.exp(log_sd * errors.standard_normal(key))
        moved = np.zeros(errors.draws)
        for direction, seconds in self.shared.items():
            moved += seconds * errors.standard_normal(direction)
        # as a factor, which leaves durations positive; to first order the same
        return total * np.exp(moved / self.seconds) if self.seconds else total


class TimingErrors:
    """Draws of every timing's error, the same for the same key (standard normal, seeded by the key)."""

    def __init__(self, draws: int, seed: int) -> None:
        self.draws = draws
        self._seed = seed
        self._draws: dict[str, NDArray[np.float64]] = {}

    def standard_normal(self, key: str) -> NDArray[np.float64]:
        if key not in self._draws:
            entropy = [self._seed, *key.encode()]  # by name, so that the order of asking does not matter
            self._draws[key] = np.random.default_rng(entropy).standard_normal(self.draws)
        return self._draws[key]


def cost_of_operations(counted: Iterable[tuple[Operation, int]], profile: HardwareProfile) -> Cost:
    """Each operation's time on ``profile`` times its count."""
    ops, counts = zip(*counted, strict=True)
    return Cost.total(
        (_cost_of(each, profile), count) for each, count in zip(profile.seconds_of(ops), counts, strict=True)
    )


def _cost_of(timing: Timing, profile: HardwareProfile) -> Cost:
    """A timing as a cost; two devices share no error, so the profile is in the keys."""
    warnings = frozenset([timing.warning] if timing.warning else [])
    shared = {f"{direction}@{profile.name}": timing.seconds * moved for direction, moved in timing.shared.items()}
    return Cost({f"{timing.key}@{profile.name}": (timing.seconds, timing.own_log_sd)}, warnings, shared)


def cost_of_pass(forward: ForwardPass, profile: HardwareProfile) -> Cost:
    """Kernels of a pass plus the profile's fixed costs per layer and per pass."""

    def cost() -> Cost:
        fixed = _fixed(profile, profile.fixed.per_pass_s + forward.layers * profile.fixed.per_layer_s)
        return cost_of_operations(forward.counted(), profile) + fixed

    return _remembered(profile, forward, cost)


def _remembered(profile: HardwareProfile, what: ForwardPass | int, cost: Callable[[], Cost]) -> Cost:
    """The cost of a pass, or of a message of so many bytes, worked out once."""
    known: dict[ForwardPass | int, Cost] = profile.costs
    found = known.get(what)
    if found is None:
        if len(known) >= _REMEMBERED:
            known.clear()
        found = known[what] = cost()
    return found


def streaming_share(forward: ForwardPass, seconds: float, profile: HardwareProfile) -> float:
    """Share of a pass's time that its bytes alone would take at the device's memory bandwidth, at most 1."""
    return min(1.0, forward.moved_bytes / profile.device.memory_bandwidth / seconds)


def cost_of_message(message_bytes: int, profile: HardwareProfile) -> Cost:
    """A point-to-point message between the target and the draft."""
    return _remembered(profile, message_bytes, lambda: _cost_of(profile.message_seconds(message_bytes), profile))


def cost_of_round(profile: HardwareProfile) -> Cost:
    """Host work once a round: sampling, bookkeeping (the profile's ``per_round_s``)."""
    return _fixed(profile, profile.fixed.per_round_s)


def _fixed(profile: HardwareProfile, seconds: float) -> Cost:
    if seconds == 0.0:
        return Cost()
    return Cost({"fixed@" + profile.name: (seconds, profile.fixed.relative_error)})
