"""The recommendation as a launch plan: its command, K by batch, what it costs, and when it stops paying."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from ssdsim import strategies
from ssdsim.advise.recommend.command import Command, Launch, launch
from ssdsim.advise.recommend.deployment import Deployment, deployment_json
from ssdsim.advise.recommend.recommendation import BatchAnswer, Recommendation, recommended, unsupported_json
from ssdsim.advise.recommend.request import SearchRequest, engine_json, request_json
from ssdsim.base.errors import InputError
from ssdsim.base.plain import document, picked
from ssdsim.base.progress import Progress
from ssdsim.base.record import Record, replace
from ssdsim.question.engines import titles
from ssdsim.question.options import DEFAULTS
from ssdsim.question.token_inputs import by_standing
from ssdsim.serving.answer import Serving
from ssdsim.serving.load import Load
from ssdsim.serving.options import Fleet, Goal, ServeSolverOptions
from ssdsim.serving.policies import accepted_options
from ssdsim.serving.serve import served
from ssdsim.serving.workload import Lengths, Workload, synthetic
from ssdsim.strategies.ar import Autoregressive

ATTAINMENT = 0.9  # share of requests that must keep an SLO
_REQUESTS = 600  # requests of a run in the search for the rate
_HARDLY_ANY = 0.005  # requests/s, which is shown as 0.00


class Paying(Record):
    """The serving view: up to which rate the recommended strategy wins, by ``ssdsim plan`` on the same placement.

    ``at_rate`` are milliseconds a token by strategy at the rate asked for (None where saturated), ``within_slo`` the
    rates up to which enough requests keep the SLO.
    """

    sentence: str
    lengths: tuple[int, int]
    rate: float | None
    at_rate: Mapping[str, float | None]
    slo: str | None
    within_slo: Mapping[str, float]


class LaunchPlan(Record):
    """The recommendation at its focus, where ``deployment`` is the best; ``launch`` starts an engine for all batches.

    ``cost`` is of a million tokens on the GPUs needed and on all of the budget.
    """

    deployment: Deployment
    launch: Launch | None
    paying: Paying | None
    not_served: str | None
    cost: tuple[float, float] | None

    @property
    def command(self) -> Command | None:
        """What to paste for the engine that is named."""
        return None if self.launch is None else self.launch.command

    @property
    def misses(self) -> Mapping[str, str]:
        """Strategies that cannot serve what was asked, and how they fail: at the rate, or within the SLO."""
        if self.paying is None:
            return {}
        least = _HARDLY_ANY if self.paying.rate is None else self.paying.rate / self.deployment.copies
        late = {name: "outside the SLO" for name, rate in self.paying.within_slo.items() if rate < least}
        return late | {name: "saturated" for name, ms in self.paying.at_rate.items() if ms is None}

    @property
    def keeps_up(self) -> str | None:
        """Of the strategies that were served what to run: the recommended one, else the next that keeps up."""
        if self.paying is None:
            return None
        own, at_rate, within = self.deployment.shape.strategy, self.paying.at_rate, self.paying.within_slo
        able = [name for name in (at_rate or within) if name not in self.misses]
        return min(able, key=lambda name: (name != own, at_rate.get(name) or 0.0, -within.get(name, 0.0)), default=None)

    @property
    def instead(self) -> str:
        """What to run where the recommended cannot serve what was asked; empty where it can."""
        best, paying = self.deployment, self.paying
        if paying is None or best.shape.strategy not in self.misses:
            return ""
        rate = "" if paying.rate is None else f" {paying.rate:g} requests/s"
        asked = f"{rate or ' requests'}{' within the SLO' if paying.slo else ''}"
        by_how = {how: [name for name in self.misses if self.misses[name] == how] for how in self.misses.values()}
        failing = ", ".join(f"{titles(of)} {'is' if len(of) == 1 else 'are'} {how}" for how, of in by_how.items())
        copies = f"{best.copies} x " if best.copies > 1 else ""
        place = best.shape.degrees
        if self.keeps_up is None:
            return f"nothing at {copies}{place} serves{asked}: {failing}"
        return f"for{asked} run {copies}{strategies.ALL.named(self.keeps_up).title} {place}; {failing}"


def recommended_with_launch_plan(
    progress: Progress | None, rate: float | None, slo: str | None, explained: bool = True, **asked: Any
) -> tuple[Recommendation, LaunchPlan | None]:
    """A recommendation and its :func:`launch_plan`, whose serving view is worked out beside the break-even points."""
    recommendation, view = recommended(progress, partial(_view, rate=rate, must=_must(rate, slo)), explained, **asked)
    return recommendation, None if view is None else _launch_plan(recommendation, view, slo)


def launch_plan(recommendation: Recommendation, rate: float | None = None, slo: str | None = None) -> LaunchPlan | None:
    """The launch plan of a recommendation; None if nothing is recommended.

    Parameters
    ----------
    rate : requests a second over all copies, at which the strategies are held against each other.
    slo : what 90 % of requests must keep, as ``ssdsim plan`` takes it: ``ttft:500,tpot:20``.
    """
    about = recommendation.focus_answer
    if about is None or about.best is None:
        return None
    return _launch_plan(recommendation, _view(recommendation.request, about, rate, _must(rate, slo)), slo)


def _must(rate: float | None, slo: str | None) -> bool:
    """Tell whether a missing serving view is an error: the user asked for it."""
    return rate is not None or slo is not None


def _launch_plan(recommendation: Recommendation, view: Paying | str, slo: str | None) -> LaunchPlan:
    """The plan with a serving view, or why there is none."""
    about, request = recommendation.focus_answer, recommendation.request
    assert about is not None  # the view is of its best
    assert about.best is not None
    best = about.best
    hour = request.gpu_hour
    if isinstance(view, Paying) and slo is not None:
        goal = Goal(slo, capacity=True, attainment=ATTAINMENT)
        load, effort = Load(workload=_workload(request)), ServeSolverOptions(seed=request.seed)
        load_served = served(load, goal=goal, effort=effort, **_policies(about, request))
        view = replace(view, slo=slo, within_slo={name: each.rate for name, each in load_served.within_slo.items()})
    return LaunchPlan(
        deployment=best,
        launch=launch(recommendation.answers, request),
        paying=view if isinstance(view, Paying) else None,
        not_served=view if isinstance(view, str) else None,
        cost=None if hour is None else tuple(hour / 3600.0 * n / best.total * 1e6 for n in (best.gpus, request.gpus)),  # type: ignore[arg-type]  # two
    )


def base_point(recommendation: Recommendation, plan: LaunchPlan) -> dict[str, Any]:
    """The options of what is recommended, beside the strategies that it is held against."""
    best = plan.deployment
    about = recommendation.focus_answer
    assert about is not None  # the plan is of its best
    point = best.shape.point(recommendation.request.options, best.copy_batch)
    return {**point, "strategies": [name for name in recommendation.request.ranked if name in about.by_strategy]}


def _options(best: Deployment, request: SearchRequest, names: Sequence[str]) -> dict[str, Any]:
    """Keep those of ``names`` that the deployment's options set."""
    point = best.shape.point(request.options, best.copy_batch)
    return {name: value for name, value in point.items() if name in names}


