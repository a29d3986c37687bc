"""Serving: what users see at which rate, and from which rate on another strategy is the better one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from ssdsim import strategies
from ssdsim.answers.evidence import SURE, RatioEvidence
from ssdsim.answers.workers import Workers
from ssdsim.base.display import Display, Displayable
from ssdsim.base.errors import InputError
from ssdsim.base.free_memory import free_memory_bytes
from ssdsim.base.intervals import Interval
from ssdsim.base.option_record import option_names, pop_record
from ssdsim.base.record import Record, field
from ssdsim.pricing.occupancy import format_count
from ssdsim.question.engines import Engine
from ssdsim.question.options import refuse_others
from ssdsim.runs.answer_folders import ServingFolder
from ssdsim.serving.batching import Batching
from ssdsim.serving.capacity import MOST_RUNS, Capacity
from ssdsim.serving.closed_form import Served, Sharing, sharing
from ssdsim.serving.crossing import Advice, Crossing, Side, advice, crossing
from ssdsim.serving.kept import Kept
from ssdsim.serving.load import Load
from ssdsim.serving.measuring import How, capacities, lines, runs
from ssdsim.serving.metrics import Metrics
from ssdsim.serving.needs import Needs, needs
from ssdsim.serving.options import Effort, Fleet, Goal
from ssdsim.serving.pace import Pace
from ssdsim.serving.passes import prompt_warnings
from ssdsim.serving.policies import AUTO, Policies, policies
from ssdsim.serving.policies import taken as taken_by_serving
from ssdsim.serving.policy import Policy
from ssdsim.serving.workload import Workload
from ssdsim.strategies.protocols.shared import TARGETS

if TYPE_CHECKING:
    import pyarrow as pa

    from ssdsim.serving.typed_options import ServeOptions

DRAWS = 200  # of what is not known behind capacities and crossings
RECORDS = (Load, Fleet, Batching, Goal, Effort, Workers)
"""Whose options ``serve`` has beside a scenario's."""


class Point(Record):
    """One load: ``rate`` requests a second in all (None in a closed loop), what the closed form says of each policy
    there, and what a run of each measured. ``fixed_k`` is the pace of each K between which a table switches, for
    good.
    """

    rate: float | None
    workload: Workload
    closed: Mapping[str, Served]
    metrics: Mapping[str, Metrics]
    fixed_k: Mapping[int, Pace] = field(default_factory=dict)

    @property
    def best_k(self) -> int | None:
        """The fixed K of the least time per output token; None where nothing switches between Ks."""
        return min(self.fixed_k, key=lambda k: self.fixed_k[k].tpot.value) if self.fixed_k else None

    @property
    def best_k_e2el(self) -> int | None:
        """The fixed K of the least time to the last token, which is the better judge (:class:`Pace`)."""
        return min(self.fixed_k, key=lambda k: self.fixed_k[k].e2el.value) if self.fixed_k else None

    @property
    def switching(self) -> Pace:
        """Pace of the schedule."""
        if AUTO in self.metrics:
            return Pace.of_run(self.metrics[AUTO])
        return Pace.of_closed_form(self.closed[AUTO])


class Apart(Record):
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


