"""The fewest GPUs that keep enough requests of a load within an SLO: replicas, and the tensor parallelism of each.

Each strategy is looked at first at the degree at which the closed form has it need the fewest GPUs. Another degree is
simulated only where it could need no more: by the closed form, with 30 % in its favour. There the most replicas that do
not need more GPUs are run first, and if these fail, nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from math import ceil, floor

import numpy as np

from ssdsim.answers.decision import Candidate, Decision, decide
from ssdsim.answers.workers import Workers
from ssdsim.base.checks import Array
from ssdsim.base.intervals import Draws, quantiles
from ssdsim.base.record import Record, replace
from ssdsim.serving.degrees import Degrees
from ssdsim.serving.lookahead import OwnK, rate_within, speed
from ssdsim.serving.metrics import Metrics, measure
from ssdsim.serving.options import Fleet, Slo
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
_LASTS = 10.0  # times what a queue needs to build: of a log that is shorter, a tenth or more came to idle replicas
_MOST_REPEATS = 20  # of a log that is shorter


class Need(Record):
    """What one strategy needs for a load within an SLO.

    ``replicas`` are the fewest that keep enough requests; None where no number does. Each has so many ``gpus``, and the
    target lies on ``tp`` of them. ``k`` is the K by which answers are done first there, and ``metrics`` are those of a
    run with it. ``fewer`` is the share of requests that one replica fewer keeps. ``holds`` is the highest rate of a
    replica at which enough requests are kept, with the ``k_that_holds_most``. ``runs`` is the number of simulations.
    """

    tp: int
    gpus: float
    k: int
    replicas: int | None
    metrics: Metrics | None
    fewer: float | None
    holds: float
    k_that_holds_most: int
    runs: int

    @property
    def simulated(self) -> int:
        """Replicas of its runs: those that it needs, or one where no number is enough."""
        return self.replicas or 1


class Peak(Record):
    """The minute in which most requests come: its rate, and when it begins."""

    rate: float
    at_s: float


class FleetPlan(Record):
    """What each strategy needs for ``rate`` requests a second, of which a ``share`` must keep the SLO; and how sure
    that is.

    ``gpus_of`` are the GPUs of each in draws of all that is not known, where any number is enough. ``decision`` is
    between those that need the fewest GPUs: the one by which answers are done first. ``doubts`` are what the load
    cannot show.
    """

    rate: float
    share: float
    peak: Peak | None
    needs: Mapping[str, Need]
    gpus_of: Mapping[str, Array]
    decision: Decision[str] | None
    doubts: tuple[str, ...] = ()

    @property
    def leader(self) -> str:
        """The strategy with the fewest GPUs, of equals the choice of the one rule; any where no number is enough."""
        return next(iter(self.needs)) if self.decision is None else self.decision.chosen

    def likely(self, name: str) -> tuple[int, int]:
        """The 80 % range of a strategy's GPUs."""
        low, high = quantiles(self.gpus_of[name], 0.1, 0.9)
        return round(float(low)), round(float(high))

    def saves_in(self, name: str, other: str) -> float:
        """The share of draws in which ``name`` needs fewer GPUs than ``other``."""
        return float(np.mean(self.gpus_of[name] < self.gpus_of[other]))

    def total(self, name: str) -> float | None:
        """GPUs in all."""
        need = self.needs[name]
        if need.replicas is None:
            return None
        gpus = float(need.replicas * need.gpus)
        return int(gpus) if gpus.is_integer() else gpus  # also where a kept run was read as 1.0


def fleet_plan(
    degrees: Degrees,
    workload: Workload,
    share: float,
    how: How,
    cache: RunCache | None,
    workers: Workers,
    known: Mapping[str, Array],
) -> FleetPlan:
    """Search what each strategy needs; a cached search is not repeated. ``known`` is what may be known first."""
    names, keys = degrees.names, {}
    if cache is not None:
        keys = {name: key_of(f"GPUs of {_searched(degrees, name)}", workload, how, share) for name in names}

    def work(name: str, number: int) -> tuple[Degrees, str, int, Workload, How, float]:
        return degrees, name, number, workload, how, share

    needs = each_once(names, keys, Need, _search, work, cache, workers)
    can = {name: degrees.own(name, needs[name].tp) for name in names if needs[name].replicas is not None}
    gpus_of = {name: needs[name].gpus * _replicas(own, needs[name], workload.rate, how) for name, own in can.items()}
    builds_s = (
        own.by_k[needs[name].k].mean.builds_s(workload.rate / needs[name].simulated) for name, own in can.items()
    )
    doubts = _brief(workload, max(builds_s, default=0.0))
    plan = FleetPlan(workload.rate, share, peak_of(workload), {n: needs[n] for n in names}, gpus_of, None, doubts)
    totals = {name: float(plan.total(name) or 0.0) for name in can}
    fewest = [name for name in can if totals[name] <= min(totals.values())]
    if not fewest:
        return plan
    speeds = {name: _speed(can[name], needs[name].k, needs[name].simulated, workload) for name in fewest}
    return replace(plan, decision=decide([Candidate.of(n, n, totals[n]) for n in fewest], speeds, known))


