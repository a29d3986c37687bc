"""The one description of a forward pass: a card's shape turned into operations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cached_property, lru_cache
from typing import TypeVar

from ssdsim.base.errors import InputError
from ssdsim.base.record import Record
from ssdsim.transformer.card import Transformer
from ssdsim.transformer.compressed import PrefillCompressed
from ssdsim.transformer.context_parallel import check_context_parallel
from ssdsim.transformer.operations import Attention, Gemm, Operation, PrefillAttention
from ssdsim.transformer.parallel_degrees import check_expert_parallel, check_tensor_parallel
from ssdsim.transformer.recurrences import Convolution, PrefillRecurrence, StateKeeping
from ssdsim.transformer.shard import Block, Shard
from ssdsim.transformer.sparse import PrefillSparse

Op = TypeVar("Op", bound=Operation)

_OVER_PROMPTS = (PrefillAttention, PrefillRecurrence, PrefillSparse, PrefillCompressed)

DATA_PARALLEL = "data-parallel"
"""Attention where each device has sequences of its own (``data_parallel``), as the option spells it."""


def degrees(tp: int, ep: int, data_parallel: bool, dcp: int = 1, pp: int = 1) -> str:
    """The degrees by which devices share a model, in short: ``TP 8, DCP 4``, ``TP 4, PP 2``, ``DP 8, EP 8``."""
    others = (("EP", ep), ("DCP", dcp), ("PP", pp))
    shared = "".join(f", {name} {degree}" for name, degree in others if degree > 1)
    return f"{'DP' if data_parallel else 'TP'} {tp}{shared}"


class ForwardPass(Record, eq=False):
    """One forward pass on one of ``tp`` devices, in order: ``before``, every block, ``after``.

    Where ``layers`` are alike there is one block, a layer. Where they differ, those with a window, with experts and so
    on are blocks one after the other: the order in which a model mixes them does not matter to what they cost.
    A pass equals itself alone; :func:`forward_pass` returns the same one for the same arguments. ``layers`` are of a
    mixer and a feed-forward each: where a model has them apart, two of its layers are one.
    """

    before: tuple[Operation, ...]
    blocks: tuple[Block, ...]
    layers: int
    after: tuple[Operation, ...]

    @property
    def layer(self) -> tuple[Operation, ...]:
        """The operations of one layer."""
        if len(self.blocks) != 1:
            raise InputError("layers that differ (windows, experts in some) are priced only, they cannot be run here")
        return self.blocks[0].operations

    @property
    def attention(self) -> Attention:
        """The attention of one layer, by heads, which knows the pass's sequences and the tokens of each."""
        return next(op for op in self.layer if isinstance(op, Attention))

    def operations(self) -> Iterator[Operation]:
        """Every operation in the order in which a rank runs it."""
        yield from self.before
        for block in self.blocks:
            for _ in range(block.times):
                yield from block.operations
        yield from self.after

    def those(self, kind: type[Op]) -> list[tuple[Op, int]]:
        """The operations of one kind, with the number of times each runs."""
        return [(op, times) for op, times in self.counted if isinstance(op, kind)]

    @cached_property
    def counted(self) -> list[tuple[Operation, int]]:
        """Each distinct operation with the number of times it runs."""
        layers = [(op, block.times) for block in self.blocks for op in block.operations]
        return [(op, 1) for op in self.before] + layers + list(Counter(self.after).items())

    @property
    def flops(self) -> float:
        return sum(op.flops * count for op, count in self.counted)

    @cached_property
    def moved_bytes(self) -> float:
        """Bytes to and from the device's own memory."""
        return sum(op.memory_bytes * count for op, count in self.counted)

    @cached_property
    def recurrent_layers(self) -> int:
        """Layers with a state, each once however many sequences and prompts it is over."""
        if not self.those(Convolution):
            return 0
        return sum(b.times for b in self.blocks if any(isinstance(op, Convolution) for op in b.operations))

    @cached_property
    def over_prompts(self) -> bool:
        """Tell whether parts of prompts are among its tokens."""
        return any(self.those(kind) for kind in _OVER_PROMPTS)

    @property
    def tokens(self) -> int:
        """Tokens in flight."""
        return max(op.m for op, _ in self.those(Gemm))


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
    ep: int = 1,
    fused: int | None = None,
    logits: int | None = None,
    data_parallel: bool = False,
    drafts: int = 1,
    rows: int | None = None,
    states: StateKeeping = "each",
    dcp: int = 1,
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
    ep : expert-parallel degree, of the ``tp`` devices: so many groups of them hold different experts, each of which is
        shared by the ``tp / ep`` of a group. The pass is that of the busiest group; attention stays tensor-parallel,
        so that every device has all tokens and the all-reduce adds up what its experts made of them.
    fused : of a draft head, the tokens of each sequence that come with hidden states of the target; none by default.
    logits : tokens of each sequence whose logits are needed; all by default.
    data_parallel : each of the ``tp`` devices has sequences of its own and the whole model but for its experts
        (data-parallel attention); the pass is that of the fullest. Experts lie apart on all of them (``ep`` is ``tp``):
        all-to-alls bring each token to the devices of its experts and back.
    drafts : of a block drafter, into how many blocks the tokens of a sequence whose logits are needed part.
    rows : tokens in flight of the whole batch where sequences have different numbers of them, at most ``batch *
        queries``, over which attention is; by default those.
    states : which states of recurrent layers are kept for tokens that are being verified.
    dcp : of the ``tp`` devices, so many share each sequence's cache in place of a copy each (decode context parallel).

    Raises
    ------
    InputError : ``tp`` does not divide the heads or the MLP, ``ep`` not ``tp`` and the experts, ``dcp`` not the copies
        of the cache, or a count is not positive.
    """
    for what, value in (("batch", batch), ("queries", queries), ("context", context)):
        if value < 1:
            raise InputError(f"{what} must be at least 1, got {value}")
    check_expert_parallel(card, tp, ep)
    check_tensor_parallel(card, 1 if data_parallel else tp, 1 if data_parallel else ep)
    if data_parallel and card.experts is not None and ep != tp:
        raise InputError(f"where devices have sequences of their own, ep must be tp, {tp}; got {ep}")
    kept = card.precision(dtype, kv_dtype)
    own, sharing = (-(-batch // tp), 1) if data_parallel else (batch, tp)
    check_context_parallel(card, sharing, dcp)
    needed = queries if logits is None else logits
    everyone = batch if data_parallel else own
    seen = (own, queries, context, sharing, kept, masked, ep)
    return _forward_pass(Shard(card, *seen, fused or 0, needed, everyone, drafts, states, rows or 0, dcp))


@lru_cache(maxsize=8192)
def _forward_pass(shard: Shard) -> ForwardPass:
    layers = -(-(shard.card.mixers + shard.card.mlps) // 2)  # two that are a mixer and a feed-forward count as one
    return ForwardPass(shard.embedding(), shard.blocks(), layers, shard.head())
