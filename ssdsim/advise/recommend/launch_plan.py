"""The recommendation as a launch plan: its command, K by batch, what it costs, and when it stops paying."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from ssdsim import strategies
from ssdsim.advise.candidates import fixed_options
from ssdsim.advise.export.dialect import Dialect
from ssdsim.advise.export.export import engine_of, export
from ssdsim.advise.recommend.deployment import Deployment, deployment_json
from ssdsim.advise.recommend.recommendation import BatchAnswer, Recommendation, recommended, unsupported_json
from ssdsim.advise.recommend.request import SearchRequest, engine_json, request_json
from ssdsim.answers.contest import Versus
from ssdsim.base.errors import InputError
from ssdsim.base.intervals import low_and_high
from ssdsim.base.plain import document, picked
from ssdsim.base.progress import Progress
from ssdsim.base.record import Record, replace
from ssdsim.question.options import DEFAULTS
from ssdsim.serving.answer import Serving
from ssdsim.serving.load import Load
from ssdsim.serving.options import Fleet, Goal, ServeSolverOptions
from ssdsim.serving.policies import accepted_options
from ssdsim.serving.schedule_file import Cell
from ssdsim.serving.serve import served
from ssdsim.serving.workload import Lengths, Workload, synthetic
from ssdsim.strategies.ar import Autoregressive
from ssdsim.strategies.protocols.axes import LOOKAHEAD
from ssdsim.transformer.forward import DATA_PARALLEL

ATTAINMENT = 0.9  # share of requests that must keep an SLO
_REQUESTS = 600  # requests of a run in the search for the rate
NO_ENGINE = "add --engine vllm|sglang|trtllm|ssd-engine for the launch command"


class Command(Record):
    """Command to paste for the engine, with notes on what it cannot say."""

    text: str
    notes: tuple[str, ...]


class Paying(Record):
    """The serving view: up to which rate the recommended strategy wins, by ``ssdsim serve`` on the same placement.

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
    """The recommendation at its focus. ``decisive_rival`` decides the contest; ``worth`` is the best's ratio to it.

    ``k_by_batch`` are ``(sequences of a copy, K)``, 0 where nothing is drafted; ``cost`` is of a million tokens on the
    GPUs needed and on all of the budget.
    """

    deployment: Deployment
    decisive_rival: Deployment | None
    worth: Versus | None
    k_by_batch: Sequence[tuple[int, int]]
    paying: Paying | None
    not_served: str | None
    cost: tuple[float, float] | None
    command: Command | None


def recommended_with_launch_plan(
    progress: Progress | None, rate: float | None, slo: str | None, **asked: Any
) -> tuple[Recommendation, LaunchPlan | None]:
    """A recommendation and its :func:`launch_plan`, whose serving view is worked out beside the break-even points."""
    recommendation, view = recommended(progress, partial(_view, rate=rate, must=_must(rate, slo)), **asked)
    return recommendation, None if view is None else _launch_plan(recommendation, view, slo)


