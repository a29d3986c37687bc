"""Timing of a thing: warmed up until it is stable, or as often as asked, then often enough for a median.

On a CPU a rank computes in one thread on one core, so what it computes takes the time that the thread spends on its
core: when another program takes the core for a while, that is the neighbour's time and not the machine's speed.
An action that waits for other ranks is timed by the wall clock.

On a GPU the core's clock is its own, between two events in its stream; by the wall clock an action is launched and
waited for, as a round does.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal

import numpy as np
import torch
from msgspec.structs import asdict

from calibration.machine.devices import synchronised
from ssdsim.base.record import Record

Action = Callable[[], object]
Clock = Literal["core", "wall"]

_STABLE = 0.05  # warm-up ends when three runs in a row agree this well
_MOST_WARM_UPS = 20
_OUTLIER = 1.5  # a run this many times the median is counted as one


class Timed(Record):
    """Median of the runs in seconds, their spread (robust standard deviation over the median), and the outliers.

    ``off_core`` is the share of the wall clock that other programs took (0 where the wall clock was read).
    """

    seconds: float
    spread: float
    runs: int
    outliers: int
    off_core: float = 0.0

    def to_json(self) -> dict[str, float | int]:
        return asdict(self)


def time_action(
    action: Action,
    device: torch.device,
    *,
    warm_ups: int | None = None,
    least_runs: int = 7,
    most_runs: int = 300,
    at_least_s: float = 0.06,
    clock: Clock = "core",
    before: Action | None = None,
) -> Timed:
    """Time ``action`` until ``at_least_s`` seconds were measured by ``clock``.

    Warms up until stable, or a given number of times, which ranks that act together need. ``before`` runs untimed
    before each run.
    """
    if warm_ups is None:
        _warm_up(action, device, clock)
    else:
        for _ in range(warm_ups):
            action()
    runs: list[float] = []
    wall_s, core_s = time.perf_counter(), time.thread_time()
    while len(runs) < least_runs or (sum(runs) < at_least_s and len(runs) < most_runs):
        if before is not None:
            before()
        runs.append(time_once(action, device, clock))
    wall_s, core_s = time.perf_counter() - wall_s, time.thread_time() - core_s
    computes = device.type == "cpu" and clock == "core"
    return summarise(runs, off_core=max(0.0, 1.0 - core_s / wall_s) if computes else 0.0)


def time_once(action: Action, device: torch.device, clock: Clock = "core") -> float:
    """Seconds of one run."""
    if device.type == "cuda":
        return _once_on_cuda(action) if clock == "core" else _once_by(time.perf_counter, synchronised(action, device))
    return _once_by(time.thread_time if clock == "core" else time.perf_counter, action)


def summarise(runs: list[float], off_core: float = 0.0) -> Timed:
    """The median and the spread of single runs in seconds."""
    times = np.array(runs)
    median = float(np.median(times))
    low, high = np.percentile(times, (25, 75))
    outliers = int(np.count_nonzero(times > _OUTLIER * median))
    spread = float((high - low) / 1.349 / median) if median > 0.0 else 0.0  # a gap may be none at all
    return Timed(median, spread, len(runs), outliers, off_core)


def _warm_up(action: Action, device: torch.device, clock: Clock) -> None:
    last: list[float] = []
    for _ in range(_MOST_WARM_UPS):
        last = [*last[-2:], time_once(action, device, clock)]
        if len(last) == 3 and max(last) <= (1.0 + _STABLE) * min(last):
            return


def _once_by(now: Callable[[], float], action: Action) -> float:
    start = now()
    action()
    return now() - start


def _once_on_cuda(action: Action) -> float:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    start.record()
    action()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) / 1e3
