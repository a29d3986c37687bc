"""Passes over prompts: whole ones, and parts of them beside tokens that are decoded (chunked prefill)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from ssdsim.base.record import Record, replace
from ssdsim.transformer import compressed
from ssdsim.transformer.card import Transformer
from ssdsim.transformer.compressed import CompressedAttention, CompressedIndexer
from ssdsim.transformer.context_parallel import shared_attention
from ssdsim.transformer.forward import ForwardPass, forward_pass
from ssdsim.transformer.layers import Latent
from ssdsim.transformer.operations import Attention, LatentAttention, Operation, PrefillAttention
from ssdsim.transformer.recurrences import Convolution, PrefillRecurrence, RecurrentStep
from ssdsim.transformer.shard import Block
from ssdsim.transformer.sparse import SparseStep, over_prompts


@lru_cache(maxsize=4096)
def prefill_pass(card: Transformer, *, batch: int, tokens: int, **shared: Any) -> ForwardPass:
    """The operations of one pass over ``batch`` prompts of ``tokens`` tokens; the head sees each one's last token.

    The rest is as :func:`ssdsim.transformer.forward.forward_pass` takes it; the same arguments give the same pass.
    """
    body = forward_pass(card, batch=batch, queries=tokens, context=tokens, **shared)
    head = forward_pass(card, batch=batch, queries=1, context=tokens, **shared)
    blocks = tuple(
        Block(tuple(of_prompts(op, card.latent, tokens) for op in block.operations), block.times)
        for block in body.blocks
    )
    return replace(body, blocks=blocks, after=head.after)


def of_prompts(op: Operation, latent: Latent | None, tokens: int, prefix: int = 0) -> Operation:
    """Attention of whole prompts, or of ``tokens`` after ``prefix`` that are cached; likewise a recurrence.

    A window does not shorten what is computed here, so short windows are overpriced.

    With a latent, prompts are processed over keys and values that are made of it, which differ in width: their mean
    has as many flops.
    """
    match op:
        case Attention():
            return PrefillAttention(op.name, op.batch, tokens, op.heads, op.kv_heads, op.head_dim, op.dtype, prefix)
        case LatentAttention() if latent is not None:
            width = (latent.nope_dim + latent.rope_dim + latent.value_dim) // 2
            return PrefillAttention(op.name, op.batch, tokens, op.heads, op.heads, max(1, width), op.dtype, prefix)
        case RecurrentStep():
            heads = op.heads, op.key_heads, op.key_dim, op.value_dim
            return PrefillRecurrence(op.name, op.batch, tokens, *heads, op.rule, op.dtype, op.state_dtype)
        case Convolution():
            return replace(op, queries=tokens)
        case CompressedIndexer() | CompressedAttention():
            return compressed.over_prompts(op, tokens, prefix)
        case SparseStep():
            return over_prompts(op, tokens, prefix)
        case _:
            return op


_SEE_SEQUENCES = (
    Attention, LatentAttention, SparseStep, CompressedAttention, RecurrentStep, Convolution,
)  # fmt: skip


class Chunk(Record):
    """``tokens`` tokens of a prompt of which ``prefix`` are cached."""

    tokens: int
    prefix: int = 0


def mixed_pass(
    card: Transformer,
    chunks: tuple[Chunk, ...],
    *,
    batch: int = 0,
    queries: int = 1,
    context: int = 1,
    dcp: int = 1,
    **shared: Any,
) -> ForwardPass:
    """One pass over ``batch * queries`` decoded tokens and ``chunks`` of prompts.

    Products and all-reduces see all tokens at once; each decoded sequence and each chunk has its own attention; the
    head sees the decoded tokens and the last one of each chunk. The rest is as
    :func:`ssdsim.transformer.forward.forward_pass` takes it. Routed experts: every token chooses for itself. Where
    ``dcp`` devices share a cache, the gathering of what is cached before a chunk is left out.
    """
    tokens = batch * queries + sum(chunk.tokens for chunk in chunks)
    body = forward_pass(card, batch=tokens, queries=1, context=context, **shared)
    heads = forward_pass(card, batch=batch * queries + len(chunks), context=context, **shared)

    def each(op: Operation) -> Iterator[Operation]:
        if not isinstance(op, _SEE_SEQUENCES):
            yield op
            return
        seen: Any = op
        if batch:
            yield from shared_attention(replace(seen, batch=batch, queries=queries), dcp)
        for chunk in chunks:
            yield of_prompts(replace(seen, batch=1), card.latent, chunk.tokens, chunk.prefix)

    blocks = tuple(Block(tuple(new for op in b.operations for new in each(op)), b.times) for b in body.blocks)
    return replace(body, blocks=blocks, after=heads.after)
