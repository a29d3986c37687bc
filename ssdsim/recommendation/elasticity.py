"""What to improve first: how tokens/s answer to a small change of each input, by evaluating again."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ssdsim.catalog import find_hardware
from ssdsim.configuration import configure
from ssdsim.options import DEFAULTS
from ssdsim.predict import estimate_all
from ssdsim.recommendation.deployment import Deployment
from ssdsim.scenario import RoundTimes
from ssdsim.what_if import scale

_STEP = 0.01
_BETTER = 0.1

_TIMES = {
    "target pass time T_v": ("ar_pass_s", "sd_verify_s", "verify_s"),
    "draft pass time T_d": ("sd_draft_s", "glue_s", "branches_s"),
    "message time": ("sd_message_s", "send_s", "respond_s"),
    "host time a round": ("post_s", "lookup_s"),
}


@dataclass(frozen=True)
class Elasticity:
    """``elasticity`` is d ln(tokens/s) / d ln(what), the settings held; ``gain`` is of a tenth better, as a share."""

    what: str
    better: str
    elasticity: float
    gain: float


def elasticities(deployment: Deployment, options: Mapping[str, Any]) -> list[Elasticity]:
    """Every input's elasticity, the largest gain first."""
    point = deployment.shape.point(options, deployment.copy_batch)
    with TemporaryDirectory() as folder:
        found = [_of(*entry) for entry in _inputs(deployment, point, Path(folder))]
    return sorted(found, key=lambda e: -e.gain)


def _of(what: str, better: str, rate: Callable[[float], float], better_factor: float) -> Elasticity:
    slope = math.log(rate(1 + _STEP) / rate(1 - _STEP)) / math.log((1 + _STEP) / (1 - _STEP))
    return Elasticity(what, better, slope, rate(better_factor) / rate(1.0) - 1.0)


def _inputs(
    deployment: Deployment, point: dict[str, Any], folder: Path
) -> Iterator[tuple[str, str, Callable[[float], float], float]]:
    """(what, what better means, tokens/s by a factor on it, that factor when it is a tenth better)."""
    strategy = deployment.shape.strategy

    def rate(**changed: Any) -> float:
        return float(estimate_all(configure(**{**point, **changed}).scenario)[strategy].tokens_per_second)

    if strategy != "ar":
        alpha = point.get("alpha", DEFAULTS["alpha"])
        if "acceptance" not in point and isinstance(alpha, int | float) and 0 < alpha < 1 / (1 + _STEP):
            fewer = (1 - (1 - _BETTER) * (1 - alpha)) / alpha
            yield "acceptance rate alpha", "10 % fewer rejections", lambda f: rate(alpha=f * alpha), fewer
    if strategy == "ssd":
        yield from _hits(point, rate)
    scenario = configure(**point).scenario
    for what, names in _TIMES.items():
        jit = ("fallback_s",) if what.startswith("draft") and deployment.shape.backup == "jit" else ()
        times = scenario.times
        if any(float(getattr(times, name)) for name in (*names, *jit)):

            def timed(factor: float, names: tuple[str, ...] = (*names, *jit), times: RoundTimes = times) -> float:
                scaled = {name: factor * getattr(times, name) for name in names}
                return float(estimate_all(scenario.with_times(replace(times, **scaled)))[strategy].tokens_per_second)

            yield what, "10 % shorter", timed, 1 - _BETTER
    yield "memory bandwidth", "10 % more", _scaled(rate, point, folder, "memory_bandwidth"), 1 + _BETTER
    yield "clock (arithmetic, launches)", "10 % more", _scaled(rate, point, folder, "clock"), 1 + _BETTER


def _hits(
    point: dict[str, Any], rate: Callable[..., float]
) -> Iterator[tuple[str, str, Callable[[float], float], float]]:
    p_hit = point.get("p_hit")
    if p_hit is not None:
        if 0 < p_hit < 1 / (1 + _STEP):
            fewer = (1 - (1 - _BETTER) * (1 - p_hit)) / p_hit
            yield "hit rate p_hit", "10 % fewer misses", lambda f: rate(p_hit=f * p_hit), fewer
    elif "hit_curve" not in point:
        c = point.get("hit_c", DEFAULTS["hit_c"])
        c_all = point.get("hit_c_all", c)
        if 0 < max(c, c_all) < 1 / (1 + _STEP):
            yield (
                "misses of the cache",
                "10 % fewer misses",
                lambda f: rate(hit_c=f * c, hit_c_all=f * c_all),
                1 - _BETTER,
            )


def _scaled(rate: Callable[..., float], point: dict[str, Any], folder: Path, what: str) -> Callable[[float], float]:
    """Tokens/s on a device whose ``what`` is scaled, target's and draft's alike."""
    name = point.get("hardware", DEFAULTS["hardware"])
    draft = point.get("draft_hardware", name)

    def scaled(factor: float) -> float:
        changed = {}
        for option, of in (("hardware", name), ("draft_hardware", draft)):
            profile = find_hardware(of)
            path = folder / f"{profile.name}-{what}-{factor:.3f}.json"
            scale(profile, profile.name, **{what: factor}).save(path)
            changed[option] = str(path)
        return rate(**changed)

    return scaled
