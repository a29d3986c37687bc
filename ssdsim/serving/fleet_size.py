"""The fewest replicas that keep enough requests of a load within an SLO, and how much more these would hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import ceil

import numpy as np

from ssdsim.answers.decision import Candidate, Decision, decide
from ssdsim.answers.workers import Workers
from ssdsim.base.checks import Array
from ssdsim.base.intervals import quantiles
from ssdsim.base.record import Record, replace
from ssdsim.serving.lookahead import OwnK, rate_within
from ssdsim.serving.metrics import Metrics, measure
from ssdsim.serving.options import Fleet
from ssdsim.serving.policy import Policy
from ssdsim.serving.policy_runs import How, RunCache, attained, each_once, key_of, named, run
from ssdsim.serving.workload import MOST_REQUESTS, Workload

MOST_REPLICAS = 1024
RUNS_OF_SIZE = 12
"""The most runs of a search for replicas, about."""

_ENOUGH = 2000  # requests of a run that stands for all replicas
_IDLE = 0.01  # of the capacity: a replica that fails with so little to do fails with anything
_NARROWED = 4  # times that what a replica holds is halved
_BEYOND = 1.3  # times what the closed form holds: where one replica is sure to fail
_SLACK = 1e-9


class Need(Record):
    """The replicas that a strategy needs, None where no number is enough, and the K of which answers are done first
    there.

    ``metrics`` are those of all of them, ``fewer`` the share of requests that one replica fewer keeps. ``holds`` is the
    rate a replica that still keeps enough, with the K that holds most. ``runs`` is the number of simulations.
    """

    k: int
    replicas: int | None
    metrics: Metrics | None
    fewer: float | None
    holds: float
    k_that_holds_most: int
    runs: int


class Peak(Record):
    """The minute in which most requests come: its rate, and when it begins."""

    rate: float
    at_s: float


class FleetPlan(Record):
    """How many replicas each strategy needs at ``rate`` requests a second, and how sure that is.

    ``gpus_of`` are draws of the GPUs of each that can serve the load at all; ``decision`` chooses the fewest of them.
    """

    rate: float
    share: float
    peak: Peak | None
    needs: Mapping[str, Need]
    gpus: Mapping[str, float]
    gpus_of: Mapping[str, Array]
    decision: Decision[str] | None

    def likely(self, name: str) -> tuple[int, int]:
        """The 80 % range of a strategy's GPUs."""
        low, high = quantiles(self.gpus_of[name], 0.1, 0.9)
        return round(float(low)), round(float(high))

    def total(self, name: str) -> float | None:
        """GPUs in all."""
        replicas = self.needs[name].replicas
        return None if replicas is None else replicas * self.gpus[name]


def fleet_plan(
    strategies: Mapping[str, OwnK],
    workload: Workload,
    share: float,
    how: How,
    cache: RunCache | None,
    workers: Workers,
    known: Mapping[str, Array],
) -> FleetPlan:
    """Search each strategy's replicas; a cached search is not repeated. ``known`` is what may be known first."""
    names, keys = list(strategies), {}
    if cache is not None:
        keys = {n: key_of(f"replicas of {named(n, _any(own))}", workload, how, share) for n, own in strategies.items()}

    def work(name: str, number: int) -> tuple[OwnK, int, Workload, How, float]:
        return strategies[name], number, workload, how, share

    needs = each_once(names, keys, Need, _search, work, cache, workers)
    gpus = {name: own.gpus for name, own in strategies.items()}
    gpus_of = {
        name: gpus[name] * _replicas(strategies[name], needs[name], workload.rate, how)
        for name in names
        if needs[name].replicas is not None
    }
    candidates = [Candidate.of(name, name, float(gpus_of[name].mean())) for name in gpus_of]
    decision = decide(candidates, {name: 1.0 / each for name, each in gpus_of.items()}, known) if candidates else None
    return FleetPlan(
        workload.rate, share, peak_of(workload), {name: needs[name] for name in names}, gpus, gpus_of, decision
    )


def peak_of(workload: Workload) -> Peak | None:
    """The busiest minute; None of what is shorter than two."""
    if workload.generate is not None or workload.requests < 2 or workload.arrival_s[-1] < 120.0:
        return None
    after = np.searchsorted(workload.arrival_s, workload.arrival_s + 60.0)
    counts = after - np.arange(workload.requests)
    first = int(np.argmax(counts))
    return Peak(float(counts[first]) / 60.0, float(workload.arrival_s[first]))


