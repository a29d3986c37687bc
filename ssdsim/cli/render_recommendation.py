"""A recommendation as a person reads it in a terminal: the first screen."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ssdsim import strategies
from ssdsim.advise.recommend.command import together
from ssdsim.advise.recommend.deployment import Deployment
from ssdsim.advise.recommend.launch_plan import ATTAINMENT, LaunchPlan
from ssdsim.advise.recommend.recommendation import BatchAnswer, Recommendation, UnsupportedByEngine
from ssdsim.advise.recommend.request import Rank, SearchRequest
from ssdsim.advise.recommend.words import how_sure, losses, percents, span
from ssdsim.answers.decision import WORTH_KNOWING, Decision
from ssdsim.answers.evidence import assumed as by_source
from ssdsim.answers.turning import conditions
from ssdsim.answers.verdict import title_of
from ssdsim.base.errors import heading
from ssdsim.base.intervals import Interval
from ssdsim.base.record import replace
from ssdsim.cli.screen import MOST_LINES, carried, height, print_screen
from ssdsim.hardware.runtime_catalog import find_runtime
from ssdsim.pricing.occupancy import Devices
from ssdsim.question.drafting import drafter_by_options, published_head
from ssdsim.question.question import effective
from ssdsim.question.token_inputs import ACCEPTANCE, HITS
from ssdsim.serving.options import Slo
from ssdsim.strategies import drafters
from ssdsim.strategies.ar import Autoregressive
from ssdsim.strategies.ssd import SSD

_ROWS = 5  # of a table on the first screen
_WORDS = {"clear": "clear", "lean": "lean", "toss-up": "a toss-up", "measure first": "measure first"}
_MEASURED_BY = {
    ACCEPTANCE: "ssdsim bench http://HOST:8000 --prompts FILE",
    HITS: "ssdsim measure --target T --draft D --prompts FILE",
}
_AR = f"{title_of(Autoregressive.name)} (no speculation)"
_GAINS = 0.01  # of log speed by knowing an input: what is worth a word
_APART = 1.05  # of the best's score, of what the engine cannot run


def print_recommendation(recommendation: Recommendation, plan: LaunchPlan | None, every: bool) -> None:
    """The first screen; of ``every`` strategy at one batch, where that was asked for."""
    answers = [answer for answer in recommendation.answers if answer.best is not None]
    switched = _switched(recommendation.request, answers) if answers else []
    more, instead = "rivals", plan.instead if plan is not None else ""
    alone = every and len(answers) == 1
    if alone:
        headline, table = _all_headline(recommendation, answers[0]), _all_rows(answers[0])
        left_out = len(answers[0].by_strategy) - _ROWS
        more = f"{left_out} more" if left_out > 0 else more
    elif switched:
        headline, table = _switch_headline(recommendation.request, answers), switched
    else:
        headline, table = _headline(recommendation.request, answers), _rows(recommendation.request, answers, plan)
    if instead:
        headline = f"{_asked(recommendation.request)}: {instead}."
    sure = _how_sure(answers, not switched) if answers and not alone and not instead else ""
    gains = _over_ar(answers) if len(answers) > 1 and not switched else ""
    lines = [
        ("Over AR", gains),
        ("How sure", sure),
        *_lines(recommendation, answers),
        ("Idle", _idle(recommendation.request, answers)),
        *_served(plan, recommendation.request),
        *_none(recommendation),
        *(_no_ssd(answers[0]) if alone else ()),
    ]
    shown = answers if alone else _some(answers)
    hidden = [str(answer.batch) for answer in answers if answer not in shown]
    lines += [("Left out", f"{', '.join(hidden)} in flight: --explain has them")] if hidden else []
    lines += _next(recommendation, more)
    if not (alone or instead) and (not switched or recommendation.request.kinds):
        longer = [*lines[:-1], *_last_gpus(recommendation), lines[-1]] if lines else []
        lines = longer if height(headline, table, longer) <= MOST_LINES else lines
    print_screen(headline, table, lines, words=("strategy", "run", "where", "how sure", "rests on"))


def _asked(request: SearchRequest) -> str:
    """The models, and where they run."""
    v = effective({**request.options, "strategies": request.strategies})
    drafting = any(strategies.ALL.named(name).drafts for name in request.ranked)
    draft = f" + {v['draft']}" if drafting and drafter_by_options(request.options) == "model" else ""
    engine = f" with {_engine(request)}" if request.engine.called else ""
    floor = f", at least {request.at_least:g} tokens/s a user" if request.at_least else ""
    return f"{v['target']}{draft} on up to {request.named(request.kinds or Devices(request.gpus))}{engine}{floor}"


def _engine(request: SearchRequest) -> str:
    """The engine with the versions that its card is of, since a name alone means the newest."""
    return find_runtime(request.options["engine"]).title


def _headline(request: SearchRequest, answers: Sequence[BatchAnswer]) -> str:
    if not answers:
        return f"{_asked(request)}: nothing fits."
    ranked = {
        "user": "fastest for a user",
        "gpu": "most tokens/s a GPU",
        "cost": "cheapest a token",
        "joules": "fewest joules a token",
    }[request.rank]
    if len(answers) == 1:
        return f"{_asked(request)}, {ranked}: run {_what(answers[0])}{_over_others(answers[0], request.rank)}."
    parts = [f"{what} at {span(batches)}" for what, batches in _together(answers, _what)]
    return f"{_asked(request)}, {ranked}: run {', '.join(parts)} in flight."


def _together(answers: Sequence[BatchAnswer], what: Callable[[BatchAnswer], str]) -> Iterator[tuple[str, list[int]]]:
    """Words with the neighbouring batches that have them."""
    told: list[tuple[str, list[int]]] = []
    for answer in answers:
        words = what(answer)
        if told and told[-1][0] == words:
            told[-1][1].append(answer.batch)
        else:
            told.append((words, [answer.batch]))
    yield from told


def _what(answer: BatchAnswer) -> str:
    assert answer.best is not None
    assert answer.decision is not None
    if answer.decision.word == "toss-up" and answer.runner_up is not None:
        return f"{answer.best.title} or {answer.runner_up.title}"
    return answer.best.title


def _over_others(answer: BatchAnswer, rank: Rank) -> str:
    """``; SSD is 1.22x SD, 2.09x AR (no speculation)``, or ``; SSD takes 1.18x as many``; empty without others."""
    assert answer.best is not None
    worth = {} if answer.choice is None else answer.choice.worth
    first = answer.runner_up.shape.strategy if answer.runner_up is not None else ""
    names = [name for name in dict.fromkeys((first, Autoregressive.name)) if name in worth]
    titles = {name: _AR if name == Autoregressive.name else title_of(name) for name in names}
    times = {name: f"{worth[name].median:.2f}x" for name in names}
    places = {name: f"{titles[name]}{_elsewhere(answer, name)}" for name in names}
    if rank == "joules":
        told = ", ".join(f"{places[name]} takes {times[name]} as many" for name in names)
        return f"; {told}" if told else ""
    told = ", ".join(f"{times[name]} {places[name]}" for name in names)
    return f"; {answer.best.title} is {told}" if told else ""


def _elsewhere(answer: BatchAnswer, name: str) -> str:
    """`` at TP 2``: where a rival's target has another place than that of the best."""
    (own, where), (_, there) = ((d, _where(d)) for d in (answer.best, answer.by_strategy[name]) if d is not None)
    place = there.partition(" + ")[0]
    return "" if own is None or place == where.partition(" + ")[0] else f" at {place}"


