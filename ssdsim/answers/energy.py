"""Joules a token and watts a GPU of a scenario: what its devices draw at work, and at rest between it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from functools import cached_property
from typing import Any

import numpy as np

from ssdsim.answers.simulation.trace import Trace
from ssdsim.base.checks import Array
from ssdsim.base.errors import InputError
from ssdsim.base.intervals import Draws, Interval, quantiles
from ssdsim.base.record import Record, field, replace
from ssdsim.hardware.catalog import HARDWARE
from ssdsim.hardware.power import PowerLaw
from ssdsim.hardware.profile import HardwareProfile
from ssdsim.pricing.cost import Cost, TimingErrors
from ssdsim.pricing.passes import kernel_factor
from ssdsim.pricing.step import Pass, Piece, Step
from ssdsim.question.scenario import Scenario
from ssdsim.rounds.actor import kind_of

ROUNDS = 128
"""That are replayed to count how often each step runs: the misses of a few settle their small share of the joules."""
_FIRST = re.compile(r"(.*) (?:GPU 0|on the host)")  # track of a role


def check_watts(flag: str, profiles: Iterable[HardwareProfile]) -> None:
    """Raise :class:`InputError` where nobody knows a device's watts."""
    for profile in profiles:
        if profile.power is None:
            known = ", ".join(card.name for card in HARDWARE.cards() if card.power is not None)
            raise InputError(f"{flag}: nobody measured the watts of {profile.name}. Allowed: {known}")


class Drawing(Record):
    """What ``gpus`` devices of a ``role`` (target, draft) draw: each its watts at rest and, above these, ``work_w``."""

    role: str
    profile: HardwareProfile
    gpus: float
    work_w: float

    @classmethod
    def of(cls, role: str, profile: HardwareProfile, gpus: float, work_w: float) -> Drawing:
        """That of devices which draw ``work_w`` above rest together; none draws more than its limit."""
        alone = cls(role, profile, gpus, work_w / gpus)
        return replace(alone, work_w=min(alone.work_w, alone.law.limit_w - alone.law.idle_w))

    @property
    def law(self) -> PowerLaw:
        assert self.profile.power is not None
        return self.profile.power

    @property
    def watts(self) -> float:
        """Watts of one of them."""
        return self.law.idle_w + self.work_w

    @property
    def rests_on(self) -> str:
        """Whose watts they are, how far they are off, and what they leave out."""
        law, source = self.law, self.profile.sources[self.law.source]
        kinds = ", ".join(f"{kind} {each.report.median_error:.0%}" for kind, each in law.kinds.items())
        said = f"{self.profile.name}: {source.kind} from {source.source} {source.commit}".rstrip()
        ends = f"{law.idle_w:.0f} W at rest, {law.limit_w:.0f} W at most"
        return f"{said}: {kinds} (held-out medians); {ends}; of GPUs alone, without hosts, switches and fans"

    def drawn(self, errors: TimingErrors) -> Array:
        """Watts of all of them, under each draw of the error of the watts: one for all strategies on the device."""
        name, law = self.profile.name, self.law
        rest = law.idle_w * errors.factor(f"watts at rest@{name}", law.idle_log_sd)
        return self.gpus * (rest + self.work_w * errors.factor(f"watts at work@{name}", law.pass_log_sd))


class Spread(Record):
    """The middle of draws, 80 of 100 of them, and 95."""

    median: float
    likely: Interval
    interval: Interval

    @classmethod
    def of(cls, draws: Draws) -> Spread:
        low, likely_low, middle, likely_high, high = map(float, quantiles(draws, 0.025, 0.1, 0.5, 0.9, 0.975))
        return cls(middle, Interval(likely_low, likely_high), Interval(low, high))


class Energy(Record):
    """Draws of the joules a token, and what each role draws."""

    by_role: tuple[Drawing, ...]
    joules: Draws

    @property
    def watts_per_gpu(self) -> float:
        return sum(each.gpus * each.watts for each in self.by_role) / sum(each.gpus for each in self.by_role)

    @cached_property
    def joules_per_token(self) -> Spread:
        return Spread.of(self.joules)

    def over(self, other: Energy) -> Spread:
        """How many times the other's joules a token, by the same draws."""
        return Spread.of(self.joules / other.joules)


