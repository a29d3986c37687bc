"""Hyper-connections: what mixing a hidden state's streams takes, and the law."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from msgspec import Meta
from numpy.typing import ArrayLike

from ssdsim.base.card import Card, Positive, Seconds, in_order
from ssdsim.base.checks import Array
from ssdsim.hardware.latent import smooth_maximum
from ssdsim.hardware.laws import Scaling, TimingModel
from ssdsim.hardware.timing import Law, Timing, timed, untimed
from ssdsim.transformer.hyper_connections import HyperConnection, Way


class MixingCosts(Card):
    """A floor, which grows with the size of the hidden state, or moving the streams: a smooth maximum."""

    launch_s: Seconds
    per_value_s: Seconds
    bandwidth: Positive
    sharpness: Annotated[float, Meta(ge=1.0, le=100.0)]

    def seconds(self, hidden_size: ArrayLike, moved_bytes: ArrayLike) -> Array:
        floor_s = self.launch_s + self.per_value_s * np.asarray(hidden_size, float)
        return np.asarray(smooth_maximum(floor_s, np.asarray(moved_bytes, float) / self.bandwidth, self.sharpness))


class MixingModel(TimingModel):
    """One way of mixing on one device. The variables of the domain: ``tokens``, ``hidden_size``."""

    dimensions: ClassVar[tuple[str, ...]] = ("tokens", "hidden_size")

    costs: MixingCosts

    def scaled(self, scaling: Scaling, *keys: Any) -> Self:
        return self.unfitted(costs=scaling.of(self.costs, "launch_s", "per_value_s"))


SHARES: Mapping[Way, MixingCosts] = {
    "pre": in_order(MixingCosts, (6.8e-6, 4.8e-10, 0.87, 1.4)),
    "post": in_order(MixingCosts, (1.7e-6, 3.6e-10, 0.85, 3.9)),
}
"""Of devices on which it was not timed: an H100's (vLLM 0.24.0), its bandwidth as a share of the device's."""


class HyperConnectionLaw(Law[HyperConnection]):
    """A model for each way of mixing; without it, what an H100 takes by this device's bandwidth."""

    def timing(self, op: HyperConnection) -> Timing:
        key, model = f"hyper_connection:{op.way}:{op.hidden_size}", self.profile.hyper_connection.get(op.way)
        seconds = float(self._costs(op).seconds(op.hidden_size, op.bytes))
        if model is None:
            return untimed(self.profile, key, seconds, "no hyper-connection was timed", "scaled from that of an H100")
        outside = model.beyond({"tokens": op.tokens, "hidden_size": op.hidden_size})
        return timed(self.profile, key, model, seconds, outside)

    def launch_s(self, op: HyperConnection) -> float:
        costs = self._costs(op)
        return costs.launch_s + costs.per_value_s * op.hidden_size

    def _costs(self, op: HyperConnection) -> MixingCosts:
        model = self.profile.hyper_connection.get(op.way)
        if model is not None:
            return model.costs
        shares = SHARES[op.way]
        return shares.changed(bandwidth=shares.bandwidth * self.profile.device.memory_bandwidth)
