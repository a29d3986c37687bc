"""A mixture's verification on one core, over K and batch: the calibrated prediction against real passes.

    ssdsim calibrate --device cpu --target MIXTURE --draft DRAFT --b 16 --k 7 --context 256 --strategies sd -o cpu.json
    python benchmarks/mixture_on_cpu.py MIXTURE cpu.json [--context 256] [--repeats 32]

Every pass is timed ``--repeats`` times in random order, by the time that its thread spends on a core. The machine's
speed now over that of the calibration is one factor, told beside the errors and taken off them. Exits with 1 where a
pass is off by more than a tenth.
"""

from __future__ import annotations

import argparse
import itertools
import random
import sys

import numpy as np
import torch

from calibration.machine.graph import Graph
from calibration.machine.timing import time_once
from ssdsim.hardware.catalog import find_hardware, find_transformer
from ssdsim.hardware.runtime_catalog import find_runtime
from ssdsim.pricing.passes import cost_of_pass
from ssdsim.transformer.forward import forward_pass

BATCHES, LOOKAHEADS = (1, 2, 4, 8, 16), range(8)
MOST = 0.10


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("mixture")
    parser.add_argument("profile")
    parser.add_argument("--context", type=int, default=256)
    parser.add_argument("--repeats", type=int, default=32)
    given = parser.parse_args()
    torch.set_num_threads(1)
    card, profile = find_transformer(given.mixture), find_hardware(given.profile)
    runtime = find_runtime(given.profile.removesuffix(".json") + ".runtime.toml")
    graph = Graph(card, device=torch.device("cpu"), dtype=card.dtype, batch=max(BATCHES), context=given.context)
    grid = list(itertools.product(BATCHES, LOOKAHEADS))
    passes = {(b, k): forward_pass(card, batch=b, queries=k + 1, context=given.context) for b, k in grid}
    actions = {key: graph.prepare(forward) for key, forward in passes.items()}
    for action in actions.values():
        action()
    seconds: dict[tuple[int, int], list[float]] = {key: [] for key in grid}
    for _ in range(given.repeats):
        for key in random.sample(grid, len(grid)):
            seconds[key].append(time_once(actions[key], graph.device))
    measured = np.array([[np.median(seconds[b, k]) for k in LOOKAHEADS] for b in BATCHES])
    predicted = np.array([[cost_of_pass(passes[b, k], profile, runtime).seconds for k in LOOKAHEADS] for b in BATCHES])
    slower = float(np.median(measured / predicted))
    errors = predicted * slower / measured - 1.0
    print(f"the machine takes {slower:.2f} times what it took when it was calibrated")
    print("T_v in ms (and the prediction's error), a line a batch, K = 0 ... 7")
    for b, row, off in zip(BATCHES, measured, errors, strict=True):
        print(f"b {b:>2} ", "  ".join(f"{1e3 * s:6.1f} ({e:+.0%})" for s, e in zip(row, off, strict=True)))
    print(f"worst {np.abs(errors).max():.1%}, median {np.median(np.abs(errors)):.1%}")
    return int(np.abs(errors).max() > MOST)


if __name__ == "__main__":
    sys.exit(main())
