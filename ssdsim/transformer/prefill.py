"""A pass over whole prompts."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from ssdsim.base.record import replace
from ssdsim.transformer.card import Transformer
from ssdsim.transformer.forward import ForwardPass, forward_pass
from ssdsim.transformer.layers import Latent
from ssdsim.transformer.operations import Attention, LatentAttention, Operation, PrefillAttention
from ssdsim.transformer.recurrences import Convolution, PrefillRecurrence, RecurrentStep
from ssdsim.transformer.shard import Block


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
        case _:
            return op
