"""A pass over whole prompts."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from ssdsim.transformer.card import ForwardPass, Transformer, forward_pass
from ssdsim.transformer.operations import Attention, Operation, PrefillAttention


@lru_cache(maxsize=4096)
def prefill_pass(
    card: Transformer,
    *,
    batch: int,
    tokens: int,
    tp: int = 1,
    dtype: str | None = None,
    kv_dtype: str | None = None,
) -> ForwardPass:
    """The operations of one pass over ``batch`` prompts of ``tokens`` tokens; the head sees each one's last token.

    The rest is as :func:`ssdsim.transformer.card.forward_pass` takes it; the same arguments give the same pass.

    Raises
    ------
    InputError : as :func:`ssdsim.transformer.card.forward_pass` does.
    """
    body = forward_pass(card, batch=batch, queries=tokens, context=tokens, tp=tp, dtype=dtype, kv_dtype=kv_dtype)
    head = forward_pass(card, batch=batch, queries=1, context=tokens, tp=tp, dtype=dtype, kv_dtype=kv_dtype)
    return replace(body, layer=tuple(map(_of_prompts, body.layer)), after=head.after)


def _of_prompts(op: Operation) -> Operation:
    if not isinstance(op, Attention):
        return op
    return PrefillAttention(op.name, op.batch, op.queries, op.heads, op.kv_heads, op.head_dim, op.dtype)
