"""The answer of serve: each load with what runs of it measured, capacities, crossings, the verdict; and its JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec.structs import asdict

from ssdsim import strategies
from ssdsim.answers.decision import Decision
from ssdsim.answers.predict import configured
from ssdsim.base.display import Display, Displayable
from ssdsim.base.intervals import Interval, Measured, low_and_high
from ssdsim.base.plain import Shown, document, picked
from ssdsim.base.record import Record, field
from ssdsim.pricing.occupancy import format_count
from ssdsim.serving.closed_form import SteadyState
from ssdsim.serving.crossing import Advice, Crossing, RateCurve, Shared, advice, crossing
from ssdsim.serving.fleet_size import FleetPlan, part_of
from ssdsim.serving.lookahead import Served
from ssdsim.serving.metrics import Metrics, Summary
from ssdsim.serving.options import Goal
from ssdsim.serving.policies import AUTO, Policies
from ssdsim.serving.policy import Policy
from ssdsim.serving.policy_runs import Capacity, How
from ssdsim.serving.workload import Workload

if TYPE_CHECKING:
    import pyarrow as pa


_SATURATED = Measured(np.inf, np.nan, np.nan)


class Pace(Record):
    """Means over requests, in ms: from arrival to the last token, and per output token; infinite where saturated.

    A pass that verifies more has less room for prompts. So a larger K may have the shorter time per token and, since
    first tokens come later, the longer time to the last one. The latter judges.
    """

    e2el: Measured
    tpot: Measured

    @staticmethod
    def of_run(metrics: Metrics) -> Pace:
        e2el, tpot = (metrics.of_requests[name] for name in ("e2el", "tpot"))
        if metrics.saturated or e2el is None or tpot is None:
            return Pace(_SATURATED, _SATURATED)
        return Pace(e2el.mean, tpot.mean)

    @staticmethod
    def of_closed_form(served: SteadyState) -> Pace:
        e2el, tpot = (Measured(1e3 * float(seconds), np.nan, np.nan) for seconds in (served.e2e_s, served.tpot_s))
        return Pace(e2el, tpot)


class ServedLoad(Record):
    """One load: ``rate`` requests a second in all (None in a closed loop), what is ``served`` there, what the closed
    form says of each, and what a run of each measured. ``lookaheads`` are the choices of K where nobody gave it, and
    ``decision`` is that between the strategies. ``fixed_k`` is the pace of each K between which a table switches, for
    good.
    """

    rate: float | None
    workload: Workload
    served: Mapping[str, Served]
    lookaheads: Mapping[str, Decision[int]]
    closed: Mapping[str, SteadyState]
    metrics: Mapping[str, Metrics]
    decision: Decision[str]
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


class UnsupportedStrategy(Record):
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
    """``points`` in the order of the rates. ``capacities`` are requests a second a replica beyond which a queue
    grows without end, with 95 % intervals from all that is not known.

    ``crossings`` are those of the subject with every other strategy. The engine does not run those that are
    ``unsupported``. ``within_slo`` are the rates up to which a share of requests is good, if somebody asks for it;
    ``plan`` says how many replicas a load needs. ``requests`` has a line a request of every run, if there is a folder.
    ``prefill_source`` is ``given``, or says whose way of taking prompts it is.
    """

    policies: Policies
    workload: Workload
    how: How
    prefill_source: str
    goal: Goal
    solver: str
    subject: str
    draft_pool: int | None
    points: Sequence[ServedLoad]
    sides: Mapping[str, RateCurve]
    capacities: Mapping[str, tuple[float, Interval | None]]
    warnings: Sequence[str]
    within_slo: Mapping[str, Capacity] = field(default_factory=dict)
    k_within_slo: Mapping[str, int] = field(default_factory=dict)
    plan: FleetPlan | None = None
    unsupported: Mapping[str, UnsupportedStrategy] = field(default_factory=dict)
    requests: pa.Table | None = None

    @property
    def sharings(self) -> dict[str, Shared]:
        return {name: side.sharing for name, side in self.sides.items()}

    @cached_property
    def first_crossings(self) -> list[Crossing]:
        """Those with the rival that the verdict names; worked out, as all of them, when somebody asks."""
        return crossings_of(self.subject, self.sides, rivals_of(self.subject, self.policies)[:1])

    @cached_property
    def verdict(self) -> Advice:
        """Up to which rate the subject is ahead of its first rival."""
        replicas = self.how.fleet.replicas if self.plan is None else self.plan.needs[self.subject].simulated
        rates = [None if point.workload.offered is None else point.workload.offered / replicas for point in self.points]
        return advice(self.subject, self.sides, self.first_crossings, rates)

    @cached_property
    def crossings(self) -> list[Crossing]:
        """The first rival's before the others'."""
        others = rivals_of(self.subject, self.policies)[1:]
        return [*self.first_crossings, *crossings_of(self.subject, self.sides, others)]

    def gpus(self, name: str) -> float | None:
        """GPUs of all replicas of a policy; None where no number of them is enough."""
        return (
            self.policies.by_name[name].gpus * self.how.fleet.replicas if self.plan is None else self.plan.total(name)
        )

    def first_run(self, name: str) -> tuple[Policy, Workload, How]:
        """What is simulated of a policy at the first load: of replicas that were searched as many as tell enough."""
        point = self.points[0]
        part = (point.workload, self.how)
        if self.plan is not None:
            part = part_of(point.workload, self.plan.needs[name].simulated, self.how)
        return point.served[name].policy, *part

    @property
    def display(self) -> Display:
        """A row a policy; what each load gives is in ``points``."""
        rows = [
            (self.policies.by_name[name].title, format_count(self.policies.by_name[name].gpus), f"{rate:.1f}")
            for name, (rate, _) in self.capacities.items()
        ]
        loads = f"{len(self.points)} load{'s' if len(self.points) != 1 else ''}"
        return Display(f"{loads} served", ("", "GPUs", "saturated from requests/s"), rows, self.verdict.sentence)


def crossings_of(subject: str, sides: Mapping[str, RateCurve], rivals: Sequence[str]) -> list[Crossing]:
    """Crossings of the subject with each rival, and GPU for GPU too where they have not as many."""
    return [
        crossing(sides[subject], sides[name], basis)
        for name in rivals
        for basis in (("replica", "gpu") if sides[name].gpus != sides[subject].gpus else ("replica",))
    ]


def rivals_of(subject: str, policies: Policies) -> list[str]:
    """The fixed strategies beside the subject, the one that it is held against first before the others."""
    rival = strategies.ALL.named(subject).rival
    return sorted((name for name in policies.fixed if name != subject), key=lambda name: name != rival)


def as_json(serving: Serving, gpu_hour: float | None = None) -> dict[str, Any]:
    """The object of ``ssdsim plan --json`` (schema 3); times in milliseconds, None where there is no number.

    ``gpu_hour`` is the price of a GPU for an hour.
    """
    configuration = serving.policies.configuration
    answer = {
        "schema": 4,
        "solver": serving.solver,
        "seed": serving.how.seed,
        "replicas": serving.how.fleet.replicas,
        **picked(serving, "draft_pool"),
        "batching": serving.how.batching,
        **picked(serving, "prefill_source"),
        "attainment": serving.goal.searched,
        "within_slo": serving.within_slo,
        "k_within_slo": serving.k_within_slo,
        "plan": None if serving.plan is None else _plan(serving.plan, gpu_hour),
        **picked(serving, "crossings", "verdict", "warnings"),
        **configured(configuration, left_out=("b", "context")),
        "apart": {name: picked(each, "capacity", "worth", "sentence") for name, each in serving.unsupported.items()},
        "slo": None if serving.how.slo is None else serving.how.slo.bounds_ms,
        "points": [_point(serving, point, gpu_hour) for point in serving.points],
        "capacities": {name: {"rate": r, **low_and_high(within)} for name, (r, within) in serving.capacities.items()},
        "schedule": _schedule(serving),
        "variants": _variants(serving),
    }
    shown: Shown = {
        Capacity: lambda each: picked(each, "rate", "low", "high", "too_much", "runs"),
        Crossing: _crossing,
        Measured: Measured.as_mean,
        SteadyState: _closed,
        Summary: _summary,
    }
    return document(answer, shown)


def _point(serving: Serving, point: ServedLoad, gpu_hour: float | None) -> dict[str, Any]:
    """One load."""
    strategies = {
        name: {
            "gpus": serving.gpus(name),
            "k": _k(serving, point, name),
            "closed": point.closed.get(name),
            **(_metrics(point.metrics[name], gpu_hour) if name in point.metrics else {}),
        }
        for name in serving.policies.by_name
    }
    return {
        "rate": point.rate,
        "workload": point.workload.described(),
        "strategies": strategies,
        "decision": _decision(point.decision),
        "k_losses": {name: each.losses for name, each in point.lookaheads.items()},
        **(_fixed_k(point) if point.fixed_k else {}),
    }


def _k(serving: Serving, point: ServedLoad, name: str) -> int | None:
    """The K of a strategy whose K nobody gave."""
    if name not in point.lookaheads:
        return None
    return point.lookaheads[name].chosen if serving.plan is None else serving.plan.needs[name].k


def _decision(decision: Decision[str]) -> dict[str, Any]:
    """What the one rule chooses, how sure that is, and what other rules choose."""
    return {
        "loss": asdict(decision.loss),
        **picked(decision, "chosen", "ahead_in", "best_in", "losses", "by_rule", "gain_of_knowing", "word", "rule"),
    }


def _plan(plan: FleetPlan, gpu_hour: float | None) -> dict[str, Any]:
    """GPUs for the load within the SLO."""
    needs = {}
    for name, need in plan.needs.items():
        gpus = plan.total(name)
        needs[name] = {
            **picked(need, "tp", "k", "replicas", "holds", "k_that_holds_most", "fewer", "runs"),
            "gpus": gpus,
            "gpus_likely": None if gpus is None else plan.likely(name),
            "cost_per_hour": None if gpus is None or gpu_hour is None else gpus * gpu_hour,
            "measured": None if need.metrics is None else _metrics(need.metrics, gpu_hour),
        }
    return {
        **picked(plan, "rate", "share", "doubts"),
        "peak": None if plan.peak is None else asdict(plan.peak),
        "needs": needs,
        "decision": None if plan.decision is None else _decision(plan.decision),
    }


def _fixed_k(point: ServedLoad) -> dict[str, Any]:
    """Each K for good, and the best by either time."""
    return {
        "fixed_k": {k: pace.tpot for k, pace in point.fixed_k.items()},
        "fixed_k_e2el": {k: pace.e2el for k, pace in point.fixed_k.items()},
        **picked(point, "best_k", "best_k_e2el"),
    }


def _metrics(metrics: Metrics, gpu_hour: float | None) -> dict[str, Any]:
    """Record of what a run measured."""
    left_out = ("of_requests", "variant_share")
    own = {name: value for name, value in asdict(metrics).items() if name not in left_out}
    own |= {f"{name}_ms": summary for name, summary in metrics.of_requests.items()}
    own["itl_ms"] = None if metrics.itl_ms is None else {f"p{q}": value for q, value in metrics.itl_ms.items()}
    for cost, hours in (
        ("cost_per_million_tokens", metrics.gpu_hours_per_million_tokens),
        ("cost_per_thousand_good", metrics.gpu_hours_per_thousand_good),
    ):
        own[cost] = None if gpu_hour is None or hours is None else gpu_hour * hours
    return own


def _summary(summary: Summary) -> dict[str, Any]:
    percentiles = {f"p{q}": asdict(each) for q, each in summary.percentiles.items()}
    return {"mean": summary.mean, **percentiles, "requests": summary.count, "few": summary.few}


def _closed(served: SteadyState) -> dict[str, Any]:
    times = {"tpot": served.tpot_s, "queue": served.queue_s, "ttft": served.ttft_s, "e2el": served.e2e_s}
    return {"running": served.running, **{f"{name}_ms": 1e3 * seconds for name, seconds in times.items()}}


def _crossing(crossing: Crossing) -> dict[str, Any]:
    names = {"of": crossing.of.name, "over": crossing.over.name, "basis": crossing.basis}
    gpus = {"of_gpus": crossing.of.gpus, "over_gpus": crossing.over.gpus}
    return {**names, **gpus, "rate": crossing.rate, **low_and_high(crossing.interval), **_across(crossing)}


def _across(crossing: Crossing) -> dict[str, Any]:
    """Record of where it lies over the ranges of tokens, and whether that leaves the sign open."""
    lowest, highest = (crossing.across.low, crossing.across.high) if crossing.across else (None, None)
    return {"lowest": lowest, "highest": highest, **picked(crossing, "running", "decided")}


def _switching(serving: Serving) -> Policy | None:
    return next((policy for policy in serving.policies.by_name.values() if policy.is_schedule), None)


def _variants(serving: Serving) -> list[str] | None:
    """Variants that the schedule may run, by its numbers."""
    policy = _switching(serving)
    return None if policy is None else [variant.label for variant in policy.variants]


def _schedule(serving: Serving) -> list[dict[str, Any]] | None:
    """Record of the schedule's cells and their variants."""
    policy = _switching(serving)
    if policy is None:
        return None
    cells = sorted(policy.cells.items(), key=lambda item: (item[0][1], item[0][0]))
    variants = [policy.variants[number] for _, number in cells]
    return [
        {"b": b, "context": context, "number": number, "strategy": variant.name, "label": variant.label}
        for ((b, context), number), variant in zip(cells, variants, strict=True)
    ]
