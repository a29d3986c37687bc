"""Serving: what users see at which rate, and from which rate on another strategy is the better one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from ssdsim import strategies
from ssdsim.answers.serving.batching import Batching
from ssdsim.answers.serving.capacity import Capacity, capacity
from ssdsim.answers.serving.closed_form import Served, Sharing, sharing
from ssdsim.answers.serving.crossing import Crossing, Side, crossing
from ssdsim.answers.serving.fleet import Router, simulate_fleet
from ssdsim.answers.serving.journal import Run
from ssdsim.answers.serving.kept import keep, kept, key_of
from ssdsim.answers.serving.loop import simulate
from ssdsim.answers.serving.metrics import Metrics, measure
from ssdsim.answers.serving.passes import prompt_warnings
from ssdsim.answers.serving.policies import Policies, policies
from ssdsim.answers.serving.policy import Policy
from ssdsim.answers.serving.runs import each_run
from ssdsim.answers.serving.slo import Slo
from ssdsim.answers.serving.verdict import Verdict, verdict
from ssdsim.answers.serving.workload import Workload
from ssdsim.checks import whole, within
from ssdsim.errors import InputError, nearest
from ssdsim.intervals import Interval
from ssdsim.runs.serving_folder import ServingFolder
from ssdsim.scenario.configuration import subject_among

ServeEngine = Literal["auto", "closed", "loop"]
DRAWS = 200  # of the timings' errors behind capacities and crossings
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Point:
    """One load: ``rate`` requests a second in all (None in a closed loop), what the closed form says of each policy
    there, and what a run of each measured.
    """

    rate: float | None
    workload: Workload
    closed: Mapping[str, Served]
    metrics: Mapping[str, Metrics]


@dataclass(frozen=True)
class Serving:
    """``points`` in the order of the rates. ``capacities`` are requests a second a replica beyond which a policy's
    queue grows without end, with 95 % intervals from the timings' errors; ``crossings`` of the subject with every
    other one. ``within_slo`` are the rates up to which a share ``attainment`` of requests is good, where asked for.
    """

    policies: Policies
    batching: Batching
    slo: Slo | None
    subject: str
    seed: int
    engine: str
    replicas: int
    points: Sequence[Point]
    sharings: Mapping[str, Sharing]
    capacities: Mapping[str, tuple[float, Interval | None]]
    crossings: Sequence[Crossing]
    verdict: Verdict
    warnings: Sequence[str]
    attainment: float | None = None
    within_slo: Mapping[str, Capacity] = field(default_factory=dict)


def serve(
    workload: Workload,
    *,
    rates: Sequence[float] | None = None,
    batching: Batching | None = None,
    slo: Slo | None = None,
    attainment: float | None = None,
    replicas: int = 1,
    router: Router = "round-robin",
    schedule: str | Path | None = None,
    engine: ServeEngine = "auto",
    seed: int = 0,
    jobs: int = 1,
    progress: Progress | None = None,
    folder: ServingFolder | None = None,
    **options: Any,
) -> Serving:
    """Serve a workload by each strategy, on replicas of its own.

    Parameters
    ----------
    workload : requests (:func:`ssdsim.answers.serving.workload.synthetic`, or of a file).
    rates : requests a second at which the workload comes, in its own pattern; by default its own.
    batching : how the engine makes batches.
    slo : what a good request keeps.
    attainment : search for the highest rate at which such a share of requests is good.
    replicas, router : so many share the requests; capacities and crossings are of one.
    schedule : a file of ``ssdsim export``, which then decides what runs.
    engine : ``closed`` the closed form alone; ``loop`` and ``auto`` also run every round.
    folder : keeps what each run measured, and knows what it kept.
    options : those of a scenario but for batch and context. ``strategies`` may have ``auto`` in it.

    Raises
    ------
    InputError : one line that says what, where, and what is allowed.
    """
    whole("--seed", seed, 0)
    if engine not in get_args(ServeEngine):
        raise InputError(f"unknown engine '{engine}'{nearest(engine, get_args(ServeEngine))}")
    if attainment is not None and (slo is None or engine == "closed" or workload.concurrency is not None):
        raise InputError("--capacity needs an --slo, arrivals, and runs (not --engine closed)")
    batching = batching or Batching()
    plan = None if schedule is None else Path(schedule)
    subject_asked = options.pop("subject", None)
    found = policies(options, workload, batching, plan)
    subject = subject_among(tuple(found.fixed), subject_asked)
    sides = {name: _side(name, policy, workload, batching, found, seed) for name, policy in found.by_name.items()}
    loads = _loads(workload, rates) if attainment is None or rates is not None else []
    runs: Mapping[tuple[int, str], Metrics] = {}
    if engine != "closed":
        how = _How(batching, slo, seed, replicas, router)
        runs = _runs(found, loads, how, plan, jobs, progress, folder)
    points = [
        Point(
            rate=_rate(load),
            workload=load,
            closed=_closed(sides, _rate(load), replicas),
            metrics={name: runs[at, name] for name in found.by_name} if runs else {},
        )
        for at, load in enumerate(loads)
    ]
    crossings = [
        crossing(sides[subject], sides[name], basis)
        for name in _rivals(subject, found)
        for basis in (("replica", "gpu") if sides[name].gpus != sides[subject].gpus else ("replica",))
    ]
    within_slo = {}
    if attainment is not None and slo is not None:
        within("--attainment", attainment, 0.0, 1.0)
        searches = [(p, sides[n].sharing, workload, batching, slo, attainment, seed) for n, p in found.by_name.items()]
        within_slo = dict(zip(found.by_name, each_run(capacity, searches, jobs, progress), strict=True))
    capacities = {name: _capacity(side) for name, side in sides.items()}
    each = [None if point.rate is None else point.rate / replicas for point in points]
    said = verdict(subject, sides, crossings, each)
    return Serving(
        warnings=_warnings(found, workload, batching),
        policies=found,
        batching=batching,
        slo=slo,
        subject=subject,
        seed=seed,
        engine="closed" if engine == "closed" else "loop",
        replicas=replicas,
        points=points,
        sharings={name: side.sharing for name, side in sides.items()},
        capacities=capacities,
        crossings=crossings,
        verdict=said,
        attainment=attainment,
        within_slo=within_slo,
    )


@dataclass(frozen=True)
class _How:
    """All that shapes a run beside its policy and its load."""

    batching: Batching
    slo: Slo | None
    seed: int
    replicas: int
    router: Router


def _warnings(found: Policies, workload: Workload, batching: Batching) -> list[str]:
    """Those of decoding, and of the longest part of a prompt that a pass takes."""
    site = found.configuration.site
    if batching.prefill == "none" or site is None:
        return found.configuration.warnings
    longest = int(workload.input_tokens.max())
    tokens = min(longest, batching.token_budget) if batching.prefill == "chunked" else longest
    return sorted({*found.configuration.warnings, *prompt_warnings(site, tokens)})


def _runs(
    found: Policies,
    loads: Sequence[Workload],
    how: _How,
    plan: Path | None,
    jobs: int,
    progress: Progress | None,
    folder: ServingFolder | None,
) -> Mapping[tuple[int, str], Metrics]:
    """What each policy measures at each load; what a folder has kept is not run again."""
    every = [(at, name) for at in range(len(loads)) for name in found.by_name]
    runs: dict[tuple[int, str], Metrics] = {}
    keys: dict[tuple[int, str], str] = {}
    if folder is not None:
        text = "" if plan is None else plan.read_text(encoding="utf-8")
        settings = found.configuration.settings
        shape = (how.seed, how.replicas, how.router, text)
        for at, name in every:
            keys[at, name] = key_of(name, settings, loads[at], how.batching, how.slo, shape)
            before = kept(folder, keys[at, name])
            if before is not None:
                runs[at, name] = before
    left = [each for each in every if each not in runs]

    def done(number: int, metrics: Metrics) -> None:
        runs[left[number]] = metrics
        if folder is not None:
            keep(folder, keys[left[number]], metrics)

    work = [
        (found.by_name[name], loads[at], how.batching, how.slo, how.seed, how.replicas, how.router) for at, name in left
    ]
    each_run(measured, work, jobs, progress, done)
    return runs


def measured(
    policy: Policy, workload: Workload, batching: Batching, slo: Slo | None, seed: int, replicas: int, router: Router
) -> Metrics:
    """One run in numbers."""
    return measure(run(policy, workload, batching, seed, replicas, router), slo)


def run(policy: Policy, workload: Workload, batching: Batching, seed: int, replicas: int, router: Router) -> Run:
    """One run: of one replica the loop, of several on SimPy's clock."""
    if replicas == 1:
        return simulate(policy, workload, batching, seed)
    return simulate_fleet(policy, workload, batching, replicas, router, seed)


