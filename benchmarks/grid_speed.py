"""Time ``evaluate`` on the proposal's whole sweep, next to configuring and predicting each point by itself.

Run: ``python benchmarks/grid_speed.py``. One core; the two are timed alternately on the same points. ``--growth`` shows
in the place of it how the cost of an answer grows: each in a process that knows nothing yet, seconds of a core.
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

import ssdsim
from ssdsim import strategies
from ssdsim.answers.grid import evaluate
from ssdsim.question.configuration import configure

REPEATS = 3
ONE_BY_ONE = 300  # points of the loop, a random sample

Points = Sequence[Mapping[str, Any]]


def proposals_sweep(hit_rates: int) -> list[dict[str, Any]]:
    """F x alpha x K x p_hit x b on the default hardware: 990 points a hit rate."""
    p_hits = [step / (hit_rates - 1) for step in range(hit_rates)]
    return [
        {"alpha": alpha, "k": k, "p_hit": p_hit, "b": b, "budget": f * (k + 1)}
        for f, alpha, k, p_hit, b in product(
            (1, 2, 4, 8, 16), (0.5, 0.7, 0.9), range(2, 13), p_hits, (1, 2, 4, 8, 16, 32)
        )
    ]


def one_by_one(points: Points) -> None:
    for point in points:
        for scenario in configure(**point).scenarios.values():
            _ = scenario.estimate


def microseconds_a_point(work: Callable[[Points], object], points: Points) -> float:
    start = time.perf_counter()
    work(points)
    return 1e6 * (time.perf_counter() - start) / len(points)


DRAFTING = [strategy.name for strategy in strategies.ALL if strategy.drafts]
GROWTH: Mapping[str, tuple[Callable[[int], object], Sequence[int]]] = {
    "points of tokens": (lambda size: evaluate([{"alpha": x} for x in np.linspace(0.5, 0.9, size)]), (500, 2000, 8000)),
    "points of prices": (lambda size: evaluate([{"context": 100 + x} for x in range(size)]), (250, 500, 1000, 2000)),
    "batch": (lambda size: ssdsim.predict(b=size), (16, 64, 256)),
    "batch, simulated": (lambda size: ssdsim.predict(b=size, solver="mc"), (16, 64, 256)),
    "GPUs": (lambda size: ssdsim.recommend(gpus=size, b=16), (4, 8, 16, 32)),
    "strategies": (lambda size: ssdsim.compare(strategies=DRAFTING[:size], gpus=8, b=16), (2, 4, 8, 16)),
    "requests": (lambda size: ssdsim.serve(rate=8.0, requests=size), (1000, 4000, 16000)),
}


def growth(what: str, size: int) -> float:
    ask, _ = GROWTH[what]
    start = time.process_time()
    ask(size)
    return time.process_time() - start


def show_growth() -> None:
    """The exponent p of seconds = c size^p, over all sizes and between the last two."""
    for what, (_, sizes) in GROWTH.items():
        seconds = []
        for size in sizes:
            with multiprocessing.get_context("fork").Pool(1) as fresh:
                seconds.append(fresh.apply(growth, (what, size)))
        exponents = np.diff(np.log(seconds)) / np.diff(np.log(sizes))
        told = "  ".join(f"{size:,}: {each:.2f} s" for size, each in zip(sizes, seconds, strict=True))
        print(f"{what:18} exponent {exponents.mean():5.2f}, at the end {exponents[-1]:5.2f}   {told}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--growth", action="store_true", help="how the cost of an answer grows")
    if parser.parse_args().growth:
        show_growth()
        return
    small, large = proposals_sweep(11), proposals_sweep(101)
    sample = random.Random(0).sample(small, ONE_BY_ONE)
    work: dict[str, tuple[Callable[[Points], object], Points]] = {
        "configure, then closed forms": (one_by_one, sample),
        f"evaluate, {len(small):,} points": (evaluate, small),
        f"evaluate, {len(large):,} points": (evaluate, large),
        f"evaluate with 1000 draws, {len(small):,} points": (lambda points: evaluate(points, draws=1000), small),
    }
    times = {name: [microseconds_a_point(*job)] for name, job in work.items()}
    for _ in range(REPEATS - 1):
        for name, job in work.items():
            times[name].append(microseconds_a_point(*job))
    loop = min(times["configure, then closed forms"])
    print(f"{'':44}{'us a point':>12}{'s in all':>10}{'x the loop':>12}")
    for name, repeats in times.items():
        best, points = min(repeats), work[name][1]
        print(f"{name:44}{best:12.1f}{1e-6 * best * len(points):10.2f}{loop / best:12.1f}")


if __name__ == "__main__":
    main()
