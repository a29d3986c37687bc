"""How far a case is from the rows behind a runtime card, and how much wider that makes its intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Annotated

from ssdsim.hardware.profile import Device
from ssdsim.records import FROM_LIST, Card, Count, LogSd, Positive
from ssdsim.transformer.card import Transformer


class Covered(Card):
    """A setting that rows behind a card had: a device, a degree and a model, with the batches and versions seen there.

    ``device`` names a hardware profile. ``peak_flops`` (of 16 bits) and ``memory_bandwidth`` are the device's;
    ``active_parameters`` are the weights that a token of the model uses, ``experts`` whether it is a mixture.
    """

    device: str
    peak_flops: Positive
    memory_bandwidth: Positive
    tp: Count
    active_parameters: Count
    experts: bool = False
    batches: Annotated[tuple[Count, Count], FROM_LIST]
    versions: Annotated[tuple[str, ...], FROM_LIST] = ()


class Away(Card):
    """What one step away from the rows adds to the log-sd of seconds beside matrices, in quadrature.

    ``gpu``: a doubling of a device's arithmetic or of its bandwidth, whichever differs more; ``degree``: of the
    devices; ``size``: of the weights that a token uses; ``batch``: beyond the batches seen. ``experts``: a mixture
    where the rows are of dense models, or a dense model where they are of mixtures; ``version``: an engine's version
    that no row had.
    """

    gpu: LogSd = 0.0
    degree: LogSd = 0.0
    size: LogSd = 0.0
    batch: LogSd = 0.0
    experts: LogSd = 0.0
    version: LogSd = 0.0


STEPS = tuple(Away.model_fields)
"""The ways to be away, in the order of :func:`steps`."""


@dataclass(frozen=True)
class Case:
    """What is asked of a card: as :class:`Covered`, of one batch, and of one version where it is known."""

    device: str
    peak_flops: float
    memory_bandwidth: float
    tp: int
    active_parameters: int
    experts: bool
    batch: int
    version: str = ""

    @classmethod
    def of(cls, target: Transformer, device: Device, profile: str, tp: int, batch: int, version: str = "") -> Case:
        """A target's batch on ``tp`` of a profile's devices."""
        peak_flops = next(device.peak_flops[d] for d in (*_PLAIN, *device.peak_flops) if d in device.peak_flops)
        parameters, mixed = target.active_parameters, target.experts is not None
        return cls(profile, peak_flops, device.memory_bandwidth, tp, parameters, mixed, batch, version)


_PLAIN = ("bfloat16", "float16")


def steps(case: Case, covered: Covered) -> tuple[float, ...]:
    """How many steps the case is away from a setting, each way of :data:`STEPS`."""
    low, high = covered.batches
    return (
        max(
            _doublings(case.peak_flops, covered.peak_flops),
            _doublings(case.memory_bandwidth, covered.memory_bandwidth),
        ),
        _doublings(case.tp, covered.tp),
        _doublings(case.active_parameters, covered.active_parameters),
        max(0.0, math.log2(case.batch / high), math.log2(low / case.batch)),
        float(case.experts != covered.experts),
        float(bool(case.version) and case.version not in covered.versions),
    )


def _doublings(one: float, other: float) -> float:
    return abs(math.log2(one / other))


@dataclass(frozen=True)
class Distance:
    """From the ``nearest`` setting: what each way there adds to the square of a log-sd."""

    nearest: Covered | None = None
    squares: Mapping[str, float] = field(default_factory=dict)

    @property
    def log_sd(self) -> float:
        return math.sqrt(sum(self.squares.values()))

    @property
    def ways(self) -> tuple[str, ...]:
        """Those that matter: at least a quarter of what the longest adds."""
        least = _MATTERS * max(self.squares.values(), default=0.0)
        return tuple(way for way, square in self.squares.items() if square and square >= least)


_MATTERS = 0.25
NOWHERE = Distance()


@lru_cache(maxsize=4096)
def distance(case: Case, covered: tuple[Covered, ...], away: Away) -> Distance:
    """How far a case is from the setting that is the nearest to it; nowhere away where nothing is known of rows."""
    weights = [getattr(away, way) for way in STEPS]
    found = (
        Distance(each, {way: (w * n) ** 2 for way, w, n in zip(STEPS, weights, steps(case, each), strict=True)})
        for each in covered
    )
    return min(found, key=lambda far: far.log_sd, default=NOWHERE)