def energy(scenario: Scenario, rates: Draws | float, errors: TimingErrors) -> Energy:
    """The energy of a scenario whose tokens/s are drawn as ``rates``, by the same errors."""
    by_role = drawn_by(scenario)
    return Energy(by_role, np.atleast_1d(sum(each.drawn(errors) for each in by_role) / rates))


def drawn_by(scenario: Scenario) -> tuple[Drawing, ...]:
    """What each kind of device draws in the mean over its rounds; of a draft that targets share, a target's part."""
    site, devices = scenario.site, scenario.devices
    if site is None:
        raise InputError("--energy has no effect without --hardware: watts are those of devices")
    profiles = {"target": site.profile, "draft": site.draft_profile}
    gpus = {kind: devices.of_kind(kind) / devices.targets for kind in profiles}
    there = {kind: profile for kind, profile in profiles.items() if gpus[kind]}
    check_watts("--energy", there.values())
    joules: defaultdict[str, float] = defaultdict(float)
    for (role, name), times in step_counts(scenario).items():
        kind = kind_of(role) if gpus.get(kind_of(role)) else "target"  # a draft may work on its target's devices
        joules[kind] += times * _joules(scenario.steps[name], devices.draft if kind == "draft" else 1)
    replayed = devices.served / devices.microbatches  # of a draft's own devices, all that it serves; else one of them
    round_s = float(scenario.estimate.round_s) * replayed
    return tuple(Drawing.of(k, profile, gpus[k], joules[k] / round_s) for k, profile in there.items())


def _joules(step: Step, gpus: int) -> float:
    """Joules of a step above those of its devices at rest; at least so many GPUs run each of its passes."""
    return sum(
        piece.times * max(piece.work.tp * step.devices, gpus) * _joules_of_pass(piece.work)
        for piece in step.pieces
        if isinstance(piece.work, Pass)
    )


def _joules_of_pass(work: Pass) -> float:
    """The same of a pass on one of its devices: each operation as long as the engine runs it."""
    profile, law = work.priced_on, work.profile.power
    assert law is not None
    joules = 0.0
    for op, times in work.forward.counted:
        alone_s = profile.seconds(op).seconds
        seconds = alone_s * kernel_factor(op, alone_s, profile, work.runtime.kernels)
        shares = (each / seconds for each in (profile.device.memory_s(op), profile.device.compute_s(op)))
        joules += times * seconds * max(0.0, law.watts(op, *shares) - law.idle_w)
    return joules


def step_counts(scenario: Scenario) -> dict[tuple[str, str], float]:
    """How often a role runs each step in a round, by a replay of the strategy's programs: all of them in one way."""
    from ssdsim.answers.simulation.simulate import trace_rounds  # here: the closed form needs no clock

    work = _Work()
    whole = {name: replace(step, pieces=(_whole(name, step),)) for name, step in scenario.steps.items()}
    trace_rounds(work, scenario.with_steps(whole), ROUNDS)
    seconds = {key: each for key, each in work.seconds.items() if key[1] in whole}
    return {(role, name): each / whole[name].seconds / ROUNDS for (role, name), each in seconds.items()}


def _whole(name: str, step: Step) -> Piece:
    """A step as one piece of its mean length, which bears its name in a trace."""
    return Piece(name, Cost.of_units(step.seconds))


class _Work(Trace):
    """Seconds of each role's steps, in place of a timeline: its first device speaks for the others."""

    seconds: dict[tuple[str, str], float] = field(default_factory=dict)
    last: dict[str, tuple[tuple[str, str], float]] = field(default_factory=dict)

    def slice(self, track: str, name: str, start_s: float, end_s: float, **args: Any) -> None:
        if (first := _FIRST.fullmatch(track)) is not None:
            key = first[1], name
            self.seconds[key] = self.seconds.get(key, 0.0) + end_s - start_s
            self.last[track] = key, end_s

    def flow(self, name: str, from_track: str, from_s: float, to_track: str, to_s: float) -> None:
        """Draw no arrow."""

    def cut(self, end_s: float, track: str | None = None) -> None:
        for each, (key, last_s) in self.last.items():
            if track in (None, each) and last_s > end_s:
                self.seconds[key] -= last_s - end_s
                self.last[each] = key, end_s
