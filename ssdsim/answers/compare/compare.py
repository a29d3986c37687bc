"""Every strategy at its best on as many GPUs, and how likely each is to be the fastest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ssdsim import strategies
from ssdsim.answers.compare.inputs import AcceptanceInput, Range, acceptance_inputs, drawn
from ssdsim.answers.contest import DECIDED, Contest, contest, share_fastest
from ssdsim.answers.predict import DRAWS
from ssdsim.answers.recommend.answer import Apart, apart_from
from ssdsim.answers.recommend.choice import best
from ssdsim.answers.recommend.deployment import Deployment
from ssdsim.answers.recommend.equal_count import Errors
from ssdsim.answers.recommend.request import Request, make_request
from ssdsim.answers.recommend.search import Search
from ssdsim.checks import whole
from ssdsim.intervals import Draws, bounds_95
from ssdsim.option import spelled
from ssdsim.pricing.cost import TimingErrors
from ssdsim.pricing.room import NoRoom
from ssdsim.rounds.round import Round
from ssdsim.scenario.asked import effective
from ssdsim.scenario.place import runtime_for
from ssdsim.scenario.scenario import Scenario

_OF_ACCEPTANCE = 50  # draws of the acceptance inputs; each meets as many of the timings' errors as are left
QUANTILES = {"p5": 0.05, "p25": 0.25, "p50": 0.5, "p75": 0.75, "p95": 0.95}


@dataclass(frozen=True)
class Compared:
    """A strategy's best deployment with its tokens/s per user: 95 % interval, quantiles, P(the fastest)."""

    deployment: Deployment
    low: float
    high: float
    quantiles: Mapping[str, float]
    probability_fastest: float


@dataclass(frozen=True)
class Comparison:
    """Strategies from the fastest to the slowest; ``winner`` is None where it is open, or another is as fast.

    ``impossible`` says why others have no room; ``apart`` are those that the engine cannot run.
    """

    request: Request
    batch: int
    compared: Mapping[str, Compared]
    inputs: Sequence[AcceptanceInput]
    impossible: Mapping[str, str]
    winner: str | None
    sentence: str
    runtime: str
    warnings: Sequence[str]
    apart: Mapping[str, Apart] = field(default_factory=dict)


def compare(
    *, gpus: int | str, b: int = 1, ranges: Mapping[str, Range] | None = None, seed: int = 0, **options: Any
) -> Comparison:
    """Which strategy serves ``b`` sequences the fastest on at most ``gpus`` GPUs, and how sure that is.

    Parameters
    ----------
    gpus, b : the budget, and sequences in flight over all copies.
    ranges : where an acceptance input may lie, ``{"alpha": (0.75, 0.85)}``. One that is given without a range is
        taken to be exact, a default within the range that its option calls plausible.
    seed : of the draws.
    options : as :func:`ssdsim.recommend` takes them; ``strategies`` are by default, and with ``all``, all.

    Returns
    -------
    Every strategy's best settings, as :func:`ssdsim.recommend` finds them at the inputs' values, under the same draws
    of the inputs and of the timings' errors. A strategy that caches plans its cache for what is drawn.

    Raises
    ------
    InputError : an unknown option or value, or one without effect here; nothing fits.
    """
    whole("b", b, 1)
    if options.get("strategies") in (None, "all"):
        options["strategies"] = strategies.ALL.names
    request = make_request(gpus=gpus, b=b, rank="user", gpu_hour=None, at_least=None, seed=seed, given=options)
    search = Search(request)
    search.run()
    found = _best_of_each(search, b)
    impossible = search.why_not(b)
    if not found:
        raise NoRoom(impossible[request.ranked[0]])
    points = {name: d.shape.point(request.options, d.copy_batch) for name, d in found.items()}
    inputs = acceptance_inputs(points, ranges or {})
    rates = _draws(found, points, inputs, request)
    ends = {name: bounds_95(rates[name]) for name in found}
    compared = {
        name: Compared(
            deployment=deployment,
            low=float(ends[name][0]),
            high=float(ends[name][1]),
            quantiles={p: float(np.quantile(rates[name], q)) for p, q in QUANTILES.items()},
            probability_fastest=float(share_fastest(rates[name], [rates[o] for o in found if o != name])),
        )
        for name, deployment in found.items()
    }
    likeliest = max(compared, key=lambda name: compared[name].probability_fastest)
    others = [name for name in compared if name != likeliest]
    held = contest(likeliest, others, {name: d.per_user for name, d in found.items()}, rates)
    alone = bool(inputs) and all(each.origin == "placeholder" for each in inputs)  # nobody wins on these alone
    winner = likeliest if held.outcome == "wins" and not alone else None
    return Comparison(
        request=request,
        batch=b,
        compared=compared,
        inputs=inputs,
        impossible=impossible,
        winner=winner,
        sentence=_sentence(compared, held, inputs, winner, request.gpus, b),
        runtime=runtime_for(request.options).summary,
        warnings=(*request.warnings, *sorted(search.warnings)),
        apart=apart_from(search, b, next(iter(found.values()))),
    )


