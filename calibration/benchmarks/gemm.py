"""A GEMM whose weights stream from memory, as in a pass where other layers ran in between."""

from __future__ import annotations

import torch

from calibration.benchmarks.bench import Bench, Result


def measure(bench: Bench, *, m: int, n: int, k: int, dtype: str) -> Result | None:
    """``(m, k) @ (k, n)`` with weights stored ``(n, k)``, as linear layers store them; on the first rank."""
    if bench.rank != 0:
        return None
    inputs = torch.randn(m, k, device=bench.device).to(bench.dtype)
    out = torch.empty(m, n, dtype=bench.dtype, device=bench.device)
    weights = bench.views(n, k)
    return bench.time(lambda: torch.mm(inputs, next(weights).t(), out=out)).to_json()
