"""Simulated runs of policies under loads: one run, many with a cache, the search for a capacity, and their cost."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from hashlib import sha256
from itertools import product
from time import process_time
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from msgspec import convert, to_builtins

from ssdsim import __version__
from ssdsim.answers.workers import Workers
from ssdsim.base.errors import InputError
from ssdsim.base.progress import tell_share, unheard
from ssdsim.base.record import Record, field
from ssdsim.base.settings import Settings
from ssdsim.runs.answer_folders import ServingFolder
from ssdsim.serving.batching import Batching
from ssdsim.serving.closed_form import Sharing
from ssdsim.serving.journal import Run
from ssdsim.serving.metrics import Metrics, measure, request_rows
from ssdsim.serving.options import Fleet, Slo
from ssdsim.serving.policy import Policy
from ssdsim.serving.replica import is_long, simulate
from ssdsim.serving.workload import Workload

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")


class RunCache:
    """A cache of results in a run folder, for one scenario; a new version of ssdsim has new keys."""

    def __init__(self, folder: ServingFolder, settings: Settings, plan: str) -> None:
        self._folder = folder
        self._scenario = repr((__version__, sorted(settings.items(), key=str), plan))

    def of(self, key: str, kind: type[T]) -> T | None:
        """The cached result; None if there is none, or none that can be read."""
        try:
            text = self._folder.part(self._name(key))
            return None if text is None else convert(json.loads(text), kind, str_keys=True)
        except ValueError:
            return None

    def keep(self, key: str, result: Any, requests: pa.Table | None = None) -> None:
        """Store a result, and its table of requests if there is one."""
        self._folder.keep(self._name(key), json.dumps(to_builtins(result, enc_hook=float)), requests)

    def requests(self, key: str) -> pa.Table:
        """The table of requests that is stored with a result."""
        return self._folder.requests(self._name(key))

    def _name(self, key: str) -> str:
        return sha256((self._scenario + key).encode()).hexdigest()[:24]


MOST_RUNS = 15
"""The most runs of a search for a capacity, about."""
_WIDTH = 0.01  # of the rate: where bisection ends
_SLOWEST_SHARE = 0.02  # of the closed form's capacity: a policy that fails there has a capacity of 0


class Capacity(Record):
    """``rate``: the most requests a second a replica that keep the attainment, 0 if none do; ``too_much`` do not.

    ``low`` and ``high`` are the rates at which the 95 % interval of the attainment leaves the one asked for.
    ``metrics`` are those at ``rate``; ``runs`` is the number of simulations.
    """

    rate: float
    too_much: float
    low: float
    high: float
    metrics: Metrics | None
    runs: int


def capacity(
    policy: Policy, sharing: Sharing, workload: Workload, batching: Batching, slo: Slo, attainment: float, seed: int = 0
) -> Capacity:
    """Bisection below the closed form's capacity. All rates see the same requests, so attainment falls steadily."""
    known: dict[float, Metrics] = {}

    def at(rate: float) -> Metrics:
        if rate not in known:
            known[rate] = measure(simulate(policy, workload.at_rate(rate), batching, seed), slo)
        return known[rate]

    most = float(sharing.capacity)

    def highest(keeps: Callable[[Metrics], bool]) -> tuple[float, float]:
        low, high = _SLOWEST_SHARE * most, 1.05 * most
        if not keeps(at(low)):
            return 0.0, low
        if keeps(at(high)):
            return high, high
        while high - low > _WIDTH * high:
            middle = (low + high) / 2.0
            low, high = (middle, high) if keeps(at(middle)) else (low, middle)
        return low, high

    rate, too_much = highest(lambda m: attained(m) >= attainment)
    pessimist = highest(lambda m: m.attainment is not None and m.attainment.low >= attainment)[0]
    optimist = highest(lambda m: m.attainment is not None and m.attainment.high >= attainment)[0]
    return Capacity(rate, too_much, pessimist, optimist, known.get(rate), len(known))


def attained(metrics: Metrics) -> float:
    """The share of requests that were good."""
    return 0.0 if metrics.attainment is None else metrics.attainment.value


K = TypeVar("K", bound=Hashable)

MOST_FOR_PRECISION = 256_000
"""Most requests of a run that grows until it reaches its precision."""
_LONGER = 1.5, 8.0  # factor on the requests of the next run: at least, at most


