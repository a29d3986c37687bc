"""Comparison of all strategies at their best on as many GPUs, with the probability of each to be the fastest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from ssdsim.advise.recommend.deployment import Deployment, best, deployment_json
from ssdsim.advise.recommend.equal_count import DeploymentDraws, evidence_of, held_against
from ssdsim.advise.recommend.recommendation import UnsupportedByEngine, unsupported_beside, unsupported_json
from ssdsim.advise.recommend.request import SearchRequest, engine_json, make_request, request_json
from ssdsim.advise.recommend.search import Search
from ssdsim.answers.contest import DECIDED, Contest, Versus, share_fastest
from ssdsim.answers.evidence import RatioEvidence, Uncertainty
from ssdsim.answers.swings import inputs_of
from ssdsim.answers.workers import Workers
from ssdsim.base.checks import whole
from ssdsim.base.display import Display, Displayable
from ssdsim.base.errors import InputError
from ssdsim.base.intervals import bounds_95
from ssdsim.base.kinds_of_lists import EVERY
from ssdsim.base.option import spelled
from ssdsim.base.plain import document, picked
from ssdsim.base.record import Record, field
from ssdsim.pricing.occupancy import DoesNotFit
from ssdsim.question.place import runtime_for
from ssdsim.question.spellings import any_spelling
from ssdsim.question.standing import Standing, TokenInput, by_standing

if TYPE_CHECKING:
    from ssdsim.question.typed_options import Searched


QUANTILES = {"p5": 0.05, "p25": 0.25, "p50": 0.5, "p75": 0.75, "p95": 0.95}


class RankedStrategy(Record):
    """A strategy's best deployment, with the 95 % interval and quantiles of its tokens/s per user, and P(fastest).

    ``rests_on`` are its token inputs by their standing; AR has none.
    """

    deployment: Deployment
    low: float
    high: float
    quantiles: Mapping[str, float]
    probability_fastest: float
    rests_on: Mapping[Standing, Sequence[str]]


class Comparison(Displayable, Record):
    """Strategies from the fastest to the slowest; ``winner`` is None if it is undecided or a tie.

    ``likeliest`` is most often the fastest, and ``over`` compares it with each other one. ``doubts`` are the
    uncertainties of its ratio to the decisive rival, ``doubts_told`` the same in one line. ``impossible`` says why
    others have no room;
    ``unsupported`` are those that the engine cannot run.
    """

    request: SearchRequest
    batch: int
    compared: Mapping[str, RankedStrategy]
    inputs: Sequence[TokenInput]
    impossible: Mapping[str, str]
    winner: str | None
    likeliest: str
    over: Mapping[str, Versus]
    sentence: str
    doubts: Sequence[Uncertainty]
    doubts_told: str
    runtime: str
    warnings: Sequence[str]
    unsupported: Mapping[str, UnsupportedByEngine] = field(default_factory=dict)

    @property
    def display(self) -> Display:
        header = ("", "deployment", "per user", "95 %", "P(fastest)")
        rows = [
            (each.deployment.title, each.deployment.name, f"{each.deployment.per_user:.1f}",
             f"{each.low:.4g}-{each.high:.4g}", f"{each.probability_fastest:.2f}")
            for each in self.compared.values()
        ]  # fmt: skip
        return Display(f"Tokens/s per user, batch {self.batch}", header, rows, self.sentence)


@any_spelling
def compare(*, gpus: int | str, b: int = 1, seed: int = 0, **options: Unpack[Searched]) -> Comparison:
    """Compare strategies: which serves ``b`` sequences fastest on at most ``gpus`` GPUs, and how sure that is.

    Parameters
    ----------
    gpus, b : the budget, and sequences in flight over all copies.
    seed : of the draws.
    options : as :func:`ssdsim.recommend` takes them; ``strategies`` are by default all.

    Returns
    -------
    Every strategy with its best settings, as :func:`ssdsim.recommend` finds them at the inputs' values, under the same
    draws of timings and token inputs. The draws change neither its settings nor its cached outcomes.

    Raises
    ------
    InputError : an unknown option or value, or one without effect here; nothing fits.
    """
    whole("b", b, 1)
    workers = Workers()
    if options.get("strategies") is None:
        options["strategies"] = EVERY
    request = make_request(gpus=gpus, b=b, rank="user", gpu_hour=None, at_least=None, seed=seed, **options)
    search = Search(request)
    search.run(workers)
    deployments = _best_of_each(search, b)
    impossible = search.why_not(b)
    if not deployments:
        raise DoesNotFit(impossible[request.ranked[0]])
    errors = DeploymentDraws(request)
    rates = {name: errors.per_user(deployment).joint for name, deployment in deployments.items()}
    ends = {name: bounds_95(rates[name]) for name in deployments}
    compared = {
        name: RankedStrategy(
            deployment=deployment,
            low=float(ends[name][0]),
            high=float(ends[name][1]),
            quantiles={p: float(np.quantile(rates[name], q)) for p, q in QUANTILES.items()},
            probability_fastest=float(share_fastest(rates[name], [rates[o] for o in deployments if o != name])),
            rests_on=by_standing(deployment.scenario.known.inputs),
        )
        for name, deployment in deployments.items()
    }
    likeliest = max(compared, key=lambda name: compared[name].probability_fastest)
    first, others = (
        deployments[likeliest],
        [deployment for name, deployment in deployments.items() if name != likeliest],
    )
    held = held_against(first, others, errors)
    evidence = evidence_of(first, held.decisive_rival, held) if others else RatioEvidence(inputs_of(first.scenario))
    inputs = inputs_of(*(deployment.scenario for deployment in deployments.values()))
    check_ranges(request.options, inputs)
    return Comparison(
        request=request,
        batch=b,
        compared=compared,
        inputs=inputs,
        impossible=impossible,
        winner=likeliest if held.outcome == "wins" else None,
        likeliest=likeliest,
        over={deployment.shape.strategy: versus for deployment, versus in held.over.items()},
        sentence=_sentence(compared, held, evidence, first, request.gpus, b),
        doubts=evidence.doubts,
        doubts_told=evidence.summary,
        runtime=runtime_for(request.options).summary,
        warnings=(*request.warnings, *sorted(search.warnings)),
        unsupported=unsupported_beside(search, b, next(iter(deployments.values()))),
    )


def check_ranges(options: Mapping[str, Any], inputs: Sequence[TokenInput]) -> None:
    """Raise :class:`InputError` for a range of an input that no strategy reads."""
    read = {each.name for each in inputs}
    for name, _, _ in options.get("ranges", ()):
        if name not in read:
            raise InputError(f"--ranges {name} has no effect: no strategy that is compared reads {spelled(name)}")


def _best_of_each(search: Search, batch: int) -> dict[str, Deployment]:
    """The best deployment of each strategy, the fastest first."""
    deployments = search.deployments(batch)
    best_by_name = {
        name: best((d for d in deployments if d.shape.strategy == name), "user") for name in search.request.strategies
    }
    fitting = [(name, d) for name, d in best_by_name.items() if d is not None]
    return dict(sorted(fitting, key=lambda pair: -pair[1].per_user))


def _sentence(
    compared: Mapping[str, RankedStrategy],
    held: Contest[Deployment],
    evidence: RatioEvidence,
    first: Deployment,
    gpus: int,
    batch: int,
) -> str:
    """The verdict: the winner, or the likely ones, and the likeliest against its decisive rival."""
    where = f" at batch {batch} on up to {gpus} GPU{'s' if gpus > 1 else ''}"
    sure = f"P {compared[first.shape.strategy].probability_fastest:.2f} that it is the fastest"
    if not held.over:
        return f"{first.title}{where}: {first.name}, {sure}."
    closest = held.decisive_rival
    versus = held.over[closest]
    bounds = f"(95 %: {versus.low:.2f}-{versus.high:.2f})"
    clause = f"{first.name} is {versus.ratio:.2f}x {closest.name} {bounds}, {sure}"
    if held.outcome == "loses":  # in which the likeliest is as fast as another
        clause += f"; as fast: {', '.join(rival.title for rival, versus in held.over.items() if versus.is_tie)}"
    if not held.decided:
        names = sorted(compared, key=lambda name: -compared[name].probability_fastest)
        likely = [name for name in names if compared[name].probability_fastest > 1.0 - DECIDED]
        titles = [compared[name].deployment.title for name in likely]
        others = [f"one of {len(titles) - 2} others"] if len(titles) > 3 else titles[2:]
        where = f"{where}, {' or '.join([*titles[:2], *others])}"
    return evidence.sentence(held, [closest], (first.title, ""), clause, where)


def as_json(comparison: Comparison) -> dict[str, Any]:
    """The stable JSON object of ``ssdsim compare --json`` (schema 3)."""
    answer = {
        "schema": 3,
        "verb": "compare",
        "request": {**request_json(comparison.request), "b": comparison.batch},
        "verdict": picked(comparison, "winner", "likeliest", "over", "sentence", "doubts", "doubts_told"),
        "engine": engine_json(comparison.request),
        "strategies": tuple(comparison.compared.values()),
        **picked(comparison, "inputs", "impossible", "runtime", "warnings"),
        "apart": unsupported_json(comparison.unsupported),
    }
    return document(answer, {Deployment: deployment_json})
