"""Decode context parallelism: devices that would hold copies of a cache hold parts of each sequence's tokens instead.

A device's part is every n-th token. Each device attends to its part with the queries of all that share the cache, whose
partial outputs are then exchanged and merged by the logarithms of their sums of exponentials. Queries are gathered, and
outputs and logarithms go in one all-to-all: SGLang's ``a2a`` with gathered queries, vLLM's ``--dcp-comm-backend a2a``.
"""

from __future__ import annotations

from ssdsim.base.errors import InputError
from ssdsim.base.record import replace
from ssdsim.transformer.card import Transformer
from ssdsim.transformer.operations import (
    DTYPE_BYTES,
    Attention,
    Collective,
    Elementwise,
    LatentAttention,
    Operation,
)

_LOG_SUM_BYTES = 4
"""Of the logarithm of one head's sum of exponentials."""


def cache_copies(card: Transformer, tp: int) -> int:
    """The number of ``tp`` devices that hold the same keys and values; a latent is the same for all heads."""
    return tp if card.latent is not None else max(1, tp // card.kv_heads)


def legal_context_parallel(card: Transformer, tp: int) -> tuple[int, ...]:
    """The numbers of devices that may share each sequence's cache, 1 among them."""
    copies = 1 if _kept_whole(card) else cache_copies(card, tp)
    return tuple(dcp for dcp in range(1, copies + 1) if copies % dcp == 0)


def most_that_share(card: Transformer, tp: int, dcp: int) -> int:
    """The most of ``tp`` devices that can share each sequence's cache evenly in groups of ``dcp``."""
    return max(parts for parts in legal_context_parallel(card, tp) if dcp % parts == 0)


def check_context_parallel(card: Transformer, tp: int, dcp: int) -> None:
    """Raise :class:`InputError` unless ``dcp`` of ``tp`` devices can share each sequence's cache."""
    allowed = legal_context_parallel(card, tp)
    if dcp in allowed:
        return
    if (whole := _kept_whole(card)) is not None:
        give = "dcp 1 or --attention data-parallel, which holds each cache once, too" if card.experts else "dcp 1"
        raise InputError(f"dcp {dcp}: {card.name} has {whole}, of which no shared cache is described; give {give}")
    heads = "a latent cache" if card.latent else f"{card.kv_heads} kv heads"
    if allowed == (1,):
        raise InputError(f"dcp {dcp}: tp {tp} holds no cache of {card.name} twice ({heads}); give dcp 1")
    raise InputError(
        f"dcp {dcp} must divide the {allowed[-1]} copies of the cache that tp {tp} holds of {card.name} ({heads}); "
        f"allowed: {', '.join(map(str, allowed))}"
    )


def _kept_whole(card: Transformer) -> str | None:
    """What a model has whose cache is not shared here; None where it has nothing of the kind."""
    if card.compressed is not None:
        return "compressed attention"
    if card.sparse is not None or card.block_sparse is not None:
        return "sparse attention"
    return "attention in windows" if card.window is not None else None


def shared_attention(op: Operation, devices: int) -> tuple[Operation, ...]:
    """Attention of a device with ``devices`` that share its cache, and what they exchange; ``op`` itself where it is
    alone, or is none.
    """
    if devices == 1 or not isinstance(op, Attention | LatentAttention):
        return (op,)
    into, out = (op.head_dim, op.head_dim) if isinstance(op, Attention) else (op.rank + op.rope_dim, op.rank)
    heads = op.heads * devices
    rows, value_bytes = op.batch * op.queries * heads, DTYPE_BYTES[op.dtype]
    partial = rows * (out * value_bytes + _LOG_SUM_BYTES)
    return (
        Collective("queries_all_gather", "all_gather", rows * into * value_bytes, devices),
        replace(op, heads=heads, context=-(-op.context // devices)),
        Collective("outputs_all_to_all", "all_to_all", partial, devices),
        Elementwise("outputs_merge", partial + rows // devices * out * value_bytes),
    )
