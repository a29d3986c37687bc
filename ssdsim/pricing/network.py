"""A network between a target and a draft on another machine, of which two numbers are given."""

from __future__ import annotations

from ssdsim.base.record import Record
from ssdsim.pricing.cost import Cost


class Network(Record):
    """A message takes ``latency_s + bytes / bytes_per_s`` (Hockney); nobody timed it, so it has no error."""

    latency_s: float
    bytes_per_s: float

    def cost_of(self, message_bytes: int) -> Cost:
        return Cost({"network": (self.latency_s + message_bytes / self.bytes_per_s, 0.0)})
