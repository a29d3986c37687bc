"""A memory-bound kernel: half of the bytes read, half written."""

from __future__ import annotations

import torch

from calibration.timings.benchmarks.bench import Bench, Result


def measure(bench: Bench, *, moved_bytes: int) -> Result | None:
    """Time a pass over activations on the first rank; they are small and recently written, so they are not rotated."""
    if bench.rank != 0:
        return None
    values = max(1, moved_bytes // (2 * bench.dtype.itemsize))
    source, target = (torch.zeros(values, dtype=bench.dtype, device=bench.device) for _ in range(2))
    if bench.device.type == "cuda":
        return bench.time_between_gemms(lambda: torch.mul(source, 1.0, out=target)).to_json()
    return bench.time(lambda: torch.mul(source, 1.0, out=target)).to_json()
