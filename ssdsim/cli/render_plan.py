"""The first screen of a plan: the GPUs of a load within an SLO; else what a replica holds, or who is done first."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import floor

import numpy as np

from ssdsim.base.intervals import median, quantiles
from ssdsim.base.settings import DEFAULT, GIVEN
from ssdsim.cli.screen import print_screen, who_is_refused
from ssdsim.pricing.occupancy import format_count
from ssdsim.question.options import ALL, DEFAULTS
from ssdsim.question.token_inputs import TokenInput
from ssdsim.serving.answer import ServedLoad, Serving
from ssdsim.serving.fleet_size import FleetPlan, Need
from ssdsim.serving.lookahead import speed
from ssdsim.serving.policies import AUTO, without_auto
from ssdsim.serving.workload import Workload
from ssdsim.strategies.ar import Autoregressive

_SPARED = ("Why", "A replica")  # lines in whose place a doubt stands
_MATTERS = 0.05  # of a speed
_SURE = 0.9  # of the draws
_IDLE = 1e-3  # of the capacity
_MOST_RATES = 5  # columns of a first screen
_PREFILL: Mapping[str | None, str] = {"chunked": "mixed in", "priority": "apart", "none": "elsewhere"}
Screen = tuple[str, list[tuple[str, ...]], Mapping[str, str]]
"""A headline, a table, and labelled lines."""


def print_first_screen(serving: Serving, gpu_hour: float | None, explained: bool, scale_rate: float = 1.0) -> None:
    """Print the answer to the planner's question; ``explained``: all else follows. The load's log came ``scale_rate``
    times as fast.
    """
    loads = [point.workload for point in serving.points]
    if serving.plan is not None:
        headline, table, lines = _needs(serving, serving.plan, gpu_hour)
    elif serving.within_slo:
        headline, table, lines = _holds(serving, gpu_hour)
    else:
        headline, table, lines = _at_a_load(serving, gpu_hour) if len(loads) == 1 else _over_rates(serving)
    load = loads[0] if len(loads) == 1 else serving.workload
    of_plan = () if serving.plan is None else serving.plan.doubts
    doubt = "; ".join([*load.doubts, *_beyond_idle(serving), *of_plan])
    configuration = serving.policies.configuration
    spared = _SPARED if doubt or configuration.refused else ()
    told = {label: text for label, text in lines.items() if label not in spared}
    ending = {
        "Assumed": _assumed(configuration.inputs),
        **who_is_refused(configuration),
        "Next": "" if explained else f"{_next(serving, scale_rate)}; --explain: all else",
    }
    print_screen(headline, table, {"Doubt": doubt, **told, **ending}, title=_asked(serving, load))


def _next(serving: Serving, scale_rate: float) -> str:
    """The option that most planners ask next: none that was given, nor less of it."""
    if serving.how.slo is None:
        return "--slo ttft:1s,tpot:30ms plans its GPUs"
    if serving.workload.generate is None and not serving.workload.pattern_only:
        return f"--scale-rate {2.0 * scale_rate:g}: what if load doubles{' again' if scale_rate > 1.0 else ''}"
    if serving.goal.attainment is None:
        return "--attainment 0.99: for 99 % of requests"
    rate = serving.points[0].rate if len(serving.points) == 1 else None
    return f"--rate {2.0 * rate:.3g}: what if load doubles" if rate else "--log FILE: for a load of your own"


def _beyond_idle(serving: Serving) -> tuple[str, ...]:
    """What is said of an SLO that no idle replica keeps: its bounds may have been meant in seconds."""
    slo = serving.how.slo
    if slo is None:
        return ()
    idle = [each.sharing.served(_IDLE * float(each.sharing.capacity)) for each in serving.sides.values()]
    least = {"ttft": min(float(each.ttft_s) for each in idle), "tpot": min(float(each.tpot_s) for each in idle)}
    missed = [name for name, seconds in least.items() if slo.bounds_ms.get(name, np.inf) < 1e3 * seconds]
    if not missed:
        return ()
    takes = " and ".join(f"{name.upper()} {1e3 * least[name]:.3g} ms" for name in missed)
    meant = ",".join(f"{name}:{slo.bounds_ms[name]:g}s" for name in missed if name in slo.assumed)
    return (f"an idle replica takes {takes}{f'; a plain number is ms, so did you mean {meant}?' if meant else ''}",)


def _asked(serving: Serving, load: Workload) -> str:
    """What serves it; and the load in a line: how many, at which rate, of which lengths."""
    rate = f", {load.concurrency} in flight" if load.concurrency is not None else ""
    if len(serving.points) == 1 and load.concurrency is None:
        rate = ", all at once" if load.offered is None else f", {load.offered:.3g} a second"
    if serving.plan is not None and serving.plan.peak is not None:
        rate += f" (busiest minute {serving.plan.peak.rate:.3g})"
    lengths = f"{load.input_tokens.mean():,.0f} tokens in, {load.output_tokens.mean():,.0f} out; {_prompts(serving)}"
    place = serving.policies.configuration.setup_text(own_degrees=serving.plan is not None, names_engine=True)
    settings = serving.policies.configuration.settings
    if settings.source("tp") == DEFAULT:
        place = place.replace(f"TP {settings['tp']}", f"TP {settings['tp']} (default)", 1)
    return f"{place}\n{load.requests:,} requests{rate}; {lengths}"


def _prompts(serving: Serving) -> str:
    """How prompts are processed; who said so, if it was not the engine."""
    said = " (--prefill)" if serving.prefill_source == GIVEN else ""
    return f"prompts {_PREFILL[serving.how.batching.prefill]}{said}"


def _called(serving: Serving, name: str, k: int | None = None) -> str:
    """``AR``, ``SD, K 3``, ``EAGLE-3, K 2``."""
    title = AUTO if name == AUTO else serving.policies.by_name[name].title
    return f"{title}, K {k}" if k else title


def _row(serving: Serving, name: str, k: int | None = None) -> str:
    """The first cell of a row."""
    return f"{_called(serving, name, k)}{' (no drafts)' if name == Autoregressive.name else ''}"


def _with(serving: Serving, name: str) -> str:
    return "without drafts" if name == Autoregressive.name else f"with {_called(serving, name)}"


def _listed(serving: Serving, names: Sequence[str], say: Callable[[str], str]) -> str:
    """What there is to say of each: ``7.9 without drafts, 11 with SD``."""
    return ", ".join(f"{say(name)} {_with(serving, name)}" for name in names)


def _each(serving: Serving, names: Sequence[str], say: Callable[[str], str]) -> str:
    """The same, in fewer words: ``AR 7.9, SD 11``."""
    return ", ".join(f"{_called(serving, name)} {say(name)}" for name in names)


def percent_text(share: float) -> str:
    """Rounded down: what misses a share by little does not look as if it had it."""
    return f"{floor(100.0 * share + 1e-9)} %"


def _number(value: float) -> str:
    """Three digits, and ``full`` where a queue grows."""
    return "full" if not np.isfinite(value) else f"{value:.0f}" if value >= 100.0 else f"{value:.3g}"


def _price(gpu_hour: float | None, gpus: float) -> tuple[str, ...]:
    return () if gpu_hour is None else (f"{gpus * gpu_hour:.3g}",)


# GPUs of a load within an SLO


def _needs(serving: Serving, plan: FleetPlan, gpu_hour: float | None) -> Screen:
    hour = () if gpu_hour is None else ("$/h",)
    rows = [("", "GPUs", *hour, "in SLO", "p99 TTFT", "p99 TPOT")]
    for name, need in plan.needs.items():
        gpus, title = plan.total(name), _row(serving, name, need.k)
        if gpus is None or need.metrics is None or need.metrics.attainment is None:
            rows.append((title, "none", *("-" for _ in rows[0][2:])))
            continue
        times = [f"{_slowest(plan, name, which):.0f} ms" for which in ("ttft", "tpot")]
        rows.append(
            (title, format_count(gpus), *_price(gpu_hour, gpus), percent_text(need.metrics.attainment.value), *times)
        )
    can = [name for name, need in plan.needs.items() if need.replicas is not None]
    size_of = {name: _size(serving, plan.needs[name]) for name in can}
    held = (f"{_called(serving, name)} {plan.needs[name].holds:.3g} ({size_of[name]})" for name in can)
    likely = _each(serving, can, lambda name: _likely_gpus(plan, name))
    lines = {
        "A replica": f"in SLO up to /s: {', '.join(held)}" if can else "",
        "How sure": f"GPUs in 80 of 100 draws: {likely}" if can else "",
    }
    return _needs_headline(serving, plan, can), rows, lines


def _slowest(plan: FleetPlan, name: str, which: str) -> float:
    """Milliseconds of the slowest 1 % of requests, at least: to the first token, or a token on average after it."""
    metrics = plan.needs[name].metrics
    summary = None if metrics is None else metrics.of_requests[which]
    return np.nan if summary is None else summary.percentiles[99].value


def _likely_gpus(plan: FleetPlan, name: str) -> str:
    low, high = plan.likely(name)
    return f"{low}" if low == high else f"{low}-{high}"


def _size(serving: Serving, need: Need) -> str:
    """A replica: ``TP 4``, ``TP 4 + 1``, ``TP 4, PP 2``."""
    site = serving.policies.configuration.site
    pp = 1 if site is None else site.pp
    more = need.gpus - need.tp * pp
    return f"TP {need.tp}{f', PP {pp}' if pp > 1 else ''}" + (f" + {format_count(more)}" if more > 0 else "")


def _fleet(serving: Serving, need: Need) -> str:
    """``one replica, TP 4``, ``2 replicas, each TP 4 + 1``."""
    size = _size(serving, need)
    return f"one replica, {size}" if need.replicas == 1 else f"{need.replicas} replicas, each {size}"


def _needs_headline(serving: Serving, plan: FleetPlan, can: Sequence[str]) -> str:
    if not can or plan.decision is None:
        return f"No number of GPUs keeps {percent_text(plan.share)} of the requests within {_bounds(serving)}."
    totals, losses = {name: float(plan.total(name) or 0.0) for name in can}, plan.decision.losses
    best, *others = sorted(can, key=lambda name: (name != plan.leader, totals[name], losses.get(name, 1.0)))
    site = serving.policies.configuration.site
    device = "GPUs" if site is None else site.profile.name.partition("-")[0].upper()
    likely = _likely_gpus(plan, best)
    range_of = f" ({likely} likely)" if "-" in likely else ""
    need, each = f"You need {format_count(totals[best])}{range_of} {device}", f" ({_fleet(serving, plan.needs[best])})"
    goal = f" to keep {percent_text(plan.share)} of requests within {_bounds(serving)}"
    if not others:
        alone = f" {_with(serving, best)}" if len(plan.needs) > 1 else ""
        return f"{need}{alone}{each}{goal}{'; no number is enough otherwise' if alone else ''}."
    drafting = next((name for name in (best, *others) if name != Autoregressive.name), best)
    plain = Autoregressive.name if Autoregressive.name in can else None
    if plain is None:
        rest = _listed(serving, others, lambda name: format_count(totals[name]))
        impossible = "" if Autoregressive.name not in plan.needs else "; without drafts no number is enough"
        return f"{need} {_with(serving, best)}{each}, {rest}{goal}{impossible}."
    saved = totals[plain] - totals[drafting]
    fewer, more = (drafting, plain) if saved > 0.0 else (plain, drafting)
    is_sure = not saved or plan.saves_in(fewer, more) >= _SURE
    saves = f"{_called(serving, drafting)} {_saves(saved, is_sure)}{_tokens(plan, plain, drafting, saved)}"
    if not saved:
        fleets = {name: _fleet(serving, plan.needs[name]) for name in (plain, drafting)}
        unlike = "; ".join(f"{_with(serving, name)} {fleet}" for name, fleet in fleets.items())
        return f"{need} either way{each if len({*fleets.values()}) == 1 else f' ({unlike})'}{goal}. {saves}."
    other = plain if best == drafting else drafting
    instead = f"{format_count(totals[other])} {_with(serving, other)}"
    return f"{need} {_with(serving, best)}{each}, {instead},{goal}. {saves}."


def _bounds(serving: Serving) -> str:
    return "" if serving.how.slo is None else serving.how.slo.words


def _saves(gpus: float, is_sure: bool) -> str:
    if not gpus:
        return "saves none"
    saves, takes = ("saves", "takes") if is_sure else ("may save", "may take")
    return f"{saves} {format_count(gpus)}" if gpus > 0 else f"{takes} {format_count(-gpus)} more"


def _tokens(plan: FleetPlan, plain: str, drafting: str, saved: float) -> str:
    """The p99 of TPOT with drafts, if that matters beside the GPUs ``saved``."""
    slow, fast = (_slowest(plan, name, "tpot") for name in (plain, drafting))
    if not abs(slow / fast - 1.0) > _MATTERS:
        return ""
    word = "and" if (saved > 0) == (fast < slow) else "but"
    return f", {word} its p99 TPOT is {_number(fast)} ms, not {_number(slow)}"


# what a replica holds within an SLO


def _holds(serving: Serving, gpu_hour: float | None) -> Screen:
    names, policies = list(without_auto(serving.within_slo)), serving.policies.by_name
    rates = {name: serving.within_slo[name].rate for name in names}
    a_gpu = {name: rates[name] / policies[name].gpus for name in names}
    rows = [("", "GPUs", "requests/s", "95 %", "a GPU", *(() if gpu_hour is None else ("$/1000 requests",)))]
    for name in names:
        found, title = serving.within_slo[name], _row(serving, name, serving.k_within_slo.get(name))
        cost = () if gpu_hour is None else (f"{gpu_hour / 3.6 / a_gpu[name]:.2g}" if a_gpu[name] else "-",)
        numbers = (f"{found.rate:.2f}", f"{found.low:.2f}-{found.high:.2f}", f"{a_gpu[name]:.2f}")
        rows.append((title, format_count(policies[name].gpus), *numbers, *cost))
    most, cheapest = max(names, key=rates.__getitem__), max(names, key=a_gpu.__getitem__)
    headline = (
        f"A replica {_with(serving, most)} holds the most within {serving.how.slo}: {rates[most]:.3g} requests/s."
    )
    if not rates[most]:
        headline = f"No replica keeps {percent_text(serving.goal.share)} of the requests within {serving.how.slo}."
    elif cheapest != most:
        headline += f" A GPU holds the most {_with(serving, cheapest)}."
    return headline, rows, {"Why": f"{percent_text(serving.goal.share)} of the requests keep the SLO there"}


# who is done first, where nobody says what is good


def _at_a_load(serving: Serving, gpu_hour: float | None) -> Screen:
    (point,) = serving.points
    names, replicas = list(without_auto(point.served)), serving.how.fleet.replicas
    is_judged = serving.how.slo is not None and bool(point.metrics)
    last = "in SLO" if is_judged else "first ms"
    hour = () if gpu_hour is None else ("$/h",)
    rows = [("", "GPUs", *hour, "answer s", "likely", "token ms", last, "full at /s")]
    for name in names:
        gpus, times = serving.policies.by_name[name].gpus * replicas, _times(point, name)
        kept = point.metrics[name].attainment if is_judged else None
        cells = [format_count(gpus), *_price(gpu_hour, gpus), _number(times[0]), _likely(serving, point, name)]
        cells += [_number(times[1]), _number(times[2]) if kept is None else percent_text(kept.value)]
        rows.append((_row(serving, name, _k(point, name)), *cells, f"{replicas * serving.capacities[name][0]:.3g}"))
    lines = {"How sure": _sure(serving, point), "K": _other_ks(serving, point), "Turns": _gpu_for_gpu(serving)}
    return _done_first(serving, point), rows, lines


def _k(point: ServedLoad, name: str) -> int | None:
    return point.lookaheads[name].chosen if name in point.lookaheads else None


def _times(point: ServedLoad, name: str) -> tuple[float, float, float]:
    """Seconds to the last token, milliseconds a token and to the first one: means of the run, else of the closed form;
    infinite where the queue grows.
    """
    metrics = point.metrics.get(name)
    if metrics is None and name in point.closed:
        closed = point.closed[name]
        return float(closed.e2e_s), 1e3 * float(closed.tpot_s), 1e3 * float(closed.ttft_s)
    if metrics is None or metrics.saturated:
        return np.inf, np.inf, np.inf
    means = [metrics.of_requests[which] for which in ("e2el", "tpot", "ttft")]
    answer, token, first = (np.inf if each is None else each.mean.value for each in means)
    return answer / 1e3, token, first


def _likely(serving: Serving, point: ServedLoad, name: str) -> str:
    """The 80 % range of the time to the last token: the closed form's, around what is shown."""
    shown, rate = _times(point, name)[0], point.rate
    times = 1.0 / speed(point.served[name].draws, rate and rate / serving.how.fleet.replicas, point.workload)
    if not np.isfinite(shown):
        return "-"
    low, high = (shown * float(each / median(times)) for each in quantiles(times, 0.1, 0.9))
    return f"{low:.2g}-{high:.2g}"