def _view(request: SearchRequest, about: BatchAnswer, rate: float | None, must: bool) -> Paying | str:
    """The serving view of the best and of its first rivals in the same placement; or why there is none."""
    best, load = about.best, _workload(request)
    assert best is not None
    try:
        at_rate = Load(1.0 if rate is None else rate / best.copies, workload=load)
        at_one = served(at_rate, effort=ServeSolverOptions("closed", seed=request.seed), **_policies(about, request))
    except InputError as error:
        if must:
            raise
        return str(error)
    lengths = int(load.input_tokens[0]), int(load.output_tokens[0])
    return Paying(at_one.verdict.sentence, lengths, rate, {} if rate is None else _at_rate(at_one), None, {})


def _policies(about: BatchAnswer, request: SearchRequest) -> dict[str, Any]:
    """What is served: the best, and its first rivals in the same placement."""
    best = about.best
    assert best is not None
    own = best.shape.strategy
    rival = strategies.ALL.named(own).rival
    beside = [name for name in (rival, Autoregressive.name) if name in request.ranked and name != own]
    beside = beside or [name for name in about.by_strategy if name != own][:1]
    names = [name for name in accepted_options() if name not in ("strategies", "subject", "pair_set")]
    options = {**_options(best, request, [*names, "pair_set"]), "strategies": [own, *dict.fromkeys(beside)]}
    return {"subject": own, "fleet": Fleet(best.shape.targets), **options}


