"""A recommendation as a person reads it in a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from rich.console import Console
from rich.text import Text

from ssdsim import strategies
from ssdsim.advise.recommend.break_even import BreakEven
from ssdsim.advise.recommend.deployment import Deployment
from ssdsim.advise.recommend.equal_count import EqualCount
from ssdsim.advise.recommend.launch_plan import ATTAINMENT, NO_ENGINE, LaunchPlan
from ssdsim.advise.recommend.recommendation import TITLE, BatchAnswer, Recommendation
from ssdsim.advise.recommend.request import SearchRequest
from ssdsim.answers.contest import Versus
from ssdsim.answers.evidence import inputs_text
from ssdsim.base.settings import GIVEN
from ssdsim.cli.console import UNLABELLED, console, print_labelled, print_origins, print_warnings
from ssdsim.cli.render_prediction import title_of
from ssdsim.cli.tables import TextTable
from ssdsim.question.engines import UNNAMED
from ssdsim.question.question import effective
from ssdsim.serving.options import Slo

_SHOWN_GAINS = 6
_NO_GAIN = 5e-4
_HELD = "its GPUs held, its settings follow"


def print_recommendation(recommendation: Recommendation, plan: LaunchPlan | None, quiet: bool) -> None:
    """Print what to deploy in the first lines, then the answer by batch, and what it rests on at one batch."""
    out = console()
    print_labelled(out, "Verdict  ", recommendation.sentence, "green", "bold")
    about = recommendation.focus_answer
    if plan is not None and about is not None:
        for label, text in _first_lines(recommendation, about, plan):
            print_labelled(out, f"{label:9}", text, "", "bold")
        _print_command(plan, out)
        for label, text in _rates(plan):
            print_labelled(out, f"{label:9}", text, "", "bold")
        for note in plan.command.notes if plan.command else ():
            print_labelled(out, UNLABELLED, f"note: {note}", "cyan")
        out.print()
    for sentence in _at_equal_count(recommendation, about):
        print_labelled(out, UNLABELLED, sentence)
    if about is not None and about.equal is not None and about.equal.doubts_told:
        print_labelled(out, UNLABELLED, f"not known: {about.equal.doubts_told}")
    print_labelled(out, UNLABELLED, _question(recommendation.request), "dim")
    if recommendation.request.engine.called is None:
        print_labelled(out, UNLABELLED, UNNAMED, "dim")
    _heading(out, TITLE)
    _print_answers(recommendation, out)
    if about is not None:
        _print_best(about, out)
        _print_equal(recommendation, about, out)
        _print_pareto(recommendation, about, out)
        _print_break_even(recommendation, about, out)
        _print_gains(recommendation, about, out)
        _print_swings(recommendation, about, out)
    out.print()
    out.print(
        f"Searched {recommendation.evaluated} settings in closed form; "
        "P and 95 % from errors of timings and doubts of tokens",
        style="dim",
    )
    print_origins(out, recommendation.provenance, recommendation.runtime, inputs_text(recommendation.inputs))
    print_warnings(recommendation.warnings, quiet)


def _first_lines(recommendation: Recommendation, about: BatchAnswer, plan: LaunchPlan) -> Iterator[tuple[str, str]]:
    """The first lines: what runs where, K by batch, what that is worth, what stands apart, what it costs."""
    best, request = plan.deployment, recommendation.request
    settings = f", {best.settings}" if best.settings else ""
    v, strategy = best.scenario.settings, strategies.ALL.named(best.shape.strategy)
    models = f"{v['target']} drafted by {v['draft']}" if strategy.drafts else v["target"]
    where = f"on {best.gpus} of {request.gpus} {v['hardware']}"
    yield "Run", f"{best.name}{settings} {where} for {best.batch} in flight: {models}"
    if any(k for _, k in plan.k_by_batch) and len(plan.k_by_batch) > 1:
        yield "K", ", ".join(f"{k} at {span}" for k, span in _spans(plan.k_by_batch))
    interval = about.interval
    own = f"{best.per_user:.1f} tokens/s a user"
    own += f" (95 %: {interval.low:.1f}-{interval.high:.1f})" if interval is not None else ""
    if plan.worth is not None and plan.decisive_rival is not None:
        yield "Worth", f"{_ratio_text(plan.worth)} {plan.decisive_rival.name}{_sure(plan.worth)}: {own}"
    else:
        yield "Worth", own
    for each in about.unsupported.values():
        yield "Apart", f"{each.sentence} ({each.deployment.name}, {each.deployment.settings})"
    if plan.cost is not None:
        yield "Cost", _cost(plan, request)


def _ratio_text(versus: Versus) -> str:
    return f"{versus.ratio:.2f}x"


def _sure(versus: Versus) -> str:
    if versus.interval is None or versus.probability_faster is None:
        return ""
    return f" (95 %: {versus.interval.low:.2f}-{versus.interval.high:.2f}, P {versus.probability_faster:.2f})"


def _spans(rows: Sequence[tuple[int, int]]) -> Iterator[tuple[int, str]]:
    """Spans of neighbouring batches that have one K."""
    for k, group in groupby(rows, key=lambda row: row[1]):
        batches = [batch for batch, _ in group]
        many = f"{batches[0]}" if len(batches) == 1 else f"{batches[0]}-{batches[-1]}"
        yield k, f"batch {many}"


def _rates(plan: LaunchPlan) -> Iterator[tuple[str, str]]:
    """The rate from which on it stops paying, by the serving view; why that says nothing."""
    paying = plan.paying
    if paying is None:
        if plan.not_served is not None:
            yield "Pays", f"not known: {plan.not_served}"
        return
    prompt, answer = paying.lengths
    counted = "target" if plan.deployment.shape.targets > 1 else "copy"
    each = f"A {counted}: " if plan.deployment.targets > 1 else ""
    settings = f", {plan.deployment.settings} at every batch" if plan.deployment.settings else ""
    yield "Pays", f"{each}With prompts of {prompt} and answers of {answer} tokens{settings}: {paying.sentence}"
    if paying.rate is not None:
        times = (
            f"{title_of(name)} {f'{ms:.2f} ms' if ms is not None else 'saturated'}"
            for name, ms in paying.at_rate.items()
        )
        yield f"{paying.rate:g}/s", f"a token takes {', '.join(times)} at {paying.rate:g} requests/s"
    if paying.within_slo:
        rates = (f"{title_of(name)} {rate:.2f}" for name, rate in paying.within_slo.items())
        told = f" by {ATTAINMENT:.0%} of requests up to {', '.join(rates)} requests/s a {counted}"
        yield "SLO", f"{Slo.parse(paying.slo).sentence if paying.slo else ''}: kept{told}"


def _cost(plan: LaunchPlan, request: SearchRequest) -> str:
    assert plan.cost is not None
    needed, everything = plan.cost
    used, idle = plan.deployment.gpus, request.gpus - plan.deployment.gpus
    if request.use == "all" or not idle:
        return f"${everything:.2f} a million tokens on all {request.gpus} GPUs, each ${request.gpu_hour:g} an hour"
    on = f"on {used} GPU{'s' if used > 1 else ''}, each ${request.gpu_hour:g} an hour"
    return f"${needed:.2f} a million tokens {on}; ${everything:.2f} if the {idle} idle ones are paid for (--use all)"


def _print_command(plan: LaunchPlan, out: Console) -> None:
    """Print the command unbroken, so that it can be pasted."""
    if plan.command is None:
        print_labelled(out, "Command  ", NO_ENGINE, "", "bold")
        return
    label = Text("Command  ", "bold")
    text = plan.command.text.rstrip()
    out.print(label + Text(text) if "\n" not in text else label + Text("\n" + text), soft_wrap=True)


def _at_equal_count(recommendation: Recommendation, about: BatchAnswer | None) -> Iterator[str]:
    """Sentences at the focus: the widest target with one draft GPU, and all GPUs."""
    if about is None or about.equal is None:
        return
    plus_one = [
        count
        for count in recommendation.equal_counts
        if count.subject.shape.devices.draft == 1 and count.subject.copies == 1
    ]
    for count in dict.fromkeys([*plus_one[-1:], about.equal]):
        yield f"Batch {about.batch}: {count.sentence}"


def _question(request: SearchRequest) -> str:
    v = effective({**request.options, "strategies": request.strategies})
    draft_hardware = v["draft_hardware"] or v["hardware"]
    hardware = v["hardware"] if draft_hardware == v["hardware"] else f"{v['hardware']} + {draft_hardware}"
    accepted = f"alpha {v['alpha']}" if v["acceptance"] is None else f"acceptance {v['acceptance']}"
    accepted = f"acceptance {v['pair']}" if v["pair"] is not None and v.source("alpha") != GIVEN else accepted
    hits = f"hit rate {v['p_hit']}" if v["p_hit"] is not None else f"h(F) = 1 - {v['hit_c']:g} F^-{v['hit_r']:g}"
    hits = "measured hit curve" if v["hit_curve"] is not None else hits
    caches = any(strategies.ALL.named(name).miss_state is not None for name in request.strategies)
    hits = f", {hits}" if caches else ""
    floor = f", at least {request.at_least:g} tokens/s a user" if request.at_least else ""
    models = f"{v['target']} + {v['draft']} on up to {request.gpus} {hardware}"
    return f"{models}, context {v['context']}, {accepted}{hits}, temperature {v['temperature']:g}{floor}"


def _table(*columns: str) -> TextTable:
    table = TextTable()
    for column in columns:
        words = column in ("best", "runner-up", "settings", "deployment", "what", "change")
        table.add_column(column, words=words, joined=column in ("settings", "/user", "/GPU", "margin", "P"))
    return table


def _print_answers(recommendation: Recommendation, out: Console) -> None:
    told = recommendation.display
    table = _table(*told.header)
    for row in told.rows:
        table.add_row(*row)
    out.print(table)
    for answer in recommendation.answers:
        for line in _impossible(answer):
            out.print(line, style="yellow")


def _impossible(answer: BatchAnswer) -> Iterator[str]:
    if answer.error is not None:
        yield f"batch {answer.batch}: {answer.error}"
        return
    for strategy, reason in answer.impossible.items():
        yield f"batch {answer.batch}: no {strategies.ALL.named(strategy).title}: {reason}"


def _heading(out: Console, text: str) -> None:
    out.print()
    out.print(text, style="bold")


def _print_best(about: BatchAnswer, out: Console) -> None:
    """Print what the round of the best deployment looks like."""
    best = about.best
    if best is None or about.interval is None:
        return
    low, high = about.interval.low, about.interval.high
    rate = best.rate
    hits = ""
    if rate.p_hit is not None:
        hits = f", hit rate over all rounds {rate.p_hit:.3f}, all hit in {rate.p_all_hit:.0%} of them"
    each = f" in each of {best.copies} copies" if best.copies > 1 else ""
    out.print(
        f"batch {about.batch}, {best.name}: {best.per_user:.1f} tokens/s per user (95 %: {low:.1f}-{high:.1f}), "
        f"{rate.tokens_per_round:.2f} tokens a round of {1e3 * rate.round_s:.1f} ms{each}{hits}",
        style="dim",
    )


def _print_equal(recommendation: Recommendation, about: BatchAnswer, out: Console) -> None:
    if not recommendation.equal_counts:
        return
    title = strategies.ALL.named(recommendation.request.subject).title
    _heading(out, f"At equal GPU count, batch {about.batch}: {title} against all else that as many GPUs can do")
    lead = f"{title} is"
    table = TextTable((), ("GPUs",))
    for header in (title, "settings", "/user", "best rival", "/user", lead, "95 %", f"P({title} faster)"):
        words = header in (title, "settings", "best rival")
        table.add_column(header, words=words, joined=header not in (title, "best rival"))
    for count in recommendation.equal_counts:
        closest = count.closest
        table.add_row(
            str(count.gpus),
            count.subject.name,
            count.subject.settings,
            f"{count.subject.per_user:.1f}",
            closest.deployment.name,
            f"{closest.deployment.per_user:.1f}",
            f"{closest.ratio:.2f}x",
            f"{closest.low:.2f}-{closest.high:.2f}",
            f"{closest.probability_faster:.2f}",
        )
    out.print(table)
    last = recommendation.equal_counts[-1] if about.equal is None else about.equal
    out.print(_all_rivals(last), style="dim")


def _all_rivals(count: EqualCount) -> str:
    each = (f"{v.what}: {v.ratio:.2f}x ({v.deployment.name})" for v in count.over)
    return f"{count.subject.name} over each rival on {count.gpus}: {'; '.join(each)}"


def _print_pareto(recommendation: Recommendation, about: BatchAnswer, out: Console) -> None:
    _heading(out, f"Pareto frontier, batch {about.batch}: tokens/s per user against tokens/s per GPU")
    price = recommendation.request.gpu_hour
    table = _table("deployment", "settings", "GPUs", "/user", "/GPU", *(["$/Mtoken"] if price is not None else []))
    for d in about.pareto:
        table.add_row(
            d.name,
            d.settings,
            str(d.gpus),
            f"{d.per_user:.1f}",
            f"{d.per_gpu:.1f}",
            *([f"{d.cost_per_million(price):.2f}"] if price is not None else []),
        )
    out.print(table)


def _print_break_even(recommendation: Recommendation, about: BatchAnswer, out: Console) -> None:
    if not recommendation.break_evens or about.equal is None:
        return
    subject, gpus = about.equal.subject, recommendation.request.gpus
    _heading(out, f"Break-even, batch {about.batch}: {subject.name} ({_HELD}) is the fastest on up to {gpus} GPUs")
    for bound in recommendation.break_evens:
        print_labelled(out, "  ", _bound(bound))
    if subject.rate.p_hit is not None:
        hits = "p_hit is the hit rate after a speculation by the primary;"
        out.print(f"{hits} {subject.name} has {subject.rate.p_hit:.3f} over all rounds", style="dim")


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


def _print_gains(recommendation: Recommendation, about: BatchAnswer, out: Console) -> None:
    best: Deployment | None = about.best
    if best is None:
        return
    _heading(out, f"What to improve first, batch {about.batch}, {best.name} ({_HELD})")
    table = _table("what", "change", "tokens/s", "elasticity")
    shown = [e for e in recommendation.elasticities if e.gain >= _NO_GAIN][:_SHOWN_GAINS]
    for e in shown:
        table.add_row(e.what, e.better, f"{e.gain:+.1%}", f"{e.elasticity:+.2f}")
    out.print(table)
    idle = [e.what for e in recommendation.elasticities if e.gain < _NO_GAIN]
    if idle:
        out.print(f"no gain from: {', '.join(idle)}", style="dim")


def _print_swings(recommendation: Recommendation, about: BatchAnswer, out: Console) -> None:
    """Print what nobody has measured, or not well enough."""
    if not recommendation.swings or about.equal is None:
        return
    subject, closest = about.equal.subject, about.equal.closest
    text = f"{subject.name} over {closest.deployment.name} is {closest.ratio:.2f}x"
    _heading(out, f"What to measure first, batch {about.batch}: {text} by acceptance and hits that are not sure")
    table = TextTable(("what", "is a", "over", "lowest", "highest"), names=2)
    for each in recommendation.swings:
        standing = "measured rate" if each.standing == "measured" else each.standing
        table.add_row(each.what, standing, each.over, f"{each.lowest:.2f}x", f"{each.highest:.2f}x")
    out.print(table)