class How(Record):
    """The settings of a run besides its policy and its load."""

    batching: Batching
    slo: Slo | None = None
    fleet: Fleet = field(default_factory=Fleet)
    seed: int = 0
    precision: float | None = None


def key_of(name: str, workload: Workload, how: How, attainment: float | None = None) -> str:
    """Key of one policy at one load, or of its search for a capacity."""
    digest = sha256(repr((name, how, attainment, workload.concurrency)).encode())
    for column in (workload.arrival_s, workload.input_tokens, workload.output_tokens, workload.kind):
        digest.update(column.tobytes())
    return digest.hexdigest()[:24]


def run(
    policy: Policy,
    workload: Workload,
    how: How,
    hears: Callable[[float], None] = unheard,
    tokens: float | None = None,
) -> Run:
    """Simulate one run: one replica in a plain loop, several on SimPy's clock.

    The loop is compiled or not as for a run of ``tokens`` (None: its own).
    """
    if how.fleet.replicas == 1:
        return simulate(policy, workload, how.batching, how.seed, hears, tokens)
    from ssdsim.serving.fleet import simulate_fleet  # imported here: most runs have one replica

    return simulate_fleet(policy, workload, how.batching, how.fleet, how.seed, hears)


def measured(policy: Policy, workload: Workload, how: How) -> tuple[Run, Metrics]:
    """A run and its metrics; with a precision it is repeated with more requests until that is reached."""
    while True:
        made = run(policy, workload, how, tell_share)
        metrics = measure(made, how.slo)
        more = needed_for_precision(metrics, how)
        if more <= 1.0 or workload.requests >= MOST_FOR_PRECISION:
            return made, metrics
        longer = float(np.clip(more, *_LONGER)) * workload.requests
        workload = workload.of(min(MOST_FOR_PRECISION, round(longer)))


def needed_for_precision(metrics: Metrics, how: How) -> float:
    """The factor on the number of requests that is likely to reach the precision; 1 if it is reached.

    The precision is the relative half-width of the mean TPOT's interval (TTFT's, for answers of one token). The factor
    is infinite while that interval is unknown.
    """
    if how.precision is None or metrics.saturated:
        return 1.0
    latency = metrics.of_requests["tpot"] or metrics.of_requests["ttft"]
    if latency is None:
        return 1.0
    width = (latency.mean.high - latency.mean.low) / 2.0 / latency.mean.value
    if not np.isfinite(width):
        return np.inf
    return float(1.1 * (width / how.precision) ** 2) if width > how.precision else 1.0


def runs(
    policies: Sequence[Mapping[str, Policy]],
    loads: Sequence[Workload],
    how: How,
    cache: RunCache | None,
    workers: Workers,
    room: Callable[[Sequence[tuple[int, str]]], int | None],
) -> Mapping[tuple[int, str], Metrics]:
    """Measure the policies of each load there, but for cached runs.

    ``room`` tells how many of the remaining runs fit in memory at once.
    """
    every = [(at, name) for at, by_name in enumerate(policies) for name in by_name]
    keys = {}
    if cache is not None:
        keys = {(at, name): key_of(named(name, policies[at][name]), loads[at], how) for at, name in every}

    def work(each: tuple[int, str], number: int) -> tuple[Any, ...]:
        at, name = each
        return policies[at][name], number, loads[at], how, cache is not None

    return each_once(every, keys, Metrics, _one, work, cache, workers, room)


def named(name: str, policy: Policy) -> str:
    """What tells a policy from those of its strategy with another K, or on other degrees."""
    site = policy.variants[0].scenario.site
    return f"{name}: {policy.variants[0].label}, TP {site.tp if site else 1}"


def lines(ran: Iterable[tuple[Mapping[str, Policy], Workload, How]], cache: RunCache) -> pa.Table | None:
    """All requests of the cached runs, with the rate (null in a closed loop) and the policy of their run."""
    import pyarrow as pa

    tables = []
    for by_name, load, how in ran:
        for name, policy in by_name.items():
            table = cache.requests(key_of(named(name, policy), load, how))
            rate = pa.array([load.offered] * len(table), type=pa.float64())
            strategy = pa.array([name] * len(table), type=pa.string())
            tables.append(table.add_column(0, "strategy", strategy).add_column(0, "rate", rate))
    try:
        return pa.concat_tables(tables) if tables else None
    except pa.ArrowException:
        raise InputError("a kept run has other columns than the others: remove the folder's parts, or use -o") from None


