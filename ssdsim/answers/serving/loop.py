"""A replica driven by arrivals, or by a fixed number of requests at any time."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ssdsim.answers.serving.batching import Batching
from ssdsim.answers.serving.journal import Requests, Run
from ssdsim.answers.serving.policy import Policy
from ssdsim.answers.serving.replica import Replica
from ssdsim.answers.serving.workload import Workload
from ssdsim.base.progress import unheard

_TOLD = 200  # times in a run, how far it is


def simulate(
    policy: Policy,
    workload: Workload,
    batching: Batching,
    seed: int = 0,
    hears: Callable[[float], None] = unheard,
) -> Run:
    """Every request of a workload on one replica, until the last one is answered; who ``hears`` is told the share of
    them that came.
    """
    requests = Requests(workload)
    replica = Replica(policy, batching, workload, requests, seed=seed)
    if workload.concurrency is None:
        _open(replica, workload, batching, hears)
    else:
        _closed(replica, workload, workload.concurrency, hears)
    return run_of(policy, workload, requests, [replica])


def run_of(policy: Policy, workload: Workload, requests: Requests, replicas: list[Replica]) -> Run:
    """Record of what replicas of a policy did."""
    return Run(
        workload=workload,
        requests=requests,
        gpus=len(replicas) * policy.gpus,
        miss_bits=[variant.table.miss_bit for variant in policy.variants],
        rounds=[replica.rounds for replica in replicas],
        misses=sum(replica.misses for replica in replicas),
        lookups=sum(replica.lookups for replica in replicas),
        wasted_tokens=sum(replica.wasted_tokens for replica in replicas),
    )


def _open(replica: Replica, workload: Workload, batching: Batching, hears: Callable[[float], None]) -> None:
    """Requests come when they come; one whose prompt is processed elsewhere comes when that is done."""
    times = (workload.arrival_s + batching.prefill_ms / 1e3).tolist()
    came, count, told = 0, len(times), 0
    while came < count or replica.is_busy:
        if not replica.is_busy:
            replica.now = max(replica.now, times[came])
        first = came
        while came < count and times[came] <= replica.now:
            came += 1
        if came > first:
            replica.offer(range(first, came))
            if (came - told) * _TOLD >= count:
                told = came
                hears(came / count)
        if replica.is_busy:
            replica.step(times[came] if came < count else np.inf)


def _closed(replica: Replica, workload: Workload, concurrency: int, hears: Callable[[float], None]) -> None:
    """A new request comes as soon as one is answered."""
    came = min(concurrency, workload.requests)
    replica.requests.arrival_s[:came] = 0.0
    replica.offer(range(came))
    while replica.is_busy:
        replica.step()
        more = min(len(replica.finished), workload.requests - came)
        replica.finished.clear()
        if more:
            replica.requests.arrival_s[came : came + more] = replica.now
            replica.offer(range(came, came + more))
            came += more
            hears(came / workload.requests)
