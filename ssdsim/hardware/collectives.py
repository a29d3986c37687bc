"""Collectives: the fitted timing model of one kind over one number of ranks, and the law that chooses among them."""

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from msgspec import Meta

from ssdsim.base.card import Card, NotNegative, Positive, Seconds
from ssdsim.base.checks import FloatOrArray
from ssdsim.base.record import replace
from ssdsim.hardware.laws import DirectionsOfLine, LatencyBandwidth, Scaling, TimingModel
from ssdsim.hardware.links import OfMessages, ring_rate
from ssdsim.hardware.timing import Law, Timing, missing_timings, timed, untimed
from ssdsim.transformer.operations import Collective, CollectiveKind, sent_around

STAND_INS: Mapping[CollectiveKind, CollectiveKind] = {"all_to_all": "all_gather"}
"""Which collective is taken for one that was not timed, over as much.

In an all-gather a device receives as much as it sends in an all-to-all: on seven GPUs that have both, half to nearly
twice the time.
"""


_SLOWER_A_DOUBLING: Mapping[CollectiveKind, float] = {"all_reduce": 1.15, "all_gather": 1.3, "all_to_all": 1.0}
"""How the latency of a collective over a switch grows with twice the ranks, where more than the most timed take part.

Fitted to five NVSwitch GPUs' eight ranks from their four: 19, 19 and 10 % rms from 4 KiB to 64 MiB."""

_LOG_SD_A_DOUBLING = 0.2


_HOST_LATENCY_S, _HOST_BANDWIDTH, _HOST_LOG_SD = 14.4e-6, 16.7e9, 0.25
"""Of a collective over two devices that go through the host's memory: a small message of two RTX 4090 (14.4 us), and
what a device sends on while it receives as much: 14.9 GB/s (RTX 4090), 21.5 (RTX 5090), 14.5 (NVL) in CUDA's samples.
"""
_Z_95 = 1.96


def through_host_s(kind: CollectiveKind, ranks: int, message_bytes: float) -> float:
    """Seconds of a collective between devices that do not reach each other's memory."""
    return _HOST_LATENCY_S * math.log2(ranks) + sent_around(kind, ranks) * message_bytes / _HOST_BANDWIDTH


class Regime(LatencyBandwidth, Card):
    """One protocol of a collective: ``latency_s + bytes / bandwidth`` from ``from_bytes`` to ``to_bytes``."""

    bandwidth: Positive
    uncertainty: DirectionsOfLine = ()
    latency_s: Seconds
    from_bytes: NotNegative
    to_bytes: Positive

    fixed: ClassVar[str] = "latency_s"


class CollectiveModel(OfMessages, TimingModel):
    """One kind of collective over one number of ranks: Hockney's law in each protocol's range of sizes.

    ``bandwidth`` is of the message (the algorithm's), not of the wires. Where exactly a protocol gives way to the
    next lies between two timed sizes: time is blended geometrically between them, and never falls as the
    message grows. The first and the last regime extend past the timed sizes.
    """

    regimes: Annotated[tuple[Regime, ...], Meta(min_length=1)]
    below: "CollectiveModel | None" = None

    def __post_init__(self) -> None:
        super().__post_init__()
        edges = [edge for regime in self.regimes for edge in (regime.from_bytes, regime.to_bytes)]
        if any(left >= right for left, right in pairwise(edges)):
            raise ValueError("from_bytes and to_bytes must grow from regime to regime")

    def seconds(self, message_bytes: FloatOrArray) -> FloatOrArray:
        """Seconds of messages of these sizes."""
        if np.ndim(message_bytes) == 0:
            return self._of_one(float(message_bytes))
        sizes = np.asarray(message_bytes, float)
        return np.array([self._of_one(size) for size in sizes.ravel().tolist()]).reshape(sizes.shape)

    def _of_one(self, message_bytes: float) -> float:
        """Seconds of one message, without arrays: a pass asks for one at a time."""
        size = max(message_bytes, 1.0)
        reached = sum(size > before.to_bytes for before in self.regimes[:-1])
        after = self.regimes[reached]
        if not reached:
            return float(after.seconds(size))
        before = self.regimes[reached - 1]
        start, end = math.log(before.to_bytes), math.log(after.from_bytes)
        crossed = min(1.0, (math.log(size) - start) / (end - start))
        ends_s = before.seconds(before.to_bytes)
        begins_s = after.seconds(max(size, after.from_bytes))
        return float(max(ends_s, ends_s ** (1.0 - crossed) * begins_s**crossed))

    def wander(self, message_bytes: float) -> dict[str, float]:
        """Shifts of the logarithm of the time by each direction of uncertainty of the regime that serves."""
        served = sum(message_bytes >= regime.from_bytes for regime in self.regimes[1:])
        return {f"{served}.{way}": moved for way, moved in self.regimes[served].wander(message_bytes).items()}

    def over_ring(self, kind: CollectiveKind, ranks: int, rate: float) -> "CollectiveModel":
        """The model with the bandwidth of a ring in which each device sends ``rate`` bytes/s on."""
        bandwidth = rate / sent_around(kind, ranks)
        regimes = tuple(regime.changed(bandwidth=bandwidth) for regime in self.regimes)
        return self.changed(regimes=regimes)

    def over_more(self, kind: CollectiveKind, timed: int, ranks: int) -> "CollectiveModel":
        """The model over more ranks of the switch than were ``timed``."""
        later = _SLOWER_A_DOUBLING[kind] ** math.log2(ranks / timed)
        slower = sent_around(kind, ranks) / sent_around(kind, timed)
        regimes = (
            each.changed(latency_s=each.latency_s * later, bandwidth=each.bandwidth / slower) for each in self.regimes
        )
        return self.changed(regimes=tuple(regimes), below=self.below and self.below.over_more(kind, timed, ranks))

    def scaled(self, scaling: Scaling, *keys: Any) -> Self:
        _, ranks = keys
        faster = scaling.link_bandwidth / scaling.rings.get(ranks, 1.0)
        regimes = tuple(
            regime.changed(
                latency_s=max(0.0, regime.latency_s + scaling.link_delay_s),
                bandwidth=regime.bandwidth * faster,
                uncertainty=(),
            )
            for regime in self.regimes
        )
        return self.unfitted(regimes=regimes, below=self.below_scaled(scaling, *keys))