def _stable(point: ServedLoad) -> list[str]:
    """Who keeps up there, the choice of the one rule first."""
    names = [name for name in without_auto(point.served) if np.isfinite(_times(point, name)[0])]
    return sorted(names, key=lambda name: (name != point.decision.chosen, point.decision.losses.get(name, 1.0)))


def _done_first(serving: Serving, point: ServedLoad) -> str:
    if not (stable := _stable(point)):
        return "More requests come than any of them answers: give more --replicas, or a lower rate."
    first, *others = stable
    lead, full = _with(serving, first), [name for name in without_auto(point.served) if name not in stable]
    said = f"{lead[:1].upper()}{lead[1:]} an answer takes {_number(_times(point, first)[0])} s"
    said += f"; {_listed(serving, others, lambda name: _number(_times(point, name)[0]))}" if others else ""
    return said + (f"; {' and '.join(_called(serving, name) for name in full)} cannot keep up." if full else ".")


def _sure(serving: Serving, point: ServedLoad) -> str:
    """The word of the choice, and in how many draws each is the first."""
    shares = {name: round(100.0 * share) for name, share in point.decision.best_in.items() if share >= 0.005}
    if len(point.decision.best_in) < 2:
        return ""
    ranked = sorted(shares, key=shares.__getitem__, reverse=True)
    first, *others = (f"{_called(serving, name)}{{}} in {shares[name]}" for name in ranked)
    told = ", ".join([f"{first.format(' is done first')} of 100 draws", *(other.format("") for other in others)])
    return f"{point.decision.word}: {told}"


