"""Laws: what prices the operations of one type on a device, and the timing that it gives."""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from numpy.typing import ArrayLike

from ssdsim.base.errors import InputError
from ssdsim.base.record import Record, field, replace
from ssdsim.hardware.laws import DATASHEET_LOG_SD, TimingModel
from ssdsim.transformer.operations import WEIGHT_BYTES, Operation

if TYPE_CHECKING:
    from ssdsim.hardware.profile import HardwareProfile

Op = TypeVar("Op", bound=Operation)
Model = TypeVar("Model", bound=TimingModel)

ProvenanceKind = Literal["measured", "imported", "datasheet", "hypothetical"]

EXTRAPOLATION_LOG_SD = 0.15
"""Added (in quadrature) to the error of a timing outside its domain, or of what stands in for other kernels."""

SHORTEST_S, LONGEST_S = 1e-15, 1e9
"""Of an operation: what lies outside comes from a profile whose numbers are wrong."""


class Timing(Record):
    """Seconds of one operation.

    ``log_sd`` is the standard deviation of log(real / predicted). Part of it comes from the fit's coefficients:
    ``shared`` names the directions in which they wander, with the standard deviation along each, and every operation
    of the model shares these. The rest, ``own_log_sd``, is shared by operations with the same ``key`` (one matrix at
    another number of tokens is wrong in the same direction). ``warnings`` say what of it was not timed.
    """

    seconds: float
    log_sd: float
    key: str
    provenance_kind: ProvenanceKind
    warnings: tuple[str, ...] = ()
    shared: Mapping[str, float] = field(default_factory=dict)
    is_extrapolated: bool = False

    @property
    def warning(self) -> str | None:
        """All warnings in a line; None where everything was timed."""
        return "; ".join(self.warnings) or None

    @property
    def own_log_sd(self) -> float:
        if not self.shared:
            return self.log_sd
        return math.sqrt(max(0.0, self.log_sd**2 - sum(moved**2 for moved in self.shared.values())))


class Law(ABC, Generic[Op]):
    """Prices operations of one type on a profile's device.

    A law chooses among the timing models that the profile holds and says what is guessed where there is none. The
    models know their own formula, domain, error and scaling to another device
    (:meth:`ssdsim.hardware.laws.TimingModel.scaled`).
    """

    def __init__(self, profile: HardwareProfile) -> None:
        self.profile = profile
        self.nodes: dict[Any, Any] = {}
        """Times on nodes so far, where a law sets its model's right there."""

    @abstractmethod
    def timing(self, op: Op) -> Timing:
        """Time of ``op``."""

    def launch_s(self, op: Op) -> float:
        """The floor under the time however little ``op`` does, as fitted; 0 where a law has none."""
        return 0.0

    def floor_s(self, op: Op) -> float:
        """Seconds that physics leaves: its bytes at the rate of memory or link, its flops at the device's peak."""
        device, link = self.profile.device, self.profile.link
        wire_s = op.wire_bytes / link.bandwidth if link else 0.0
        return max(device.memory_s(op), device.compute_s(op), wire_s)

    def least_s(self, op: Op) -> float:
        """Seconds that no kernel beats within a pass: its flops at the device's peak, its bytes at memory's rate.

        Of these all that no cache holds: weights, keys and values, since the whole model is read in between, and what
        the activations are larger than the cache.
        """
        device = self.profile.device
        cached = op.memory_bytes - op.streamed_bytes
        spilled = max(0.0, cached - device.cache_bytes) if device.cache_bytes else 0.0
        return max((op.streamed_bytes + spilled) / device.memory_bandwidth, device.compute_s(op))

    def waiting_s(self, op: Op, seconds: float) -> float:
        """The part of ``seconds`` above the floor, in which other kernels could run beside ``op``."""
        return max(0.0, seconds - self.floor_s(op))


EXTRAPOLATED = re.compile(r"(?P<profile>[^:]+): (?P<operation>.+) is extrapolated: .*")
"""The warning of :func:`timed`, told of a timing's key."""


