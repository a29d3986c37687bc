"""How much the target and the draft slow each other while both compute: shared memory bandwidth, power, links."""

from __future__ import annotations

import math
import time

import torch.distributed as dist

from calibration.benchmarks.bench import Bench, Result
from calibration.benchmarks.passes import clock_of, graph_and_pass
from calibration.timing import Action, Clock, summarise, time_once

PASSES = {"target": "ar", "draft": "draft step one"}  # those of one token stream their weights and compute little
_LEAST_RUNS, _LEAST_S = 9, 0.6
_SLOWEST = 3.0  # the other side keeps working for so many times what the runs take alone
_HEAD_START_S = 0.02


def measure(bench: Bench, *, role: str) -> Result | None:
    """``seconds`` is the factor by which ``role``'s pass gets slower while the other side works all the time.

    How often each side runs is agreed beforehand: ranks of one side that stopped by their own clocks would leave
    each other waiting in a collective.
    """
    other = "draft" if role == "target" else "target"
    action, clock = _action(bench, role)
    disturbance, their_clock = _action(bench, other)
    if action is not None:  # one device cannot do both at once
        disturbance = None
    alone_s = _agreed(bench, role, action, clock)
    theirs_s = _agreed(bench, other, disturbance, their_clock)
    runs = max(_LEAST_RUNS, math.ceil(_LEAST_S / alone_s))
    dist.barrier()
    if disturbance is not None:
        for _ in range(math.ceil((_HEAD_START_S + _SLOWEST * runs * alone_s) / theirs_s)):
            time_once(disturbance, bench.device, their_clock)  # each run ends before the next: no backlog on a GPU
    if action is None:
        return None
    time.sleep(_HEAD_START_S)
    disturbed = summarise([time_once(action, bench.device, clock) for _ in range(runs)])
    if bench.rank != _reporter(bench, role):
        return None
    return disturbed.to_json() | {"seconds": disturbed.seconds / alone_s}


def _action(bench: Bench, role: str) -> tuple[Action | None, Clock]:
    """The pass of ``role`` where this rank holds it."""
    found = graph_and_pass(bench, role, PASSES[role])
    return (found[0].prepare(found[1]), clock_of(found[1])) if found else (None, "wall")


def _agreed(bench: Bench, role: str, action: Action | None, clock: Clock) -> float:
    """Seconds of ``action`` with the other side idle, as the first rank of ``role`` times it, told to every rank."""
    dist.barrier()
    limits = {"warm_ups": 3, "least_runs": _LEAST_RUNS, "most_runs": _LEAST_RUNS}
    seconds = [bench.time(action, **limits, clock=clock).seconds if action is not None else 1.0]
    dist.broadcast_object_list(seconds, src=_reporter(bench, role), device=bench.device)
    return float(seconds[0])


def _reporter(bench: Bench, role: str) -> int:
    return 0 if role == "target" else bench.draft_rank
