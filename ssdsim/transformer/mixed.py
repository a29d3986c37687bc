"""A pass over tokens that are decoded and parts of prompts at once (chunked prefill)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ssdsim.base.record import Record, replace
from ssdsim.transformer.card import Transformer
from ssdsim.transformer.forward import ForwardPass, forward_pass
from ssdsim.transformer.operations import Attention, LatentAttention, Operation
from ssdsim.transformer.prefill import of_prompts
from ssdsim.transformer.recurrences import Convolution, RecurrentStep
from ssdsim.transformer.shard import Block


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
    **shared: Any,
) -> ForwardPass:
    """One pass over ``batch * queries`` decoded tokens and ``chunks`` of prompts.

    Products and all-reduces see all tokens at once; each decoded sequence and each chunk has its own attention; the
    head sees the decoded tokens and the last one of each chunk. The rest is as
    :func:`ssdsim.transformer.forward.forward_pass` takes it. Routed experts: every token chooses for itself.
    """
    tokens = batch * queries + sum(chunk.tokens for chunk in chunks)
    body = forward_pass(card, batch=tokens, queries=1, context=context, **shared)
    heads = forward_pass(card, batch=batch * queries + len(chunks), context=context, **shared)

    def each(op: Operation) -> Iterator[Operation]:
        if not isinstance(op, Attention | LatentAttention | RecurrentStep | Convolution):
            yield op
            return
        if batch:
            yield replace(op, batch=batch, queries=queries)
        for chunk in chunks:
            yield of_prompts(replace(op, batch=1), card.latent, chunk.tokens, chunk.prefix)

    blocks = tuple(Block(tuple(new for op in b.operations for new in each(op)), b.times) for b in body.blocks)
    return replace(body, blocks=blocks, after=heads.after)
