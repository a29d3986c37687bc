"""Prefill attention: a corrected roofline, and the law that takes the datasheet's where nothing was timed."""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from ssdsim.base.checks import Array, FloatOrArray
from ssdsim.base.record import replace
from ssdsim.hardware.laws import CorrectedRoofline, Correction, ModelOfVariables, Roofline
from ssdsim.hardware.timing import Law, Timing, timed, untimed
from ssdsim.transformer.operations import DTYPE_BYTES, PrefillAttention

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
        """The time; a part of a prompt takes its share of that of the prompt up to its end, as efficient as it."""
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