def _one(
    policy: Policy, number: int, workload: Workload, how: How, with_rows: bool
) -> tuple[int, tuple[Metrics, pa.Table | None]]:
    made, metrics = measured(policy, workload, how)
    return number, (metrics, request_rows(made) if with_rows else None)


def capacities(
    policies: Mapping[str, Policy],
    sharings: Mapping[str, Sharing],
    workload: Workload,
    attainment: float,
    how: How,
    cache: RunCache | None,
    workers: Workers,
) -> Mapping[str, Capacity]:
    """The capacity of each policy on one replica; a cached search is not repeated."""
    keys = {}
    if cache is not None:
        keys = {name: key_of(named(name, policy), workload, how, attainment) for name, policy in policies.items()}

    def work(name: str, number: int) -> tuple[Any, ...]:
        return policies[name], number, sharings[name], workload, how, attainment

    results = each_once(list(policies), keys, Capacity, _search, work, cache, workers)
    return {name: results[name] for name in policies}


def _search(
    policy: Policy, number: int, sharing: Sharing, workload: Workload, how: How, attainment: float
) -> tuple[int, tuple[Capacity, None]]:
    assert how.slo is not None
    return number, (capacity(policy, sharing, workload, how.batching, how.slo, attainment, how.seed), None)


def each_once(
    every: Sequence[K],
    keys: Mapping[K, str],
    kind: type[T],
    run: Callable[..., tuple[int, tuple[T, pa.Table | None]]],
    work: Callable[[K, int], tuple[Any, ...]],
    cache: RunCache | None,
    workers: Workers,
    room: Callable[[Sequence[K]], int | None] = lambda left: None,
) -> dict[K, T]:
    """Cached results, by their keys; ``run`` of ``work`` (with its number) makes the rest, which is cached."""
    results: dict[K, T] = {}
    if cache is not None:
        known = {each: cache.of(keys[each], kind) for each in every}
        results = {each: result for each, result in known.items() if result is not None}
    left = [each for each in every if each not in results]

    def done(number: int, result: tuple[T, pa.Table | None]) -> None:
        results[left[number]] = result[0]
        if cache is not None:
            cache.keep(keys[left[number]], *result)

    workers.each(run, [work(each, number) for number, each in enumerate(left)], done, room=room(left))
    return results


_LONG = 20_000_000  # tokens of all runs, which take some seconds
_FIRST = 500  # requests of a replica that are timed
REQUEST_BYTES, ROUND_BYTES = 239.0, 116.0
"""Peak memory, fitted to ten runs of AR, SD and SSD with 1,000 to 300,000 requests, within 6 MB of each."""


class RunNeeds(Record):
    """The cost of ``runs``, each of up to ``requests`` and ``tokens``.

    ``core_s`` are core-seconds of this machine for all of them, ``memory_bytes`` the most of one run.
    """

    runs: int
    requests: int
    tokens: int
    core_s: float
    memory_bytes: float


def needs(policies: Mapping[str, tuple[Policy, int]], loads: Sequence[Workload], how: How) -> RunNeeds | None:
    """The cost of running policies (each with its number of runs) at loads; None if the runs are short.

    The first requests of the slowest and of the fastest load are timed: the fewer decode together, the more rounds.
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
        metrics = measure(run(policy, first, how), how.slo)  # prices the rounds, so that later runs need not
        longer = min(longest, max(load.requests, needed_for_precision(metrics, how) * first.requests)) / load.requests
        to_come = longer * float(load.output_tokens.sum())
        if is_long(to_come):
            run(policy, first, how, tokens=to_come)  # compiles, so that later runs need not
        start_s = process_time()
        made = run(policy, first, how, tokens=to_come)
        measure(made, how.slo)
        passed_s = process_time() - start_s
        times = longer * tokens / float(first.output_tokens.sum())
        core_s += times * runs_each * passed_s / len(ends)
        rounds, requests = times * made.columns.shape[1], longer * load.requests
        memory_bytes, most = max(memory_bytes, requests * REQUEST_BYTES + rounds * ROUND_BYTES), max(most, longer)
    return RunNeeds(runs, round(most * slowest.requests), round(most * tokens), core_s, memory_bytes)
