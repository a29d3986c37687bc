"""How much the target and the draft slow each other while both compute: shared memory bandwidth, power, links."""

from __future__ import annotations

import time

import torch.distributed as dist

from calibration.benchmarks.bench import Bench, Result
from calibration.benchmarks.passes import graph_and_pass
from calibration.timing import summarise, time_once

PASSES = {"target": "ar", "draft": "draft step one"}  # those of one token stream their weights and compute little
_LEAST_RUNS, _LEAST_S = 9, 0.6
_SLOWEST = 3.0  # the other side keeps working for so many times what the runs take alone
_HEAD_START_S = 0.02


def measure(bench: Bench, *, role: str) -> Result | None:
    """``seconds`` is the factor by which ``role``'s pass gets slower while the other side works all the time."""
    other = "draft" if role == "target" else "target"
    reporter = 0 if role == "target" else bench.draft_rank
    mine, theirs = graph_and_pass(bench, role, PASSES[role]), graph_and_pass(bench, other, PASSES[other])
    action = mine[0].prepare(mine[1]) if mine else None
    disturbance = theirs[0].prepare(theirs[1]) if theirs and not mine else None
    alone = bench.time(action, warm_ups=3, least_runs=_LEAST_RUNS, most_runs=_LEAST_RUNS) if action else None
    plan = [alone.seconds if alone else 0.0]
    dist.broadcast_object_list(plan, src=reporter, device=bench.device)
    runs = max(_LEAST_RUNS, int(_LEAST_S / plan[0]))
    dist.barrier()
    if disturbance is not None:
        end = time.perf_counter() + _HEAD_START_S + _SLOWEST * runs * plan[0]
        while time.perf_counter() < end:
            disturbance()
    if action is None or alone is None:
        return None
    time.sleep(_HEAD_START_S)
    disturbed = summarise([time_once(action, bench.device) for _ in range(runs)])
    if bench.rank != reporter:
        return None
    return disturbed.to_json() | {"seconds": disturbed.seconds / alone.seconds}
