"""Elasticities: how tokens/s answer to a small change of each input, by evaluating again."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ssdsim import strategies
from ssdsim.advise.recommend.deployment import Deployment
from ssdsim.advise.recommend.search import Search, settings_around
from ssdsim.base.record import Record, replace
from ssdsim.hardware.catalog import called, find_hardware
from ssdsim.hardware.profile import HardwareProfile
from ssdsim.hardware.what_if import scale
from ssdsim.pricing.step import Pass, Piece, Step
from ssdsim.question.options import changed
from ssdsim.question.question import effective
from ssdsim.question.scenario import Scenario

_STEP = 0.01
_BETTER = 0.1
_NEARBY = 1.15  # the factor on the budget that may follow a change

_TIMES: Mapping[str, Callable[[Step, Piece], bool]] = {
    "target pass time T_v": lambda step, piece: _model_of(piece) == "target",
    "draft pass time T_d": lambda step, piece: _model_of(piece) == "draft",
    "message time": lambda step, piece: step.part == "communicate",
    "host time a round": lambda step, piece: step.part == "host",
}
"""Which pieces of a round's steps are of that time."""
_FASTER: Mapping[str, Callable[[HardwareProfile, float], HardwareProfile]] = {
    "memory bandwidth": lambda profile, factor: scale(profile, profile.name, memory_bandwidth=factor),
    "clock (arithmetic, launches)": lambda profile, factor: scale(profile, profile.name, clock=factor),
}
"""Devices on which that is so many times as fast."""
Rates = Callable[[Sequence[float]], list[float]]  # tokens/s by factors on an input


class Elasticity(Record):
    """``elasticity`` is d ln(tokens/s) / d ln(what), over 1 % up and down; ``gain`` (a share) is that of ``better``.

    The placement is held; K and the number of cached outcomes follow the change.
    """

    what: str
    better: str
    elasticity: float
    gain: float


def elasticities(deployment: Deployment, search: Search) -> list[Elasticity]:
    """Every input's elasticity, the largest gain first."""
    return sorted(_Nearby(deployment, search).elasticities(), key=lambda e: -e.gain)


class _Nearby:
    """The deployment and those with settings next to its own."""

    def __init__(self, deployment: Deployment, search: Search) -> None:
        shape, request = deployment.shape, search.request
        near = dict.fromkeys((shape, *settings_around(request, shape, _NEARBY)))
        self.search = search
        self.strategy = strategies.ALL.named(shape.strategy)
        self.points = [each.point(request.options, deployment.copy_batch) for each in near]
        self.options = effective(request.options)
        self.made: dict[str, HardwareProfile] = {}

    def elasticities(self) -> Iterator[Elasticity]:
        for what, better, rates, factor in (*self._chances(), *self._times(), *self._devices()):
            low, same, high, improved = rates((1 - _STEP, 1.0, 1 + _STEP, factor))
            slope = math.log(high / low) / math.log((1 + _STEP) / (1 - _STEP))
            yield Elasticity(what, better, slope, improved / same - 1.0)

    def _best(self, changes: Sequence[Mapping[str, Any]]) -> list[float]:
        """Tokens/s under each change, with the settings that are best there."""
        rates = self.search.tokens_per_second([changed(point, change) for change in changes for point in self.points])
        return [float(rate) for rate in rates.reshape(len(changes), -1).max(axis=1)]

    def _of(self, *names: str) -> Rates:
        """Tokens/s when the options ``names`` are multiplied by a factor."""
        values = {name: self.options[name] for name in names}
        return lambda factors: self._best([{n: f * value for n, value in values.items()} for f in factors])

    def _chances(self) -> Iterator[tuple[str, str, Rates, float]]:
        """Acceptance and hits: their complements are made a tenth smaller."""
        options = self.options
        alpha, p_hit = options["alpha"], options["p_hit"]
        caches = self.strategy.miss_state is not None
        if self.strategy.drafts and options["acceptance"] is None and _movable(alpha):
            yield "acceptance rate alpha", "10 % fewer rejections", self._of("alpha"), _fewer_failures(alpha)
        if caches and _movable(p_hit):
            yield "hit rate p_hit", "10 % fewer misses", self._of("p_hit"), _fewer_failures(p_hit)
        elif caches and p_hit is None and options["hit_curve"] is None and _movable(options["hit_c"]):
            given = ("hit_c", "hit_c_all") if _movable(options["hit_c_all"]) else ("hit_c",)
            yield "misses of the cache", "10 % fewer", self._of(*given), 1 - _BETTER

    def _times(self) -> Iterator[tuple[str, str, Rates, float]]:
        fastest = self.search.evaluator.fastest(self.points).results
        scenarios = [each.scenario for each in fastest if not isinstance(each, str)]
        for what, concerns in _TIMES.items():

            def rates(factors: Sequence[float], concerns: Callable[[Step, Piece], bool] = concerns) -> list[float]:
                return [max(_sped(scenario, concerns, factor) for scenario in scenarios) for factor in factors]

            if len(set(rates((1.0, 2.0)))) > 1:  # else it is no part of this strategy's round
                yield what, "10 % shorter", rates, 1 - _BETTER

    def _devices(self) -> Iterator[tuple[str, str, Rates, float]]:
        """Target's and draft's devices alike, made faster."""
        for what in _FASTER:

            def rates(factors: Sequence[float], what: str = what) -> list[float]:
                return self._best([self._on_faster(what, factor) for factor in factors])

            yield what, "10 % more", rates, 1 + _BETTER

    def _on_faster(self, what: str, factor: float) -> dict[str, str]:
        """The options of devices on which ``what`` is so many times as fast."""
        if factor == 1.0:
            return {}
        own = self.options["hardware"]
        used = {"hardware": own, "draft_hardware": self.options["draft_hardware"] or own}
        return {option: self._faster(hardware, what, factor) for option, hardware in used.items()}

    def _faster(self, hardware: str, what: str, factor: float) -> str:
        """A name under which such a device is found, made once."""
        name = f"{hardware}, {what} x {factor:.3f}"
        if name not in self.made:
            self.made[name] = _FASTER[what](find_hardware(hardware), factor)
        return called(name, self.made[name])


def _sped(scenario: Scenario, concerns: Callable[[Step, Piece], bool], factor: float) -> float:
    """Tokens/s when the pieces concerned take ``factor`` times as long."""
    seconds = {
        name: step.seconds
        + (factor - 1.0) * sum(piece.times * piece.cost.seconds for piece in step.pieces if concerns(step, piece))
        for name, step in scenario.steps.items()
    }
    return float(scenario.strategy.closed_form(replace(scenario.round, seconds=seconds)).tokens_per_second)


def _model_of(piece: Piece) -> str | None:
    return piece.work.model if isinstance(piece.work, Pass) else None


def _movable(value: Any) -> bool:
    """A rate that can be moved up and down by a step."""
    return isinstance(value, int | float) and 0.0 < value < 1.0 / (1.0 + _STEP)


def _fewer_failures(rate: float) -> float:
    """The factor on ``rate`` that makes its complement a tenth smaller."""
    return (1.0 - (1.0 - _BETTER) * (1.0 - rate)) / rate
