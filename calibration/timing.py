"""How a thing is timed: warmed up until it is stable, then often enough for a median that one can believe."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

import numpy as np
import torch

Action = Callable[[], object]

_STABLE = 0.05  # warm-up ends when three runs in a row agree this well
_MOST_WARM_UPS = 20
_OUTLIER = 1.5  # a run this many times the median is counted as one


@dataclass(frozen=True)
class Timed:
    """Median of the runs in seconds, their spread (robust standard deviation over the median), and the outliers."""

    seconds: float
    spread: float
    runs: int
    outliers: int

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
) -> Timed:
    """Time ``action`` until ``at_least_s`` seconds were measured; CUDA by events, the CPU by a monotonic clock.

    Warms up until stable, or a given number of times, which ranks that act together need.
    """
    if warm_ups is None:
        _warm_up(action, device)
    else:
        for _ in range(warm_ups):
            action()
    runs: list[float] = []
    while len(runs) < least_runs or (sum(runs) < at_least_s and len(runs) < most_runs):
        runs.append(time_once(action, device))
    return summarise(runs)


def time_once(action: Action, device: torch.device) -> float:
    """Seconds of one run."""
    return _once_on_cuda(action) if device.type == "cuda" else _once_on_cpu(action)


def summarise(runs: list[float]) -> Timed:
    """The median and the spread of single runs in seconds."""
    times = np.array(runs)
    median = float(np.median(times))
    low, high = np.percentile(times, (25, 75))
    outliers = int(np.count_nonzero(times > _OUTLIER * median))
    return Timed(median, float((high - low) / 1.349 / median), len(runs), outliers)


def _warm_up(action: Action, device: torch.device) -> None:
    last: list[float] = []
    for _ in range(_MOST_WARM_UPS):
        last = [*last[-2:], time_once(action, device)]
        if len(last) == 3 and max(last) <= (1.0 + _STABLE) * min(last):
            return


def _once_on_cpu(action: Action) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def _once_on_cuda(action: Action) -> float:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    start.record()
    action()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) / 1e3
