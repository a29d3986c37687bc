"""Fitted timing models of decode attention: a corrected roofline, and a sum where heads run one after another."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field, model_validator

from ssdsim.hardware.laws import Array, Correction, Directions, Roofline, TimingModel, check_directions, check_domain
from ssdsim.records import FROM_LIST, Card, Positive, Seconds


class DecodeAttention(TimingModel):
    """What models of decode attention share: the variables that they are made of.

    Imported tables have one query token per sequence. Kernels pack the queries that share keys and values,
    so ``q`` tokens of ``heads`` heads are the same work as one token of ``q * heads`` heads. The variables:

    * ``kv``: bytes of keys and values read
    * ``context``: cached tokens of a sequence
    * ``batch``: sequences
    * ``blocks``: batch x kv heads, the independent pieces of work
    * ``group``: query rows that share a kv head, queries x heads / kv heads
    * ``head_dim``

    Kernels that are not ``packed`` take each query head by itself, as if it had keys and values of its own, which come
    from a cache of the device when its neighbours read them too.
    """

    packed: bool = True

    dimensions: ClassVar[tuple[str, ...]] = ("kv", "context", "batch", "blocks", "group", "head_dim")

    @staticmethod
    def variables(
        batch: ArrayLike,
        queries: ArrayLike,
        context: ArrayLike,
        heads: ArrayLike,
        kv_heads: ArrayLike,
        head_dim: ArrayLike,
        element_bytes: float,
        packed: bool = True,
    ) -> dict[str, Array]:
        """The variables of the correction, as arrays, of kernels that are ``packed`` or are not."""
        batch, queries, heads, kv_heads, head_dim = (
            np.asarray(size, float) for size in (batch, queries, heads, kv_heads, head_dim)
        )
        context = np.maximum(np.asarray(context, float), 1.0)
        kv_heads = kv_heads if packed else heads
        blocks = batch * kv_heads
        return {
            "kv": 2 * element_bytes * blocks * context * head_dim,
            "context": context,
            "batch": batch,
            "blocks": blocks,
            "group": queries * heads / kv_heads,
            "head_dim": head_dim,
        }

    def seconds(
        self,
        batch: ArrayLike,
        queries: ArrayLike,
        context: ArrayLike,
        heads: ArrayLike,
        kv_heads: ArrayLike,
        head_dim: ArrayLike,
        element_bytes: float,
    ) -> Array:
        values = self.variables(batch, queries, context, heads, kv_heads, head_dim, element_bytes, self.packed)
        return self._seconds(values, element_bytes)

    def wander(
        self,
        batch: int,
        queries: int,
        context: int,
        heads: int,
        kv_heads: int,
        head_dim: int,
        element_bytes: float,
    ) -> dict[str, float]:
        """How much each direction of the uncertainty moves the logarithm of the time."""
        return self.timed((batch, queries, context, heads, kv_heads, head_dim), element_bytes)[2]

    def timed(self, shape: Sequence[int], element_bytes: float) -> tuple[Array, str | None, dict[str, float]]:
        """Of one shape: its seconds, how it leaves the timed domain, and how much each direction moves it."""
        batch, queries, context, heads, kv_heads, head_dim = shape
        values = self.variables(batch, queries, context, heads, kv_heads, head_dim, element_bytes, self.packed)
        outside = self.beyond({name: float(value) for name, value in values.items()})
        return self._seconds(values, element_bytes), outside, self._wander(values)

    @abstractmethod
    def _seconds(self, values: Mapping[str, Array], element_bytes: float) -> Array: ...

    @abstractmethod
    def _wander(self, values: Mapping[str, Array]) -> dict[str, float]: ...


class AttentionModel(DecodeAttention):
    """A roofline over keys, values, queries and outputs, corrected."""

    roofline: Roofline
    correction: Correction = Correction()

    @model_validator(mode="after")
    def _correction_is_of_its_variables(self) -> AttentionModel:
        check_domain(self.correction.domain, self.dimensions)
        return self

    @property
    def launch_s(self) -> float:
        """The floor under any attention's time."""
        return self.roofline.launch_s

    @property
    def coefficients(self) -> int:
        """How many numbers were fitted: the roofline's four, the correction's."""
        return 5 + len(self.correction.terms)

    @staticmethod
    def work(values: Mapping[str, Array], element_bytes: float) -> tuple[Array, Array]:
        """Bytes moved and floating-point operations."""
        rows = values["blocks"] * values["group"]
        moved_bytes = values["kv"] + 2 * element_bytes * rows * values["head_dim"]
        return np.asarray(moved_bytes), np.asarray(4 * rows * values["head_dim"] * values["context"])

    def _seconds(self, values: Mapping[str, Array], element_bytes: float) -> Array:
        roofline = self.roofline.seconds(*self.work(values, element_bytes))
        return np.asarray(roofline * np.exp(self.correction.log_factor(values)))

    def _wander(self, values: Mapping[str, Array]) -> dict[str, float]:
        found = self.correction.wander({name: float(value) for name, value in values.items()})
        return {str(way): moved for way, moved in enumerate(found)}