def _best_of_each(search: Search, batch: int) -> dict[str, Deployment]:
    """By strategy, the fastest first."""
    deployments = search.deployments(batch)
    found = {
        name: best((d for d in deployments if d.shape.strategy == name), "user") for name in search.request.strategies
    }
    fitting = [(name, d) for name, d in found.items() if d is not None]
    return dict(sorted(fitting, key=lambda pair: -pair[1].per_user))


def _draws(
    found: Mapping[str, Deployment],
    points: Mapping[str, Mapping[str, Any]],
    inputs: Sequence[AcceptanceInput],
    request: Request,
) -> dict[str, Draws]:
    """Tokens/s per user of each strategy under the same draws of the inputs and of the timings' errors."""
    errors, timings = Errors(request), TimingErrors(DRAWS, request.seed)
    ranged = any(each.within is not None for each in inputs)
    several = list(drawn(inputs, _OF_ACCEPTANCE, request.seed)) if ranged else []
    rates = {}
    for name, deployment in found.items():
        rates[name] = errors.per_user(deployment)
        read = {each.name for each in inputs if name in each.read_by}
        if read & {input_ for draw in several for input_ in draw}:
            rates[name] = _under(several, read, deployment, points[name], timings, rates[name])
    return rates


def _under(
    several: Sequence[Mapping[str, float]],
    read: set[str],
    deployment: Deployment,
    point: Mapping[str, Any],
    timings: TimingErrors,
    centred: Draws,
) -> Draws:
    """``centred`` (under errors alone), each draw moved as one of the inputs' draws moves it, counted round."""
    scenario = deployment.scenario
    alone = scenario.sampled(timings)
    moved = np.empty(DRAWS)
    for number, inputs in enumerate(several):
        mine = slice(number, None, len(several))
        seconds = {step: np.asarray(s)[mine] for step, s in alone.seconds.items()}
        changed = {name: value for name, value in inputs.items() if name in read}
        rates = [
            scenario.strategy.closed_form(Round(alone.batch, alone.gpus, seconds, averages)).tokens_per_second
            for averages in (_tokens(scenario, point, changed), scenario.tokens.averages)
        ]
        moved[mine] = np.asarray(rates[0]) / np.asarray(rates[1])
    return np.asarray(centred * moved)


def _tokens(scenario: Scenario, point: Mapping[str, Any], changed: Mapping[str, float]) -> Any:
    """What rounds do on average with other inputs and the same settings."""
    settings, site = effective({**point, **changed}), scenario.site
    assert site is not None  # nobody can be advised to deploy unit-free times
    scenario.strategy.settle(settings, site.with_options(settings), scenario.drafter)
    return scenario.strategy.kernel(settings, scenario.drafter).averages


def _sentence(
    compared: Mapping[str, Compared],
    held: Contest[str],
    inputs: Sequence[AcceptanceInput],
    winner: str | None,
    gpus: int,
    batch: int,
) -> str:
    names = sorted(compared, key=lambda name: -compared[name].probability_fastest)
    first = compared[names[0]].deployment
    others = [compared[name].deployment for name in compared if name != names[0]]
    ahead = ""
    if others:
        second = max(others, key=lambda d: d.per_user)
        ahead = f" ({first.per_user / second.per_user:.2f}x {second.name})"
        if first.per_user < second.per_user:
            faster = f"{second.name} is {second.per_user / first.per_user:.2f}x as fast"
            ahead = f" (over the ranges; at these values {faster})"
    what = f"{first.name}{ahead}, P {compared[names[0]].probability_fastest:.2f}"
    where = f"at batch {batch} on up to {gpus} GPU{'s' if gpus > 1 else ''}"
    unknown = [each for each in inputs if each.origin == "placeholder"]
    if winner is not None:
        rests = f"; {_listed(unknown)} are placeholders" if unknown else ""
        return f"{first.title} {where}: {what}{rests}."
    if unknown and len(unknown) == len(inputs):
        give = " ".join(spelled(each.name) for each in unknown)
        return (
            f"No winner is named {where}: every acceptance input is a placeholder ({_listed(unknown)}). With them it "
            f"would be {what}. Measure them and give {give}."
        )
    if held.decided:
        alike = [compared[name].deployment.title for name, versus in held.over.items() if versus.as_fast]
        return f"{first.title} {where}: {what}; as fast: {', '.join(alike)}."
    likely = " or ".join(compared[n].deployment.title for n in names if compared[n].probability_fastest > 1.0 - DECIDED)
    return f"Undecided {where}: {likely}; the likeliest is {what}."


def _listed(inputs: Sequence[AcceptanceInput]) -> str:
    return ", ".join(
        f"{each.name} {each.value:g}" if isinstance(each.value, int | float) else each.name for each in inputs
    )