class CollectiveLaw(Law[Collective]):
    """A model for each kind and number of ranks; one of :data:`STAND_INS` where there is none."""

    def timing(self, op: Collective) -> Timing:
        """As timed; through the host where devices do not reach each other over PCIe, or nobody says that they do.

        Engines leave to NCCL what goes over PCIe, so that even with peer access it is seldom as fast as timed: that is
        then at the edge of the interval.
        """
        timing, access = self._timed(op), self.profile.device.peer_access
        host_s = 0.0 if access is None or op.ranks == 1 else through_host_s(op.kind, op.ranks, op.message_bytes)
        if host_s <= timing.seconds:
            return timing
        faster = math.log(host_s / timing.seconds) / _Z_95 if access == "maybe" else 0.0
        log_sd = math.hypot(timing.log_sd, _HOST_LOG_SD, faster)
        said = f"{self.profile.name}: collectives over PCIe are priced through the host's memory"
        said += ", peer access may make them faster" if access == "maybe" else ": a GeForce has no peer access"
        return replace(timing, seconds=host_s, log_sd=log_sd, warnings=(*timing.warnings, said))

    def _timed(self, op: Collective) -> Timing:
        key, stand_in, size = f"{op.kind}:{op.ranks}", STAND_INS.get(op.kind), op.message_bytes
        if op.ranks == 1:
            return Timing(0.0, 0.0, key, "measured")
        most = self._fewer(op.kind, op.ranks)
        if stand_in and most is None and op.ranks not in self.profile.collectives.get(op.kind, {}):
            own, other = (kind.replace("_", "-") for kind in (op.kind, stand_in))
            _, seconds = self.model(stand_in, op.ranks).of_message(size)
            said = f"no {op.ranks}-rank {own} was timed"
            return untimed(self.profile, key, seconds, said, f"as an {other} of as much")
        model, seconds = self.model(op.kind, op.ranks).of_message(size)
        if most is None:
            return timed(self.profile, key, model, seconds, model.beyond({"message_bytes": size}), model.wander(size))
        outside = f"{op.ranks} ranks, more than the largest timed, {most}"
        log_sd = math.hypot(model.log_sd, _LOG_SD_A_DOUBLING * math.log2(op.ranks / most))
        return timed(self.profile, key, model, seconds, outside, model.wander(size), log_sd=log_sd)

    def _fewer(self, kind: CollectiveKind, ranks: int) -> int | None:
        """The most ranks timed of a collective, where these are more on the same switch; else None."""
        device, most = self.profile.device, max(self.profile.collectives.get(kind, {}), default=ranks)
        return most if 1 < most < ranks <= device.count and device.is_switched else None

    def model(self, kind: CollectiveKind, ranks: int) -> CollectiveModel:
        """The model of a collective over the node's first ``ranks`` devices.

        Where pairs differ, one that nobody timed has the bandwidth of the rings that those devices' links make.
        """
        if (most := self._fewer(kind, ranks)) is not None:
            return self.profile.collectives[kind][most].over_more(kind, most, ranks)
        profile, by_ranks = self.profile, self.profile.collectives.get(kind, {})
        if ranks not in by_ranks:
            known = ", ".join(map(str, sorted(by_ranks)))
            raise missing_timings(profile, f"{ranks}-rank {kind}", known, "choose a degree that it has, calibrate")
        model, nvlinks = by_ranks[ranks], profile.device.nvlinks
        if profile.sources[model.source].kind != "datasheet" or not nvlinks or not profile.links:
            return model
        rate = ring_rate(nvlinks, profile.links, ranks)
        return model if rate is None else model.over_ring(kind, ranks, rate)