class Serving(Displayable, Record):
    """``points`` in the order of the rates. ``capacities`` are requests a second a replica beyond which a policy's
    queue grows without end, with 95 % intervals from all that is not known; ``crossings`` of the subject with every
    other one, ``first_crossings`` those with the rival that the verdict names. ``apart`` are the strategies that the
    engine does not run. ``within_slo`` are the rates up to which a share of requests is good, where asked for.
    ``requests`` has a line a request of every run, where a folder was given.
    """

    policies: Policies
    how: How
    goal: Goal
    engine: str
    subject: str
    draft_pool: int | None
    points: Sequence[Point]
    sides: Mapping[str, Side]
    capacities: Mapping[str, tuple[float, Interval | None]]
    first_crossings: Sequence[Crossing]
    verdict: Advice
    warnings: Sequence[str]
    within_slo: Mapping[str, Capacity] = field(default_factory=dict)
    apart: Mapping[str, Apart] = field(default_factory=dict)
    requests: pa.Table | None = None

    @property
    def sharings(self) -> dict[str, Sharing]:
        return {name: side.sharing for name, side in self.sides.items()}

    @cached_property
    def crossings(self) -> list[Crossing]:
        """The first rival's before the others', which are worked out when somebody asks."""
        others = _rivals(self.subject, self.policies)[1:]
        return [*self.first_crossings, *_crossings(self.subject, self.sides, others)]

    @property
    def display(self) -> Display:
        """A row a policy; what each load gives is in ``points``."""
        rows = [
            (self.policies.by_name[name].title, format_count(self.policies.by_name[name].gpus), f"{rate:.1f}")
            for name, (rate, _) in self.capacities.items()
        ]
        loads = f"{len(self.points)} load{'s' if len(self.points) != 1 else ''}"
        return Display(f"{loads} served", ("", "GPUs", "saturated from requests/s"), rows, self.verdict.sentence)


def serve(
    *, schedule: str | Path | None = None, folder: ServingFolder | None = None, **options: Unpack[ServeOptions]
) -> Serving:
    """Serve requests by each strategy, on replicas of its own: ``serve(rate=2.0, engine="closed", p_hit=0.9)``.

    Parameters
    ----------
    schedule : a file of ``ssdsim export``, which then decides what runs.
    folder : keeps what each run and each search found, and knows what it kept.
    options : those of ``ssdsim serve``: which requests come (``rate``, ``input_len``, ...), how batches are made
        (``prefill``, ``max_batch``, ...), what is good (``slo``, ``capacity``), who works (``engine``, ``jobs``, ...);
        and those of a scenario but for batch and context. ``strategies`` may have ``auto`` in it.

    Raises
    ------
    InputError : one line that says what, where, and what is allowed.
    """
    given: dict[str, Any] = {**options}
    of_records = [name for record in RECORDS for name in option_names(record).values()]
    refuse_others("serve", given, (*of_records, *taken_by_serving()))
    load, fleet, batching = pop_record(Load, given), pop_record(Fleet, given), pop_record(Batching, given)
    goal, effort, workers = pop_record(Goal, given), pop_record(Effort, given), pop_record(Workers, given)
    return served(load, fleet, batching, goal, effort, workers, schedule=schedule, folder=folder, **given)


def served(
    load: Load,
    fleet: Fleet | None = None,
    batching: Batching | None = None,
    goal: Goal | None = None,
    effort: Effort | None = None,
    workers: Workers | None = None,
    *,
    schedule: str | Path | None = None,
    folder: ServingFolder | None = None,
    hears_needs: Callable[[Needs], None] = lambda needs: None,
    **options: Any,
) -> Serving:
    """:func:`serve`, whose options but for a scenario's are records. Capacities and crossings are of one replica.

    Who ``hears_needs`` is told what long runs take before they begin.
    """
    fleet, batching, goal, effort = fleet or Fleet(), batching or Batching(), goal or Goal(), effort or Effort()
    options["targets"] = fleet.targets(options.pop("targets", None))
    workload = load.arrives(effort.seed, goal.capacity)
    _check(workload, goal, effort)
    plan, subject_asked = None if schedule is None else Path(schedule), options.pop("subject", None)
    chosen = policies(options, workload, batching, plan)
    _check_shared(options["targets"], chosen)
    if subject_asked in chosen.no_room:
        raise InputError(f"--subject {subject_asked}: {chosen.no_room[subject_asked]}")
    subject = chosen.engine.subject((*chosen.fixed, *chosen.apart), subject_asked)
    how = How(batching, goal.bounds, fleet, effort.seed, effort.precision)
    kept = None
    if folder is not None:
        text = "" if plan is None else plan.read_text(encoding="utf-8")
        kept = Kept(folder, chosen.configuration.settings, text)
    asked = _Asked(chosen, workload, how, goal, effort, workers or Workers(), kept, options["targets"], hears_needs)
    return asked.served(subject, load.rates)