def _where(d: Deployment) -> str:
    """``2 x TP 4``."""
    return d.name.replace(f"{d.title} ", "")


def _idle(request: SearchRequest, answers: Sequence[BatchAnswer]) -> str:
    """The devices for drafts, where the best uses none of them at any batch; else empty."""
    if (
        request.kinds is None
        or not answers
        or any(answer.best and answer.best.shape.devices.draft for answer in answers)
    ):
        return ""
    _, _, other = request.named(request.kinds).partition(" + ")
    return f"{other}: with a draft there nothing is better" if other else ""


def _last_gpus(recommendation: Recommendation) -> Iterator[tuple[str, str]]:
    """What the last GPUs of the best buy."""
    about, request = recommendation.focus_answer, recommendation.request
    if about is None or about.best is None or not recommendation.fewer or len(recommendation.answers) > 1:
        return
    fewer, rate = recommendation.fewer[-1], about.rate(about.best.shape.strategy).median
    used = fewer.deployment.gpus
    if request.rank == "user":
        gets = f"{number(fewer.rate.median)} tokens/s on {used} GPU{'s' if used > 1 else ''}"
        more, times = about.best.gpus - used, rate / fewer.rate.median
        yield "Fewer", f"{run(fewer.deployment)}: {gets}; {more} more give{'s' if more == 1 else ''} {times:.2f}x"


