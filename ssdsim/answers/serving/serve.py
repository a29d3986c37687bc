"""Serving: what users see at which rate, and from which rate on another strategy is the better one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from ssdsim import strategies
from ssdsim.answers.doubts import SURE, Basis
from ssdsim.answers.serving.advice import Advice, advice
from ssdsim.answers.serving.batching import Batching
from ssdsim.answers.serving.capacity import Capacity
from ssdsim.answers.serving.closed_form import Served, Sharing, sharing
from ssdsim.answers.serving.crossing import Crossing, Side, crossing
from ssdsim.answers.serving.fleet import Router
from ssdsim.answers.serving.kept import Kept
from ssdsim.answers.serving.measuring import How, Progress, Workers, capacities, lines, runs
from ssdsim.answers.serving.metrics import Metrics
from ssdsim.answers.serving.passes import prompt_warnings
from ssdsim.answers.serving.policies import Policies, policies
from ssdsim.answers.serving.policy import Policy
from ssdsim.answers.serving.slo import Slo
from ssdsim.answers.serving.workload import Workload
from ssdsim.answers.workers import check_workers
from ssdsim.base.checks import whole, within
from ssdsim.base.errors import InputError, nearest
from ssdsim.base.intervals import Interval
from ssdsim.runs.serving_folder import ServingFolder
from ssdsim.scenario.engines import Engine
from ssdsim.scenario.options import ALL

if TYPE_CHECKING:
    import pyarrow as pa

ServeEngine = Literal["auto", "closed", "loop"]
DRAWS = 200  # of what is not known behind capacities and crossings


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
class Apart:
    """A strategy that the engine does not run: its capacity, and by the closed form how many times the tokens/s of the
    best that it runs a request would have at each load (None where either is saturated).
    """

    title: str
    lacking: str
    capacity: float
    worth: Sequence[float | None]

    @property
    def sentence(self) -> str:
        """``with SSD, which vLLM does not have: 1.31x, saturated from 12.3 requests/s``."""
        worth = ", ".join(f"{each:.2f}x" for each in self.worth if each is not None)
        saturated = f"saturated from {self.capacity:.1f} requests/s"
        return f"with {self.title}, {self.lacking}: {', '.join(filter(None, [worth, saturated]))}"


@dataclass(frozen=True)
class Serving:
    """``points`` in the order of the rates. ``capacities`` are requests a second a replica beyond which a policy's
    queue grows without end, with 95 % intervals from all that is not known; ``crossings`` of the subject with every
    other one. ``apart`` are the strategies that the engine does not run. ``within_slo`` are the rates up to which a
    share ``attainment`` of requests is good, where asked for. ``requests`` has a line a request of every run, where a
    folder was given.
    """

    policies: Policies
    batching: Batching
    slo: Slo | None
    subject: str
    seed: int
    engine: str
    replicas: int
    router: Router
    draft_pool: int | None
    points: Sequence[Point]
    sharings: Mapping[str, Sharing]
    capacities: Mapping[str, tuple[float, Interval | None]]
    crossings: Sequence[Crossing]
    verdict: Advice
    warnings: Sequence[str]
    attainment: float | None = None
    within_slo: Mapping[str, Capacity] = field(default_factory=dict)
    apart: Mapping[str, Apart] = field(default_factory=dict)
    requests: pa.Table | None = None

    @property
    def how(self) -> How:
        return How(self.batching, self.slo, self.seed, self.replicas, self.router)


def serve(
    workload: Workload,
    *,
    rates: Sequence[float] | None = None,
    batching: Batching | None = None,
    slo: Slo | None = None,
    attainment: float | None = None,
    replicas: int = 1,
    router: Router = "round-robin",
    draft_pool: int | None = None,
    schedule: str | Path | None = None,
    engine: ServeEngine = "auto",
    seed: int = 0,
    precision: float | None = None,
    jobs: int = 1,
    cluster: str | None = None,
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
    draft_pool : drafts for all replicas, each of which serves as many (``targets``); by default each replica has its
        own.
    schedule : a file of ``ssdsim export``, which then decides what runs.
    engine : ``closed`` the closed form alone; ``loop`` and ``auto`` also run every round.
    precision : runs get more requests until the 95 % interval of the mean time per token is so small a share of it.
    jobs, cluster : who makes the runs, as :func:`ssdsim.sweep` takes them.
    folder : keeps what each run and each search found, and knows what it kept.
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
    if precision is not None:
        _check_precision(precision, workload, engine)
    options["targets"] = _targets(options.pop("targets", None), replicas, draft_pool)
    if workload.output_tokens.max() <= 1:
        raise InputError("no answer has a second token, so nothing is decoded: a strategy changes nothing")
    check_workers(jobs, cluster)
    workers = Workers(jobs, cluster, progress)
    batching = batching or Batching()
    plan = None if schedule is None else Path(schedule)
    subject_asked = options.pop("subject", None)
    found = policies(options, workload, batching, plan)
    _check_shared(options["targets"], found)
    subject = found.engine.subject((*found.fixed, *found.apart), subject_asked)
    sides = {name: _side(name, policy, workload, batching, found, seed) for name, policy in found.by_name.items()}
    loads = _loads(workload, rates) if attainment is None or rates is not None else []
    how = How(batching, slo, seed, replicas, router, precision)
    kept = None
    if folder is not None:
        text = "" if plan is None else plan.read_text(encoding="utf-8")
        kept = Kept(folder, found.configuration.settings, text)
    made = {} if engine == "closed" else runs(found.by_name, loads, how, kept, workers)
    points = [
        Point(
            rate=load.offered,
            workload=load,
            closed=_closed(sides, load.offered, replicas),
            metrics={name: made[at, name] for name in found.by_name} if made else {},
        )
        for at, load in enumerate(loads)
    ]
    crossings = [
        crossing(sides[subject], sides[name], basis)
        for name in _rivals(subject, found)
        for basis in (("replica", "gpu") if sides[name].gpus != sides[subject].gpus else ("replica",))
    ]
    within_slo: Mapping[str, Capacity] = {}
    if attainment is not None:
        within("--attainment", attainment, 0.0, 1.0)
        sharings = {name: side.sharing for name, side in sides.items()}
        within_slo = capacities(found.by_name, sharings, workload, attainment, how, kept, workers)
    each = [None if point.rate is None else point.rate / replicas for point in points]
    scenarios = found.configuration.scenarios
    rests_on = Basis.of(scenarios[subject], scenarios[crossings[0].over.name], None) if crossings else SURE
    said = advice(subject, sides, crossings, each, rests_on)
    return Serving(
        warnings=_warnings(found, workload, batching),
        policies=found,
        batching=batching,
        slo=slo,
        subject=subject,
        seed=seed,
        engine="closed" if engine == "closed" else "loop",
        replicas=replicas,
        router=router,
        draft_pool=None if options["targets"] is None else replicas // options["targets"],
        points=points,
        sharings={name: side.sharing for name, side in sides.items()},
        capacities={name: _capacity(side) for name, side in sides.items()},
        crossings=crossings,
        verdict=said,
        attainment=attainment,
        within_slo=within_slo,
        apart={
            name: _apart(_side(name, policy, workload, batching, found, seed), found.engine, sides, each)
            for name, policy in found.apart.items()
        },
        requests=lines(found.by_name, loads, how, kept) if kept is not None and made else None,
    )


def _targets(given: int | None, replicas: int, draft_pool: int | None) -> int | None:
    """How many replicas share a draft; None where nobody says."""
    if draft_pool is None:
        if given is not None and replicas % ALL["targets"].checked(given):
            raise InputError(f"--targets {given} share a draft: give --replicas {given}, or a multiple, not {replicas}")
        return given
    if given is not None:
        raise InputError("--draft-pool has no effect with --targets (which says how many replicas share a draft)")
    if replicas == 1:
        raise InputError("--draft-pool has no effect with one replica (its draft has a device of its own)")
    whole("--draft-pool", draft_pool, 1, replicas)
    if replicas % draft_pool:
        raise InputError(f"--draft-pool {draft_pool}: {replicas} replicas cannot share {draft_pool} drafts evenly")
    return replicas // draft_pool


def _check_shared(targets: int | None, found: Policies) -> None:
    """Raise :class:`InputError` where a draft is to be shared and nothing drafts on devices that can be."""
    if targets is None or targets == 1:
        return
    ranked = [*found.by_name.values(), *found.apart.values()]
    if all(policy.devices.targets == 1 for policy in ranked):
        named = ", ".join(policy.title for policy in ranked)
        raise InputError(
            f"{targets} replicas cannot share a draft of {named}: SSD's can, and SD's with --sd-draft separate"
        )


def _check_precision(precision: float, workload: Workload, engine: str) -> None:
    within("--precision", precision, 0.001, 1.0)
    if engine == "closed":
        raise InputError("--precision has no effect with --engine closed (it runs nothing)")
    if workload.made is None:
        raise InputError("--precision has no effect with a log (there are no more requests than it has)")


def _warnings(found: Policies, workload: Workload, batching: Batching) -> list[str]:
    """Those of decoding, and of the longest part of a prompt that a pass takes."""
    site = found.configuration.site
    if batching.prefill == "none" or site is None:
        return found.configuration.warnings
    longest = int(workload.input_tokens.max())
    tokens = min(longest, batching.token_budget) if batching.prefill == "chunked" else longest
    return sorted({*found.configuration.warnings, *prompt_warnings(site, tokens)})


def _closed(sides: Mapping[str, Side], rate: float | None, replicas: int) -> dict[str, Served]:
    return {} if rate is None else {name: side.sharing.served(rate / replicas) for name, side in sides.items()}


def _loads(workload: Workload, rates: Sequence[float] | None) -> list[Workload]:
    if workload.concurrency is not None or rates is None:
        return [workload]
    return [workload.at_rate(rate) for rate in rates]


def _side(name: str, policy: Policy, workload: Workload, batching: Batching, found: Policies, seed: int) -> Side:
    mean, drawn, across = sharing(policy, workload, batching, found.configuration.errors(DRAWS, seed))
    return Side(name, policy.title, policy.gpus, mean, drawn, across)


def _rivals(subject: str, found: Policies) -> list[str]:
    """The fixed strategies beside the subject, the one that it is held against first before the others."""
    rival = strategies.ALL.named(subject).rival
    return sorted((name for name in found.fixed if name != subject), key=lambda name: name != rival)


def _apart(side: Side, engine: Engine, sides: Mapping[str, Side], rates: Sequence[float | None]) -> Apart:
    lacking = engine.lacks(side.name)
    assert lacking is not None  # else it would be among the policies

    def worth(rate: float | None) -> float | None:
        if rate is None:
            return None
        fastest = min(float(each.sharing.served(rate).tpot_s) for each in sides.values())
        own = float(side.sharing.served(rate).tpot_s)
        return fastest / own if np.isfinite(fastest) and np.isfinite(own) else None

    return Apart(side.title, lacking, float(side.sharing.capacity), [worth(rate) for rate in rates])


def _capacity(side: Side) -> tuple[float, Interval | None]:
    interval = None if side.drawn is None else Interval.of(np.asarray(side.drawn.capacity))
    return float(side.sharing.capacity), interval