def _other_ks(serving: Serving, point: ServedLoad) -> str:
    """What the K that nobody chose would lose, if it matters."""
    usual = int(DEFAULTS["k"])
    losses = {name: each.losses.get(usual, 0.0) - each.loss.mean for name, each in point.lookaheads.items()}
    matter = [name for name, lost in losses.items() if name != AUTO and lost >= _MATTERS]
    lost = _listed(serving, matter, lambda name: percent_text(losses[name]))
    return f"chosen for this load: K {usual} would lose {lost}" if matter else ""


def _gpu_for_gpu(serving: Serving) -> str:
    """From which rate the rival has the faster tokens."""
    crossed = [each for each in serving.first_crossings if each.rate is not None]
    if not crossed or AUTO in (crossed[-1].of.name, crossed[-1].over.name):
        return ""
    last = crossed[-1]
    where = "GPU for GPU " if last.basis == "gpu" else ""
    rate = f"from {last.rate:.1f} requests/s on" if last.rate else "at any rate"
    return f"{where}tokens come faster {_with(serving, last.over.name)} {rate}"


def _over_rates(serving: Serving) -> Screen:
    """A row a strategy, a column a rate: milliseconds a token, and K where it is chosen."""
    points = serving.points[:: -(-len(serving.points) // _MOST_RATES)]
    rows = [("ms a token at", *(f"{point.rate or np.inf:.3g}/s" for point in points), "full at")]
    for name in without_auto(serving.policies.by_name):
        cells = []
        for point in points:
            token, k = _times(point, name)[1], _k(point, name)
            cells.append(f"{_number(token)}{f' K {k}' if k and np.isfinite(token) else ''}")
        rows.append((_row(serving, name), *cells, f"{serving.how.fleet.replicas * serving.capacities[name][0]:.3g}/s"))
    firsts: dict[str, list[str]] = {}
    for point in serving.points:
        for name in _stable(point)[:1]:
            firsts.setdefault(name, []).append(f"{point.rate or np.inf:.3g}")
    spans = [
        f"{_with(serving, name)} at {rates[0]}{f' to {rates[-1]}' if rates[1:] else ''} requests/s"
        for name, rates in firsts.items()
    ]
    headline = f"Answers are done first {' and '.join(spans)}." if spans else "All of them are full at each rate."
    return headline, rows, {"Turns": _gpu_for_gpu(serving)}


def _assumed(inputs: Sequence[TokenInput]) -> str:
    """What nobody measured, with the law whose constants c and r are."""
    ranges: dict[str, list[str]] = {}
    for each in inputs:
        if each.is_open and each.within is not None:
            what = "misses c/F^r, F guesses:" if each.name in ("hit_c", "hit_r") else each.what
            symbol = "" if each.name == "alpha" else f"{ALL[each.name].short.removeprefix('hit_')} "
            ranges.setdefault(what, []).append(f"{symbol}{each.within[0]:.2g}-{each.within[1]:.2g}")
    return "; ".join(f"{what} {', '.join(each)}" for what, each in ranges.items())
