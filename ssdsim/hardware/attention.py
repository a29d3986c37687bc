"""Decode attention: a corrected roofline, a sum where heads run one after another, and the law that chooses."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from pydantic import AfterValidator, Field, model_validator

from ssdsim.checks import Array
from ssdsim.hardware.laws import CorrectedRoofline, Directions, ModelOfVariables, Scaling, directions_of
from ssdsim.hardware.timing import Law, Timing, of_dtype, timed
from ssdsim.records import FROM_LIST, Card, Positive, Seconds
from ssdsim.transformer.operations import DTYPE_BYTES, DTYPES, Attention


class DecodeAttention(ModelOfVariables):
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
        *,
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

    def values(self, *shape: Any) -> dict[str, Array]:
        return self.variables(*shape, packed=self.packed)


class AttentionModel(CorrectedRoofline, DecodeAttention):
    """A roofline over keys, values, queries and outputs, corrected."""

    @property
    def coefficients(self) -> int:
        """How many numbers were fitted: the roofline's four, the correction's."""
        return 5 + len(self.correction.terms)

    @staticmethod
    def work(values: Mapping[str, Array], element_bytes: float) -> tuple[Array, Array]:
        rows = values["blocks"] * values["group"]
        moved_bytes = values["kv"] + 2 * element_bytes * rows * values["head_dim"]
        return np.asarray(moved_bytes), np.asarray(4 * rows * values["head_dim"] * values["context"])


class GroupLaw(Card):
    """Seconds for ``group`` query rows a kv head: a launch, a time for each kv head and for each block, and streaming.

    The heads' own time does not grow with the batch: it is that of the projection before, which leaves the caches cold.
    """

    group: Positive
    launch_s: Seconds
    head_s: Seconds
    block_s: Seconds
    bandwidth: Positive
    uncertainty: Annotated[Directions, AfterValidator(directions_of(4))] = ()
    """Directions of the launch, of the seconds a head, a block and a byte."""

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

    def scaled(self, scaling: Scaling) -> Self:
        """On another device."""
        return scaling.of(self, "launch_s", "head_s", "block_s", uncertainty=())


class AdditiveAttentionModel(DecodeAttention):
    """Attention of a device that does little at a time, such as a core: what its parts take adds up.

    Kernels differ for one query row and for several, so there is a law for each number of rows timed; between two,
    time is blended geometrically in the logarithm of the rows.
    """

    laws: Annotated[tuple[GroupLaw, ...], FROM_LIST] = Field(min_length=1)

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

    def _shares(self, group: Array) -> list[tuple[GroupLaw, Array]]:
        """Each law with its share at ``group`` rows; the shares add up to 1."""
        knots = np.log([law.group for law in self.laws])
        return [(law, np.interp(np.log(group), knots, np.eye(len(knots))[i])) for i, law in enumerate(self.laws)]

    def scaled(self, scaling: Scaling, *keys: Any) -> Self | None:
        known = scaling.knows(*keys)
        return self.unfitted(laws=tuple(law.scaled(scaling) for law in self.laws)) if known else None


AnyAttention = AttentionModel | AdditiveAttentionModel


class AttentionLaw(Law[Attention]):
    """A model for each dtype of the cache, under a mask or a window where these were timed.

    Where none were taken over a quantised cache, those over one of the activations' dtype.
    """

    def timing(self, op: Attention) -> Timing:
        where, dtype = self._timed(op)
        model = self._model(op)
        shape = (op.batch, op.queries, op.context, op.heads, op.kv_heads, op.head_dim)
        seconds, outside, wander = model.timed(shape, DTYPE_BYTES[op.cache_dtype])
        if dtype != op.cache_dtype:
            outside = f"a {op.cache_dtype} cache was not timed, a {dtype} one was"
        elif op.masked and where != "attention_masked" and outside is None:
            outside = "branch masks were not timed, ordinary attention was"
        key = f"{where}:{op.kv_heads}x{op.head_dim}:{op.cache_dtype}"
        return timed(self.profile, key, model, seconds, outside, wander, f"{where}:{dtype}")

    def launch_s(self, op: Attention) -> float:
        return self._model(op).launch_s

    def _model(self, op: Attention) -> AnyAttention:
        where, dtype = self._timed(op)
        models: Mapping[str, AnyAttention] = getattr(self.profile, where)
        return of_dtype(self.profile, "attention", models, dtype)

    def _timed(self, op: Attention) -> tuple[str, str]:
        """The profile's field of the timings for ``op``, and of which dtype."""
        dtypes = (op.cache_dtype,) if op.cache_dtype in DTYPES else (op.cache_dtype, op.dtype)
        special = [name for name, asked in (("masked", op.masked), ("windowed", op.windowed)) if asked]
        for dtype in dtypes:
            for where in (*(f"attention_{name}" for name in special), "attention"):
                if dtype in getattr(self.profile, where):
                    return where, dtype
        return "attention", dtypes[-1]
