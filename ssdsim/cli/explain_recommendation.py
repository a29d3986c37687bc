"""What a recommendation rests on: all that its first screen leaves out."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from ssdsim.advise.recommend.break_even import BreakEven
from ssdsim.advise.recommend.launch_plan import LaunchPlan
from ssdsim.advise.recommend.recommendation import BatchAnswer, Recommendation
from ssdsim.advise.recommend.request import SearchRequest
from ssdsim.advise.recommend.words import percents
from ssdsim.answers.evidence import inputs_text
from ssdsim.answers.verdict import title_of
from ssdsim.cli.console import print_labelled, print_origins
from ssdsim.cli.render_recommendation import between, number, run, unsupported_gain
from ssdsim.cli.screen import screen
from ssdsim.cli.tables import TextTable

_SHOWN_GAINS = 6
_NO_GAIN = 5e-4
_HELD = "its GPUs held, its settings follow"


def print_explained(recommendation: Recommendation, plan: LaunchPlan | None) -> None:
    """Print each strategy at every batch, then, at one batch, how the best stands and what would change it."""
    out, about = screen(), recommendation.focus_answer
    for answer in recommendation.answers:
        _print_strategies(answer, out)
    if plan is not None and about is not None and about.best is not None:
        _heading(out, f"At {about.batch} in flight: {', '.join(filter(None, (about.best.name, about.best.settings)))}")
        for label, text in _about(about, plan, recommendation.request):
            print_labelled(out, f"{label:9}", text, "", "bold")
        _print_fewer(recommendation, about, out)
        _print_pareto(recommendation, about, out)
        _print_break_even(recommendation, about, out)
        _print_gains(recommendation, out)
        _print_swings(recommendation, about, out)
    out.print()
    out.print(f"Searched {recommendation.evaluated} settings in closed form", style="dim")
    print_origins(out, recommendation.provenance, recommendation.runtime, inputs_text(recommendation.inputs))


def _print_strategies(answer: BatchAnswer, out: Console) -> None:
    """Each strategy at its best, the one that loses least first, and why others are not there."""
    choice, decision = answer.choice, answer.decision
    if choice is not None and decision is not None:
        _heading(out, f"Strategies at {answer.batch} in flight, each at its best; it loses on average to the best")
        table = TextTable(("run",), ("tokens/s a user", "likely", "95 %", "loses", "best in"), first=("loses",))
        lost = {name: decision.losses[d] for name, d in choice.by_strategy.items()}
        for name in sorted(lost, key=lambda name: (name != decision.chosen.shape.strategy, lost[name])):
            rate, best_in = choice.rates[name], decision.best_in.get(name, 0.0)
            cells = number(rate.median), between(rate.likely), between(rate.interval)
            table.add_row(run(choice.by_strategy[name]), *cells, percents([lost[name]]), percents([best_in]))
        out.print(table)
        ruled = {rule: run(d) for rule, d in decision.by_rule.items() if d != decision.chosen}
        if ruled:
            out.print(f"by other rules: {'; '.join(f'{rule}: {d}' for rule, d in ruled.items())}", style="dim")
    for each in answer.unsupported.values():
        out.print(f"apart: {unsupported_gain(answer, each)}", style="yellow")
    for name, reason in answer.impossible.items():
        out.print(f"{answer.batch} in flight: no {title_of(name)}: {reason}", style="yellow")


def _about(about: BatchAnswer, plan: LaunchPlan, request: SearchRequest) -> Iterator[tuple[str, str]]:
    """The round of the best, what it costs, and from which rate of requests on it stops paying."""
    best = plan.deployment
    each = f" in each of {best.copies} copies" if best.copies > 1 else ""
    hits = "" if best.rate.p_hit is None else f", {best.rate.p_hit:.0%} of them after a hit"
    yield "Round", f"{best.rate.tokens_per_round:.2f} tokens in {1e3 * best.rate.round_s:.1f} ms{each}{hits}"
    if about.gain_of_c is not None:
        yield "C", f"{about.gain_of_c:+.1%} over plain sampling, each with its best other settings"
    if plan.cost is not None:
        yield "Cost", _cost(plan, request)
    if plan.paying is None:
        yield "Pays", "" if plan.not_served is None else f"not known: {plan.not_served}"
        return
    prompt, answer = plan.paying.lengths
    counted = "target" if best.shape.targets > 1 else "copy"
    copy = f"A {counted}: " if best.targets > 1 else ""
    yield "Pays", f"{copy}With prompts of {prompt} and answers of {answer} tokens: {plan.paying.sentence}"


def _cost(plan: LaunchPlan, request: SearchRequest) -> str:
    assert plan.cost is not None
    needed, everything = plan.cost
    used, idle = plan.deployment.gpus, request.gpus - plan.deployment.gpus
    if request.use == "all" or not idle:
        return f"${everything:.2f} a million tokens on all {request.gpus} GPUs, each ${request.gpu_hour:g} an hour"
    on = f"on {used} GPU{'s' if used > 1 else ''}, each ${request.gpu_hour:g} an hour"
    return f"${needed:.2f} a million tokens {on}; ${everything:.2f} if the {idle} idle ones are paid for (--use all)"


def _heading(out: Console, text: str) -> None:
    out.print()
    out.print(Text(text, "bold"))


def _print_fewer(recommendation: Recommendation, about: BatchAnswer, out: Console) -> None:
    if not recommendation.fewer:
        return
    _heading(out, f"With fewer GPUs, {about.batch} in flight")
    table = TextTable(("run",), ("GPUs", "tokens/s a user", "likely"))
    for each in recommendation.fewer:
        table.add_row(run(each.deployment), str(each.gpus), number(each.rate.median), between(each.rate.likely))
    out.print(table)


def _print_pareto(recommendation: Recommendation, about: BatchAnswer, out: Console) -> None:
    _heading(out, f"Frontier, {about.batch} in flight: tokens/s a user against tokens/s a GPU, at the inputs' values")
    price = recommendation.request.gpu_hour
    table = TextTable(("run",), ("GPUs", "a user", "a GPU", *(["$/Mtoken"] if price is not None else [])))
    for d in about.pareto:
        cost = [f"{d.cost_per_million(price):.2f}"] if price is not None else []
        table.add_row(run(d), str(d.gpus), number(d.per_user), number(d.per_gpu), *cost)
    out.print(table)


def _print_break_even(recommendation: Recommendation, about: BatchAnswer, out: Console) -> None:
    subject = about.by_strategy.get(recommendation.request.subject)
    if not recommendation.break_evens or subject is None:
        return
    held = f"one change at a time, all else at its value; {_HELD}"
    _heading(out, f"Break-even ({held}): {subject.name} is the fastest on up to {recommendation.request.gpus} GPUs")
    for bound in recommendation.break_evens:
        print_labelled(out, "  ", _bound(bound))


def _bound(bound: BreakEven) -> str:
    counted = bound.what == "batch"
    unit = f" {bound.unit}" if bound.unit and not counted else ""
    now = f" (here {bound.present:.4g}{unit})" if bound.present is not None else ""
    note = f", {bound.note}" if bound.note else ""
    if bound.value is None:
        said = {"always": "at any", "never": "at no", "unknown": "not known for"}[bound.bound]
        return f"{said} {bound.what}{now}{note}"
    value = f"{bound.value:.0f}" if counted else f"{bound.value:.3f}"
    return f"{bound.bound} {bound.what} {value}{unit}{now}{note}"


def _print_gains(recommendation: Recommendation, out: Console) -> None:
    _heading(out, f"What to improve first ({_HELD})")
    table = TextTable(("what", "change"), ("tokens/s", "elasticity"))
    shown = [e for e in recommendation.elasticities if e.gain >= _NO_GAIN][:_SHOWN_GAINS]
    for e in shown:
        table.add_row(e.what, e.better, f"{e.gain:+.1%}", f"{e.elasticity:+.2f}")
    out.print(table)
    idle = [e.what for e in recommendation.elasticities if e.gain < _NO_GAIN]
    if idle:
        out.print(f"no gain from: {', '.join(idle)}", style="dim")


def _print_swings(recommendation: Recommendation, about: BatchAnswer, out: Console) -> None:
    """Print what nobody knows, by what is gained by deciding after it is known, and how it moves the ratio."""
    if about.decision is None or about.best is None or about.runner_up is None or not recommendation.swings:
        return
    _heading(out, f"What to measure first: {about.best.name} over {about.runner_up.name}; what knowing it gains")
    table = TextTable(("what", "is a", "over"), ("lowest", "highest", "gains"), names=2)
    gains = about.decision.gain_of_knowing
    for each in sorted(recommendation.swings, key=lambda each: -gains.get(each.of, 0.0)):
        standing = "measured rate" if each.standing == "measured" else each.standing
        knowing = percents([gains.get(each.of, 0.0)])
        table.add_row(each.what, standing, each.over, f"{each.lowest:.2f}x", f"{each.highest:.2f}x", knowing)
    out.print(table)
