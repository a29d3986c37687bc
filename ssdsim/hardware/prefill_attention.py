"""The fitted timing model of prefill attention: a corrected roofline, and the datasheet's where nothing was timed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from pydantic import model_validator

from ssdsim.hardware.laws import Array, Correction, Roofline, TimingModel, check_domain

REACHED = 0.5
"""Of the peak rate that attention is taken to reach where it was not timed: softmax runs beside the products."""


class PrefillAttentionModel(TimingModel):
    """Causal attention of prompts over themselves. The variables of the correction and the domain:

    * ``flops``: floating-point operations, half of the square
    * ``tokens``: of a prompt
    * ``batch``: prompts
    * ``blocks``: batch x heads, the independent pieces of work
    * ``group``: heads that share a kv head
    * ``head_dim``
    """

    dimensions: ClassVar[tuple[str, ...]] = ("flops", "tokens", "batch", "blocks", "group", "head_dim")

    roofline: Roofline
    correction: Correction = Correction()

    @model_validator(mode="after")
    def _correction_is_of_its_variables(self) -> PrefillAttentionModel:
        check_domain(self.correction.domain, self.dimensions)
        return self

    @property
    def launch_s(self) -> float:
        """The floor under any attention's time."""
        return self.roofline.launch_s

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

    def seconds(
        self,
        batch: ArrayLike,
        tokens: ArrayLike,
        heads: ArrayLike,
        kv_heads: ArrayLike,
        head_dim: ArrayLike,
        element_bytes: float,
    ) -> Array:
        values = self.variables(batch, tokens, heads, kv_heads, head_dim)
        roofline = self.roofline.seconds(*self.work(values, element_bytes))
        return np.asarray(roofline * np.exp(self.correction.log_factor(values)))

    def wander(
        self, batch: int, tokens: int, heads: int, kv_heads: int, head_dim: int, element_bytes: float
    ) -> dict[str, float]:
        """How much each direction of the uncertainty moves the logarithm of the time."""
        values = self.variables(batch, tokens, heads, kv_heads, head_dim)
        found = self.correction.wander({name: float(value) for name, value in values.items()})
        return {str(way): moved for way, moved in enumerate(found)}

    def outside(self, batch: int, tokens: int, heads: int, kv_heads: int, head_dim: int) -> str | None:
        """How the shape leaves the timed domain, as short text; ``None`` inside it."""
        values = self.variables(batch, tokens, heads, kv_heads, head_dim)
        return self.beyond({name: float(value) for name, value in values.items()})
