"""The whole recommendation: an answer a batch, the verdict at equal GPU count, break-even and what to improve."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from ssdsim.advise.recommend.break_even import BreakEven, break_evens
from ssdsim.advise.recommend.choice import Choice, DeploymentDraws, RateRange, choose
from ssdsim.advise.recommend.deployment import INDIFFERENT, Deployment, best, pareto, score
from ssdsim.advise.recommend.elasticity import Elasticity, elasticities
from ssdsim.advise.recommend.request import SearchRequest, make_request, provenance
from ssdsim.advise.recommend.search import Search
from ssdsim.advise.recommend.words import how_sure, span
from ssdsim.answers.decision import Decision
from ssdsim.answers.swings import Swing, inputs_of, swings
from ssdsim.answers.workers import Workers
from ssdsim.base.checks import whole
from ssdsim.base.display import Display, Displayable
from ssdsim.base.errors import InputError
from ssdsim.base.kinds_of_lists import EVERY
from ssdsim.base.option import spelled
from ssdsim.base.plain import picked
from ssdsim.base.record import Record, field
from ssdsim.question.configuration import telling
from ssdsim.question.measured_pair import pair_of
from ssdsim.question.place import runtime_for
from ssdsim.question.spellings import any_spelling
from ssdsim.question.token_inputs import TokenInput
from ssdsim.strategies.protocols.axes import SAGUARO
from ssdsim.tokens.saguaro import PLAIN

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
    """The answer at one batch: what is chosen, and the best of each strategy; ``error`` says why nothing is.

    ``impossible`` has the reason of each strategy that does not fit, ``unsupported`` those that the engine cannot run.
    ``gain_of_c`` is what Saguaro's C gains over the same strategy's best with plain sampling, on no more GPUs; None
    where the best samples plainly.
    """

    batch: int
    impossible: Mapping[str, str]
    pareto: tuple[Deployment, ...] = ()
    choice: Choice | None = None
    error: str | None = None
    unsupported: Mapping[str, UnsupportedByEngine] = field(default_factory=dict)
    gain_of_c: float | None = None

    @property
    def by_strategy(self) -> Mapping[str, Deployment]:
        """The best of each strategy that fits."""
        return {} if self.choice is None else self.choice.by_strategy

    @property
    def decision(self) -> Decision[Deployment] | None:
        """How the best was chosen."""
        return None if self.choice is None else self.choice.decision

    @property
    def best(self) -> Deployment | None:
        """What to run."""
        return None if self.choice is None else self.choice.decision.chosen

    @property
    def runner_up(self) -> Deployment | None:
        """The best of another strategy."""
        return None if self.choice is None else self.choice.decision.runner_up

    def rate(self, strategy: str) -> RateRange:
        """Tokens/s per user of a strategy's best."""
        assert self.choice is not None  # it fits
        return self.choice.rates[strategy]


class WithFewer(Record):
    """What is chosen where no more than so many ``gpus`` may be used, with its tokens/s per user."""

    gpus: int
    deployment: Deployment
    rate: RateRange


class Recommendation(Displayable, Record):
    """The answers by batch. All other fields are about ``focus_answer``.

    That is the answer at the largest batch where the subject is best; if it is best at none, at the smallest batch that
    fits; None if nothing fits. ``fewer`` has what each smaller number of GPUs would be used for, or the largest of them
    alone. The last four fields but one are empty where they were not asked for.
    """

    request: SearchRequest
    answers: tuple[BatchAnswer, ...]
    sentence: str
    focus_answer: BatchAnswer | None
    fewer: tuple[WithFewer, ...]
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
    def telling_warnings(self) -> list[str]:
        """Of the warnings those that can move what is recommended, or the best of another strategy."""
        best = [d.scenario for answer in self.answers for d in answer.by_strategy.values()]
        return telling(self.warnings, best)

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
    rule: str = "mean-log",
    progress: Progress | None = None,
    **options: Unpack[Searched],
) -> Recommendation:
    """The best way to decode on at most ``gpus`` GPUs: strategy, placement, copies, K, outcomes cached, backup.

    Parameters
    ----------
    gpus : the budget, fewer of which may be used; ``8xh200`` also names their profile, ``1xrtx-4090+1xrtx-3090`` those
        of targets and of drafts.
    b : sequences in flight over all copies, one batch or several.
    rank : ``user`` (tokens/s per user), ``gpu`` (tokens/s per GPU in use), ``cost`` (of a token, with ``gpu_hour``) or
        ``joules`` (a token, on hardware whose watts are known).
    gpu_hour : price of a GPU for an hour.
    use : a token is counted to the GPUs ``needed``, or to ``all`` of the budget.
    at_least : tokens/s that a user must get.
    seed : of the draws of what is not known, by which is chosen.
    rule : ``mean-log``, the highest mean log speed over these draws; ``point``, the highest at the inputs' values;
        ``expected``, the highest mean; ``fastest``, the most draws won.
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
    (['SD TP 8', 'SD TP 8'], 'with SSD, which vLLM does not have: 0.89x')
    """
    asked: dict[str, Any] = {
        "gpus": gpus,
        "b": b,
        "rank": rank,
        "gpu_hour": gpu_hour,
        "use": use,
        "at_least": at_least,
        "seed": seed,
    }
    return recommended(progress, None, rule=rule, **asked, **options)[0]


