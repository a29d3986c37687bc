"""Needs of long runs on this machine: measured at their first requests, said before the others come."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from time import process_time

from ssdsim.base.record import Record
from ssdsim.serving.loop import is_long
from ssdsim.serving.measuring import MOST_FOR_PRECISION, How, needed_for_precision, run
from ssdsim.serving.metrics import measure
from ssdsim.serving.policy import Policy
from ssdsim.serving.workload import Workload

_LONG = 20_000_000  # tokens of all runs, which take some seconds
_FIRST = 500  # requests of a replica that are timed
REQUEST_BYTES, ROUND_BYTES = 239.0, 116.0
"""Of memory at its peak: fitted to ten runs of AR, SD and SSD with 1,000 to 300,000 requests, within 6 MB of each."""


class Needs(Record):
    """``runs`` of up to ``requests``, and so many ``tokens``, take about ``core_s`` of this machine's cores in all, and
    each up to ``memory_bytes``.
    """

    runs: int
    requests: int
    tokens: int
    core_s: float
    memory_bytes: float


def needs(policies: Mapping[str, tuple[Policy, int]], loads: Sequence[Workload], how: How) -> Needs | None:
    """Needs of policies, with the number of their runs, at loads, by the pace of the first requests of the slowest and
    of the fastest one: rounds are the more, the fewer decode together. None of short ones.
    """
    slowest, fastest = (end(loads, key=lambda load: load.rate) for end in (min, max))
    runs, tokens = sum(times for _, times in policies.values()), int(slowest.output_tokens.sum())
    longest = slowest.requests if how.precision is None else max(slowest.requests, MOST_FOR_PRECISION)
    count = max(_FIRST * how.fleet.replicas, 2 * (slowest.concurrency or 0))
    if runs * tokens * (longest / slowest.requests) < _LONG or 2 * count > longest:
        return None
    ends = [slowest] if slowest is fastest else [slowest, fastest]
    core_s, memory_bytes, most = 0.0, 0.0, 0.0
    for (policy, runs_each), load in product(policies.values(), ends):
        first = load.first(count)
        metrics = measure(run(policy, first, how), how.slo)  # works out its prices, which no later run does again
        longer = min(longest, max(load.requests, needed_for_precision(metrics, how) * first.requests)) / load.requests
        to_come = longer * float(load.output_tokens.sum())
        if is_long(to_come):
            run(policy, first, how, tokens=to_come)  # compiles, which no later run does again
        start_s = process_time()
        made = run(policy, first, how, tokens=to_come)
        measure(made, how.slo)
        passed_s = process_time() - start_s
        times = longer * tokens / float(first.output_tokens.sum())
        core_s += times * runs_each * passed_s / len(ends)
        rounds, requests = times * made.columns.shape[1], longer * load.requests
        memory_bytes, most = max(memory_bytes, requests * REQUEST_BYTES + rounds * ROUND_BYTES), max(most, longer)
    return Needs(runs, round(most * slowest.requests), round(most * tokens), core_s, memory_bytes)
