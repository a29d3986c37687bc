"""A step of a recurrent layer: a stream of states and a floor, and the law."""

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from ssdsim.base.card import Card, Positive, Seconds
from ssdsim.base.checks import Array
from ssdsim.hardware.laws import Scaling, TimingModel
from ssdsim.hardware.timing import Law, Timing, timed, untimed
from ssdsim.transformer.recurrences import RecurrentStep, Rule


class RecurrenceCosts(Card):
    """``launch_s + per_query_s (queries - 1)``, then the states read and written at ``bandwidth``.

    The bandwidth is that of memory, not of a cache: the whole model is read between two steps of a layer, whatever a
    table's loop over one buffer finds there.
    """

    launch_s: Seconds
    per_query_s: Seconds
    bandwidth: Positive

    def floor_s(self, queries: ArrayLike) -> Array:
        """Seconds however few states there are."""
        return np.asarray(self.launch_s + self.per_query_s * (np.asarray(queries, float) - 1.0))

    def seconds(self, queries: ArrayLike, streamed_bytes: ArrayLike) -> Array:
        """Seconds of ``queries`` new tokens a sequence, with ``streamed_bytes`` of all states read and written."""
        return np.asarray(self.floor_s(queries) + np.asarray(streamed_bytes, float) / self.bandwidth)


class RecurrenceModel(TimingModel):
    """A step of a recurrence on one device. The variables of the domain:

    * ``batch``: sequences
    * ``queries``: new tokens of each
    * ``state_bytes``: of one sequence
    """

    dimensions: ClassVar[tuple[str, ...]] = ("batch", "queries", "state_bytes")

    costs: RecurrenceCosts

    def scaled(self, scaling: Scaling, *keys: Any) -> Self:
        return self.unfitted(costs=scaling.of(self.costs, "launch_s", "per_query_s"))


SHARES: Mapping[Rule, RecurrenceCosts] = {
    "gated-delta": RecurrenceCosts(launch_s=4.2e-6, per_query_s=0.4e-6, bandwidth=0.88),
    "kimi-delta": RecurrenceCosts(launch_s=3.2e-6, per_query_s=0.4e-6, bandwidth=0.84),
    "mamba2": RecurrenceCosts(launch_s=4.2e-6, per_query_s=0.4e-6, bandwidth=0.88),
}
"""Of devices on which none was timed: what an H100's tables ask for (aiconfigurator 095f58a51, vLLM 0.24.0 decoding
with Gated DeltaNet, and KDA's verification of 2, 4 and 8 tokens); the bandwidth is a share of the datasheet's. On five
other GPUs these miss steps whose states no cache holds by medians of 4.1 to 7.1 % (gated-delta; L40S 12.5 %) and 3.2 to
11.5 % (kimi-delta; L40S 12.1 %). More than one token was timed with KDA only, Mamba2 never: both are taken from their
kin."""

KIN: Mapping[Rule, Rule] = {"mamba2": "gated-delta"}
"""Whose step another rule takes where it was not timed itself: as a stream of as many bytes."""


class RecurrenceLaw(Law[RecurrentStep]):
    """A model for each rule, or that of its kin; without either, what the H100 takes by this device's bandwidth."""

    def timing(self, op: RecurrentStep) -> Timing:
        key, costs = f"recurrence:{op.heads}x{op.key_dim}x{op.value_dim}:{op.rule}", self._costs(op)
        seconds = float(costs.seconds(op.queries, op.streamed_bytes))
        model = self.profile.recurrence.get(op.rule)
        if model is None:
            kin = KIN.get(op.rule)
            own = kin in self.profile.recurrence
            instead = f"the {kin} step's floor and bandwidth" if own else "the H100's floor and share of the bandwidth"
            return untimed(self.profile, key, seconds, f"no {op.rule} recurrence was timed", instead)
        seen = {"batch": op.batch, "queries": op.queries, "state_bytes": op.state_bytes}
        return timed(self.profile, key, model, seconds, model.beyond(seen))

    def launch_s(self, op: RecurrentStep) -> float:
        return float(self._costs(op).floor_s(op.queries))

    def _costs(self, op: RecurrentStep) -> RecurrenceCosts:
        known, share = self.profile.recurrence, SHARES[op.rule]
        model = known.get(op.rule) or known.get(KIN.get(op.rule, op.rule))
        if model is not None:
            return model.costs
        return share.changed(bandwidth=share.bandwidth * self.profile.device.memory_bandwidth)