@any_spelling
def compare(*, gpus: int | str, b: int = 1, seed: int = 0, **options: Unpack[Searched]) -> Recommendation:
    """Compare strategies: :func:`recommend` among all of them, or among ``strategies``.

    The answer's ``choice`` has each one at its best, by how much it loses, and in which share of draws it is the best.

    Raises
    ------
    InputError : an unknown option or value, or one without effect here; nothing fits.
    """
    whole("--b", b, 1)
    if options.get("strategies") is None:
        options["strategies"] = EVERY
    asked = {"gpus": gpus, "b": b, "rank": "user", "gpu_hour": None, "at_least": None, "seed": seed}
    found, _ = recommended(None, None, explained=False, **asked, **options)
    (answer,) = found.answers
    if answer.best is None:
        raise InputError(str(answer.error))
    return found


def recommended(
    progress: Progress | None,
    beside: Callable[[SearchRequest, BatchAnswer], T] | None,
    explained: bool = True,
    **asked: Any,
) -> tuple[Recommendation, T | None]:
    """:func:`recommend`, and what the answer at focus says of another question, which is worked out ``beside``.

    If it is not ``explained``, there are no break-even points, no elasticities, and nothing beside.
    """
    workers = Workers()
    request = make_request(**asked)
    search, steps = Search(request), len(request.batches) + 2
    progress = progress or (lambda done, steps: None)
    search.run(workers)
    progress(1, steps)
    drawn, evaluated = DeploymentDraws(request.options, request.seed, search.evaluator), search.evaluated
    answers = []
    for batch in request.batches:
        answers.append(_answer(search, drawn, batch))
        progress(1 + len(answers), steps)
    about = _focus_answer(answers, request.subject)
    inputs = _inputs(answers)
    check_ranges(request.options, answers)
    bounds, moves, other = _at_changes(search, about if explained else None, workers, beside)
    recommendation = Recommendation(
        request=request,
        answers=tuple(answers),
        sentence=sentence(request, answers),
        focus_answer=about,
        fewer=_fewer(search, drawn, about, explained or len(answers) > 1),
        break_evens=bounds,
        swings=_swings(about) if explained else (),
        elasticities=moves,
        provenance=provenance(request),
        runtime=runtime_for(request.options).summary,
        pair=pair_of(request.options),
        inputs=inputs,
        warnings=(*request.warnings, *sorted(search.warnings)),
        evaluated=evaluated,
    )
    progress(steps, steps)
    return recommendation, other


def check_ranges(options: Mapping[str, Any], answers: Sequence[BatchAnswer]) -> None:
    """Raise :class:`InputError` for a range of an input that no strategy reads, if any fits."""
    deployments = [d for each in answers for d in each.by_strategy.values()]
    deployments += [each.deployment for answer in answers for each in answer.unsupported.values()]
    read = {each.name for d in deployments for each in d.scenario.known.inputs}
    for name, _, _ in options.get("ranges", ()) if deployments else ():
        if name not in read:
            raise InputError(f"--ranges {name} has no effect: no strategy that is compared reads {spelled(name)}")


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
        *break_evens(search, about.batch, about.by_strategy)[::-1],  # which begin with the longest
        partial(elasticities, about.best, search),
        (lambda: None) if beside is None else partial(beside, search.request, about),
    ]
    *bounds, moves, other = workers.answers(questions)
    return tuple(bounds[::-1]), tuple(moves), other


def _answer(search: Search, drawn: DeploymentDraws, batch: int) -> BatchAnswer:
    request = search.request
    deployments = search.deployments(batch)
    impossible = search.why_not(batch)
    if not deployments:
        return BatchAnswer(batch, impossible, error=impossible[request.ranked[0]])
    frontier = tuple(pareto(deployments))
    choice = choose(deployments, drawn, request.rank, request.at_least, request.rule)
    if choice is None:
        fastest = max(d.per_user for d in deployments)
        error = f"nothing gives a user {request.at_least:g} tokens/s; the fastest gives {fastest:.1f}"
        return BatchAnswer(batch, impossible, frontier, error=error)
    chosen = choice.decision.chosen
    beside = unsupported_beside(search, batch, chosen)
    gain = _gain_of_c(request, chosen, deployments)
    return BatchAnswer(batch, impossible, frontier, choice, unsupported=beside, gain_of_c=gain)


