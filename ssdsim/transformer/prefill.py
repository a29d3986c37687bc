"""A pass over whole prompts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ssdsim.transformer.card import ForwardPass, Transformer, forward_pass
from ssdsim.transformer.operations import Attention, Operation, PrefillAttention


def prefill_pass(card: Transformer, *, batch: int, tokens: int, tp: int = 1, **precision: Any) -> ForwardPass:
    """The operations of one pass over ``batch`` prompts of ``tokens`` tokens; the head sees each one's last token.

    ``precision`` holds the dtypes, as :func:`ssdsim.transformer.card.forward_pass` takes them.

    Raises
    ------
    InputError : as :func:`ssdsim.transformer.card.forward_pass` does.
    """
    body = forward_pass(card, batch=batch, queries=tokens, context=tokens, tp=tp, **precision)
    head = forward_pass(card, batch=batch, queries=1, context=tokens, tp=tp, **precision)
    return replace(body, layer=tuple(map(_of_prompts, body.layer)), after=head.after)


def _of_prompts(op: Operation) -> Operation:
    if not isinstance(op, Attention):
        return op
    return PrefillAttention(op.name, op.batch, op.queries, op.heads, op.kv_heads, op.head_dim, op.dtype)
