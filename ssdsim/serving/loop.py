"""A replica driven by arrivals, or by a fixed number of requests at any time."""

from __future__ import annotations

from collections.abc import Callable

from ssdsim.base.extras import failure
from ssdsim.base.progress import unheard
from ssdsim.serving.batching import Batching
from ssdsim.serving.journal import Requests, Run
from ssdsim.serving.policy import Policy
from ssdsim.serving.replica import Replica
from ssdsim.serving.workload import Workload

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
    if workload.concurrency is not None:
        replica = Replica(policy, batching, workload, requests, seed=seed)
        _closed(replica, workload, workload.concurrency, requests, hears)
    else:
        comes_s = workload.arrival_s + batching.prefill_ms / 1e3  # prompts that are processed elsewhere come then
        compiled = is_long(tokens or float(workload.output_tokens.sum())) and _compiles(policy)
        replica = Replica(policy, batching, workload, requests, seed=seed, comes_s=comes_s, compiled=compiled)
        replica.run(hears)
    return run_of(policy, workload, requests, [replica])


def is_long(tokens: float) -> bool:
    """Say whether compiled rounds gain more in a run of so many tokens than they take to begin."""
    return tokens >= _LONG


def _compiles(policy: Policy) -> bool:
    """Say whether numba works, and nobody is asked in each round."""
    asks = policy.steered is not None or any(variant.rows.shares_chances for variant in policy.variants)
    return not asks and failure("numba") is None


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


def _closed(
    replica: Replica, workload: Workload, concurrency: int, requests: Requests, hears: Callable[[float], None]
) -> None:
    """A new request comes as soon as one is answered."""
    came = min(concurrency, workload.requests)
    requests.arrival_s[:came] = 0.0
    replica.offer(0, came)
    while replica.is_busy:
        replica.step()
        more = min(concurrency + replica.finished, workload.requests) - came
        if more:
            requests.arrival_s[came : came + more] = replica.now
            replica.offer(came, came + more)
            came += more
            hears(came / workload.requests)