def _brief(workload: Workload, builds_s: float) -> tuple[str, ...]:
    """What is said of a log that ends before its queue is as long as it will be."""
    lasts_s, repeats = workload.requests / workload.rate, workload.repeats
    is_still = workload.generate is None and repeats * lasts_s < _LASTS * builds_s
    if repeats == 1 and not is_still:
        return ()
    ran = f": ran {repeats} times over" if repeats > 1 else ""
    still = ", still too short" if repeats > 1 and is_still else ""
    return (f"the log's {lasts_s:,.0f} s are too short for queues to build{ran}{still}",)


def lasting(workload: Workload, degrees: Degrees, slo: Slo) -> Workload:
    """A log that is run as often as queues need to build on the replicas that the closed form has it need; twice that,
    because others may be found.
    """
    if workload.generate is not None:
        return workload
    longest_s = 0.0
    for name in degrees.names:
        own = degrees.own(name, degrees.in_order(name, workload.rate, slo)[0][0], rough=degrees.is_open)
        for each in own.by_k.values():
            replicas = ceil(workload.rate / float(rate_within(each.mean, slo)[0]))
            longest_s = max(longest_s, each.mean.builds_s(workload.rate / replicas))
    lasts_s, most = workload.requests / workload.rate, max(1, MOST_REQUESTS // workload.requests)
    if lasts_s >= _LASTS * longest_s:
        return workload
    return replace(workload, repeats=min(_MOST_REPEATS, most, ceil(min(2.0 * _LASTS * longest_s / lasts_s, 1e6))))


def _searched(degrees: Degrees, name: str) -> str:
    """What tells a search from others of the same load."""
    policies = [each.by_name[name] for each in degrees.possible.values() if name in each.by_name]
    return ", ".join(named(name, each) for each in policies)


def _speed(own: OwnK, k: int, replicas: int, workload: Workload) -> Draws:
    """Answers a second that one request after the other would have, on so many replicas."""
    return speed(own.by_k[k].draws, workload.rate / replicas, workload)


def peak_of(workload: Workload) -> Peak | None:
    """The busiest minute; None of what is shorter than two."""
    if workload.generate is not None or workload.requests < 2 or workload.arrival_s[-1] < 120.0:
        return None
    after = np.searchsorted(workload.arrival_s, workload.arrival_s + 60.0)
    counts = after - np.arange(workload.requests)
    first = int(np.argmax(counts))
    return Peak(float(counts[first]) / 60.0, float(workload.arrival_s[first]))


def _replicas(own: OwnK, need: Need, rate: float, how: How) -> Array:
    """Replicas in each draw: what a replica holds moves as by the closed form."""
    assert how.slo is not None
    drawn = rate_within(own.by_k[need.k_that_holds_most].draws, how.slo)
    (middle,) = quantiles(drawn, 0.5)
    return np.clip(np.ceil(rate / (need.holds * drawn / middle) - _SLACK), 1, MOST_REPLICAS)


def _search(
    degrees: Degrees, name: str, number: int, workload: Workload, how: How, share: float
) -> tuple[int, tuple[Need, None]]:
    assert how.slo is not None
    looked: list[_Search] = []
    for tp, least in degrees.in_order(name, workload.rate, how.slo):
        fewest = min((each.gpus for each in looked), default=np.inf)
        if least <= fewest:
            looked.append(_Search(degrees.own(name, tp), tp, workload, how, share))
            looked[-1].search(fewest)
    fewest = min(each.gpus for each in looked)
    best = _of_equals([each for each in looked if each.gpus <= fewest], workload) if fewest < np.inf else looked[0]
    return number, (best.need(sum(each.runs for each in looked)), None)


def _of_equals(searches: Sequence[_Search], workload: Workload) -> _Search:
    """Of the degrees with as few GPUs the one by which answers are done first."""
    if len(searches) == 1:
        return searches[0]
    every = [Candidate.of(i, each.own.name, each.gpus, each.tp) for i, each in enumerate(searches)]
    speeds = {i: _speed(each.own, each.fastest, each.replicas or 1, workload) for i, each in enumerate(searches)}
    return searches[decide(every, speeds).chosen]


class _Search:
    """Runs of one strategy at one degree, each once; and the ``replicas`` that they find (None: none are enough)."""

    def __init__(self, own: OwnK, tp: int, workload: Workload, how: How, share: float) -> None:
        assert how.slo is not None
        self.own, self.tp = own, tp
        self.replicas: int | None = None
        self._workload, self._how, self._share, self._slo = workload, how, share, how.slo
        self._known: dict[tuple[int, int, float], Metrics] = {}
        self._k = own.within(self._slo).chosen

    @property
    def gpus(self) -> float:
        """GPUs in all; infinite where no number is enough."""
        return np.inf if self.replicas is None else self.replicas * self.own.gpus

    @property
    def runs(self) -> int:
        return len(self._known)

    @cached_property
    def fastest(self) -> int:
        """The K by which answers are done first on the replicas, if it holds enough; else that which holds most."""
        assert self.replicas is not None
        first = self.own.at(self._workload.rate / self.replicas, self._workload).chosen
        return first if self._keeps(first, self.replicas) else self._k

    def need(self, runs: int) -> Need:
        """What was found, after so many ``runs`` of all degrees before; K is the one of :attr:`fastest`."""
        k, replicas, gpus, before = self._k, self.replicas, self.own.gpus, runs - self.runs
        if replicas is None:
            return Need(self.tp, gpus, k, None, None, None, 0.0, k, runs)
        fewer = attained(self._at(k, replicas - 1)) if replicas > 1 else None
        holds, fastest = self._holds(k, replicas), self.fastest
        metrics = self._at(fastest, replicas)
        return Need(self.tp, gpus, fastest, replicas, metrics, fewer, holds, k, before + self.runs)

    def search(self, most_gpus: float) -> None:
        """Find the fewest replicas, of not more GPUs, with the K that holds most: from what the closed form says, up or
        down in growing steps, then by halves.
        """
        k, rate, mean = self._k, self._workload.rate, self.own.by_k[self._k].mean
        most = min(MOST_REPLICAS, ceil(rate / (_IDLE * float(mean.capacity))))
        if most_gpus < np.inf:
            most = min(most, floor(most_gpus / self.own.gpus + _SLACK))
            if most < 1 or not self._keeps(k, most):
                return
        low, step, high = 0, 1, min(most, max(1, ceil(rate / float(rate_within(mean, self._slo)[0]))))
        if self._keeps(k, high):
            while high - step > 0 and self._keeps(k, high - step):
                high, step = high - step, 2 * step
            low = max(0, high - step)
        else:
            while not self._keeps(k, high):
                if high >= most:
                    return
                low, high, step = high, min(most, high + step), 2 * step
        self.replicas = _first(lambda n: self._keeps(k, n), low, high)

    def _holds(self, k: int, replicas: int) -> float:
        """Requests a second a replica: at least what comes, and less than what one replica fewer would get."""
        a_replica = self._workload.rate / replicas
        closed = _BEYOND * float(rate_within(self.own.by_k[k].mean, self._slo)[0])
        low, high = 1.0, replicas / (replicas - 1) if replicas > 1 else max(_BEYOND, closed / a_replica)
        for _ in range(_NARROWED):
            middle = (low + high) / 2.0
            low, high = (middle, high) if self._keeps(k, replicas, middle) else (low, middle)
        return low * a_replica

    def _keeps(self, k: int, replicas: int, faster: float = 1.0) -> bool:
        """Say whether enough requests are good; never where replicas are full, which a short load may not show."""
        kept = attained(self._at(k, replicas, faster)) >= self._share
        return kept and faster * self._workload.rate / replicas < float(self.own.by_k[k].mean.capacity)

    def _at(self, k: int, replicas: int, faster: float = 1.0) -> Metrics:
        key = k, replicas, faster
        if key not in self._known:
            load, how = part_of(self._workload, replicas, self._how)
            self._known[key] = measure(run(self.own.by_k[k].policy, load.faster(faster), how), self._how.slo)
        return self._known[key]


def _first(keeps: Callable[[int], bool], low: int, high: int) -> int:
    """The least number above ``low`` that keeps enough, where ``high`` does."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if keeps(middle) else (middle, high)
    return high


def part_of(workload: Workload, replicas: int, how: How) -> tuple[Workload, How]:
    """Requests of so many of the replicas as tell enough, and how these run: in turn each gets as many as the others.

    Where requests are made up, more are: a replica gets as many as a lone one would. A log that is
    too short is repeated.
    """
    workload = workload.repeated()
    if how.fleet.router != "round-robin":
        return workload, replace(how, fleet=replace(how.fleet, replicas=replicas))
    few = min(replicas, ceil(_ENOUGH * replicas / workload.requests))
    if workload.generate is not None:
        workload, few = workload.of(min(MOST_REQUESTS, workload.requests * replicas)), 1
    return workload.only(np.arange(workload.requests) % replicas < few), replace(how, fleet=Fleet(few))