def _rows(request: SearchRequest, answers: Sequence[BatchAnswer], plan: LaunchPlan | None) -> list[tuple[str, ...]]:
    ranked = {"user": (), "gpu": ("a GPU",), "cost": ("$/Mtoken",), "joules": ("J a token",)}[request.rank]
    user = "a user" if ranked else "tokens/s a user"
    rows: list[tuple[str, ...]] = [("in flight", "run", user, "likely", *ranked, "GPUs", "how sure")] if answers else []
    for answer in _some(answers):
        best = answer.best
        assert best is not None
        rate = answer.rate(best.shape.strategy)
        scale = rate.median / best.per_user
        score = () if request.rank == "user" else (_score(best, request, scale),)
        sure = "" if answer.decision is None else how_sure(answer.decision)
        sure = sure if plan is None else plan.misses.get(best.shape.strategy, sure)
        told = number(rate.median), between(rate.likely), *score, str(best.gpus)
        rows.append((str(answer.batch), run(best), *told, sure))
    return rows


def _over_ar(answers: Sequence[BatchAnswer]) -> str:
    """``2.29x at 1, 1.36x at 16``: of several batches what the headline says of one."""
    gains = [(answer.batch, answer.choice.worth.get(Autoregressive.name)) for answer in _some(answers) if answer.choice]
    return ", ".join(f"{gain.median:.2f}x at {batch}" for batch, gain in gains if gain is not None)


def _score(d: Deployment, request: SearchRequest, scale: float) -> str:
    """What is ranked besides a user's tokens/s, at rates ``scale`` times as high."""
    if request.rank == "gpu":
        return number(scale * d.per_gpu)
    if request.rank == "joules":
        return number(d.joules / scale)
    return "" if request.gpu_hour is None else f"{d.cost_per_million(request.gpu_hour) / scale:.2f}"


def _some(answers: Sequence[BatchAnswer]) -> list[BatchAnswer]:
    """As many as a first screen has room for, the first and the last among them."""
    if len(answers) <= _ROWS:
        return [*answers]
    return [answers[round(i * (len(answers) - 1) / (_ROWS - 1))] for i in range(_ROWS)]


def _switched(request: SearchRequest, answers: Sequence[BatchAnswer]) -> list[tuple[str, ...]]:
    """An engine's table of K, where one placement is the best at every batch; else empty."""
    drafting = {d.shape.strategy for a in answers if (d := a.best) is not None and d.lookahead}
    alike = together(answers) == {answer.batch: answer.best for answer in answers}
    if request.engine.called is None or len(drafting) > 1 or not alike or request.rank != "user":
        return []
    ar = title_of(Autoregressive.name)
    rows: list[tuple[str, ...]] = [("in flight", "K", "tokens/s a user", "likely", ar, "gain")]
    for answer in _some(answers):
        best = answer.best
        assert best is not None
        assert answer.choice is not None
        rate, off = answer.rate(best.shape.strategy), answer.choice.rates.get(Autoregressive.name)
        gain = answer.choice.worth.get(Autoregressive.name)
        beside = "-" if off is None else number(off.median), "-" if gain is None else f"{gain.median:.2f}x"
        told = number(rate.median), between(rate.likely), *beside
        rows.append((str(answer.batch), str(best.lookahead or ar), *told))
    return rows


def _switch_headline(request: SearchRequest, answers: Sequence[BatchAnswer]) -> str:
    v = effective({**request.options, "strategies": request.strategies})
    first = next((a.best for a in answers if a.best is not None and a.best.lookahead), None)
    best = first or answers[0].best
    assert best is not None
    copies = f" as {best.copies} copies of" if best.copies > 1 else ","
    devices = best.shape.devices
    gpus = replace(devices, target=best.copies * devices.target, draft=best.copies * devices.draft)
    where = f"{v['target']} on {request.named(gpus)} with {_engine(request)}{copies} {best.shape.degrees}"
    drafter = drafter_by_options(request.options)
    what = f"SD with {drafters.ALL.named(drafter).title if drafter != 'model' else v['draft']}"
    on = [answer.batch for answer in answers if answer.best is not None and answer.best.lookahead]
    if not on:
        if len(request.ranked) == 1:
            return f"{where}: {_AR} stands alone."
        return f"{where}: leave {what} off: {_AR} is the fastest."
    off = [answer.batch for answer in answers if answer.batch not in on]
    at = f" at {span(on)} in flight, off at {span(off)}" if off else ""
    worth = [a.choice.worth.get(Autoregressive.name) for a in answers if a.batch in on and a.choice]
    if not (gains := [each.median for each in worth if each is not None]):  # AR was not asked about
        return f"{where}: {what}{at}, not held against {_AR}."
    told = f"{min(gains):.1f}-{max(gains):.1f}x" if max(gains) - min(gains) > 0.05 else f"{gains[0]:.2f}x"
    return f"{where}: turn {what} on{at}, {told} as fast as {_AR}."


