"""A replica driven by arrivals, or by a fixed number of requests at any time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ssdsim.base.checks import Array
from ssdsim.base.extras import failure
from ssdsim.base.progress import unheard
from ssdsim.serving.batching import Batching
from ssdsim.serving.journal import Requests, Run
from ssdsim.serving.policy import Policy
from ssdsim.serving.replica import Replica
from ssdsim.serving.workload import Workload

if TYPE_CHECKING:
    from ssdsim.serving.ahead import Ahead

_TOLD = 200  # times in a run, how far it is
_LEAST_ARRIVALS = 1000  # before somebody hears of it
_MOST_ALONE = 64  # rounds that a replica makes before more are made ahead again
_LONG = 2_000_000  # tokens


def simulate(
    policy: Policy,
    workload: Workload,
    batching: Batching,
    seed: int = 0,
    hears: Callable[[float], None] = unheard,
    tokens: float | None = None,
) -> Run:
    """Every request of a workload on one replica, until the last one is answered; who ``hears`` is told the share of
    them that came. A run of ``tokens`` (None: its own) that :func:`is_long` has compiled rounds, where numba works.
    """
    requests = Requests(workload)
    replica = Replica(policy, batching, workload, requests, seed=seed)
    if workload.concurrency is not None:
        _closed(replica, workload, workload.concurrency, hears)
    else:
        arrival_s = workload.arrival_s + batching.prefill_ms / 1e3  # prompts that are processed elsewhere come then
        ahead = _ahead(replica, arrival_s) if is_long(tokens or float(workload.output_tokens.sum())) else None
        drive(replica, arrival_s, ahead, hears)
    return run_of(policy, workload, requests, [replica])


def is_long(tokens: float) -> bool:
    """Say whether compiled rounds gain more in a run of so many tokens than they take to begin."""
    return tokens >= _LONG


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


def drive(
    replica: Replica, arrival_s: Array, ahead: Ahead | None = None, hears: Callable[[float], None] = unheard
) -> None:
    """Requests come when they come. What is made ``ahead`` ends where the replica makes a round itself: twice as many
    as before, where none was made ahead.
    """
    times = arrival_s.tolist()
    came, count, told = 0, len(times), 0
    alone, left = 1, 0
    while came < count or replica.is_busy:
        if ahead is not None and not left:
            done = replica.rounds_done
            came = ahead.run(came, came + max(_LEAST_ARRIVALS, count // _TOLD))
            if came == count and not replica.is_busy:
                return
            alone = left = 1 if replica.rounds_done > done else min(2 * alone, _MOST_ALONE)
        if not replica.is_busy:
            replica.now = max(replica.now, times[came])
        first = came
        while came < count and times[came] <= replica.now:
            came += 1
        replica.offer(range(first, came))
        if (came - told) * _TOLD >= count:
            told = came
            hears(came / count)
        if replica.is_busy:
            left -= 1
            replica.step(times[came] if came < count else np.inf)


def _ahead(replica: Replica, arrival_s: Array) -> Ahead | None:
    """What makes a replica's rounds many at a time, where numba works and it does what they do."""
    if failure("numba") is not None:
        return None
    from ssdsim.serving.ahead import Ahead  # here, because numba takes half a second

    return Ahead.of(replica, arrival_s)


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
