"""Transformer cards, and the one description of a forward pass: a card's shape turned into operations."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Annotated, Literal

from pydantic import Field, model_validator

from ssdsim.errors import InputError, nearest
from ssdsim.records import Card
from ssdsim.transformer.operations import (
    DTYPE_BYTES,
    DTYPES,
    WEIGHT_BYTES,
    Attention,
    Collective,
    Elementwise,
    Gemm,
    Operation,
)
from ssdsim.transformer.precision import FORMATS, KV_DTYPES, DType, Format, KvDType, Precision

LARGEST = 10**9
"""Of any size of a transformer; the largest that exist have a context of 10 million tokens."""
Size = Annotated[int, Field(gt=0, le=LARGEST)]


class Weights(Card):
    """Formats of a checkpoint's weights by part; a part without one is in the card's plain dtype."""

    attention: Format | None = None
    mlp: Format | None = None
    lm_head: Format | None = None


class Transformer(Card):
    """The shape of a dense decoder-only transformer, and the formats of its checkpoint.

    ``gated_mlp`` is the SwiGLU block (gate and up fused in one GEMM). ``all_reduces_per_layer`` is 2 for
    Megatron-style sharding (after attention and after the MLP) and 1 for the proposal's transformer-shaped graph,
    which also has no element-wise kernels and no vocabulary (``vocab_size = 0``). ``dtype`` is that of the activations
    and of all that ``weights`` and ``kv_dtype`` do not say to be quantised.
    """

    name: str
    architecture: Literal["llama", "qwen2", "qwen3", "mistral", "transformer-shaped"]
    hidden_size: Size
    layers: Size
    heads: Size
    kv_heads: Size
    head_dim: Size
    intermediate_size: Size
    vocab_size: int = Field(ge=0, le=LARGEST)
    gated_mlp: bool = True
    tied_embeddings: bool = False
    qk_norm: bool = False
    attention_bias: bool = False
    all_reduces_per_layer: Literal[1, 2] = 2
    max_context: Size
    dtype: DType = "bfloat16"
    weights: Weights = Weights()
    kv_dtype: KvDType | None = None
    source: str

    def __hash__(self) -> int:
        return hash(self.name)  # of all fields it takes longer than pricing a pass that is known

    @model_validator(mode="after")
    def _heads_group(self) -> Transformer:
        if self.heads % self.kv_heads:
            raise ValueError(f"heads ({self.heads}) must be a multiple of kv_heads ({self.kv_heads})")
        return self

    @model_validator(mode="after")
    def _one_plain_dtype(self) -> Transformer:
        for part, given in self.weights:
            if given in DTYPES and given != self.dtype:
                raise ValueError(f"weights.{part} must be quantised or {self.dtype}, the card's dtype, got {given}")
        return self

    @property
    def parameters(self) -> int:
        """Number of weights, embeddings included (tied ones once)."""
        return sum(self.parameters_by_part.values())

    @property
    def parameters_by_part(self) -> dict[str, int]:
        """Weights of the parts of :class:`Precision`; ``activations`` are norms, biases and an embedding of its own."""
        attention_out = self.heads * self.head_dim
        kv_out = self.kv_heads * self.head_dim
        qkv_out = attention_out + 2 * kv_out
        small = 2 * self.hidden_size if self.vocab_size else 0  # the transformer-shaped graph has GEMMs only
        small += 2 * self.head_dim if self.qk_norm else 0
        small += qkv_out if self.attention_bias else 0
        lm_head = self.vocab_size * self.hidden_size
        final_norm = self.hidden_size if self.vocab_size else 0
        return {
            "attention": self.layers * self.hidden_size * (qkv_out + attention_out),
            "mlp": self.layers * self.hidden_size * (3 if self.gated_mlp else 2) * self.intermediate_size,
            "lm_head": lm_head,
            "activations": self.layers * small + final_norm + (0 if self.tied_embeddings else lm_head),
        }

    def precision(self, dtype: str | None = None, kv_dtype: str | None = None) -> Precision:
        """The formats in which the model is kept and computed.

        Parameters
        ----------
        dtype : a plain one is that of the whole model; a quantised format is that of the blocks' weights, while LM
            head, embedding and activations stay in the card's 16 bits. The checkpoint's formats by default.
        kv_dtype : of the cache; the card's or the activations' by default (a plain ``dtype`` sets the cache's, too).
        """
        return _precision(self, dtype, kv_dtype)

    def kv_bytes_per_token(self, tp: int = 1, dtype: str | None = None) -> int:
        """Bytes of keys and values that one token adds to the cache, kept in ``dtype``, of one of ``tp`` devices."""
        per_layer = 2 * _shard_kv_heads(self, tp) * self.head_dim
        return self.layers * per_layer * DTYPE_BYTES[dtype or self.precision().kv]

    def weight_bytes(self, tp: int = 1, precision: Precision | str | None = None) -> int:
        """Bytes of weights on one of ``tp`` devices (norms are replicated, which is negligible).

        ``precision``, or a dtype as :meth:`precision` takes it.
        """
        return _weight_bytes(self, tp, precision if isinstance(precision, Precision) else self.precision(precision))


@lru_cache(maxsize=1024)  # asked at every point of a sweep, as is the next
def _weight_bytes(card: Transformer, tp: int, precision: Precision) -> int:
    by_format: dict[str, int] = {}
    for part, count in card.parameters_by_part.items():
        kept = getattr(precision, part)
        by_format[kept] = by_format.get(kept, 0) + count
    return math.ceil(sum(-(-count // tp) * WEIGHT_BYTES[kept] for kept, count in by_format.items()))


@lru_cache(maxsize=1024)
def _precision(card: Transformer, dtype: str | None, kv_dtype: str | None) -> Precision:
    kept = card.weights
    if dtype is None:
        found = Precision(
            card.dtype,
            kept.attention or card.dtype,
            kept.mlp or card.dtype,
            kept.lm_head or card.dtype,
            card.kv_dtype or card.dtype,
        )
    elif dtype in DTYPES:
        found = Precision.plain(dtype)
    elif dtype in FORMATS:
        activations = "bfloat16" if card.dtype == "float32" else card.dtype
        found = Precision(activations, dtype, dtype, activations, card.kv_dtype or activations)
    else:
        raise InputError(f"unknown dtype '{dtype}'{nearest(dtype, FORMATS)} Allowed: {', '.join(FORMATS)}")
    if kv_dtype and kv_dtype not in DTYPE_BYTES:
        raise InputError(f"unknown dtype of the cache '{kv_dtype}'; allowed: {', '.join(KV_DTYPES)}")
    return replace(found, kv=kv_dtype) if kv_dtype else found


def _shard_kv_heads(card: Transformer, tp: int) -> int:
    return max(1, card.kv_heads // tp)


def check_tensor_parallel(card: Transformer, tp: int) -> None:
    """Raise :class:`InputError` unless ``tp`` devices can share the heads and the MLP of ``card`` evenly."""
    if tp < 1 or not _divides(card, tp):
        raise InputError(
            f"tp {tp} does not divide {card.name} ({card.heads} heads, {card.kv_heads} kv heads, "
            f"MLP {card.intermediate_size}); allowed: {', '.join(map(str, legal_tensor_parallel(card)))}"
        )


def legal_tensor_parallel(card: Transformer) -> list[int]:
    """The tensor-parallel degrees up to 32 that share ``card`` evenly."""
    return list(_legal_tensor_parallel(card))


@lru_cache(maxsize=256)
def _legal_tensor_parallel(card: Transformer) -> tuple[int, ...]:
    return tuple(tp for tp in range(1, 33) if _divides(card, tp))


def _divides(card: Transformer, tp: int) -> bool:
    # Fewer kv heads than devices are replicated, as every engine does; a remainder is not.
    kv_even = card.kv_heads % tp == 0 or tp % card.kv_heads == 0
    return card.heads % tp == 0 and card.intermediate_size % tp == 0 and kv_even


@dataclass(frozen=True, eq=False)
class ForwardPass:
    """One forward pass on one of ``tp`` devices, in order: ``before``, ``layers`` times ``layer``, ``after``.

    A pass equals itself alone; :func:`forward_pass` returns the same one for the same arguments.
    """

    before: tuple[Operation, ...]
    layer: tuple[Operation, ...]
    layers: int
    after: tuple[Operation, ...]

    def operations(self) -> Iterator[Operation]:
        """Every operation in the order in which a rank runs it."""
        yield from self.before
        for _ in range(self.layers):
            yield from self.layer
        yield from self.after

    def counted(self) -> list[tuple[Operation, int]]:
        """Each distinct operation with the number of times it runs."""
        return (
            [(op, 1) for op in self.before] + [(op, self.layers) for op in self.layer] + [(op, 1) for op in self.after]
        )

    @property
    def flops(self) -> float:
        return sum(op.flops * count for op, count in self.counted())

    @cached_property
    def moved_bytes(self) -> float:
        """Bytes to and from the device's own memory."""
        return sum(op.bytes * count for op, count in self.counted() if not isinstance(op, Collective))

    @property
    def tokens(self) -> int:
        """Tokens in flight."""
        return next(op.m for op in self.layer if isinstance(op, Gemm))


def forward_pass(
    card: Transformer,
    *,
    batch: int,
    queries: int = 1,
    context: int,
    tp: int = 1,
    dtype: str | None = None,
    kv_dtype: str | None = None,
    masked: bool = False,
) -> ForwardPass:
    """The operations of one pass over ``batch * queries`` tokens in flight.

    Parameters
    ----------
    card : the transformer's shape.
    batch : sequences decoded together.
    queries : tokens in flight per sequence (1 for decoding, K+1 for verification, the number of branches for a
        pre-speculation step).
    context : cached tokens that each query attends to.
    tp : tensor-parallel degree; every GEMM is one device's shard (column- then row-parallel), followed by an
        all-reduce of the ``tokens x hidden`` activations.
    dtype, kv_dtype : of weights, activations and cache as :meth:`Transformer.precision` takes them; the card's by
        default.
    masked : the queries are branches with a custom attention mask, not a causal chain.

    Raises
    ------
    InputError : ``tp`` does not divide the heads or the MLP, or a count is not positive.
    """
    for what, value in (("batch", batch), ("queries", queries), ("context", context)):
        if value < 1:
            raise InputError(f"{what} must be at least 1, got {value}")
    check_tensor_parallel(card, tp)
    return _forward_pass(_Shard(card, batch, queries, context, tp, card.precision(dtype, kv_dtype), masked))


@lru_cache(maxsize=65536)
def _forward_pass(shard: _Shard) -> ForwardPass:
    return ForwardPass(shard.embedding(), shard.layer(), shard.card.layers, shard.head())


@dataclass(frozen=True)
class _Shard:
    """One device's share of a pass."""

    card: Transformer
    batch: int
    queries: int
    context: int
    tp: int
    precision: Precision
    masked: bool

    @property
    def tokens(self) -> int:
        return self.batch * self.queries

    def embedding(self) -> tuple[Operation, ...]:
        if not self.card.vocab_size:
            return ()
        gather = self._elementwise("embedding", 2 * self.card.hidden_size)
        return (gather, *self._all_reduce("embedding_all_reduce"))

    def layer(self) -> tuple[Operation, ...]:
        return (*self._attention_block(), *self._mlp_block())

    def head(self) -> tuple[Operation, ...]:
        card = self.card
        if not card.vocab_size:
            return ()
        vocab_shard = -(-card.vocab_size // self.tp)  # engines pad the vocabulary to a multiple of tp
        ops: list[Operation] = [
            self._elementwise("final_norm", 4 * card.hidden_size),
            self._gemm("lm_head", vocab_shard, card.hidden_size, self.precision.lm_head),
        ]
        if self.tp > 1:
            logits_bytes = self.tokens * vocab_shard * self.tp * self._value_bytes
            ops.append(Collective("logits_all_gather", "all_gather", logits_bytes, self.tp))
        return tuple(ops)

    def _attention_block(self) -> tuple[Operation, ...]:
        card, shaped = self.card, self.card.vocab_size == 0
        heads, kv_heads = card.heads // self.tp, _shard_kv_heads(card, self.tp)
        q_out, kv_out = heads * card.head_dim, kv_heads * card.head_dim
        weights, dtype = self.precision.attention, self.precision.activations
        ops: list[Operation] = [self._gemm("qkv", q_out + 2 * kv_out, card.hidden_size, weights)]
        if not shaped:
            ops.insert(0, self._elementwise("input_norm", 4 * card.hidden_size))
            if card.qk_norm:
                ops.append(self._elementwise("qk_norm", 2 * (q_out + kv_out)))
            # rotary embedding of q and k in place, then k and v written to the cache (as wide as the activations here)
            ops.append(self._elementwise("rotary", 2 * (q_out + kv_out) + 4 * kv_out))
        ops.append(
            Attention(
                "attention",
                self.batch,
                self.queries,
                self.context,
                heads,
                kv_heads,
                card.head_dim,
                dtype,
                self.masked,
                "" if self.precision.kv == dtype else self.precision.kv,
            )
        )
        ops.append(self._gemm("attention_out", card.hidden_size, q_out, weights))
        if card.all_reduces_per_layer == 2:
            ops.extend(self._all_reduce("attention_all_reduce"))
        return tuple(ops)

    def _mlp_block(self) -> tuple[Operation, ...]:
        card, shaped = self.card, self.card.vocab_size == 0
        inner = card.intermediate_size // self.tp
        up_out = 2 * inner if card.gated_mlp else inner
        weights = self.precision.mlp
        ops: list[Operation] = []
        if not shaped:
            ops.append(self._elementwise("post_norm", 4 * card.hidden_size))
        ops.append(self._gemm("gate_up" if card.gated_mlp else "up", up_out, card.hidden_size, weights))
        if not shaped:
            ops.append(self._elementwise("activation", up_out + inner))
        ops.append(self._gemm("down", card.hidden_size, inner, weights))
        ops.extend(self._all_reduce("mlp_all_reduce"))
        return tuple(ops)

    @property
    def _value_bytes(self) -> int:
        return DTYPE_BYTES[self.precision.activations]

    def _gemm(self, name: str, n: int, k: int, weights: str) -> Gemm:
        if weights == self.precision.activations:
            return Gemm(name, self.tokens, n, k, weights)
        return Gemm(name, self.tokens, n, k, weights, self.precision.activations)

    def _elementwise(self, name: str, values_per_token: int) -> Elementwise:
        return Elementwise(name, self.tokens * values_per_token * self._value_bytes)

    def _all_reduce(self, name: str) -> tuple[Operation, ...]:
        if self.tp == 1:
            return ()
        message = self.tokens * self.card.hidden_size * self._value_bytes
        return (Collective(name, "all_reduce", message, self.tp),)


def transformer_shaped(hidden_size: int, layers: int, dtype: DType = "float16") -> Transformer:
    """The proposal's graph (§5.1): QKV ``Hx3H``, dense attention, ``HxH``, ``Hx4H``, ``4HxH``, one all-reduce.

    The dense attention ``QK^T`` over the whole hidden size costs the same flops and bytes however it is cut into
    heads; it is cut into heads of 128 (or the largest power of two below that divides H), so that heads can be sharded.
    """
    head_dim = next((d for d in (128, 64, 32, 16, 8) if hidden_size % d == 0), None)
    if head_dim is None or not (0 < 4 * hidden_size <= LARGEST and 0 < layers <= LARGEST):
        raise InputError(
            f"transformer-shaped-{hidden_size}x{layers}: H must be a positive multiple of 8, at most {LARGEST // 4}, "
            f"and L at least 1 and at most {LARGEST}"
        )
    heads = hidden_size // head_dim
    return Transformer(
        name=f"transformer-shaped-{hidden_size}x{layers}",
        architecture="transformer-shaped",
        hidden_size=hidden_size,
        layers=layers,
        heads=heads,
        kv_heads=heads,
        head_dim=head_dim,
        intermediate_size=4 * hidden_size,
        vocab_size=0,
        gated_mlp=False,
        all_reduces_per_layer=1,
        max_context=1 << 20,
        dtype=dtype,
        source="proposal of Alenius and Chien, section 5.1",
    )
