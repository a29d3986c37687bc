"""Several replicas behind a router, on SimPy's clock."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import numpy as np
import simpy

from ssdsim.base.errors import InputError
from ssdsim.base.progress import unheard
from ssdsim.base.record import MutableRecord
from ssdsim.pricing.occupancy import Devices
from ssdsim.serving.batching import Batching
from ssdsim.serving.flat_tables import FlatTables
from ssdsim.serving.journal import Requests, Run
from ssdsim.serving.options import Fleet, Router
from ssdsim.serving.policy import Policy
from ssdsim.serving.replica import Replica, run_of
from ssdsim.serving.workload import Workload


def simulate_fleet(
    policy: Policy,
    workload: Workload,
    batching: Batching,
    fleet: Fleet,
    seed: int = 0,
    hears: Callable[[float], None] = unheard,
) -> Run:
    """Every request of a workload, by the replica that the router gives it to when it comes; who ``hears`` is told the
    share of them that came.

    ``least-loaded`` is the replica with the fewest tokens in caches and queue (of equals the first), as they will be
    when its round is over. One replica makes the very run of :func:`ssdsim.serving.replica.simulate`. Where a
    policy's targets share a draft, the first so many replicas share one (:class:`SharedDraft`), as do the next.
    """
    replicas = fleet.replicas
    if workload.concurrency is not None:
        raise InputError("--concurrency has no effect with replicas behind a router: give --rate")
    if replicas % policy.devices.targets:
        raise InputError(f"{policy.devices.targets} replicas share a draft: {replicas} are no multiple of it")
    requests = Requests(workload)
    tables = FlatTables.of(policy, batching, workload)
    each = [
        Replica(policy, batching, workload, requests, seed=seed, number=number, tables=tables)
        for number in range(replicas)
    ]
    clock = simpy.Environment()
    _Fleet(clock, each, fleet.router, workload, batching, policy.devices, hears).start()
    clock.run()
    return run_of(policy, workload, batching, requests, each)


class SharedDraft(MutableRecord):
    """A draft's devices that serve several replicas: in turn, or all that wait ``together``.

    A round asks for them when it begins, and has them for all that it drafts: its prompts, and its
    :class:`ssdsim.strategies.protocols.strategy.Service`, between whose parts nobody else comes in.
    """

    together: bool = False
    free_at: float = 0.0
    _next_until: float | None = None  # those who wait together

    def wait_s(self, now: float) -> float:
        """Until what runs is done, and all that is before in the queue."""
        if self._next_until is not None and now >= self.free_at:
            self.free_at, self._next_until = self._next_until, None
        return max(0.0, self.free_at - now)

    def book(self, now: float, seconds: float) -> None:
        """Book the draft for so long, from when :meth:`wait_s` says."""
        if self.wait_s(now) == 0.0:
            self.free_at = now + seconds
        elif self.together:
            self._next_until = max(self._next_until or 0.0, self.free_at + seconds)
        else:
            self.free_at += seconds


class _Fleet:
    """Processes of the clock: who comes, and a round after the other of each replica."""

    def __init__(
        self,
        clock: simpy.Environment,
        replicas: list[Replica],
        router: Router,
        workload: Workload,
        batching: Batching,
        devices: Devices,
        hears: Callable[[float], None],
    ) -> None:
        self._clock, self._replicas, self._router = clock, replicas, router
        targets = devices.targets
        shared = [SharedDraft(devices.together) for _ in range(len(replicas) // targets)]
        self._drafts = [shared[number // targets] if targets > 1 else None for number in range(len(replicas))]
        self._times = (workload.arrival_s + batching.prefill_ms / 1e3).tolist()
        self._come = [clock.event() for _ in replicas]
        self._next_s = self._times[0]
        self._hears = hears

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
            self._replicas[number].offer(request, request + 1)
            self._hears((request + 1) / len(self._times))
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
            self._step(replica, self._drafts[number])
            yield self._clock.timeout(max(0.0, replica.now - self._clock.now))
            while self._next_s <= self._clock.now:
                yield self._clock.timeout(0.0)

    def _step(self, replica: Replica, draft: SharedDraft | None) -> None:
        if draft is None:
            replica.step(self._next_s)
            return
        now = replica.now
        drafted_s = replica.step_with_draft(self._next_s, draft.wait_s(now))
        if drafted_s:
            draft.book(now, drafted_s)