def _closed(sides: Mapping[str, Side], rate: float | None, replicas: int) -> dict[str, Served]:
    return {} if rate is None else {name: side.sharing.served(rate / replicas) for name, side in sides.items()}


def _loads(workload: Workload, rates: Sequence[float] | None) -> list[Workload]:
    if workload.concurrency is not None or rates is None:
        return [workload]
    return [workload.at_rate(rate) for rate in rates]


def _rate(workload: Workload) -> float | None:
    return None if workload.concurrency is not None or not np.isfinite(workload.rate) else workload.rate


def _side(name: str, policy: Policy, workload: Workload, batching: Batching, found: Policies, seed: int) -> Side:
    mean, drawn = sharing(policy, workload, batching, found.configuration.errors(DRAWS, seed))
    return Side(name, policy.title, policy.gpus, mean, drawn)


def _rivals(subject: str, found: Policies) -> list[str]:
    """The fixed strategies beside the subject, the one that it is held against first before the others."""
    rival = strategies.ALL.named(subject).rival
    return sorted((name for name in found.fixed if name != subject), key=lambda name: name != rival)


def _capacity(side: Side) -> tuple[float, Interval | None]:
    interval = None if side.drawn is None else Interval.of(np.asarray(side.drawn.capacity))
    return float(side.sharing.capacity), interval
