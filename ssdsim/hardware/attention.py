"""Decode attention: a corrected roofline, a sum where heads run one after another, and the law that chooses."""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

import numpy as np
from msgspec import Meta

from ssdsim.base.card import Card, Coefficient, Count, Positive, Seconds
from ssdsim.base.checks import Array, FloatOrArray
from ssdsim.base.conversion import EitherCard
from ssdsim.base.record import Record, replace
from ssdsim.hardware.laws import (
    CorrectedRoofline,
    Correction,
    ModelOfVariables,
    Roofline,
    Scaling,
    clamped,
)
from ssdsim.hardware.nodes import Lattice, continued, doublings, in_proportion, midway
from ssdsim.hardware.timing import EXTRAPOLATION_LOG_SD, Law, Timing, of_dtype, timed
from ssdsim.transformer.operations import DTYPE_BYTES, DTYPES, Attention

_KV_HEADS = np.array([1.0, 2.0, 4.0, 8.0])
"""Nodes: kernels take few of them in ways of their own; more are so many more sequences."""

_MOST_KV_HEADS = 8.0

_BEYOND = 64.0
"""How many times the largest timed value nodes reach; kernels of more work stream or multiply and nothing else."""


class DecodeAttention(ModelOfVariables):
    """Base of models of decode attention: the variables that they are made of.

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
    most_rows: Count | None = None
    """Of a sequence's queries over all kv heads, as timed."""
    streaming: Positive | None = None
    """Bytes/s at which more keys and values than a cache holds were read at best.

    Fewer, which one held from repeat to repeat, come no faster within a pass.
    """

    dimensions: ClassVar[tuple[str, ...]] = ("kv", "context", "batch", "blocks", "group", "head_dim")

    @staticmethod
    def variables(
        batch: FloatOrArray,
        queries: FloatOrArray,
        context: FloatOrArray,
        heads: FloatOrArray,
        kv_heads: FloatOrArray,
        head_dim: FloatOrArray,
        element_bytes: float,
        *,
        packed: bool = True,
    ) -> dict[str, FloatOrArray]:
        """The variables of the correction, of kernels that are ``packed`` or are not."""
        context = np.maximum(context, 1.0)
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

    def values(self, *shape: Any) -> dict[str, FloatOrArray]:
        return self.variables(*shape, packed=self.packed)

    def seconds(self, *shape: Any) -> Array:
        """Seconds by ``batch, queries, context, heads, kv_heads, head_dim``, which broadcast, and an element's bytes.

        They are made monotone on the nodes of each head dimension.
        """
        *sizes, head_dim = np.broadcast_arrays(*(np.asarray(size, float) for size in shape[:-1]))
        seconds = np.empty(head_dim.shape)
        for one in np.unique(head_dim):
            of = head_dim == one
            own = [size[of] for size in sizes]
            nodes = self.on_nodes(one, shape[-1])
            seconds[of] = nodes.seconds(*own) if nodes else super().seconds(*own, one, shape[-1])
        return seconds

    def on_nodes(self, head_dim: float, element_bytes: float) -> "AttentionNodes | None":
        """The law for one head dimension, made monotone on its nodes; None where no timings say where it ends."""
        if not {"batch", "context", "group", "kv"} <= self.domain.keys():
            return None
        largest = {name: limits[1] for name, limits in self.domain.items()}
        groups = np.array(sorted({*_nodes_up_to(largest["group"]).tolist(), *self._timed_groups}))
        timed = (_nodes_up_to(largest["batch"]), _KV_HEADS, groups, _nodes_up_to(largest["context"]))
        batch, kv_heads, group, context = np.ix_(*timed)
        values = self.values(batch, group, context, kv_heads, kv_heads, head_dim, element_bytes)
        seconds = np.maximum(self._seconds(values, element_bytes), values["kv"] / (self.streaming or np.inf))
        seconds = self._with_more_rows(seconds, timed, head_dim, element_bytes)
        axes = tuple(
            [
                nodes if nodes is _KV_HEADS else np.concatenate([nodes, doublings(nodes[-1], _BEYOND * nodes[-1])[1:]])
                for nodes in timed
            ]
        )
        seconds = continued(seconds, axes[3], 3, values["kv"] <= largest["kv"])
        for axis in (2, 0):
            seconds = continued(seconds, axes[axis], axis)
        return AttentionNodes(self.packed, *(_monotone(axes, seconds, of) for of in (slice(0, 1), slice(1, None))))

    @property
    def _timed_groups(self) -> Sequence[float]:
        """Numbers of query rows a kv head that have laws of their own."""
        return ()

    def _with_more_rows(self, seconds: Array, axes: tuple[Array, ...], head_dim: float, element_bytes: float) -> Array:
        """Lengthen the times of more query rows than were timed: as much longer for them as with fewer kv heads.

        These belong to as many more sequences, which makes no difference to a kernel.
        """
        if self.most_rows is None:
            return seconds
        extended, groups = np.array(seconds), axes[2]
        for node in range(1, len(groups)):
            fitting = 2.0 ** np.floor(np.log2(max(1.0, self.most_rows / groups[node])))
            more = axes[1] > fitting
            if not more.any():
                continue
            batch, kv_heads, context = np.ix_(axes[0], axes[1][more], axes[3])
            as_many = batch * kv_heads / fitting
            rows = groups[node - 1 : node + 1, None, None, None]
            values = self.values(as_many, rows, context, fitting, fitting, head_dim, element_bytes)
            before, after = self._seconds(values, element_bytes)
            growth = np.clip(after / before, 1.0, groups[node] / groups[node - 1])
            extended[:, more, node] = extended[:, more, node - 1] * growth
        return extended