def _all_headline(recommendation: Recommendation, answer: BatchAnswer) -> str:
    best, decision = answer.best, answer.decision
    assert best is not None
    assert decision is not None
    count = len(answer.by_strategy)
    held = f"{count} {'strategies' if count > 1 else 'strategy'}, {answer.batch} in flight"
    lost = percents([decision.loss.mean])
    said = {
        "clear": f"Run {best.title}: it loses {lost} on average",
        "lean": f"Run {best.title}: it is ahead in {_cases(decision)} and loses {lost} on average",
        "toss-up": f"{_what(answer)}: it hardly matters (each loses about {lost})",
        "measure first": f"{best.title} is the safest (loses {lost} on average): measure {_first(decision)}",
    }[decision.word]
    return f"{held}: {_asked(recommendation.request)}.\n{said}."


def _all_rows(answer: BatchAnswer) -> list[tuple[str, ...]]:
    """Strategies from the one that loses least on."""
    choice, decision = answer.choice, answer.decision
    assert choice is not None
    assert decision is not None
    rows: list[tuple[str, ...]] = [("strategy", "where", "tokens/s", "loses", "best in", "rests on")]
    lost = {name: decision.losses[d] for name, d in choice.by_strategy.items()}
    for name in sorted(lost, key=lambda name: (name != decision.chosen.shape.strategy, lost[name]))[:_ROWS]:
        d, best_in = choice.by_strategy[name], decision.best_in.get(name, 0.0)
        inputs = [each for each in d.scenario.known.inputs if each.standing != "given"]
        rests_on = " and ".join(dict.fromkeys(each.what for each in inputs)) or "timings"
        rate = number(choice.rates[name].median)
        rows.append((d.title, _where(d), rate, percents([lost[name]]), percents([best_in]), rests_on))
    return rows


def _first(decision: Decision[Deployment]) -> str:
    """``acceptance first``."""
    return f"{decision.worth_knowing} first"


def _cases(decision: Decision[Deployment]) -> str:
    return f"{100 * decision.ahead_in:.0f} of 100 cases"


def _how_sure(answers: Sequence[BatchAnswer], listed: bool) -> str:
    """How sure it is, batch by batch where the table has not ``listed`` that."""
    decisions = [answer.decision for answer in answers if answer.decision is not None]
    known = f"{losses(decisions)} on average to the best that could be known"
    if len(decisions) == 1:
        return f"{_WORDS[decisions[0].word]}: ahead in {_cases(decisions[0])}; loses {known}"
    if listed:
        return f"these lose {known}"
    sure = {id(answer): how_sure(answer.decision) for answer in answers if answer.decision is not None}
    words = [*_together(answers, lambda answer: sure[id(answer)])]
    told = f"{words[0][0]} at each" if len(words) == 1 else ", ".join(f"{word} at {span(at)}" for word, at in words)
    return f"{told}; these lose {known}"


def _lines(recommendation: Recommendation, answers: Sequence[BatchAnswer]) -> Iterator[tuple[str, str]]:
    if not answers:
        return
    turning = max(answers, key=lambda a: (a.choice is not None and len(a.choice.turns) > 0, _loss(a)))
    if turning.choice is not None and turning.choice.turns and turning.runner_up is not None:
        at, other = f"at {turning.batch} " if len(answers) > 1 else "", turning.runner_up.title
        yield "Turns", f"{at}{other} wins only if {conditions(turning.choice.turns)}"
    yield "Assumed", assumed(recommendation)
    for each in [each for each in answers[-1].unsupported.values() if each.worth > _APART]:
        yield "Apart", unsupported_gain(answers[-1], each)


def unsupported_gain(answer: BatchAnswer, each: UnsupportedByEngine) -> str:
    """``with SSD, which vLLM does not have: 1.47x SD (SSD TP 4 + 1, K 7 at 1 in flight)``."""
    over = "" if answer.best is None else f" {answer.best.title}"
    return f"{each.sentence}{over} ({run(each.deployment)} at {answer.batch} in flight)"