class _Asked(Record):
    """Policies that serve a workload: ``how``, what was ``kept`` of it before, how many ``targets`` share a draft."""

    policies: Policies
    workload: Workload
    how: How
    goal: Goal
    effort: Effort
    workers: Workers
    kept: Kept | None
    targets: int | None
    hears_needs: Callable[[Needs], None]

    def served(self, subject: str, rates: Sequence[float] | None) -> Serving:
        """Serve at each of the rates, and find beyond which a queue grows without end."""
        policies, fleet, searched = self.policies, self.how.fleet, self.goal.searched
        sides = {name: self._side(name, policy) for name, policy in policies.by_name.items()}
        sharings = {name: side.sharing for name, side in sides.items()}
        loads = _loads(self.workload, rates) if searched is None or rates is not None else []
        fixed_k = {_run_of(k): policy for k, policy in policies.fixed_k.items()}
        each_policy = {**policies.by_name, **fixed_k}
        room = partial(self._room, each_policy, loads)
        made = runs(each_policy, loads, self.how, self.kept, self.workers, room) if self.effort.runs else {}
        points = [
            Point(
                rate=load.offered,
                workload=load,
                closed=_closed(sides, load.offered, fleet.replicas),
                metrics={name: made[at, name] for name in policies.by_name} if made else {},
                fixed_k={k: Pace.of_run(made[at, _run_of(k)]) for k in policies.fixed_k}
                if made
                else self._closed_pace(load.offered),
            )
            for at, load in enumerate(loads)
        ]
        first = _crossings(subject, sides, _rivals(subject, policies)[:1])
        each = [None if point.rate is None else point.rate / fleet.replicas for point in points]
        return Serving(
            warnings=_warnings(policies, self.workload, self.how.batching),
            policies=policies,
            how=self.how,
            goal=self.goal,
            engine="loop" if self.effort.runs else "closed",
            subject=subject,
            draft_pool=None if self.targets is None else fleet.replicas // self.targets,
            points=points,
            sides=sides,
            capacities={name: _capacity(side) for name, side in sides.items()},
            first_crossings=first,
            verdict=advice(subject, sides, first, each, _rests_on(subject, first, policies)),
            within_slo={} if searched is None else self._within_slo(searched, sharings),
            apart={
                name: _apart(self._side(name, policy), policies.engine, sides, each)
                for name, policy in policies.apart.items()
            },
            requests=None if self.kept is None or not made else lines(policies.by_name, loads, self.how, self.kept),
        )

    def _room(
        self, policies: Mapping[str, Policy], loads: Sequence[Workload], left: Sequence[tuple[int, str]]
    ) -> int | None:
        """Number of the runs ``left`` (of a load's number, and a policy's name) that free memory holds at once; None of
        short ones. Tell what long ones take.
        """
        counted = {}
        for name, policy in policies.items():
            searching = MOST_RUNS if self.goal.capacity and name in self.policies.by_name else 0
            if times := sum(of == name for _, of in left) + searching:
                counted[name] = policy, times
        to_come = [loads[at] for at, _ in left] or [self.workload]
        said = needs(counted, to_come, self.how) if counted else None
        if said is None:
            return None
        at_once, free = min(self.workers.at_once, said.runs), free_memory_bytes()
        if said.memory_bytes * at_once > free:
            beside = f", {at_once} at once" if at_once > 1 else ""
            raise InputError(
                f"a run of {said.requests:,} requests takes about {said.memory_bytes / 1e9:.1f} GB{beside}, and "
                f"{free / 1e9:.1f} are free: give fewer (--requests, --seconds; --limit, --slice of a log), or "
                "--engine closed, which runs nothing"
            )
        self.hears_needs(said)
        return int(free / said.memory_bytes)

    def _closed_pace(self, rate: float | None) -> dict[int, Pace]:
        """Pace of each fixed K by the closed form."""
        if rate is None:
            return {}
        a_replica = rate / self.how.fleet.replicas
        return {k: Pace.of_closed_form(made.served(a_replica)) for k, made in self._fixed_sharings.items()}

    @cached_property
    def _fixed_sharings(self) -> Mapping[int, Sharing]:
        """Sharing of each fixed K, which no rate changes."""
        return {k: sharing(p, self.workload, self.how.batching)[0] for k, p in self.policies.fixed_k.items()}

    def _side(self, name: str, policy: Policy) -> Side:
        errors = self.policies.configuration.errors(DRAWS, self.how.seed)
        return Side(name, policy.title, policy.gpus, *sharing(policy, self.workload, self.how.batching, errors))

    def _within_slo(self, share: float, sharings: Mapping[str, Sharing]) -> Mapping[str, Capacity]:
        by_name = self.policies.by_name
        return capacities(by_name, sharings, self.workload, share, self.how, self.kept, self.workers)


