"""Passes over prompts: the timing models and laws of attention and of recurrent layers."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from msgspec import Meta
from numpy.typing import ArrayLike

from ssdsim.base.card import Card, Positive, Seconds, in_order
from ssdsim.base.checks import Array, FloatOrArray
from ssdsim.base.record import replace
from ssdsim.hardware.latent import smooth_maximum
from ssdsim.hardware.laws import CorrectedRoofline, Correction, ModelOfVariables, Roofline, Scaling, TimingModel
from ssdsim.hardware.timing import Law, Timing, timed, untimed
from ssdsim.transformer.operations import DTYPE_BYTES, PrefillAttention
from ssdsim.transformer.recurrences import PrefillRecurrence, Rule

REACHED = 0.5
"""Of the peak rate that attention is taken to reach where it was not timed: softmax runs beside the products."""


class PrefillAttentionModel(CorrectedRoofline, ModelOfVariables):
    """Causal attention of prompts over themselves. The variables of the correction and the domain:

    * ``flops``: floating-point operations, half of the square
    * ``tokens``: of a prompt
    * ``batch``: prompts
    * ``blocks``: batch x heads, the independent pieces of work
    * ``group``: heads that share a kv head
    * ``head_dim``
    """

    roofline: Roofline
    correction: Correction = Correction()

    dimensions: ClassVar[tuple[str, ...]] = ("flops", "tokens", "batch", "blocks", "group", "head_dim")

    @staticmethod
    def variables(
        batch: ArrayLike, tokens: ArrayLike, heads: ArrayLike, kv_heads: ArrayLike, head_dim: ArrayLike
    ) -> dict[str, Array]:
        """The variables of the correction, as arrays."""
        batch, tokens, heads, kv_heads, head_dim = (
            np.asarray(size, float) for size in (batch, tokens, heads, kv_heads, head_dim)
        )
        return {
            "flops": 2 * batch * heads * head_dim * tokens * (tokens + 1),
            "tokens": tokens,
            "batch": batch,
            "blocks": batch * heads,
            "group": heads / kv_heads,
            "head_dim": head_dim,
        }

    @staticmethod
    def work(values: Mapping[str, Array], element_bytes: float) -> tuple[Array, Array]:
        """Bytes moved (queries, keys, values, outputs) and floating-point operations."""
        heads = values["blocks"] * (1 + 1 / values["group"])
        return np.asarray(2 * element_bytes * heads * values["tokens"] * values["head_dim"]), values["flops"]

    def values(self, *shape: Any) -> dict[str, FloatOrArray]:
        return self.variables(*shape[:-1])


class PrefillAttentionLaw(Law[PrefillAttention]):
    """A model for each dtype; without one the device's roofline at a part of the peak rate."""

    def timing(self, op: PrefillAttention) -> Timing:
        """The time; a chunk of a prompt takes its share of the time of the prompt up to the chunk's end."""
        if op.prefix:
            whole = self.profile.seconds(op.whole)
            return replace(whole, seconds=whole.seconds * op.flops / op.whole.flops)
        model = self.profile.prefill_attention.get(op.dtype)
        key = f"prefill_attention:{op.heads}x{op.head_dim}:{op.dtype}"
        if model is None:
            said = f"prefill attention of {op.dtype} was not timed"
            return untimed(self.profile, key, self._guessed_s(op), said, f"{REACHED:.0%} of the device's peak flops")
        shape, where = (op.batch, op.tokens, op.heads, op.kv_heads, op.head_dim), f"prefill_attention:{op.dtype}"
        return timed(self.profile, key, model, *model.timed(shape, DTYPE_BYTES[op.dtype]), where)

    def launch_s(self, op: PrefillAttention) -> float:
        model = self.profile.prefill_attention.get(op.dtype)
        return model.launch_s if model else 0.0

    def _guessed_s(self, op: PrefillAttention) -> float:
        """Seconds at a share of the peak; of an unknown peak rate, the slowest known one."""
        device = self.profile.device
        peak_flops = REACHED * device.peak_flops.get(op.dtype, min(device.peak_flops.values()))
        roofline = Roofline(launch_s=0.0, bandwidth=device.memory_bandwidth, peak_flops=peak_flops)
        return float(roofline.seconds(op.bytes, op.flops))