def _nodes_up_to(largest: float) -> Array:
    """Doublings and the largest timed one."""
    return np.append(doublings(1.0, largest)[:-1], largest) if largest > 1.0 else np.ones(1)


class AttentionNodes(Record, eq=False):
    """Decode attention of one head dimension on nodes of batch, kv heads, query rows a kv head and context.

    Kernels of a single query row a kv head are others, some several times as slow where there are few blocks: they have
    nodes of their own, and more rows of a model that has a head a kv head take no less than one.
    """

    packed: bool
    single: Lattice
    several: Lattice

    def seconds(self, *shape: Any) -> Array:
        """Seconds by ``batch, queries, context, heads, kv_heads``, which broadcast together."""
        batch, queries, context, heads, kv_heads = shape
        kv_heads = kv_heads if self.packed else heads
        sequences, of_each = batch * np.maximum(kv_heads / _MOST_KV_HEADS, 1.0), np.minimum(kv_heads, _MOST_KV_HEADS)
        log_seconds = self.several.at(sequences, of_each, queries * heads / kv_heads, context)
        alone = np.less_equal(heads, kv_heads)
        if alone.any():
            one = self.single.at(sequences, of_each, 1.0, context)
            of_rows = clamped(log_seconds, one, one + np.log(queries))
            log_seconds = np.where(alone, of_rows, log_seconds)
        return np.asarray(np.exp(log_seconds))


def _monotone(axes: tuple[Array, ...], seconds: Array, groups: slice) -> Lattice:
    """The nodes of some numbers of query rows, never falling and never outgrowing the work."""
    nodes = (axes[0], axes[1], axes[2][groups], axes[3])
    right = midway(np.log(seconds[:, :, groups]))
    for axis, of in enumerate(nodes):
        right = in_proportion(right, of, axis)
    return Lattice(nodes, right)


class AttentionModel(CorrectedRoofline, DecodeAttention):
    """A roofline over keys, values, queries and outputs, corrected.

    ``single`` is that of one query row a kv head, where its kernels are so unlike the others that no law fits both.
    """

    roofline: Roofline
    correction: Correction = Correction()
    single: "AttentionModel | None" = None

    @property
    def coefficients(self) -> int:
        """Number of fitted numbers: the roofline's four, the correction's."""
        return 5 + len(self.correction.terms) + (self.single.coefficients if self.single else 0)

    def _seconds(self, values: Mapping[str, Array], element_bytes: float) -> Array:
        seconds = super()._seconds(values, element_bytes)
        if self.single is None:
            return seconds
        return np.where(values["group"] == 1.0, self.single._seconds(values, element_bytes), seconds)

    def _wander(self, values: Mapping[str, Array]) -> dict[str, float]:
        if self.single is None or values["group"] != 1.0:
            return super()._wander(values)
        return {f"single.{way}": moved for way, moved in self.single._wander(values).items()}

    def scaled(self, scaling: Scaling, *keys: Any) -> Self | None:
        fields = super().scaled(scaling, *keys)
        if not fields:
            return None
        streaming = self.streaming and self.streaming * scaling.memory_bandwidth
        single = self.single and self.single.scaled(scaling, *keys)
        return fields.changed(streaming=streaming, single=single)

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
    uncertainty: tuple[Annotated[tuple[Coefficient, ...], Meta(min_length=4, max_length=4)], ...] = ()
    """Directions of the launch, of the seconds a head, a block and a byte."""

    @staticmethod
    def counts(values: Mapping[str, Array]) -> Array:
        """Factors of the four coefficients, shape ``(4, ...)``: one, kv heads, blocks, bytes."""
        of_heads = values["blocks"] / values["batch"]
        return np.stack(np.broadcast_arrays(np.ones(()), of_heads, values["blocks"], values["kv"]))

    def seconds(self, values: Mapping[str, Array]) -> Array:
        coefficients = [self.launch_s, self.head_s, self.block_s, 1.0 / self.bandwidth]
        return np.tensordot(coefficients, self.counts(values), axes=1)

    def wander(self, values: Mapping[str, Array]) -> list[float]:
        """Tell how much each direction of the uncertainty moves the logarithm of the time."""
        counts, seconds = self.counts(values), float(self.seconds(values))
        return [float(np.dot(direction, counts)) / seconds for direction in self.uncertainty]

    def scaled(self, scaling: Scaling) -> Self:
        """Carry the model over to another device."""
        return scaling.of(self, "launch_s", "head_s", "block_s", uncertainty=())


