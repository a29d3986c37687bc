"""Extrapolation: the distance of a case from the rows behind a runtime card, and how much it widens intervals."""

import math
from collections.abc import Mapping
from functools import lru_cache

from ssdsim.base.card import Card, Count, LogSd, Positive
from ssdsim.base.record import Record, field
from ssdsim.hardware.device import Device
from ssdsim.hardware.gpu_names import is_amds
from ssdsim.transformer.card import Transformer


class TrainingDomain(Card):
    """A setting that a card was fitted to: device, degree and model, with the batches and versions of its rows.

    ``device`` names a hardware profile. ``peak_flops`` (of 16 bits) and ``memory_bandwidth`` are the device's;
    ``active_parameters`` are the weights that a token of the model uses, ``experts`` whether it is a mixture.
    """

    device: str
    peak_flops: Positive
    memory_bandwidth: Positive
    tp: Count
    active_parameters: Count
    experts: bool = False
    batches: tuple[Count, Count]
    versions: tuple[str, ...] = ()


class ExtrapolationError(Card):
    """The log-sds that one step of extrapolation adds, in quadrature.

    To the seconds of what is not a matrix product: ``gpu``, for a doubling of the device's arithmetic or bandwidth
    (whichever differs more, and four of them to another maker's); ``degree``, of the number of devices; ``size``, of
    the weights that a token uses;
    ``batch``, beyond the batches seen; ``version``, for an engine version without rows. To a whole pass: ``experts``,
    for a mixture where the rows are dense, or a dense model where they are mixtures; ``experts_gpu``, for a doubling of
    the device where the model is a mixture, because its kernels are of another generation.
    """

    gpu: LogSd = 0.0
    degree: LogSd = 0.0
    size: LogSd = 0.0
    batch: LogSd = 0.0
    version: LogSd = 0.0
    experts: LogSd = 0.0
    experts_gpu: LogSd = 0.0


STEPS = tuple(ExtrapolationError.__struct_fields__)
"""The directions of extrapolation, in the order of :func:`steps`."""

OF_WHOLE = ("experts", "experts_gpu")
"""The directions that widen a whole pass; the others widen what is not a matrix product."""


class OperatingPoint(Record):
    """The point to predict: as :class:`TrainingDomain`, with one batch and, if it is known, one engine version."""

    device: str
    peak_flops: float
    memory_bandwidth: float
    tp: int
    active_parameters: int
    experts: bool
    batch: int
    version: str = ""
    amds: bool = False
    """Whether it is a GPU of AMD's."""

    @classmethod
    def of(
        cls, target: Transformer, device: Device, profile: str, tp: int, batch: int, version: str = ""
    ) -> "OperatingPoint":
        """A target's batch on ``tp`` of a profile's devices."""
        peak_flops = next(device.peak_flops[d] for d in (*_PLAIN, *device.peak_flops) if d in device.peak_flops)
        parameters, mixed = target.active_parameters, target.experts is not None
        amds = device.kind == "cuda" and is_amds(device.name)
        return cls(profile, peak_flops, device.memory_bandwidth, tp, parameters, mixed, batch, version, amds)


_PLAIN = ("bfloat16", "float16")
_OTHER_MAKER = 4.0
"""Doublings that a GPU of another maker is away. By SGLang's card of NVIDIA's GPUs 155 rows of DeepSeek-R1 on AMD's are
0.76 of a logarithm off (rms): its kernels, their launches and what lies between them are other programs."""


def steps(case: OperatingPoint, covered: TrainingDomain) -> tuple[float, ...]:
    """The number of steps from a setting to the case, in each direction of :data:`STEPS`."""
    low, high = covered.batches
    gpu = max(
        _doublings(case.peak_flops, covered.peak_flops), _doublings(case.memory_bandwidth, covered.memory_bandwidth)
    )
    if case.device != covered.device and case.amds != is_amds(covered.device):
        gpu += _OTHER_MAKER
    return (
        gpu,
        _doublings(case.tp, covered.tp),
        _doublings(case.active_parameters, covered.active_parameters),
        max(0.0, math.log2(case.batch / high), math.log2(low / case.batch)),
        float(bool(case.version) and case.version not in covered.versions),
        float(case.experts != covered.experts),
        gpu if case.experts else 0.0,
    )


def _doublings(one: float, other: float) -> float:
    return abs(math.log2(one / other))


class Near(Record):
    """The ``nearest`` setting (None without rows), and the square of a log-sd that each direction adds."""

    nearest: TrainingDomain | None = None
    squares: Mapping[str, float] = field(default_factory=dict)

    @property
    def log_sd(self) -> float:
        return math.sqrt(sum(self.squares.values()))


class Distance(Record):
    """Distances from the nearest settings: of what is not a matrix product, and of a whole pass."""

    beside_matrices: Near = Near()
    whole: Near = Near()

    @property
    def ways(self) -> tuple[str, ...]:
        """The directions that matter: each adds at least a quarter of what the largest adds."""
        squares = {**self.beside_matrices.squares, **self.whole.squares}
        least = _MATTERS * max(squares.values(), default=0.0)
        return tuple(way for way in STEPS if squares.get(way, 0.0) and squares[way] >= least)


_MATTERS = 0.25


@lru_cache(maxsize=4096)
def distance(case: OperatingPoint, covered: tuple[TrainingDomain, ...], away: ExtrapolationError) -> Distance:
    """The distance of a case from the settings behind a card; each kind of error has its own nearest setting."""
    if not covered:
        return Distance()
    squares = [
        (each, {way: (getattr(away, way) * n) ** 2 for way, n in zip(STEPS, steps(case, each), strict=True)})
        for each in covered
    ]

    def nearest(whole: bool) -> Near:
        nears = (
            Near(each, {way: square for way, square in theirs.items() if (way in OF_WHOLE) is whole})
            for each, theirs in squares
        )
        return min(nears, key=lambda near: near.log_sd)

    return Distance(nearest(whole=False), nearest(whole=True))