def _check(workload: Workload, goal: Goal, effort: Effort) -> None:
    """Raise :class:`InputError` where an answer cannot be made in the way that is asked for."""
    if goal.capacity and (goal.slo is None or not effort.runs or workload.concurrency is not None):
        raise InputError("--capacity needs an --slo, arrivals, and runs (not --engine closed)")
    if effort.precision is not None and not effort.runs:
        raise InputError("--precision has no effect with --engine closed (it runs nothing)")
    if effort.precision is not None and workload.made is None:
        raise InputError("--precision has no effect with a log (there are no more requests than it has)")
    if workload.output_tokens.max() <= 1:
        raise InputError("no answer has a second token, so nothing is decoded: a strategy changes nothing")


def _check_shared(targets: int | None, policies: Policies) -> None:
    """Raise :class:`InputError` where a draft is to be shared and nothing drafts on devices that can be."""
    if targets is None or targets == 1:
        return
    ranked = [*policies.by_name.values(), *policies.apart.values()]
    if all(policy.devices.targets == 1 for policy in ranked):
        named = ", ".join(policy.title for policy in ranked)
        can = ", ".join(strategy.title for strategy in strategies.ALL if TARGETS in strategy.options)
        raise InputError(
            f"{targets} replicas cannot share a draft of {named}: it must be one of {can}, on devices of its own"
        )


def _warnings(policies: Policies, workload: Workload, batching: Batching) -> list[str]:
    """Warnings of decoding, and of the longest part of a prompt that a pass takes."""
    site = policies.configuration.site
    if batching.prefill == "none" or site is None:
        return policies.configuration.warnings
    longest = int(workload.input_tokens.max())
    tokens = min(longest, batching.token_budget) if batching.prefill == "chunked" else longest
    return sorted({*policies.configuration.warnings, *prompt_warnings(site, tokens)})


def _run_of(k: int) -> str:
    """Key of a fixed K's run."""
    return f"K {k}"


def _closed(sides: Mapping[str, Side], rate: float | None, replicas: int) -> dict[str, Served]:
    return {} if rate is None else {name: side.sharing.served(rate / replicas) for name, side in sides.items()}


def _loads(workload: Workload, rates: Sequence[float] | None) -> list[Workload]:
    if workload.concurrency is not None or rates is None:
        return [workload]
    return [workload.at_rate(rate) for rate in rates]


def _crossings(subject: str, sides: Mapping[str, Side], rivals: Sequence[str]) -> list[Crossing]:
    """Crossings of the subject with each rival, and GPU for GPU too where they have not as many."""
    return [
        crossing(sides[subject], sides[name], basis)
        for name in rivals
        for basis in (("replica", "gpu") if sides[name].gpus != sides[subject].gpus else ("replica",))
    ]


def _rests_on(subject: str, crossings: Sequence[Crossing], policies: Policies) -> RatioEvidence:
    scenarios = policies.configuration.scenarios
    return RatioEvidence.of(scenarios[subject], scenarios[crossings[0].over.name], None) if crossings else SURE


def _rivals(subject: str, policies: Policies) -> list[str]:
    """The fixed strategies beside the subject, the one that it is held against first before the others."""
    rival = strategies.ALL.named(subject).rival
    return sorted((name for name in policies.fixed if name != subject), key=lambda name: name != rival)


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