def _any(own: OwnK) -> Policy:
    return next(iter(own.by_k.values())).policy


def _replicas(own: OwnK, need: Need, rate: float, how: How) -> Array:
    """Replicas in each draw: what a replica holds moves as by the closed form."""
    assert how.slo is not None
    drawn = rate_within(own.by_k[need.k_that_holds_most].draws, how.slo)
    (middle,) = quantiles(drawn, 0.5)
    return np.clip(np.ceil(rate / (need.holds * drawn / middle) - _SLACK), 1, MOST_REPLICAS)


def _search(own: OwnK, number: int, workload: Workload, how: How, share: float) -> tuple[int, tuple[Need, None]]:
    return number, (_Search(own, workload, how, share).need(), None)


class _Search:
    """Runs of one strategy, each once."""

    def __init__(self, own: OwnK, workload: Workload, how: How, share: float) -> None:
        assert how.slo is not None
        self._own, self._workload, self._how, self._share, self._slo = own, workload, how, share, how.slo
        self._known: dict[tuple[int, int, float], Metrics] = {}

    def need(self) -> Need:
        """Fewest replicas with the K that holds most; then the K that is fastest on them, if it holds enough, too."""
        k, rate = self._own.within(self._slo).chosen, self._workload.rate
        replicas = self._fewest(k)
        if replicas is None:
            return Need(k, None, None, None, 0.0, k, len(self._known))
        fewer = attained(self._at(k, replicas - 1)) if replicas > 1 else None
        holds, first = self._holds(k, replicas), self._own.at(rate / replicas, self._workload).chosen
        runs = first if self._keeps(first, replicas) else k
        return Need(runs, replicas, self._at(runs, replicas), fewer, holds, k, len(self._known))

    def _fewest(self, k: int) -> int | None:
        """From what the closed form says, up or down in growing steps, then by halves."""
        rate, mean = self._workload.rate, self._own.by_k[k].mean
        first = min(MOST_REPLICAS, max(1, ceil(rate / float(rate_within(mean, self._slo)[0]))))
        most = min(MOST_REPLICAS, ceil(rate / (_IDLE * float(mean.capacity))))
        low, high, step = 0, first, 1
        if self._keeps(k, first):
            while high - step > 0 and self._keeps(k, high - step):
                high, step = high - step, 2 * step
            low = max(0, high - step)
        else:
            while not self._keeps(k, high):
                if high >= most:
                    return None
                low, high, step = high, min(most, high + step), 2 * step
        return _first(lambda n: self._keeps(k, n), low, high)

    def _holds(self, k: int, replicas: int) -> float:
        """Requests a second a replica: at least what comes, and less than what one replica fewer would get."""
        a_replica = self._workload.rate / replicas
        closed = _BEYOND * float(rate_within(self._own.by_k[k].mean, self._slo)[0])
        low, high = 1.0, replicas / (replicas - 1) if replicas > 1 else max(_BEYOND, closed / a_replica)
        for _ in range(_NARROWED):
            middle = (low + high) / 2.0
            low, high = (middle, high) if self._keeps(k, replicas, middle) else (low, middle)
        return low * a_replica

    def _keeps(self, k: int, replicas: int, faster: float = 1.0) -> bool:
        return attained(self._at(k, replicas, faster)) >= self._share

    def _at(self, k: int, replicas: int, faster: float = 1.0) -> Metrics:
        key = k, replicas, faster
        if key not in self._known:
            load, how = part_of(self._workload, replicas, self._how)
            self._known[key] = measure(run(self._own.by_k[k].policy, load.faster(faster), how), self._how.slo)
        return self._known[key]


def _first(keeps: Callable[[int], bool], low: int, high: int) -> int:
    """The least number above ``low`` that keeps enough, where ``high`` does."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if keeps(middle) else (middle, high)
    return high


def part_of(workload: Workload, replicas: int, how: How) -> tuple[Workload, How]:
    """Requests of so many of the replicas as tell enough, and how these run: in turn each gets as many as the others.

    Where requests are made up, more are: a replica gets as many as a lone one would.
    """
    if how.fleet.router != "round-robin":
        return workload, replace(how, fleet=replace(how.fleet, replicas=replicas))
    few = min(replicas, ceil(_ENOUGH * replicas / workload.requests))
    if workload.generate is not None:
        workload, few = workload.of(min(MOST_REQUESTS, workload.requests * replicas)), 1
    return workload.only(np.arange(workload.requests) % replicas < few), replace(how, fleet=Fleet(few))
