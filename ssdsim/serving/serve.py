"""Serving: what users see at which rate, and from which rate on another strategy is the better one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from ssdsim import strategies
from ssdsim.answers.decision import Candidate, Decision, decide, knowable
from ssdsim.answers.workers import Workers
from ssdsim.base.checks import Array, text
from ssdsim.base.documents import read_text
from ssdsim.base.errors import InputError
from ssdsim.base.free_memory import free_memory_bytes
from ssdsim.base.intervals import Interval
from ssdsim.base.option import in_python, option_names, options_of, pop_record
from ssdsim.base.record import Record, replace
from ssdsim.hardware.runtime_card import Runtime
from ssdsim.pricing.cost import TimingErrors
from ssdsim.question.checked_options import without_unsaid
from ssdsim.question.engines import Engine
from ssdsim.question.options import ALL, refuse_others
from ssdsim.question.place import runtime_for
from ssdsim.question.spellings import own_names
from ssdsim.runs.answer_folders import ServingFolder
from ssdsim.serving import fleet_size
from ssdsim.serving.answer import Pace, ServedLoad, Serving, UnsupportedStrategy
from ssdsim.serving.batching import Batching
from ssdsim.serving.closed_form import Sharing, sharing
from ssdsim.serving.crossing import RateCurve
from ssdsim.serving.degrees import Degrees, degrees_of
from ssdsim.serving.fleet_size import FleetPlan, fleet_plan, part_of
from ssdsim.serving.load import Load
from ssdsim.serving.lookahead import DRAWS, KS, NONE, OwnK, Served, speed
from ssdsim.serving.options import Fleet, Goal, ServeSolverOptions
from ssdsim.serving.passes import prompt_warnings
from ssdsim.serving.policies import Policies, accepted_options, without_auto
from ssdsim.serving.policy import Policy
from ssdsim.serving.policy_runs import MOST_RUNS, Capacity, How, RunCache, RunNeeds, capacities, lines, needs, runs
from ssdsim.serving.workload import Workload
from ssdsim.strategies.protocols.shared import TARGETS

if TYPE_CHECKING:
    import pyarrow as pa

    from ssdsim.serving.typed_options import ServeOptions

RECORDS = (Load, Fleet, Batching, Goal, ServeSolverOptions, Workers)
"""Whose options ``serve`` has beside a scenario's."""


def plan(
    *, schedule: str | Path | None = None, folder: ServingFolder | None = None, **options: Unpack[ServeOptions]
) -> Serving:
    """Plan for requests that arrive, by each strategy on its own replicas: ``plan(rate=2.0, slo="ttft:1s,tpot:30ms")``.

    Parameters
    ----------
    schedule : a file of ``ssdsim export``, which then decides what runs.
    folder : keeps what each run and each search found, and knows what it kept.
    options : those of ``ssdsim plan``: which requests come (``rate``, ``input_len``, ...), how batches are made
        (``prefill``, ``max_batch``, ...), what is good (``slo``, ``capacity``), who works (``engine``, ``jobs``, ...);
        and those of a scenario but for batch and context. ``strategies`` may have ``auto`` in it.

    Raises
    ------
    InputError : one line that says what, where, and what is allowed.
    """
    own = in_python(option for record in RECORDS for option in options_of(record).values())
    given: dict[str, Any] = {**own_names(options, own)}
    of_records = [name for record in RECORDS for name in option_names(record).values()]
    refuse_others("plan", given, (*of_records, *accepted_options()))
    load, fleet, batching = pop_record(Load, given), pop_record(Fleet, given), pop_record(Batching, given)
    goal, effort, workers = pop_record(Goal, given), pop_record(ServeSolverOptions, given), pop_record(Workers, given)
    return served(load, fleet, batching, goal, effort, workers, schedule=schedule, folder=folder, **given)


serve = plan
"""The name of before."""