def launch_plan(recommendation: Recommendation, rate: float | None = None, slo: str | None = None) -> LaunchPlan | None:
    """The launch plan of a recommendation; None if nothing is recommended.

    Parameters
    ----------
    rate : requests a second over all copies, at which the strategies are held against each other.
    slo : what 90 % of requests must keep, as ``ssdsim serve`` takes it: ``ttft:500,tpot:20``.
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
    contest = about.contest if about.contest is not None and about.contest.over else None
    rival = None if contest is None else contest.decisive_rival
    hour = request.gpu_hour
    if isinstance(view, Paying) and slo is not None:
        view = replace(view, slo=slo, within_slo=_within(about, request, slo))
    return LaunchPlan(
        deployment=best,
        decisive_rival=rival,
        worth=None if contest is None or rival is None else contest.over[rival],
        k_by_batch=_k_by_batch(recommendation, best),
        paying=view if isinstance(view, Paying) else None,
        not_served=view if isinstance(view, str) else None,
        cost=None if hour is None else tuple(hour / 3600.0 * n / best.total * 1e6 for n in (best.gpus, request.gpus)),  # type: ignore[arg-type]  # two
        command=_command(best, request),
    )


def base_point(recommendation: Recommendation, plan: LaunchPlan) -> dict[str, Any]:
    """The options of what is recommended, beside the strategies that it is held against."""
    best = plan.deployment
    about = recommendation.focus_answer
    assert about is not None  # the plan is of its best
    point = best.shape.point(recommendation.request.options, best.copy_batch)
    return {**point, "strategies": [name for name in recommendation.request.ranked if name in about.by_strategy]}


def pasted(plan: LaunchPlan) -> str:
    """The command with its notes as comments; nothing where no engine is named."""
    if plan.command is None:
        return ""
    return "".join(f"# {note}\n" for note in plan.command.notes) + plan.command.text


def _k_by_batch(recommendation: Recommendation, best: Deployment) -> list[tuple[int, int]]:
    """K by batch of the answers that deploy the same strategy on the same devices."""
    rows: dict[int, int] = {}
    for answer in recommendation.answers:
        each = answer.by_strategy.get(best.shape.strategy)
        if each is not None and each.shape.placement == best.shape.placement:
            strategy = strategies.ALL.named(each.shape.strategy)
            rows[each.copy_batch] = strategy.lookahead(each.scenario.settings) if strategy.drafts else 0
    return sorted(rows.items())


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


def _within(about: BatchAnswer, request: SearchRequest, slo: str) -> dict[str, float]:
    """Rates up to which enough requests keep an SLO."""
    goal = Goal(slo, capacity=True, attainment=ATTAINMENT)
    load, effort = Load(workload=_workload(request)), ServeSolverOptions(seed=request.seed)
    load_served = served(load, goal=goal, effort=effort, **_policies(about, request))
    return {name: each.rate for name, each in load_served.within_slo.items()}


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


def _command(best: Deployment, request: SearchRequest) -> Command | None:
    """The engine's launch command, with a K for every batch up to a copy's; None if no engine is named."""
    named = request.options.get("engine")
    dialect = None if named is None else engine_of(named)
    if dialect is None or request.engine.runs is None:
        return None
    if dialect.one is not None:
        return _of_one(best, dialect, request)
    options = _options(best, request, [name for name in fixed_options() if name != "strategies"])
    if best.shape.data_parallel:
        options["attention"] = DATA_PARALLEL
    own = [best.shape.strategy]
    batches = sorted({1 << n for n in range(best.copy_batch.bit_length())} | {best.copy_batch})
    looked = [axis for axis in request.axes[own[0]] if axis.option == LOOKAHEAD.option]
    chosen = {"k": list(request.axes[own[0]][looked[0]] or ())} if looked else {}
    try:
        text = export(
            dialect.name,
            strategies=list(dict.fromkeys([Autoregressive.name, *own])),
            b=batches,
            context=[int({**DEFAULTS, **request.options}["context"])],
            seed=request.seed,
            **chosen,
            **options,
        )
    except InputError as error:
        return Command("", (str(error),))
    copies = f"start it {best.copies} times, each on GPUs of its own, behind a router"
    return Command(text.text, (*([copies] if best.copies > 1 else []), *text.notes))


def _of_one(best: Deployment, dialect: Dialect, request: SearchRequest) -> Command:
    """The command of exactly this deployment."""
    assert dialect.one is not None
    settings, strategy = best.scenario.settings, strategies.ALL.named(best.shape.strategy)
    deployed = {name: settings.get(name) for name in strategy.deployed}
    cell = Cell(
        b=best.copy_batch,
        context=settings["context"],
        strategy=strategy.name,
        settings={name: value for name, value in deployed.items() if value is not None},
        gpus=best.shape.gpus,
    )
    try:
        if dialect.check is not None:
            dialect.check(request.options)
        return Command(dialect.one(cell, request.options) + "\n", ())
    except InputError as error:
        return Command("", (str(error),))


def as_json(recommendation: Recommendation, plan: LaunchPlan | None = None) -> dict[str, Any]:
    """The stable JSON object of ``ssdsim recommend --json`` (schema 4), with the launch plan if there is one."""
    request = recommendation.request
    answer = {
        "schema": 4,
        "verb": "recommend",
        "request": {
            **request_json(request),
            **picked(request, "rank", "gpu_hour", "use", "subject"),
            "b": request.batches,
            "at_least": request.at_least or None,
        },
        "verdict": {"sentence": recommendation.sentence},
        "engine": engine_json(request),
        **picked(recommendation, "answers", "focus", "elasticities", "swings", "evaluated"),
        **picked(recommendation, "provenance", "runtime", "pair", "inputs", "warnings"),
        "equal_gpus": recommendation.equal_counts,
        "break_even": recommendation.break_evens,
        "deploy": None if plan is None else _deploy(plan),
    }
    return document(answer, {BatchAnswer: _answer, Deployment: lambda d: deployment_json(d, request.gpu_hour)})


def _deploy(plan: LaunchPlan) -> dict[str, Any]:
    needed, everything = plan.cost or (None, None)
    return {
        **picked(plan, "deployment", "worth", "paying", "not_served", "command"),
        "k_by_batch": [{"b": batch, "k": k} for batch, k in plan.k_by_batch],
        "cost_needed": needed,
        "cost_all": everything,
    }


def _answer(answer: BatchAnswer) -> dict[str, Any]:
    return {
        "b": answer.batch,
        **picked(answer, "error", "best", "runner_up", "margin", "probability", "by_strategy", "impossible", "pareto"),
        "apart": unsupported_json(answer.unsupported),
        **low_and_high(answer.interval),
        "equal_gpus": answer.equal,
    }
