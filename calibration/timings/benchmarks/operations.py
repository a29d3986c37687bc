"""Single operations, timed by the first rank alone: weights and caches stream from memory, as in a pass."""

from __future__ import annotations

import numpy as np
import torch

from calibration.machine.experts import ExpertWeights, routes, run_experts
from calibration.machine.graph import attend, branch_mask
from calibration.timings.benchmarks.bench import BenchmarkRank, Result
from ssdsim.transformer.card import Transformer
from ssdsim.transformer.operations import Attention

_FEW_TOKENS = 4  # of the projection: with more of them attention takes no longer, the projection does
_EXPERT_RUNS = 4  # of each visit, each on other choices


def gemm(bench: BenchmarkRank, *, m: int, n: int, k: int, after: tuple[int, int], dtype: str) -> Result | None:
    """A product of matrices; ``after`` is n and k of the weights that the device works with before."""
    return bench.time_gemm(m, n, k, after).to_json() if bench.rank == 0 else None


def attention(bench: BenchmarkRank, **shape: int | str | bool) -> Result | None:
    """Decode attention of that ``shape``, with or without a branch mask, as the executor runs it.

    The queries lie within a projection's output, and the cache streams.
    """
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


def elementwise(bench: BenchmarkRank, *, moved_bytes: int) -> Result | None:
    """A memory-bound kernel over activations: half of the bytes read, half written, and still in a cache."""
    if bench.rank != 0:
        return None
    values = max(1, moved_bytes // (2 * bench.dtype.itemsize))
    source, target = (torch.zeros(values, dtype=bench.dtype, device=bench.device) for _ in range(2))
    if bench.device.type == "cuda":
        return bench.time_between_gemms(lambda: torch.mul(source, 1.0, out=target)).to_json()
    return bench.time(lambda: torch.mul(source, 1.0, out=target)).to_json()


def experts(
    bench: BenchmarkRank,
    *,
    role: str,
    batch: int,
    queries: int,
    width: int,
    after: tuple[int, int],
    dtype: str,
) -> Result | None:
    """Seconds of the experts of the card of ``role``, ``width`` of each on a device.

    ``touched`` is the mean number of experts used in a run. ``after`` is n and k of the matrix before: the router.
    """
    if bench.rank != 0:
        return None
    card: Transformer = bench.workload.target if role == "target" else bench.workload.draft
    sparse, tokens = card.experts, batch * queries
    assert sparse is not None
    inputs = torch.randn(tokens, card.hidden_size, device=bench.device).to(bench.dtype)
    out = torch.empty_like(inputs)
    gate_up = bench.views(sparse.count, 2 * width, card.hidden_size)
    down = bench.views(sparse.count, card.hidden_size, width)
    rng = np.random.default_rng()  # visits are of other choices
    drawn = [torch.from_numpy(routes(sparse, batch, queries, rng)).to(bench.device) for _ in range(_EXPERT_RUNS)]
    touched = [len(torch.unique(choices)) for choices in drawn]
    turns = iter(drawn)

    def visit() -> None:
        run_experts(inputs, next(turns), ExpertWeights(next(gate_up), next(down)), out)

    timed = bench.time(
        visit, warm_ups=0, least_runs=_EXPERT_RUNS, most_runs=_EXPERT_RUNS, before=bench.gemm(tokens, *after)
    )
    return timed.to_json() | {"touched": float(np.mean(touched))}
