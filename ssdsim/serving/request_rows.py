"""A line a request of a run, for who wants to look closer than at percentiles."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ssdsim.serving.journal import Run
from ssdsim.serving.metrics import metrics_of_requests

if TYPE_CHECKING:
    import pyarrow as pa


def request_rows(run: Run) -> pa.Table:
    """Rows of requests: when each came, what it asked, its replica, its times (ms; null where it has none), its
    rounds, look-ups that could not hit, and how often it was preempted.
    """
    import pyarrow as pa

    requests, workload = run.requests, run.workload
    whole = {
        "input_tokens": workload.input_tokens,
        "output_tokens": workload.output_tokens,
        "replica": requests.replica,
        "rounds": requests.rounds,
        "forced_misses": requests.forced_misses,
        "preemptions": requests.preemptions,
    }
    times = {f"{name}_ms": values for name, values in metrics_of_requests(run).items()}
    return pa.table(
        {
            "arrival_s": pa.array(requests.arrival_s),
            **{name: pa.array(column) for name, column in whole.items()},
            **{name: pa.array(np.where(np.isfinite(v), v, np.nan), from_pandas=True) for name, v in times.items()},
            "rejected": pa.array(requests.rejected),
        }
    )
