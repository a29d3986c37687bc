"""Time a grid of 1,000,000 unit-free SD and SSD speedups, next to plain numpy on arrays of the same size.

Run: ``python benchmarks/closed_form_grid.py``. All of them on one core, the best of several repeats.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ssdsim.base.checks import FloatOrArray
from ssdsim.tokens.acceptance import expected_tokens
from ssdsim.tokens.theory import sd_speedup, ssd_speedup

REPEATS = 7
MESH = np.ix_(np.linspace(0, 1, 50), np.arange(1.0, 17.0), np.linspace(0, 1, 50), np.arange(1.0, 26.0))
SIZE = int(np.prod([axis.size for axis in MESH]))


def grid_of(mesh: tuple[NDArray[np.float64], ...]) -> FloatOrArray:
    """SSD over SD. On an open mesh tokens are worked out once for each (alpha, k), rounds once for each (p_hit, b)."""
    alpha, k, p_hit, b = mesh
    ssd = ssd_speedup(p_hit, expected_tokens(alpha, k), expected_tokens(0.0, k), 1.0, 0.0, b)
    return ssd / sd_speedup(alpha, k, 0.05 * k)


def best_seconds(work: Callable[[], object]) -> float:
    def once() -> float:
        start = time.perf_counter()
        work()
        return time.perf_counter() - start

    return min(once() for _ in range(REPEATS))


def main() -> None:
    dense = tuple(np.array(axis) for axis in np.broadcast_arrays(*MESH))
    x, y = np.random.default_rng(0).uniform(1, 2, size=(2, SIZE))
    rows = {
        "numpy: one division": best_seconds(lambda: x / y),
        "numpy: one power": best_seconds(lambda: x**y),
        "grid, open mesh": best_seconds(lambda: grid_of(MESH)),
        "grid, dense arrays": best_seconds(lambda: grid_of(dense)),
    }
    division = rows["numpy: one division"]
    print(f"{SIZE:,} configurations, best of {REPEATS}")
    print(f"{'':20}{'ms':>10}{'configs/s':>14}{'x division':>12}")
    for name, seconds in rows.items():
        print(f"{name:20}{1e3 * seconds:10.2f}{SIZE / seconds:14.3g}{seconds / division:12.1f}")


if __name__ == "__main__":
    main()