def _workload(request: SearchRequest) -> Workload:
    """A workload whose mean context is ``--context``."""
    options = {**DEFAULTS, **request.options}
    answer = min(int(options["output_tokens"]), int(options["context"]))
    prompt = max(1, int(options["context"]) - answer // 2)
    return synthetic(_REQUESTS, 1.0, Lengths.parse(prompt, "--context"), Lengths.parse(answer, "--output-tokens"))


def _at_rate(serving: Serving) -> dict[str, float | None]:
    closed = serving.points[0].closed
    tpot = {name: float(each.tpot_s) for name, each in closed.items()}
    return {name: 1e3 * seconds if seconds < float("inf") else None for name, seconds in tpot.items()}


def as_json(recommendation: Recommendation, plan: LaunchPlan | None = None) -> dict[str, Any]:
    """The stable JSON object of ``ssdsim recommend --json`` (schema 5), with the launch plan if there is one."""
    request = recommendation.request
    answer = {
        "schema": 5,
        "verb": "recommend",
        "request": {
            **request_json(request),
            **picked(request, "rank", "rule", "gpu_hour", "use", "subject"),
            "b": request.batches,
            "at_least": request.at_least or None,
        },
        "verdict": {"sentence": (plan.instead if plan is not None else "") or recommendation.sentence},
        "engine": engine_json(request),
        **picked(recommendation, "answers", "focus", "elasticities", "swings", "evaluated"),
        **picked(recommendation, "provenance", "runtime", "pair", "inputs", "warnings"),
        "fewer_gpus": recommendation.fewer,
        "break_even": recommendation.break_evens,
        "deploy": None if plan is None else _deploy(plan),
    }
    return document(
        answer, {BatchAnswer: _answer, Deployment: lambda d: deployment_json(d, request.gpu_hour, request.rank)}
    )


def _deploy(plan: LaunchPlan) -> dict[str, Any]:
    needed, everything = plan.cost or (None, None)
    by_batch = {} if plan.launch is None else plan.launch.by_batch
    return {
        **picked(plan, "deployment", "paying", "keeps_up", "misses", "not_served", "command"),
        "k_by_batch": [{"b": batch, "k": each.lookahead, "run": each.name} for batch, each in by_batch.items()],
        "cost_needed": needed,
        "cost_all": everything,
    }


def _answer(answer: BatchAnswer) -> dict[str, Any]:
    return {
        "b": answer.batch,
        **picked(answer, "error", "best", "runner_up", "by_strategy", "impossible", "pareto", "gain_of_c"),
        **_decided(answer),
        "apart": unsupported_json(answer.unsupported),
    }


def _decided(answer: BatchAnswer) -> dict[str, Any]:
    """How the best was chosen, and each strategy at its best; nulls where nothing is."""
    if answer.choice is None:
        return dict.fromkeys(("rule", "loss", "ahead_in", "by_rule", "word", "gain_of_knowing", "turns", "strategies"))
    choice, decision = answer.choice, answer.choice.decision
    strategies = {
        name: {
            **picked(choice.rates[name], "median", "likely", "interval"),
            "loss": decision.losses[deployment],
            "best_in": decision.best_in.get(name, 0.0),
            "worth": choice.worth.get(name),
            "rests_on": by_standing(deployment.scenario.known.inputs),
        }
        for name, deployment in choice.by_strategy.items()
    }
    chosen = picked(decision, "rule", "loss", "ahead_in", "by_rule", "word", "gain_of_knowing")
    return {**chosen, "turns": choice.turns, "strategies": strategies}
