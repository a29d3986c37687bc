"""A user's own benchmark against the same requests served here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ssdsim.answers.serving.batching import Batching
from ssdsim.answers.serving.loop import simulate
from ssdsim.answers.serving.metrics import metrics_of_requests
from ssdsim.answers.serving.policy import Policy
from ssdsim.answers.serving.workload import Workload
from ssdsim.errors import InputError
from ssdsim.measured.request_logs.log import RequestLog

STATISTICS = {"mean": None, "p50": 50.0, "p90": 90.0, "p99": 99.0}


@dataclass(frozen=True)
class Compared:
    """One statistic of one metric, in milliseconds."""

    metric: str
    statistic: str
    measured: float
    predicted: float

    @property
    def difference(self) -> float:
        """Predicted over measured, less one."""
        return self.predicted / self.measured - 1.0


def compare(
    policy: Policy, workload: Workload, log: RequestLog, batching: Batching, path: str | Path, seed: int = 0
) -> list[Compared]:
    """Every statistic of every metric that the file holds.

    Raises
    ------
    InputError : the file holds no measured times.
    """
    if not log.measured_ms:
        raise InputError(f"{path}: no measured times in it (vLLM: --save-result --save-detailed)")
    run = simulate(policy, workload, batching, seed)
    return list(_rows(log, metrics_of_requests(run)))


def _rows(log: RequestLog, predicted: dict[str, np.ndarray]) -> Iterator[Compared]:
    for metric, values in log.measured_ms.items():
        measured = values[np.isfinite(values)]
        ours = predicted[metric][np.isfinite(predicted[metric])]
        if not measured.size or not ours.size:
            continue
        for name, percent in STATISTICS.items():
            found, made = (
                float(each.mean()) if percent is None else float(np.percentile(each, percent))
                for each in (measured, ours)
            )
            if found > 0.0:
                yield Compared(metric, name, found, made)
