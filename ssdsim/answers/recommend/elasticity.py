"""What to improve first: how tokens/s answer to a small change of each input, by evaluating again."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

from ssdsim.answers.grid import evaluate
from ssdsim.answers.predict import estimate_all
from ssdsim.answers.recommend.deployment import Deployment, Shape
from ssdsim.answers.recommend.request import Request
from ssdsim.answers.recommend.search import neighbours
from ssdsim.hardware.catalog import find_hardware
from ssdsim.hardware.what_if import scale
from ssdsim.scenario.configuration import configure
from ssdsim.scenario.options import DEFAULTS

_STEP = 0.01
_BETTER = 0.1
_NEARBY = 1.15  # the factor on the budget that may follow a change

_TIMES: Mapping[str, tuple[str, ...]] = {
    "target pass time T_v": ("ar_pass_s", "sd_verify_s", "verify_s"),
    "draft pass time T_d": ("sd_draft_s", "glue_s", "branches_s"),
    "message time": ("sd_message_s", "send_s", "respond_s"),
    "host time a round": ("post_s", "lookup_s"),
}
Rates = Callable[[Sequence[float]], list[float]]  # tokens/s by factors on an input


@dataclass(frozen=True)
class Elasticity:
    """``elasticity`` is d ln(tokens/s) / d ln(what), over 1 % up and down; ``gain`` (a share) is that of ``better``.

    The placement is held; K and the number of cached outcomes follow the change.
    """

    what: str
    better: str
    elasticity: float
    gain: float


def elasticities(deployment: Deployment, request: Request) -> list[Elasticity]:
    """Every input's elasticity, the largest gain first."""
    return sorted(_Nearby(deployment, request).elasticities(), key=lambda e: -e.gain)


class _Nearby:
    """The deployment and those with settings next to its own."""

    def __init__(self, deployment: Deployment, request: Request) -> None:
        shape, batch = deployment.shape, deployment.copy_batch
        self.strategy = shape.strategy
        self.points = [near.point(request.options, batch) for near in _shapes(shape, request)]
        self.options = {**DEFAULTS, **request.options}

    def elasticities(self) -> Iterator[Elasticity]:
        with TemporaryDirectory() as folder:
            for what, better, rates, factor in (*self._chances(), *self._times(), *self._devices(Path(folder))):
                low, same, high, improved = rates((1 - _STEP, 1.0, 1 + _STEP, factor))
                slope = math.log(high / low) / math.log((1 + _STEP) / (1 - _STEP))
                yield Elasticity(what, better, slope, improved / same - 1.0)

    def _best(self, changes: Sequence[Mapping[str, Any]]) -> list[float]:
        """Tokens/s under each change, with the settings that are best there."""
        frame = evaluate({**point, **change} for change in changes for point in self.points)
        rates = frame[f"{self.strategy}_tokens_per_second"].fillna(0.0).to_numpy()
        return [float(rate) for rate in rates.reshape(len(changes), -1).max(axis=1)]

    def _of(self, *names: str) -> Rates:
        """Tokens/s when the options ``names`` are multiplied by a factor."""
        values = {name: self.options[name] for name in names}
        return lambda factors: self._best([{n: f * value for n, value in values.items()} for f in factors])

    def _chances(self) -> Iterator[tuple[str, str, Rates, float]]:
        """Acceptance and hits: their complements are made a tenth smaller."""
        options = self.options
        alpha, p_hit = options["alpha"], options["p_hit"]
        if self.strategy != "ar" and options["acceptance"] is None and _movable(alpha):
            yield "acceptance rate alpha", "10 % fewer rejections", self._of("alpha"), _fewer_failures(alpha)
        if self.strategy == "ssd" and _movable(p_hit):
            yield "hit rate p_hit", "10 % fewer misses", self._of("p_hit"), _fewer_failures(p_hit)
        elif self.strategy == "ssd" and p_hit is None and options["hit_curve"] is None and _movable(options["hit_c"]):
            given = ("hit_c", "hit_c_all") if _movable(options["hit_c_all"]) else ("hit_c",)
            yield "misses of the cache", "10 % fewer", self._of(*given), 1 - _BETTER

    def _times(self) -> Iterator[tuple[str, str, Rates, float]]:
        scenarios = [configure(**point).scenario for point in self.points]
        for what, names in _TIMES.items():

            def rates(factors: Sequence[float], names: tuple[str, ...] = names) -> list[float]:
                found = []
                for factor in factors:
                    of_all = []
                    for scenario in scenarios:
                        jit = scenario.fallback == "jit" and "glue_s" in names
                        scaled = (*names, "fallback_s") if jit else names
                        times = replace(scenario.times, **{n: factor * getattr(scenario.times, n) for n in scaled})
                        estimate = estimate_all(scenario.with_times(times))[self.strategy]
                        of_all.append(float(estimate.tokens_per_second))
                    found.append(max(of_all))
                return found

            if len(set(rates((1.0, 2.0)))) > 1:  # else it is no part of this strategy's round
                yield what, "10 % shorter", rates, 1 - _BETTER

    def _devices(self, folder: Path) -> Iterator[tuple[str, str, Rates, float]]:
        """Target's and draft's devices alike, made faster."""

        def scaled(what: Literal["memory_bandwidth", "clock"], factor: float) -> dict[str, str]:
            changed = {}
            for option in ("hardware", "draft_hardware"):
                profile = find_hardware(self.options[option] or self.options["hardware"])
                path = folder / f"{profile.name}-{what}-{factor:.3f}.json"
                faster = {"memory_bandwidth": 1.0, "clock": 1.0, what: factor}
                scale(profile, profile.name, memory_bandwidth=faster["memory_bandwidth"], clock=faster["clock"]).save(
                    path
                )
                changed[option] = str(path)
            return changed

        yield (
            "memory bandwidth",
            "10 % more",
            lambda factors: self._best([scaled("memory_bandwidth", factor) for factor in factors]),
            1 + _BETTER,
        )
        yield (
            "clock (arithmetic, launches)",
            "10 % more",
            lambda factors: self._best([scaled("clock", factor) for factor in factors]),
            1 + _BETTER,
        )


def _shapes(shape: Shape, request: Request) -> list[Shape]:
    """``shape`` and its neighbours on the same devices."""
    if shape.strategy == "ar":
        return [shape]
    near = {shape, *neighbours(request, shape, _NEARBY)}
    return sorted(other for other in near if other.draft_gpus == shape.draft_gpus)


def _movable(value: Any) -> bool:
    """A rate that can be moved up and down by a step."""
    return isinstance(value, int | float) and 0.0 < value < 1.0 / (1.0 + _STEP)


def _fewer_failures(rate: float) -> float:
    """The factor on ``rate`` that makes its complement a tenth smaller."""
    return (1.0 - (1.0 - _BETTER) * (1.0 - rate)) / rate