def served(
    load: Load,
    fleet: Fleet | None = None,
    batching: Batching | None = None,
    goal: Goal | None = None,
    effort: ServeSolverOptions | None = None,
    workers: Workers | None = None,
    *,
    schedule: str | Path | None = None,
    folder: ServingFolder | None = None,
    hears_needs: Callable[[RunNeeds], None] = lambda needs: None,
    **options: Any,
) -> Serving:
    """:func:`plan`, whose options but for a scenario's are records. Capacities and crossings are of one replica.

    Who ``hears_needs`` is told what long runs take before they begin.
    """
    fleet, batching, goal, effort = (
        fleet or Fleet(),
        batching or Batching(),
        goal or Goal(),
        effort or ServeSolverOptions(),
    )
    options = without_unsaid(options)
    options["targets"] = fleet.targets(options.pop("targets", None))
    workload = load.arrives(effort.seed, goal.capacity)
    _check(workload, goal, effort)
    scheduled = None if schedule is None else Path(text("--schedule", schedule))
    subject_asked = options.pop("subject", None)
    batching, prefill_source = batching.as_engine(_runtime(options))
    how, workers = How(batching, goal.bounds, fleet, effort.seed, effort.precision), workers or Workers()
    open_k = scheduled is None and batching.says_k is None
    sized = _load_to_size(workload, load.rates, goal, effort, fleet)
    tried = degrees_of(options.pop("tp", None), options, sized is not None and open_k)
    ks, switches = KS if open_k else (), sized is None or not open_k
    degrees = Degrees(options, workload, batching, tried, scheduled, ks, switches, effort.seed)
    chosen = next(iter(degrees.possible.values()))
    if sized is not None and goal.bounds is not None:
        sized = fleet_size.lasting(sized, degrees, goal.bounds)
        workload = replace(workload, repeats=sized.repeats)
    _check_shared(options["targets"], chosen)
    schedule_text = "" if scheduled is None else read_text(scheduled, "schedule")

    def request_of(policies: Policies) -> _ServeRequest:
        cache = None if folder is None else RunCache(folder, policies.configuration.settings, schedule_text)
        return _ServeRequest(
            policies,
            degrees,
            workload,
            how,
            prefill_source,
            goal,
            effort,
            workers,
            cache,
            options["targets"],
            hears_needs,
        )

    plan = None if sized is None else request_of(chosen).sized(sized)
    if plan is not None:
        chosen = degrees.chosen({name: need.tp for name, need in plan.needs.items()}, plan.leader)
    if why := chosen.configuration.refused.get(subject_asked):
        raise InputError(f"--subject {subject_asked}: {why}")
    subject = chosen.engine.subject((*chosen.fixed, *chosen.unsupported), subject_asked)
    return request_of(chosen).served(subject, load.rates, plan)


def _load_to_size(
    workload: Workload, rates: Sequence[float] | None, goal: Goal, effort: ServeSolverOptions, fleet: Fleet
) -> Workload | None:
    """The load whose replicas are searched: one, where somebody says what is good and nobody how many there are."""
    first, *others = _loads(workload, rates)
    asked = goal.slo is not None and not goal.capacity and effort.runs and fleet.replicas == 1
    return first if asked and not others and first.offered is not None else None


