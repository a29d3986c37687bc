"""The fitted timing model of a message from one device to another."""

from typing import Any, ClassVar, Self

from ssdsim.base.records import Seconds
from ssdsim.hardware.laws import LatencyBandwidthModel, Scaling


class LinkModel(LatencyBandwidthModel):
    """A message from one device to another: ``latency_s + bytes / bandwidth`` (Hockney)."""

    dimensions: ClassVar[tuple[str, ...]] = ("message_bytes",)

    latency_s: Seconds

    @property
    def fixed_s(self) -> float:
        return self.latency_s

    def scaled(self, scaling: Scaling, *keys: Any) -> Self:
        """The link as it is: a device has the one that it is said to have."""
        return self.unfitted()
