"""The whole recommendation: an answer a batch, the verdict at equal GPU count, break-even and what to improve."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from ssdsim.advise.recommend.break_even import BreakEven, break_evens
from ssdsim.advise.recommend.deployment import INDIFFERENT, Deployment, best, pareto, score
from ssdsim.advise.recommend.elasticity import Elasticity, elasticities
from ssdsim.advise.recommend.equal_count import DeploymentDraws, EqualCount, equal_count, held_against
from ssdsim.advise.recommend.request import SearchRequest, make_request
from ssdsim.advise.recommend.search import Search
from ssdsim.answers.contest import Contest
from ssdsim.answers.evidence import RatioEvidence
from ssdsim.answers.swings import Swing, inputs_of, swings
from ssdsim.answers.workers import Workers
from ssdsim.base.display import Display, Displayable
from ssdsim.base.intervals import Interval
from ssdsim.base.plain import picked
from ssdsim.base.record import Record, field
from ssdsim.hardware.catalog import find_hardware, find_transformer
from ssdsim.hardware.profile import provenance_summary
from ssdsim.question.drafting import draft_by_options
from ssdsim.question.measured_pair import pair_of
from ssdsim.question.options import DEFAULTS
from ssdsim.question.place import runtime_for
from ssdsim.question.spellings import any_spelling
from ssdsim.question.standing import TokenInput
from ssdsim.strategies.protocols.axes import TARGET
from ssdsim.transformer.forward import DATA_PARALLEL

if TYPE_CHECKING:
    from ssdsim.base.progress import Progress
    from ssdsim.question.typed_options import Searched


T = TypeVar("T")


class UnsupportedByEngine(Record):
    """Strategy that the engine cannot run, at its best: ``worth`` is its score over that of what is recommended."""

    deployment: Deployment
    worth: float
    lacking: str

    @property
    def sentence(self) -> str:
        """``with SSD, which vLLM does not have: 1.31x``."""
        named = self.deployment.title if self.lacking.endswith("have") else self.deployment.name
        return f"with {named}, {self.lacking}: {self.worth:.2f}x"


class BatchAnswer(Record):
    """The answer at one batch: the best deployment, the best of another strategy, and how the best stands against all.

    ``error`` says why there is no best. ``interval`` bounds its tokens/s per user at 95 %; ``margin`` is its score over
    the runner-up's, less 1. ``by_strategy`` has the best of each strategy that fits, ``impossible`` the reason of each
    that does not; ``unsupported`` are those that the engine cannot run.
    """

    batch: int
    by_strategy: Mapping[str, Deployment]
    impossible: Mapping[str, str]
    pareto: tuple[Deployment, ...] = ()
    equal: EqualCount | None = None
    best: Deployment | None = None
    interval: Interval | None = None
    runner_up: Deployment | None = None
    margin: float | None = None
    contest: Contest[Deployment] | None = None
    error: str | None = None
    unsupported: Mapping[str, UnsupportedByEngine] = field(default_factory=dict)

    @property
    def probability(self) -> float | None:
        """Probability that no other strategy is better."""
        return None if self.contest is None else self.contest.probability


class Recommendation(Displayable, Record):
    """The answers by batch. All other fields are about ``focus_answer``.

    That is the answer at the largest batch where the subject is best; if it is best at none, at the smallest batch that
    fits; None if nothing fits. ``equal_counts`` are the verdicts on every number of GPUs that the subject can use, up
    to ``--gpus``.
    """

    request: SearchRequest
    answers: tuple[BatchAnswer, ...]
    sentence: str
    focus_answer: BatchAnswer | None
    equal_counts: tuple[EqualCount, ...]
    break_evens: tuple[BreakEven, ...]
    elasticities: tuple[Elasticity, ...]
    swings: tuple[Swing, ...]
    provenance: Sequence[Mapping[str, str]]
    runtime: str
    pair: str | None
    inputs: tuple[TokenInput, ...]
    warnings: tuple[str, ...]
    evaluated: int

    @property
    def display(self) -> Display:
        return _table(self.request, self.answers, self.sentence)

    @property
    def focus(self) -> int | None:
        """The batch of the answer that the rest is about."""
        return None if self.focus_answer is None else self.focus_answer.batch


@any_spelling
def recommend(
    *,
    gpus: int | str,
    b: int | Sequence[int] = 1,
    rank: str = "user",
    gpu_hour: float | None = None,
    use: str = "needed",
    at_least: float | None = None,
    seed: int = 0,
    progress: Progress | None = None,
    **options: Unpack[Searched],
) -> Recommendation:
    """The best way to decode on at most ``gpus`` GPUs: strategy, placement, copies, K, outcomes cached, backup.

    Parameters
    ----------
    gpus : the budget, fewer of which may be used; ``8xh200`` also names their profile.
    b : sequences in flight over all copies, one batch or several.
    rank : ``user`` (tokens/s per user), ``gpu`` (tokens/s per GPU in use) or ``cost`` (of a token, with ``gpu_hour``).
    gpu_hour : price of a GPU for an hour.
    use : a token is counted to the GPUs ``needed``, or to ``all`` of the budget.
    at_least : tokens/s that a user must get.
    seed : of the draws of what is not known, behind intervals and probabilities.
    progress : hears how many of its steps are done: the search, each batch, what the answer would break even at.
    options : the workload, as :func:`ssdsim.configure` takes it (target, draft, hardware, context, alpha, ...);
        ``strategies`` to choose from and the ``subject`` that is held against the others. An option that is searched
        (``k``, ``tp``, ``draft_gpus``, ``budget``, ``backup``, ...) narrows what may be chosen to one value or several;
        by default K = 1...16, every legal degree, a mixture's experts together or apart, every number of draft devices,
        any number of cached outcomes, and the better backup.

    Returns
    -------
    Recommendation : a :class:`BatchAnswer` for each batch in increasing order; for the ``focus`` among them the
        verdicts at equal GPU counts, break-even points and elasticities.

    Raises
    ------
    InputError : an unknown option or value, or one without effect here.

    >>> found = recommend(gpus=8, b=[1, 64], k=[4, 8], tp=[4, 8], draft_gpus=[1, 4], engine="vllm")
    >>> [answer.best.name for answer in found.answers], found.answers[0].unsupported["ssd"].sentence
    (['SD TP 8', 'SD TP 8'], 'with SSD, which vLLM does not have: 1.04x')
    """
    asked = {"gpus": gpus, "b": b, "rank": rank, "gpu_hour": gpu_hour, "use": use, "at_least": at_least, "seed": seed}
    return recommended(progress, None, **asked, **options)[0]


def recommended(
    progress: Progress | None, beside: Callable[[SearchRequest, BatchAnswer], T] | None, **asked: Any
) -> tuple[Recommendation, T | None]:
    """:func:`recommend`, and what the answer at focus says of another question, which is worked out ``beside``."""
    workers = Workers()
    request = make_request(**asked)
    search, steps = Search(request), len(request.batches) + 2
    progress = progress or (lambda done, steps: None)
    search.run(workers)
    progress(1, steps)
    errors, evaluated = DeploymentDraws(request), search.evaluated
    answers = []
    for batch in request.batches:
        answers.append(_answer(search, errors, batch))
        progress(1 + len(answers), steps)
    about = _focus_answer(answers, request.subject)
    deployments = search.deployments(about.batch) if about else []
    bounds, moves, other = _at_changes(search, about, workers, beside)
    counts = (equal_count(deployments, n, errors) for n in range(1, request.gpus + 1))
    recommendation = Recommendation(
        request=request,
        answers=tuple(answers),
        sentence=_sentence(request, answers),
        focus_answer=about,
        equal_counts=tuple(count for count in counts if count is not None and count.subject.gpus == count.gpus),
        break_evens=bounds,
        swings=_swings(about),
        elasticities=moves,
        provenance=_provenance(request),
        runtime=runtime_for(request.options).summary,
        pair=pair_of(request.options),
        inputs=_inputs(answers),
        warnings=(*request.warnings, *sorted(search.warnings)),
        evaluated=evaluated,
    )
    progress(steps, steps)
    return recommendation, other


def _at_changes(
    search: Search,
    about: BatchAnswer | None,
    workers: Workers,
    beside: Callable[[SearchRequest, BatchAnswer], T] | None,
) -> tuple[tuple[BreakEven, ...], tuple[Elasticity, ...], T | None]:
    """Break-even points, elasticities, and what is asked beside: copies of this process take some of the questions."""
    if about is None or about.best is None:
        return (), (), None
    questions: list[Callable[[], Any]] = [
        *break_evens(search, about.batch)[::-1],  # which begin with the longest
        partial(elasticities, about.best, search),
        (lambda: None) if beside is None else partial(beside, search.request, about),
    ]
    *bounds, moves, other = workers.answers(questions)
    return tuple(bounds[::-1]), tuple(moves), other


def _answer(search: Search, errors: DeploymentDraws, batch: int) -> BatchAnswer:
    request = search.request
    deployments = search.deployments(batch)
    impossible = search.why_not(batch)
    if not deployments:
        reason = impossible[request.ranked[0]]
        return BatchAnswer(batch, {}, impossible, error=reason)
    by_strategy = {}
    for strategy in request.strategies:
        quickest = best((d for d in deployments if d.shape.strategy == strategy), request.rank, request.at_least)
        if quickest is not None:
            by_strategy[strategy] = quickest
    frontier = tuple(pareto(deployments))
    equal = equal_count(deployments, request.gpus, errors)
    top = best(by_strategy.values(), request.rank)
    if top is None:
        fastest = max(d.per_user for d in deployments)
        error = f"nothing gives a user {request.at_least:g} tokens/s; the fastest gives {fastest:.1f}"
        return BatchAnswer(batch, {}, impossible, frontier, equal, error=error)
    others = [d for d in by_strategy.values() if d is not top]
    runner_up = best(others, request.rank)
    return BatchAnswer(
        batch=batch,
        best=top,
        interval=Interval.of(errors.per_user(top).joint),
        runner_up=runner_up,
        margin=score(top, request.rank) / score(runner_up, request.rank) - 1.0 if runner_up else None,
        contest=held_against(top, others, errors, request.rank),
        by_strategy=by_strategy,
        impossible=impossible,
        pareto=frontier,
        equal=equal,
        unsupported=unsupported_beside(search, batch, top),
    )


def unsupported_beside(search: Search, batch: int, top: Deployment) -> dict[str, UnsupportedByEngine]:
    """The best of each strategy that the engine lacks; of one that it has, where it would be worth more."""
    request, found = search.request, {}
    beyond = search.unsupported(batch)
    for name in request.strategies:
        own = best((d for d in beyond if d.shape.strategy == name), request.rank, request.at_least)
        lacking = None if own is None else search.lacks(own)
        if own is None or lacking is None:
            continue
        worth = score(own, request.rank) / score(top, request.rank)
        if request.engine.lacks(name) is not None or worth > 1.0 + INDIFFERENT:
            found[name] = UnsupportedByEngine(own, worth, lacking)
    return found


def unsupported_json(unsupported: Mapping[str, UnsupportedByEngine]) -> dict[str, Any]:
    """Strategies that the engine cannot run, for JSON."""
    return {name: picked(each, "deployment", "worth", "sentence") for name, each in unsupported.items()}


def _swings(about: BatchAnswer | None) -> tuple[Swing, ...]:
    """Swings of the subject over its closest rival, on all GPUs."""
    if about is None or about.equal is None:
        return ()
    return tuple(swings(about.equal.subject.scenario, about.equal.closest.deployment.scenario))


def _focus_answer(answers: Sequence[BatchAnswer], subject: str) -> BatchAnswer | None:
    """The largest batch at which the subject is best; the smallest that fits where it is best at none."""
    fitting = [a for a in answers if a.best is not None]
    winning = [a for a in fitting if a.best and a.best.shape.strategy == subject]
    return winning[-1] if winning else next(iter(fitting), None)


def _sentence(request: SearchRequest, answers: Sequence[BatchAnswer]) -> str:
    """Sentence of which strategy at which batches, and where what is not known leaves it open or another is as good."""
    counted = {"user": "tokens/s per user", "gpu": "tokens/s per GPU", "cost": "cost of a token"}[request.rank]
    evidence = RatioEvidence(_inputs(answers))
    condition = evidence.condition.removesuffix(", ")

    def said(answer: BatchAnswer) -> str:
        if answer.best is None or answer.contest is None:
            return "nothing fits" if not answer.by_strategy and not answer.pareto else "nothing is fast enough"
        if answer.contest.outcome == "wins":
            return f"{answer.best.title}{evidence.robustness_clause}"
        rival = answer.contest.decisive_rival
        alike = f"{rival.title} is as good" if answer.contest.over[rival].is_tie else "undecided"
        return f"{answer.best.title} ({alike})"

    engine = f", of what {request.engine.called} runs" if request.engine.called else ""
    parts = []
    for what, group in groupby(answers, said):
        batches = [answer.batch for answer in group]
        span = f"{batches[0]}" if len(batches) == 1 else f"{batches[0]}-{batches[-1]}"
        parts.append(f"{what} at batch {span}")
    lead = f"By {counted} on up to {request.gpus} GPUs{engine}"
    return f"{lead}{', ' if condition else ''}{condition}: {', '.join(parts)}."


def _inputs(answers: Sequence[BatchAnswer]) -> tuple[TokenInput, ...]:
    """Inputs that the tokens of the best of each strategy rest on."""
    scenarios = {name: d.scenario for answer in answers for name, d in answer.by_strategy.items()}
    return inputs_of(*scenarios.values())


def _provenance(request: SearchRequest) -> list[dict[str, str]]:
    """Origin of the timings, a record a profile."""
    options = {**DEFAULTS, **request.options}
    cards = [find_transformer(options["target"]), draft_by_options(request.options)]
    asked = (options["dtype"], options["draft_dtype"] or options["dtype"])
    precisions = [card.precision(dtype, options["kv_dtype"]) for card, dtype in zip(cards, asked, strict=True)]
    dtypes = {kept for precision in precisions for kept in precision.formats}
    profiles = {
        p.name: p for p in (find_hardware(options[r] or options["hardware"]) for r in ("hardware", "draft_hardware"))
    }
    most = max(request.searched[TARGET.option] or ())
    exchanges = options["attention"] == DATA_PARALLEL
    rules = {card.recurrent.rule for card in cards if card.recurrent}
    read = (any(card.experts for card in cards), any(card.window for card in cards), exchanges, rules)
    return [{"profile": name, "summary": provenance_summary(p, dtypes, most, *read)} for name, p in profiles.items()]


TITLE = "Tokens/s per user and per GPU by batch; P that no other strategy is better"


def _table(request: SearchRequest, answers: tuple[BatchAnswer, ...], sentence: str) -> Display:
    """A row a batch: the best deployment, the runner-up, and how far they are apart."""
    costs = ["$/Mtoken"] if request.gpu_hour is not None else []
    best = ("best", "settings", "/user", "/GPU", *costs, "idle")
    header = ("batch", *best, "runner-up", "/user", "/GPU", "margin", "P")
    rows = [_row(request, answer) for answer in answers]
    return Display(TITLE, header, [row + ("",) * (len(header) - len(row)) for row in rows], sentence)


def _row(request: SearchRequest, answer: BatchAnswer) -> tuple[str, ...]:
    best, second, price = answer.best, answer.runner_up, request.gpu_hour
    if best is None:
        return str(answer.batch), "-"
    rival = [second.name, f"{second.per_user:.1f}", f"{second.per_gpu:.1f}"] if second else ["-", "", ""]
    return (
        str(answer.batch),
        best.name,
        best.settings,
        f"{best.per_user:.1f}",
        f"{best.per_gpu:.1f}",
        *([f"{best.cost_per_million(price):.2f}"] if price is not None else []),
        str(request.gpus - best.gpus),
        *rival,
        f"{answer.margin:+.1%}" if answer.margin is not None else "",
        f"{answer.probability:.2f}" if answer.probability is not None and second else "",
    )