class PrefillRecurrenceCosts(Card):
    """A floor, the chunks of a prompt in turn or the arithmetic of all prompts, and their states.

    A chunk starts from the state that the one before it leaves, so a prompt takes ``per_token_s`` a token however many
    units wait beside it; all tokens of all heads together take their flops at ``flops_per_s``. Of the two it is a
    smooth maximum of ``sharpness``. The states are read and written at ``bandwidth``.
    """

    launch_s: Seconds
    per_token_s: Seconds
    flops_per_s: Positive
    bandwidth: Positive
    sharpness: Annotated[float, Meta(ge=1.0, le=100.0)]

    def seconds(self, tokens: ArrayLike, flops: ArrayLike, state_bytes: ArrayLike) -> Array:
        """Seconds by ``tokens`` of one prompt, ``flops`` and ``state_bytes`` of all of them."""
        in_turn = self.per_token_s * np.asarray(tokens, float)
        together = np.asarray(flops, float) / self.flops_per_s
        streaming = np.asarray(state_bytes, float) / self.bandwidth
        return np.asarray(self.launch_s + smooth_maximum(in_turn, together, self.sharpness) + streaming)


class PrefillRecurrenceModel(TimingModel):
    """Prompts through a recurrent layer in chunks, on one device. The variables of the domain:

    * ``batch``: prompts
    * ``tokens``: of each
    * ``heads``: with a state each
    """

    dimensions: ClassVar[tuple[str, ...]] = ("batch", "tokens", "heads")

    costs: PrefillRecurrenceCosts

    def scaled(self, scaling: Scaling, *keys: Any) -> Self:
        flops_per_s = self.costs.flops_per_s * scaling.wide
        return self.unfitted(costs=scaling.of(self.costs, "launch_s", "per_token_s", flops_per_s=flops_per_s))


SHARES: Mapping[Rule, PrefillRecurrenceCosts] = {
    "gated-delta": in_order(PrefillRecurrenceCosts, (1.3e-5, 4.1e-8, 0.20, 0.4, 8.0)),
    "kimi-delta": in_order(PrefillRecurrenceCosts, (1.8e-5, 7.0e-8, 0.075, 0.4, 2.3)),
    "mamba2": in_order(PrefillRecurrenceCosts, (2e-5, 0.0, 0.037, 0.1, 2.0)),
}
"""Of devices on which none was timed: halfway between what the tables of an H100 and a B200 ask for (aiconfigurator
095f58a51, vLLM 0.24.0 and its build of July 2026 for KDA; of Mamba2 the B200's of TensorRT-LLM 1.3.0rc15 alone). Rates
are shares of the device's. So they are 13 to 33 % too slow for an H100 and 10 to 25 % too fast for a B200 or B300."""


class PrefillRecurrenceLaw(Law[PrefillRecurrence]):
    """A model for each rule; without one :data:`SHARES` of the device's peak and bandwidth."""

    def timing(self, op: PrefillRecurrence) -> Timing:
        model, key = self.profile.prefill_recurrence.get(op.rule), f"prefill_recurrence:{op.heads}:{op.rule}"
        seconds = float(self._costs(op).seconds(op.tokens, op.flops, op.state_bytes))
        if model is None:
            said = f"no {op.rule} recurrence over prompts was timed"
            return untimed(self.profile, key, seconds, said, "from what an H100 and a B200 take")
        outside = model.beyond({"batch": op.batch, "tokens": op.tokens, "heads": op.heads})
        return timed(self.profile, key, model, seconds, outside)

    def launch_s(self, op: PrefillRecurrence) -> float:
        return self._costs(op).launch_s

    def _costs(self, op: PrefillRecurrence) -> PrefillRecurrenceCosts:
        model, share, device = self.profile.prefill_recurrence.get(op.rule), SHARES[op.rule], self.profile.device
        if model is not None:
            return model.costs
        peak_flops = device.peak_flops.get(op.dtype, min(device.peak_flops.values()))
        rates = {"bandwidth": share.bandwidth * device.memory_bandwidth, "flops_per_s": share.flops_per_s * peak_flops}
        return share.changed(**rates)