class _ServeRequest(Record):
    """Policies that serve a workload: ``how``, who said how prompts are processed, the ``cache`` of runs, how many
    ``targets`` share a draft.
    """

    policies: Policies
    degrees: Degrees
    workload: Workload
    how: How
    prefill_source: str
    goal: Goal
    effort: ServeSolverOptions
    workers: Workers
    cache: RunCache | None
    targets: int | None
    hears_needs: Callable[[RunNeeds], None]

    def sized(self, load: Workload) -> FleetPlan:
        """Search the replicas that each strategy needs, and their degrees."""
        every = [(0, name) for name in self.policies.by_name]
        self._room(self.policies.by_name, [load], every, searching=fleet_size.RUNS_OF_SIZE)
        return fleet_plan(self.degrees, load, self.goal.share, self.how, self.cache, self.workers, self._knowable)

    def served(self, subject: str, rates: Sequence[float] | None, plan: FleetPlan | None) -> Serving:
        """Serve at each of the rates, and find beyond which a queue grows without end."""
        policies, fleet, searched = self.policies, self.how.fleet, self.goal.searched
        own = {name: self._own(name, policy) for name, policy in policies.by_name.items()}
        sides = {name: _curve(each) for name, each in own.items()}
        loads = _loads(self.workload, rates) if searched is None or rates is not None else []
        points = self._points(loads, own) if plan is None else [self._sized_point(loads[0], own, plan)]
        each_rate = [self._of_a_replica(point.workload) for point in points]
        k_within = {} if searched is None else {n: o.within(self.goal.bounds).chosen for n, o in own.items()}
        return Serving(
            warnings=_warnings(policies, self.workload, self.how.batching),
            policies=policies,
            workload=self.workload,
            how=self.how,
            prefill_source=self.prefill_source,
            goal=self.goal,
            solver="loop" if self.effort.runs else "closed",
            subject=subject,
            draft_pool=None if self.targets is None else fleet.replicas // self.targets,
            points=points,
            sides=sides,
            capacities={name: _capacity(side) for name, side in sides.items()},
            within_slo={} if searched is None else self._within_slo(searched, own, k_within),
            k_within_slo={name: k for name, k in k_within.items() if own[name].is_open},
            plan=plan,
            unsupported={
                name: _unsupported(_curve(self._own(name, policy)), policies.engine, sides, each_rate)
                for name, policy in policies.unsupported.items()
            },
            requests=self._requests(points, plan) if points and points[0].metrics else None,
        )

    def _sized_point(self, load: Workload, own: Mapping[str, OwnK], plan: FleetPlan) -> ServedLoad:
        """The load as the search ran it, on the replicas that each strategy needs (one, where no number is enough)."""
        needs = {name: plan.needs[name] for name in own}
        rates = {name: plan.rate / need.simulated for name, need in needs.items()}
        there = {name: own[name].by_k[need.k] for name, need in needs.items()}
        return ServedLoad(
            rate=load.offered,
            workload=load,
            served=there,
            lookaheads={name: each.at(rates[name], load) for name, each in own.items() if each.is_open},
            closed={name: each.mean.served(rates[name]) for name, each in there.items()},
            metrics={name: need.metrics for name, need in needs.items() if need.metrics is not None},
            decision=plan.decision or self._fastest(there, plan.rate, load),
        )

    def _points(self, loads: Sequence[Workload], own: Mapping[str, OwnK]) -> list[ServedLoad]:
        """What is served at each load, each strategy at its own best K there, and what runs of it measure."""
        each_rate = [self._of_a_replica(load) for load in loads]
        chosen = [{n: o.at(rate, load) for n, o in own.items()} for load, rate in zip(loads, each_rate, strict=True)]
        running = [{name: own[name].by_k[k.chosen] for name, k in there.items()} for there in chosen]
        fixed_k = {_run_of(k): policy for k, policy in self.policies.fixed_k.items()}
        searching = MOST_RUNS if self.goal.capacity else 0
        room = partial(self._room, {**self.policies.by_name, **fixed_k}, loads, searching=searching)
        to_run = [_policies_of(there) | fixed_k for there in running]
        made = runs(to_run, loads, self.how, self.cache, self.workers, room) if self.effort.runs else {}
        return [
            ServedLoad(
                rate=load.offered,
                workload=load,
                served=there,
                lookaheads={name: k for name, k in chosen[at].items() if own[name].is_open},
                closed={} if rate is None else {name: each.mean.served(rate) for name, each in there.items()},
                metrics={name: made[at, name] for name in there} if made else {},
                decision=self._fastest(there, rate, load),
                fixed_k={k: Pace.of_run(made[at, _run_of(k)]) for k in self.policies.fixed_k}
                if made
                else self._closed_pace(load.offered),
            )
            for at, (load, rate, there) in enumerate(zip(loads, each_rate, running, strict=True))
        ]

    def _fastest(self, served: Mapping[str, Served], rate: float | None, load: Workload) -> Decision[str]:
        """The strategy by which answers are done the earliest, by the one rule; what switches between them stands
        aside.
        """
        served = without_auto(served)
        every = [Candidate.of(name, name, each.policy.gpus) for name, each in served.items()]
        return decide(every, {name: speed(each.draws, rate, load) for name, each in served.items()}, self._knowable)

    @cached_property
    def _errors(self) -> TimingErrors | None:
        return self.policies.configuration.errors(DRAWS, self.how.seed)

    @cached_property
    def _knowable(self) -> Mapping[str, Array]:
        """What somebody may measure first, in each draw."""
        scenarios = self.policies.configuration.scenarios.values()
        return {} if self._errors is None else knowable([each.known for each in scenarios], self._errors)

    def _of_a_replica(self, load: Workload) -> float | None:
        """Requests a second that a replica gets."""
        return None if load.offered is None else load.offered / self.how.fleet.replicas

    def _requests(self, points: Sequence[ServedLoad], plan: FleetPlan | None) -> pa.Table | None:
        if self.cache is None:
            return None
        if plan is None:
            return lines([(_policies_of(each.served), each.workload, self.how) for each in points], self.cache)
        (point,) = points
        ran = []
        for name in point.metrics:
            load, how = part_of(point.workload, plan.needs[name].simulated, self.how)
            ran.append(({name: point.served[name].policy}, load, how))
            runs([ran[-1][0]], [load], how, self.cache, self.workers, lambda left: None)  # the search kept no requests
        return lines(ran, self.cache)

    def _room(
        self,
        policies: Mapping[str, Policy],
        loads: Sequence[Workload],
        left: Sequence[tuple[int, str]],
        *,
        searching: int,
    ) -> int | None:
        """Number of the runs ``left`` (of a load's number, and a policy's name) that free memory holds at once, beside
        so many of a search; None of short ones. Tell what long ones take.
        """
        counted = {}
        for name, policy in policies.items():
            own = searching if name in self.policies.by_name else 0
            if times := sum(of == name for _, of in left) + own:
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
                "--solver closed, which runs nothing"
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
        return {k: sharing(p, self.workload, self.how.batching) for k, p in self.policies.fixed_k.items()}

    def _own(self, name: str, policy: Policy) -> OwnK:
        by_k = self.policies.by_k.get(name) or {NONE: policy}
        return self.degrees.own_of(name, by_k, self._errors)

    def _within_slo(self, share: float, own: Mapping[str, OwnK], ks: Mapping[str, int]) -> Mapping[str, Capacity]:
        best = {name: each.by_k[ks[name]] for name, each in own.items()}
        by_name, sharings = ({n: getattr(each, of) for n, each in best.items()} for of in ("policy", "mean"))
        return capacities(by_name, sharings, self.workload, share, self.how, self.cache, self.workers)


