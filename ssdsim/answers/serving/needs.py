"""Needs of long runs on this machine: measured at their first requests, said before the others come."""

from __future__ import annotations

from collections.abc import Mapping
from time import process_time

from ssdsim.answers.serving.measuring import How, run
from ssdsim.answers.serving.metrics import measure
from ssdsim.answers.serving.policy import Policy
from ssdsim.answers.serving.workload import Workload
from ssdsim.base.record import record

_LONG = 20_000_000  # tokens of all runs, which take some seconds
_FIRST = 500  # requests of a replica that are timed
REQUEST_BYTES, ROUND_BYTES = 239.0, 116.0
"""Of memory at its peak: fitted to ten runs of AR, SD and SSD with 1,000 to 300,000 requests, within 6 MB of each."""


@record
class Needs:
    """``runs`` of ``load`` take about ``core_s`` of this machine's cores in all, and each up to ``memory_bytes``."""

    runs: int
    load: Workload
    core_s: float
    memory_bytes: float


def needs(policies: Mapping[str, tuple[Policy, int]], load: Workload, how: How) -> Needs | None:
    """Needs of policies, with the number of their runs, at a load, by the pace of its first requests; None of short
    ones.
    """
    runs, tokens = sum(times for _, times in policies.values()), int(load.output_tokens.sum())
    first = load.first(max(_FIRST * how.fleet.replicas, 2 * (load.concurrency or 0)))
    if runs * tokens < _LONG or 2 * first.requests > load.requests:
        return None
    times = tokens / float(first.output_tokens.sum())
    core_s, rounds = 0.0, 0
    for policy, runs_each in policies.values():
        run(policy, first, how)  # works out its prices, which no later run does again
        start_s = process_time()
        made = run(policy, first, how)
        measure(made, how.slo)
        core_s += times * runs_each * (process_time() - start_s)
        rounds = max(rounds, round(times * made.columns.shape[1]))
    return Needs(runs, load, core_s, load.requests * REQUEST_BYTES + rounds * ROUND_BYTES)
