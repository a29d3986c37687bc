"""A GEMM whose weights stream from memory, as in a pass where other layers ran in between."""

from __future__ import annotations

from calibration.timings.benchmarks.bench import Bench, Result


def measure(bench: Bench, *, m: int, n: int, k: int, after: tuple[int, int], dtype: str) -> Result | None:
    """Time a product on the first rank; ``after`` is n and k of the weights that the device works with before."""
    return bench.time_gemm(m, n, k, after).to_json() if bench.rank == 0 else None