def timed(
    profile: HardwareProfile,
    key: str,
    model: TimingModel,
    seconds: ArrayLike,
    outside: str | None,
    wander: Mapping[str, float] | None = None,
    where: str | None = None,
    log_sd: float | None = None,
) -> Timing:
    """Time one operation by a model.

    ``outside`` widens the error and is the warning; ``wander`` is how far the model's coefficients move the time, in
    directions named by ``where``, the key if not given; ``log_sd`` is the model's if not given.
    """
    kind, seconds = profile.sources[model.source].kind, float(seconds)  # type: ignore[arg-type]
    log_sd = model.log_sd if log_sd is None else log_sd
    shared = {}
    if (
        wander
    ):  # together not beyond the held-out error, which includes theirs: a bootstrap of few timings overstates it
        length = math.hypot(*wander.values())
        share = min(1.0, log_sd / length) if length else 1.0
        shared = {f"{where or key} {direction}": share * moved for direction, moved in wander.items()}
    _check(profile, key, seconds, *shared.values())
    if outside is None:
        return Timing(seconds, log_sd, key, kind, shared=shared)
    warning = f"{profile.name}: {key} is extrapolated: {outside}"
    return Timing(
        seconds, math.hypot(log_sd, EXTRAPOLATION_LOG_SD), key, kind, (warning,), shared, is_extrapolated=True
    )


def untimed(profile: HardwareProfile, key: str, seconds: float, said: str, instead: str = "roofline") -> Timing:
    """A guess, with the error of a datasheet."""
    _check(profile, key, seconds)
    return Timing(seconds, DATASHEET_LOG_SD, key, "datasheet", (f"{profile.name}: {said}: {instead}",))


def nearest_timed(
    profile: HardwareProfile, op: Operation, timed_in: Iterable[str], seconds: Callable[[str], float]
) -> str | None:
    """The format, of those timed, whose kernels are the most like those of ``op``; None where none is.

    First those that the device multiplies in the same dtype, then the nearest in bytes: 4-bit weights that are turned
    back into 16 bits are like 16-bit ones, and like each other. Of two as near it is the one of fewer ``seconds``:
    kernels that nobody tuned speak for no other format.
    """
    device, weight_bytes = profile.device, WEIGHT_BYTES[op.dtype]  # type: ignore[attr-defined]
    multiplied = device.multiplies_in(op)

    def unlike(kept: str) -> tuple[bool, int]:
        other = device.multiplies_in(replace(op, dtype=kept))  # type: ignore[type-var]
        return other != multiplied, round(100.0 * abs(math.log(WEIGHT_BYTES[kept] / weight_bytes)))

    how = {kept: unlike(kept) for kept in timed_in}
    near = [kept for kept in how if how[kept] == min(how.values())]
    return min(near, key=seconds) if len(near) > 1 else next(iter(near), None)


def as_efficient(
    profile: HardwareProfile, key: str, model: TimingModel, seconds: ArrayLike, what: str, near: str
) -> Timing:
    """A guess of ``what`` nobody timed, at the efficiency of the ``near`` format's law: with a wider error than that's.

    It stands beside fitted laws, whose kernels reach less than a roofline, so it must not be one at its best.
    """
    instead = f"their bytes at the efficiency of {near}'s"
    guess = untimed(profile, key, float(seconds), f"no {what} were timed", instead)  # type: ignore[arg-type]
    return replace(guess, log_sd=math.hypot(model.log_sd, DATASHEET_LOG_SD))


def of_dtype(profile: HardwareProfile, what: str, models: Mapping[str, Model], dtype: str) -> Model:
    """The model of a dtype; InputError where it was not timed."""
    if dtype not in models:
        raise missing_timings(profile, f"{dtype} {what}", ", ".join(models), f"calibrate with --dtype {dtype}")
    return models[dtype]


def missing_timings(profile: HardwareProfile, what: str, has: str, remedy: str) -> InputError:
    """Complaint in one line that nothing like it was timed."""
    return InputError(
        f"profile {profile.name} has no {what} timings (it has {has or 'none'}); {remedy} or choose another profile"
    )


def _check(profile: HardwareProfile, key: str, seconds: float, *moved: float) -> None:
    if not SHORTEST_S <= seconds <= LONGEST_S or not all(map(math.isfinite, moved)):
        raise InputError(f"profile {profile.name}: {key} takes {seconds:g} s, so its timings are wrong")
