"""A user's own benchmark against the same requests served here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from ssdsim.base.checks import Array
from ssdsim.base.errors import InputError
from ssdsim.base.record import Record
from ssdsim.readers.request_logs.log import RequestLog
from ssdsim.serving.batching import Batching
from ssdsim.serving.loop import simulate
from ssdsim.serving.metrics import metrics_of_requests
from ssdsim.serving.policy import Policy
from ssdsim.serving.workload import Workload

STATISTICS = {"mean": None, "p50": 50.0, "p90": 90.0, "p99": 99.0}
PERCENT = (1.0, *(float(percent) for percent in range(5, 100, 5)), 99.0)


class Compared(Record):
    """One statistic of one metric, in milliseconds."""

    metric: str
    statistic: str
    measured: float
    predicted: float

    @property
    def difference(self) -> float:
        """Predicted over measured, less one."""
        return self.predicted / self.measured - 1.0


class Quantiles(Record):
    """The ``percent`` percentiles of a metric, in milliseconds."""

    percent: Sequence[float]
    measured: Sequence[float]
    predicted: Sequence[float]


class Comparison(Record):
    """Statistics of each metric that a benchmark holds, and its whole distribution beside the predicted one."""

    rows: Sequence[Compared]
    quantiles: Mapping[str, Quantiles]


def compare(
    policy: Policy, workload: Workload, log: RequestLog, batching: Batching, path: str | Path, seed: int = 0
) -> Comparison:
    """Serve a log's requests here by a policy.

    Raises
    ------
    InputError : the file holds no measured times.
    """
    if not log.measured_ms:
        raise InputError(f"{path}: no measured times in it (vLLM: --save-result --save-detailed)")
    ours = metrics_of_requests(simulate(policy, workload, batching, seed))
    both = {
        metric: (values[np.isfinite(values)], ours[metric][np.isfinite(ours[metric])])
        for metric, values in log.measured_ms.items()
    }
    both = {metric: pair for metric, pair in both.items() if all(each.size for each in pair)}
    return Comparison(list(_rows(both)), {metric: _quantiles(*pair) for metric, pair in both.items()})


def _rows(both: Mapping[str, tuple[Array, Array]]) -> Iterator[Compared]:
    for metric, pair in both.items():
        for name, percent in STATISTICS.items():
            measured, predicted = (
                float(each.mean()) if percent is None else float(np.percentile(each, percent)) for each in pair
            )
            if measured > 0.0:
                yield Compared(metric, name, measured, predicted)


def _quantiles(measured: Array, predicted: Array) -> Quantiles:
    return Quantiles(PERCENT, *(np.percentile(each, PERCENT).tolist() for each in (measured, predicted)))