class AttentionLaw(Card):
    """Seconds for ``group`` query rows a kv head: a launch, a time for each kv head and for each block, and streaming.

    The heads' own time does not grow with the batch: it is that of the projection before, which leaves the caches cold.
    """

    group: Positive
    launch_s: Seconds
    head_s: Seconds
    block_s: Seconds
    bandwidth: Positive
    uncertainty: Directions = ()
    """Directions of the launch, of the seconds a head, a block and a byte."""

    @model_validator(mode="after")
    def _four_coefficients(self) -> AttentionLaw:
        check_directions(self.uncertainty, 4)
        return self

    @staticmethod
    def counts(values: Mapping[str, Array]) -> Array:
        """What the four coefficients multiply, shape ``(4, ...)``: one, kv heads, blocks, bytes."""
        return np.stack(
            [np.ones_like(values["kv"]), values["blocks"] / values["batch"], values["blocks"], values["kv"]]
        )

    def seconds(self, values: Mapping[str, Array]) -> Array:
        coefficients = [self.launch_s, self.head_s, self.block_s, 1.0 / self.bandwidth]
        return np.tensordot(coefficients, self.counts(values), axes=1)

    def wander(self, values: Mapping[str, Array]) -> list[float]:
        """How much each direction of the uncertainty moves the logarithm of the time."""
        counts, seconds = self.counts(values), float(self.seconds(values))
        return [float(np.dot(direction, counts)) / seconds for direction in self.uncertainty]


class AdditiveAttentionModel(DecodeAttention):
    """Attention of a device that does little at a time, such as a core: what its parts take adds up.

    Kernels differ for one query row and for several, so there is a law for each number of rows timed; between two,
    time is blended geometrically in the logarithm of the rows.
    """

    laws: Annotated[tuple[AttentionLaw, ...], FROM_LIST] = Field(min_length=1)

    @model_validator(mode="after")
    def _ordered(self) -> AdditiveAttentionModel:
        if any(before.group >= after.group for before, after in pairwise(self.laws)):
            raise ValueError("laws: group must grow from law to law")
        return self

    @property
    def launch_s(self) -> float:
        """The floor under any attention's time."""
        return min(law.launch_s for law in self.laws)

    @property
    def coefficients(self) -> int:
        """How many numbers were fitted: four a law."""
        return 4 * len(self.laws)

    def _seconds(self, values: Mapping[str, Array], element_bytes: float) -> Array:
        log_seconds = [share * np.log(law.seconds(values)) for law, share in self._shares(values["group"])]
        return np.asarray(np.exp(sum(log_seconds)))

    def _wander(self, values: Mapping[str, Array]) -> dict[str, float]:
        return {
            f"{law.group:g}.{way}": float(share) * moved
            for law, share in self._shares(values["group"])
            if share > 0.0
            for way, moved in enumerate(law.wander(values))
        }

    def _shares(self, group: Array) -> list[tuple[AttentionLaw, Array]]:
        """Each law with its share at ``group`` rows; the shares add up to 1."""
        knots = np.log([law.group for law in self.laws])
        return [(law, np.interp(np.log(group), knots, np.eye(len(knots))[i])) for i, law in enumerate(self.laws)]


AnyAttention = AttentionModel | AdditiveAttentionModel