def _runtime(options: Mapping[str, Any]) -> Runtime:
    """The engine that serves, which says how it takes prompts."""
    place = {name: options[name] for name in ("engine", "hardware") if options.get(name) is not None}
    return runtime_for({name: ALL[name].checked(value) for name, value in place.items()})


def _check(workload: Workload, goal: Goal, effort: ServeSolverOptions) -> None:
    """Raise :class:`InputError` where an answer cannot be made in the way that is asked for."""
    if goal.capacity and (goal.slo is None or not effort.runs or workload.concurrency is not None):
        raise InputError("--capacity needs an --slo, arrivals, and runs (not --solver closed)")
    if effort.precision is not None and not effort.runs:
        raise InputError("--precision has no effect with --solver closed (it runs nothing)")
    if effort.precision is not None and workload.generate is None:
        raise InputError("--precision has no effect with a log (there are no more requests than it has)")
    if workload.output_tokens.max() <= 1:
        raise InputError("no answer has a second token, so nothing is decoded: a strategy changes nothing")


def _check_shared(targets: int | None, policies: Policies) -> None:
    """Raise :class:`InputError` where a draft is to be shared and nothing drafts on devices that can be."""
    if targets is None or targets == 1:
        return
    ranked = [*policies.by_name.values(), *policies.unsupported.values()]
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
    tokens = min(longest, batching.token_budget) if batching.mixes_prompts else longest
    return sorted({*policies.configuration.warnings, *prompt_warnings(site, tokens)})


def _run_of(k: int) -> str:
    """Key of a fixed K's run."""
    return f"K {k}"


def _policies_of(served: Mapping[str, Served]) -> dict[str, Policy]:
    return {name: each.policy for name, each in served.items()}


def _curve(own: OwnK) -> RateCurve:
    """At its own best K at each rate."""
    mean = own.shared("mean")
    assert mean is not None
    title = next(iter(own.by_k.values())).policy.title
    return RateCurve(own.name, title, own.gpus, mean, own.shared("drawn"), own.shared("across"))


def _loads(workload: Workload, rates: Sequence[float] | None) -> list[Workload]:
    if workload.concurrency is not None or rates is None:
        return [workload]
    return [workload.at_rate(rate) for rate in rates]


def _unsupported(
    side: RateCurve, engine: Engine, sides: Mapping[str, RateCurve], rates: Sequence[float | None]
) -> UnsupportedStrategy:
    lacking = engine.lacks(side.name)
    assert lacking is not None  # else it would be among the policies

    def worth(rate: float | None) -> float | None:
        if rate is None:
            return None
        fastest = min(float(each.sharing.served(rate).tpot_s) for each in sides.values())
        own = float(side.sharing.served(rate).tpot_s)
        return fastest / own if np.isfinite(fastest) and np.isfinite(own) else None

    return UnsupportedStrategy(side.title, lacking, float(side.sharing.capacity), [worth(rate) for rate in rates])


def _capacity(side: RateCurve) -> tuple[float, Interval | None]:
    interval = None if side.drawn is None else Interval.of(np.asarray(side.drawn.capacity))
    return float(side.sharing.capacity), interval