class AdditiveAttentionModel(DecodeAttention):
    """Attention of a device that does little at a time, such as a core: what its parts take adds up.

    Kernels differ for one query row and for several, so there is a law for each number of rows timed; between two,
    time is blended geometrically in the logarithm of the rows.
    """

    laws: Annotated[tuple[GroupLaw, ...], Meta(min_length=1)]

    def __post_init__(self) -> None:
        super().__post_init__()
        if any(before.group >= after.group for before, after in pairwise(self.laws)):
            raise ValueError("laws: group must grow from law to law")

    @property
    def _timed_groups(self) -> Sequence[float]:
        return [law.group for law in self.laws]

    @property
    def launch_s(self) -> float:
        """The floor under any attention's time."""
        return min(law.launch_s for law in self.laws)

    @property
    def coefficients(self) -> int:
        """Number of fitted numbers: four a law."""
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


if TYPE_CHECKING:
    AnyAttention = AttentionModel | AdditiveAttentionModel
else:

    class AnyAttention(metaclass=EitherCard):
        """A model of either kind; the additive one has laws."""

        @staticmethod
        def card(data):
            additive = isinstance(data, AdditiveAttentionModel) or (isinstance(data, Mapping) and "laws" in data)
            return AdditiveAttentionModel if additive else AttentionModel


MASKED = 1.3
"""Attention under a branch mask, over the same without, where a profile has no timings of it.

The median of 36 shapes of a 1B draft under torch's kernel on an H100: 1.3 at a context of 1,024, 1.4 at 2,048, and 1.1
to 1.6 in all. Another kernel may be further off: its error is that of an extrapolation.
"""


NO_FLASH = 2.0
"""Attention that nobody timed, over the datasheet's, on devices before Ampere, for which no flash kernels are made.

Engines' own kernels took 1.6 to 7.6 times as long on V100s; the one that was timed alone took 1.8 to 2.1 times.
"""
_SEEN = (1.6, 7.6)
NO_FLASH_LOG_SD = math.log(_SEEN[1] / NO_FLASH) / 1.96
"""Of such attention: the upper 95 % bound is the slowest that was seen."""


class AttentionLaw(Law[Attention]):
    """A model for each dtype of the cache, under a mask or a window where these were timed.

    Where masks were not, it is that without one times :data:`MASKED`.

    Where none were taken over a quantised cache, those over one of the activations' dtype, which is then taken to be
    read as fast value by value: nobody knows what turning 8 bits back into 16 costs there, and half the bytes in half
    the time would be a guess.
    """

    def timing(self, op: Attention) -> Timing:
        where, dtype, model = self._timed(op)
        shape = (op.batch, op.queries, op.context, op.heads, op.kv_heads)
        timed_as = (where, dtype, op.head_dim)
        if timed_as not in self.nodes:
            self.nodes[timed_as] = model.on_nodes(op.head_dim, DTYPE_BYTES[dtype])
        nodes = self.nodes[timed_as]
        set_right = nodes.seconds(*shape) if nodes else None
        seconds, outside, wander = model.timed((*shape, op.head_dim), DTYPE_BYTES[dtype], set_right)
        if dtype != op.cache_dtype:
            outside = f"a {op.cache_dtype} cache was not timed, a {dtype} one was"
        key = f"{where}:{op.kv_heads}x{op.head_dim}:{op.cache_dtype}"
        plain = timed(self.profile, key, model, seconds, outside, wander, f"{where}:{dtype}")
        if model.report is None and self.profile.device.lacks_flash_attention:
            seen = " to ".join(map(str, _SEEN))
            said = f"attention was not timed: {NO_FLASH:g} times the datasheet's, of which engines' kernels took {seen}"
            warnings, slow_s = (*plain.warnings, f"{self.profile.name}: {said}"), NO_FLASH * plain.seconds
            plain = replace(plain, seconds=slow_s, log_sd=NO_FLASH_LOG_SD, warnings=warnings)
        return plain if not op.masked or where == "attention_masked" else self._under_mask(plain)

    def _under_mask(self, plain: Timing) -> Timing:
        said = f"{self.profile.name}: branch masks were not timed: attention without one, times {MASKED:g}"
        log_sd = math.hypot(plain.log_sd, EXTRAPOLATION_LOG_SD)
        seconds, warnings = MASKED * plain.seconds, (*plain.warnings, said)
        return replace(plain, seconds=seconds, log_sd=log_sd, warnings=warnings, is_extrapolated=True)

    def launch_s(self, op: Attention) -> float:
        return self._timed(op)[2].launch_s

    def _timed(self, op: Attention) -> tuple[str, str, AnyAttention]:
        """The profile's field of the timings for ``op``, of which dtype they are, and the model."""
        dtypes = (op.cache_dtype,) if op.cache_dtype in DTYPES else (op.cache_dtype, op.dtype)
        special = [name for name, asked in (("masked", op.masked), ("windowed", op.windowed)) if asked]
        for dtype in dtypes:
            for where in (*[f"attention_{name}" for name in special], "attention"):
                if dtype in getattr(self.profile, where):
                    return where, dtype, getattr(self.profile, where)[dtype]
        return "attention", dtypes[-1], of_dtype(self.profile, "attention", self.profile.attention, dtypes[-1])