def _gain_of_c(request: SearchRequest, chosen: Deployment, deployments: Sequence[Deployment]) -> float | None:
    if chosen.shape.settings.get(SAGUARO.option, PLAIN) == PLAIN:
        return None
    alike = (d for d in deployments if d.shape.strategy == chosen.shape.strategy and d.gpus <= chosen.gpus)
    plain = [d for d in alike if d.shape.settings.get(SAGUARO.option) == PLAIN]
    other = best(plain, request.rank, request.at_least)
    return None if other is None else score(chosen, request.rank) / score(other, request.rank) - 1.0


def _fewer(search: Search, drawn: DeploymentDraws, about: BatchAnswer | None, every: bool) -> tuple[WithFewer, ...]:
    """What ``every`` number of GPUs below that of the best would be used for; else the largest of them."""
    if about is None or about.best is None:
        return ()
    request, found = search.request, dict[Deployment, WithFewer]()
    for gpus in range(1 if every else max(1, about.best.gpus - 1), about.best.gpus):
        within = [d for d in search.deployments(about.batch) if d.gpus <= gpus]
        if choice := choose(within, drawn, request.rank, request.at_least, request.rule):
            chosen = choice.decision.chosen
            found.setdefault(chosen, WithFewer(gpus, chosen, choice.rates[chosen.shape.strategy]))
    return tuple(found.values())


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
    """Swings of the best over the best of another strategy."""
    if about is None or about.best is None or about.runner_up is None:
        return ()
    return tuple(swings(about.best.scenario, about.runner_up.scenario))


def _focus_answer(answers: Sequence[BatchAnswer], subject: str) -> BatchAnswer | None:
    """The largest batch at which the subject is best; the smallest that fits where it is best at none."""
    fitting = [a for a in answers if a.best is not None]
    winning = [a for a in fitting if a.best and a.best.shape.strategy == subject]
    return winning[-1] if winning else next(iter(fitting), None)


def sentence(request: SearchRequest, answers: Sequence[BatchAnswer]) -> str:
    """What to run at which batches, and how sure that is."""
    counted = {
        "user": "tokens/s per user",
        "gpu": "tokens/s per GPU",
        "cost": "cost of a token",
        "joules": "joules a token",
    }[request.rank]

    def said(answer: BatchAnswer) -> str:
        if answer.decision is None or answer.best is None:
            return "nothing is fast enough" if answer.pareto else "nothing fits"
        return f"{answer.best.title} ({how_sure(answer.decision)})"

    engine = f", of what {request.engine.called} runs" if request.engine.called else ""
    grouped = groupby(answers, said)
    parts = [f"{what} at batch {span([answer.batch for answer in group])}" for what, group in grouped]
    return f"By {counted} on up to {request.gpus} GPUs{engine}: {', '.join(parts)}."


def _inputs(answers: Sequence[BatchAnswer]) -> tuple[TokenInput, ...]:
    """Inputs that the tokens of the best of each strategy rest on."""
    scenarios = {name: d.scenario for answer in answers for name, d in answer.by_strategy.items()}
    return inputs_of(*scenarios.values())


def _table(request: SearchRequest, answers: tuple[BatchAnswer, ...], said: str) -> Display:
    """A row a batch: what to run, and how sure that is."""
    costs = ["$/Mtoken"] if request.gpu_hour is not None else []
    header = ("batch", "run", "settings", "per user", "80 %", "per GPU", *costs, "GPUs", "loses", "how sure")
    rows = [_row(request, answer) for answer in answers]
    padded = [row + ("",) * (len(header) - len(row)) for row in rows]
    return Display("What to run by batch", header, padded, said)


def _row(request: SearchRequest, answer: BatchAnswer) -> tuple[str, ...]:
    best, decision, price = answer.best, answer.decision, request.gpu_hour
    if best is None or decision is None:
        return str(answer.batch), "-"
    rate = answer.rate(best.shape.strategy)
    return (
        str(answer.batch),
        best.name,
        best.settings,
        f"{rate.median:.1f}",
        f"{rate.likely.low:.1f}-{rate.likely.high:.1f}",
        f"{best.per_gpu * rate.median / best.per_user:.1f}",
        *([f"{best.cost_per_million(price) * best.per_user / rate.median:.2f}"] if price is not None else []),
        str(best.gpus),
        f"{decision.loss.mean:.1%}",
        how_sure(decision),
    )
