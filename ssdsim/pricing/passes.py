"""Seconds of forward passes and messages on a hardware profile, as an engine's runtime runs them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import partial

from ssdsim.hardware.profile import HardwareProfile
from ssdsim.hardware.runtime_card import KERNELS, Runtime
from ssdsim.hardware.timing import Timing
from ssdsim.pricing.between_kernels import Model, cost_between_kernels, kernel_factor
from ssdsim.pricing.cost import Cost, Terms, merged
from ssdsim.transformer.forward import ForwardPass
from ssdsim.transformer.operations import Operation

_REMEMBERED = 16384  # passes and messages a profile: some 200 MB, and four times what a recommendation asks for


def cost_of_operations(
    counted: Iterable[tuple[Operation, int]], profile: HardwareProfile, runtime: Runtime = KERNELS
) -> Cost:
    """Each operation's time on ``profile``, as the runtime runs it, times its count."""
    timings = ((op, profile.seconds(op), count) for op, count in counted)
    return _cost_of(
        [
            (timing, count * kernel_factor(op, timing.seconds, profile, runtime.kernels))
            for op, timing, count in timings
        ],
        profile,
    )


def _cost_of(counted: Sequence[tuple[Timing, float]], profile: HardwareProfile) -> Cost:
    """Each timing so many times, as a cost."""
    seconds = sum(times * timing.seconds for timing, times in counted)
    warnings = frozenset(timing.warning for timing, _ in counted if timing.warning)
    return Cost.of(seconds, partial(_terms_of, counted, profile.name), warnings)


def _terms_of(counted: Sequence[tuple[Timing, float]], profile: str) -> Terms:
    return merged((_of_one(timing, profile), times) for timing, times in counted)


def _of_one(timing: Timing, profile: str) -> Terms:
    """Two devices share no error, so the profile is in the keys."""
    shared = {f"{direction}@{profile}": timing.seconds * moved for direction, moved in timing.shared.items()}
    return Terms({f"{timing.key}@{profile}": (timing.seconds, timing.own_log_sd)}, shared)


def cost_of_pass(
    forward: ForwardPass, profile: HardwareProfile, runtime: Runtime = KERNELS, model: Model = "target"
) -> Cost:
    """Kernels of a pass of one of the models, and what the runtime adds to each layer and to the pass."""

    def cost() -> Cost:
        kernels = cost_of_operations(forward.counted(), profile, runtime)
        return kernels + cost_between_kernels(forward, kernels, runtime, model)

    return _remembered(profile, (forward, runtime, model), cost)


def _remembered(profile: HardwareProfile, what: Hashable, cost: Callable[[], Cost]) -> Cost:
    """The cost of a pass, or of a message of so many bytes, worked out once."""
    known: dict[Hashable, Cost] = profile.costs
    event = known.get(what)
    if event is None:
        if len(known) >= _REMEMBERED:
            known.clear()
        event = known[what] = cost()
    return event


def streaming_share(forward: ForwardPass, seconds: float, profile: HardwareProfile) -> float:
    """Share of a pass's time that its bytes alone would take at the device's memory bandwidth, at most 1."""
    return min(1.0, forward.moved_bytes / profile.device.memory_bandwidth / seconds)


def cost_of_message(message_bytes: int, profile: HardwareProfile, pair: tuple[int, int] | None = None) -> Cost:
    """A point-to-point message between two devices, which ``pair`` numbers where pairs differ."""
    timing = profile.message_seconds
    return _remembered(profile, (message_bytes, pair), lambda: _cost_of([(timing(message_bytes, pair), 1.0)], profile))