def _loss(answer: BatchAnswer) -> float:
    return 0.0 if answer.decision is None else answer.decision.loss.mean


def assumed(recommendation: Recommendation) -> str:
    """What is drawn of acceptance and hits, and what it is worth to know it."""
    answers = [answer for answer in recommendation.answers if answer.best is not None]
    ranges: dict[str, list[Interval]] = {}
    for answer in answers:
        for what, within in answer.choice.inputs.items() if answer.choice else ():
            ranges.setdefault(what, []).append(within)
    own = {each.what: each.within for each in recommendation.inputs if each.name == "alpha" and each.within}
    seen = {what: (min(w.low for w in of), max(w.high for w in of)) for what, of in ranges.items()} | own
    told = by_source([each for each in recommendation.inputs if each.what in seen or not each.is_open], seen)
    said = "; ".join(f"{', '.join(values)}: {source}" for source, values in told.items())
    gains = [(a.decision.gain_of_knowing, a.batch) for a in answers if a.decision is not None]
    worth = {what: [gain.get(what, 0.0) for gain, _ in gains] for what in (ACCEPTANCE, HITS)}
    most = max(worth, key=lambda what: max(worth[what]))
    knowing = f"; knowing {most} gains {percents(worth[most])}" if max(worth[most]) > _GAINS else ""
    return f"{said}{knowing}"


def _served(plan: LaunchPlan | None, request: SearchRequest) -> Iterator[tuple[str, str]]:
    """What was asked about a rate of requests or an SLO."""
    paying = None if plan is None else plan.paying
    if plan is None or paying is None:
        return
    if paying.rate is not None:
        times = (
            f"{title_of(name)} {f'{ms:.2f} ms' if ms is not None else 'saturated'}"
            for name, ms in paying.at_rate.items()
        )
        yield f"{paying.rate:g}/s", f"a token takes {', '.join(times)}"
    if paying.within_slo:
        counted = "target" if plan.deployment.shape.targets > 1 else "copy"
        rates = (f"{title_of(name)} {rate:.2f}" for name, rate in paying.within_slo.items())
        slo = Slo.parse(paying.slo).sentence if paying.slo else ""
        yield "SLO", f"{slo}: kept by {ATTAINMENT:.0%} of requests up to {', '.join(rates)} requests/s a {counted}"
    if plan.instead and plan.keeps_up is None:
        asked = f" --rate {1.0 if paying.rate is None else paying.rate:g}{f' --slo {paying.slo}' if paying.slo else ''}"
        yield "GPUs", f"ssdsim plan{asked}{carried(request.options)}: how many it takes"


def _none(recommendation: Recommendation) -> Iterator[tuple[str, str]]:
    for answer in recommendation.answers:
        if answer.error is not None:
            yield "Too slow" if answer.pareto else heading(answer.error), f"at {answer.batch}: {answer.error}"


def _no_ssd(answer: BatchAnswer) -> Iterator[tuple[str, str]]:
    """Why SSD is not in a table of all strategies, and how many others lack the same."""
    if why := answer.impossible.get(SSD.name):
        others = [*answer.impossible.values()].count(why) - 1
        yield heading(why), f"{SSD.title}{f' and {others} more' if others else ''}: {why}"


def _next(recommendation: Recommendation, more: str) -> Iterator[tuple[str, str]]:
    request = recommendation.request
    decisions = [answer.decision for answer in recommendation.answers if answer.decision is not None]
    if not decisions:
        return
    paste = "--paste: the command" if request.engine.called else "--paste vllm: its command"
    gains = [(gain, what) for each in decisions for what, gain in each.gain_of_knowing.items()]
    gain, what = max(gains, default=(0.0, ""))
    measure = f"\n{_MEASURED_BY[what]}: your own {what}" if gain > WORTH_KNOWING / 2 else ""
    head = published_head(request.options)
    heads = f"\n--drafter {head}: such heads are published for this model" if head else ""
    yield "Next", f"{paste}; --explain: {more}, costs, break-even{heads}{measure}"


def run(d: Deployment) -> str:
    """``SSD TP 4 + 2, K 7``."""
    return f"{d.name}, K {d.lookahead}" if d.lookahead else d.name


def number(rate: float) -> str:
    """Whole from 20 on, else three digits."""
    return f"{rate:,.0f}" if rate >= 20.0 else f"{rate:.3g}"


def between(ends: Interval) -> str:
    """``107-255``."""
    return f"{number(ends.low)}-{number(ends.high)}"
