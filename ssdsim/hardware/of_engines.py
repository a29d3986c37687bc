"""Kernels that each engine has of its own: whose timings are read, and what stands in where nobody timed them.

A field of the profile holds them by engine first. Where an engine's were not timed, another's are taken; on a device
without any, those of the GPU of its generation that was timed, by the ratios of bandwidth and peaks.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from ssdsim.hardware.laws import Scaling, TimingModel
from ssdsim.hardware.timing import Law, Timing, timed, untimed
from ssdsim.transformer.operations import Operation

if TYPE_CHECKING:
    from ssdsim.hardware.device import Device
    from ssdsim.hardware.profile import HardwareProfile

Op = TypeVar("Op", bound=Operation)
Model = TypeVar("Model", bound=TimingModel)

NO_ENGINE = "none"
"""The name of the runtime that adds nothing: it takes the kernels that come first."""

_FIRST = "vllm"
_LIKE = {"tensorrt-llm": "sglang"}  # which calls TensorRT-LLM's kernels on Blackwell
_OTHERS_LOG_SD = 0.5
"""Between engines: a block of SGLang's takes 0.4 to 0.85 of vLLM's time."""


class EnginesLaw(Law[Op]):
    """A law over a ``field`` of the profile that holds models by engine; ``what`` they are of, in words."""

    field: ClassVar[str]
    what: ClassVar[str]

    @abstractmethod
    def key(self, op: Op) -> str:
        """The name of the timing."""

    @abstractmethod
    def model_of(self, op: Op, of_engine: Mapping[str, Any]) -> tuple[TimingModel, str | None]:
        """Of an engine's models that of ``op``, and how it is not its own."""

    @abstractmethod
    def seconds_by(self, op: Op, model: Any) -> float:
        """Seconds by a model."""

    @abstractmethod
    def variables(self, op: Op) -> Mapping[str, float]:
        """The variables of a model's domain."""

    def timing(self, op: Op) -> Timing:
        model, outside = self._model(op)
        seconds, key = self.seconds_by(op, model), self.key(op)
        if self._like is not None:
            said, like = f"no {self.what} was timed", f"scaled from that of {self._like}"
            return untimed(self.profile, key, seconds, said, like)
        others = self._engine[1]
        log_sd = math.hypot(model.log_sd, _OTHERS_LOG_SD) if others else None
        outside = others or outside or model.beyond(self.variables(op))
        return timed(self.profile, key, model, seconds, outside, log_sd=log_sd)

    def _model(self, op: Op) -> tuple[Any, str | None]:
        return self.model_of(op, self._by_engine[self._engine[0]])

    @cached_property
    def _engine(self) -> tuple[str, str | None]:
        return read_among(self.profile.engine, self._by_engine)

    @property
    def _by_engine(self) -> Mapping[str, Mapping[str, Any]]:
        own: Mapping[str, Mapping[str, Any]] = getattr(self.profile, self.field)
        return own or self._likened

    @cached_property
    def _like(self) -> str | None:
        """The profile whose timings are scaled; None where there are own ones."""
        if getattr(self.profile, self.field):
            return None
        return "b200-sxm" if self.profile.device.multiplies_4_bits else "h100-sxm"

    @cached_property
    def _likened(self) -> Mapping[str, Mapping[str, Any]]:
        """Of a device without any, those of another one of its generation."""
        from ssdsim.hardware.catalog import find_hardware  # where this law is known

        like = find_hardware(str(self._like))
        found: Mapping[str, Mapping[str, Any]] = scaled_to(self.profile.device, like.device, getattr(like, self.field))
        return found


def engine_read(profile: HardwareProfile, field: str) -> tuple[str, str | None]:
    """Whose models of a field are read, and how they are not the engine's own."""
    return read_among(profile.engine, getattr(profile, field))


def read_among(asked: str | None, there: Mapping[str, Any]) -> tuple[str, str | None]:
    """Whose models are read of those that are there, and how they are not those of the engine that is asked for."""
    asked = asked or NO_ENGINE
    if asked in there:
        return asked, None
    other = next((name for name in (_LIKE.get(asked, _FIRST), _FIRST) if name in there), next(iter(there)))
    return other, None if asked == NO_ENGINE else f"{asked}'s kernels were not timed, {other}'s were"


def scaled_to(device: Device, like: Device, models: Any) -> Any:
    """Models of a device ``like`` this one, by the ratios of their figures.

    What it does not multiply in it multiplies in 16 bits.
    """
    peaks = device.peak_flops
    wide = max((peaks[each] for each in ("bfloat16", "float16") if each in peaks), default=min(peaks.values()))
    arithmetic = {dtype: peaks.get(dtype, wide) / peak for dtype, peak in like.peak_flops.items()}
    return _each(models, Scaling(device.memory_bandwidth / like.memory_bandwidth, arithmetic))


def _each(held: Any, scaling: Scaling, *keys: str) -> Any:
    if not isinstance(held, Mapping):
        return held.scaled(scaling, *keys)
    return {key: _each(each, scaling, *keys, key) for key, each in held.items()}


def model_beside(models: Mapping[str, Model], projections: str, dtype: str) -> tuple[Model, str | None]:
    """The model beside projections of this format, and how it is not its own."""
    weights = next((w for w in (projections, dtype) if w in models), next(iter(models)))
    own = weights == (projections or dtype)
    said = f"beside {projections} projections it was not timed, beside {weights} it was"
    return models[weights], None if own else said
