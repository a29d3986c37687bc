"""Several replicas behind a router, on SimPy's clock."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Literal, get_args

import numpy as np
import simpy

from ssdsim.answers.serving.batching import Batching
from ssdsim.answers.serving.journal import Requests, Run
from ssdsim.answers.serving.loop import run_of
from ssdsim.answers.serving.policy import Policy
from ssdsim.answers.serving.replica import Replica
from ssdsim.answers.serving.workload import Workload
from ssdsim.checks import whole
from ssdsim.errors import InputError, nearest

Router = Literal["round-robin", "least-loaded"]

_MOST_REPLICAS = 1024


def simulate_fleet(
    policy: Policy,
    workload: Workload,
    batching: Batching,
    replicas: int,
    router: Router = "round-robin",
    seed: int = 0,
    draft_pool: int | None = None,
) -> Run:
    """Every request of a workload, by the replica that the router gives it to when it comes.

    ``least-loaded`` is the replica with the fewest tokens in caches and queue (of equals the first), as they will be
    when its round is over. One replica makes the very run of :func:`ssdsim.answers.serving.loop.simulate`. With
    ``draft_pool`` so many draft for all replicas of a strategy that drafts on a device of its own
    (:class:`DraftPool`); without, each replica has its own.

    Raises
    ------
    InputError : no such router, no replica, more devices that draft than replicas, or requests that come when others
        are answered.
    """
    whole("--replicas", replicas, 1, _MOST_REPLICAS)
    if router not in get_args(Router):
        raise InputError(
            f"--router must be one of {', '.join(get_args(Router))}, got {router}{nearest(router, get_args(Router))}"
        )
    if workload.concurrency is not None:
        raise InputError("--concurrency has no effect with replicas behind a router: give --rate")
    pool = None
    if draft_pool is not None:
        whole("--draft-pool", draft_pool, 1, replicas)
        pool = DraftPool(draft_pool)
    requests = Requests(workload)
    fleet = [Replica(policy, batching, workload, requests, seed=seed, number=number) for number in range(replicas)]
    clock = simpy.Environment()
    _Fleet(clock, fleet, router, workload, batching, pool).start()
    clock.run()
    return run_of(policy, workload, requests, fleet, draft_pool)


class DraftPool:
    """Devices that draft for several replicas, first come, first served.

    A round asks for one when it begins, and has it for all that it drafts: a pre-speculation, its prompts, and the
    fallback of its misses, between which nobody else comes in.
    """

    def __init__(self, devices: int) -> None:
        self._free_at = [0.0] * devices

    def wait_s(self, now: float) -> float:
        """Until the first of them is free."""
        return max(0.0, min(self._free_at) - now)

    def book(self, now: float, seconds: float) -> None:
        """The first that is free, for so long."""
        at = min(range(len(self._free_at)), key=self._free_at.__getitem__)
        self._free_at[at] = max(now, self._free_at[at]) + seconds


class _Fleet:
    """Processes of the clock: who comes, and a round after the other of each replica."""

    def __init__(
        self,
        clock: simpy.Environment,
        replicas: list[Replica],
        router: Router,
        workload: Workload,
        batching: Batching,
        pool: DraftPool | None,
    ) -> None:
        self._clock, self._replicas, self._router, self._pool = clock, replicas, router, pool
        for replica in replicas:
            replica.shares_draft = pool is not None
        self._times = (workload.arrival_s + batching.prefill_ms / 1e3).tolist()
        self._come = [clock.event() for _ in replicas]
        self._next_s = self._times[0]

    def start(self) -> None:
        self._clock.process(self._arrivals())
        for number in range(len(self._replicas)):
            self._clock.process(self._rounds(number))

    def _arrivals(self) -> Generator[Any, Any, None]:
        for request, time_s in enumerate(self._times):
            if time_s > self._clock.now:
                yield self._clock.timeout(time_s - self._clock.now)
            self._next_s = self._times[request + 1] if request + 1 < len(self._times) else np.inf
            number = self._choice(request)
            self._replicas[number].offer([request])
            if not self._come[number].triggered:
                self._come[number].succeed()

    def _choice(self, request: int) -> int:
        if self._router == "round-robin":
            return request % len(self._replicas)
        return min(range(len(self._replicas)), key=lambda number: self._replicas[number].load_tokens)

    def _rounds(self, number: int) -> Generator[Any, Any, None]:
        """Rounds while there is work; who comes at the very end of one is there for the next."""
        replica = self._replicas[number]
        while True:
            if not replica.is_busy:
                self._come[number] = self._clock.event()
                yield self._come[number]
                yield self._clock.timeout(0.0)  # who comes at the same instant comes along
                continue
            replica.now = float(self._clock.now)
            self._step(replica)
            yield self._clock.timeout(max(0.0, replica.now - self._clock.now))
            while self._next_s <= self._clock.now:
                yield self._clock.timeout(0.0)

    def _step(self, replica: Replica) -> None:
        if self._pool is None:
            replica.step(self._next_s)
            return
        now = replica.now
        replica.draft_late_s = self._pool.wait_s(now)
        replica.step(self._next_s)
        if replica.drafted_s:
            self._pool.book(now, replica.drafted_s)
