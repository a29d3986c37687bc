"""Decode attention with several queries a sequence, with and without a branch mask."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as functional

from calibration.benchmarks.bench import Bench, Result


def measure(
    bench: Bench,
    *,
    batch: int,
    queries: int,
    context: int,
    heads: int,
    kv_heads: int,
    head_dim: int,
    dtype: str,
    masked: bool,
) -> Result | None:
    """Queries of a group packed against their shared keys, whose cache streams from memory; on the first rank."""
    if bench.rank != 0:
        return None
    rows = queries * heads // kv_heads
    query = torch.randn(batch, kv_heads, rows, head_dim, device=bench.device).to(bench.dtype)
    mask = None
    if masked:
        mask = torch.zeros(rows, context, dtype=bench.dtype, device=bench.device)
        mask[:, -min(rows, context) :] = torch.where(torch.eye(rows, min(rows, context)) > 0, 0.0, -math.inf)
        mask[:, 0] = 0.0  # a row that sees nothing would be not a number
    caches = bench.views(batch, kv_heads, context, head_dim)
    return bench.time(
        lambda: functional.scaled_dot_product_attention(query, next(caches), next(caches), attn_mask=mask)
    ).to_json()
