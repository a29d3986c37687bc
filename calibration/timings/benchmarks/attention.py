"""Decode attention with several queries a sequence, with and without a branch mask, as the executor runs it."""

from __future__ import annotations

import torch

from calibration.machine.graph import attend, branch_mask
from calibration.timings.benchmarks.bench import Bench, Result
from ssdsim.transformer.operations import Attention

_FEW_TOKENS = 4  # of the projection: with more of them attention takes no longer, the projection does


def measure(bench: Bench, **shape: int | str | bool) -> Result | None:
    """``shape`` is an :class:`Attention`'s; the queries lie within a projection's output, the cache streams."""
    if bench.rank != 0:
        return None
    op = Attention("attention", **shape)  # type: ignore[arg-type]
    width = (op.heads + 2 * op.kv_heads) * op.head_dim
    qkv = torch.randn(op.batch * op.queries, width, device=bench.device).to(bench.dtype)
    rows = op.queries * op.heads // op.kv_heads
    mask = branch_mask(rows, op.context, bench.dtype, bench.device) if op.masked else None
    caches = bench.views(op.batch, op.kv_heads, op.context, op.head_dim)
    timed = bench.time_in_pass(
        lambda: attend(op, qkv, next(caches), next(caches), mask),
        before=(min(len(qkv), _FEW_TOKENS), width, op.heads * op.head_dim),  # the projection
        streamed_bytes=op.bytes,
    )
    return timed.to_json()
