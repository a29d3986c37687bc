"""A prediction as a person reads it in a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from shlex import quote
from typing import Any

from rich.console import Console
from rich.text import Text

from ssdsim.answers.columns import TITLED
from ssdsim.answers.evidence import assumed, inputs_text
from ssdsim.answers.over_c import AtC
from ssdsim.answers.predict import Prediction
from ssdsim.answers.verdict import percent, title_of, worth_measuring
from ssdsim.base.intervals import Interval
from ssdsim.base.option import spelled
from ssdsim.base.settings import GIVEN
from ssdsim.cli.console import UNLABELLED, print_labelled, print_origins, print_warnings
from ssdsim.cli.screen import MOST_COLUMNS, carried, print_screen, screen, who_is_refused
from ssdsim.cli.tables import TextTable
from ssdsim.hardware.catalog import short_hardware_name
from ssdsim.pricing.occupancy import format_count
from ssdsim.pricing.site import Site
from ssdsim.question.configuration import Configuration
from ssdsim.question.drafting import published_head
from ssdsim.question.engines import Engine
from ssdsim.question.options import DEFAULTS
from ssdsim.rounds.round import PART_TITLES, PARTS, Estimate
from ssdsim.tokens.saguaro import PLAIN

_MOVES = 0.05  # of a round or of the passes' time: what is less cannot move the answer by more
_AS_FAST = 1.015  # a ratio that rounds to no more than 1.01
BAR_WIDTH = 56
_ALL, _MORE = "--explain: rounds, ranges, sources", "--explain: more"
# what recommend takes beside what is always carried
_ASKED_TOO = (
    *("pp", "pp_link", "dcp", "draft_link", "context", "alpha", "pair", "text", "acceptance"),
    *("acceptance_rule", "rule_odds", "acceptance_floor", "draft_p_min"),
)
_BESIDE_NEXT = MOST_COLUMNS - 10  # labels and their gap
_SHORTEST_BAR = 24  # with less room beside the parts, they go below
_STYLES = {"verify": "blue", "draft": "yellow", "communicate": "magenta", "fallback": "red", "host": "bright_black"}
_BLOCKS = {"verify": "█", "draft": "▓", "communicate": "▒", "fallback": "░", "host": "▪"}


def print_prediction(prediction: Prediction, explain: bool, quiet: bool) -> None:
    """The answer on a first screen; with ``explain`` all that it rests on below."""
    measure, said = worth_measuring(prediction.decision), prediction.verdict.sentence
    lines = {
        "How sure": prediction.verdict.sure,
        "Draft": _elsewhere(prediction),
        "Joules": _joules(prediction),
        "Saguaro": _gains_of_c(prediction),
        "Turns": prediction.verdict.turns,
        "Why": "" if (prediction.verdict.turns or measure) and not explain else _why(prediction),
        "Assumed": _assumed(prediction),
        "Measure": measure,
        "Prompts": prediction.prompts.removeprefix("prompts "),
        **who_is_refused(prediction.configuration, said),
        "Next": "" if explain else _next(prediction),
    }
    headline = f"{_not_there(prediction)}{said}"
    print_screen(headline, _first_table(prediction), lines, title=_asked(prediction.configuration))
    if explain:
        _print_explained(prediction)
    configuration = prediction.configuration
    told = (
        configuration.warnings if explain else [each for each in configuration.telling_warnings if not _is_told(each)]
    )
    print_warnings(configuration.warnings, quiet, configuration.share_beyond_timings, told)


def _is_told(warning: str) -> bool:
    """Say whether a warning adds nothing to the line on what is assumed."""
    return warning.startswith(("acceptance of ", "acceptance was published ", "no acceptance of "))


def _asked(configuration: Configuration) -> str:
    """The models, the place and the workload."""
    context = "" if configuration.site is None else f", context {configuration.settings['context']}"
    return f"{configuration.setup_text()}{context}{configuration.as_calibrated}; batch {configuration.settings['b']}"


def _first_table(prediction: Prediction) -> list[tuple[str, ...]]:
    """A row a strategy: what a user gets, how many GPUs it takes, its K, and its C where that is not plain."""
    rates, per = prediction.rates, "s" if prediction.unit == "s" else "T_v"
    likely = () if prediction.draws is None else ("likely",)
    drawn = ("J a token", "W a GPU") if prediction.energy else ()
    header = ("", f"tokens/{per} a user", *likely, prediction.configuration.devices, *drawn, "drafts")
    table: list[tuple[str, ...]] = [header]
    for name, scenario in prediction.configuration.scenarios.items():
        ends = rates.likely(name)
        between = () if ends is None else ("-".join(_rate(each / scenario.batch) for each in ends),)
        k = scenario.strategy.lookahead(scenario.settings)
        shown, gpus = _rate(rates.shown(name) / scenario.batch), format_count(scenario.gpus)
        c = prediction.c(name)
        drafts = f"K {k}{'' if c == PLAIN else f', C {c:g}'}" if scenario.strategy.drafts else "nothing"
        of = prediction.energy.get(name)
        drawn = () if of is None else (_rate(of.joules_per_token.median), f"{of.watts_per_gpu:.0f}")
        table.append((title_of(name), shown, *between, gpus, *drawn, drafts))
    return table


def _elsewhere(prediction: Prediction) -> str:
    """Other places where the draft would do as well: ``as fast beside its target (SD on 1 GPU)``."""
    unit = prediction.configuration.devices
    told = [
        f"{'as fast' if each.ratio < _AS_FAST else f'{each.ratio:.2f}x as fast'} {each.where} "
        f"({title_of(each.strategy)} on {format_count(each.gpus)} {unit if each.gpus != 1.0 else unit[:-1]})"
        for each in prediction.draft_elsewhere
    ]
    return "; ".join(told)


def _joules(prediction: Prediction) -> str:
    """Who takes the fewest joules a token, and how many times as many the others take; by the same draws."""
    if not prediction.energy:
        return ""
    first, *others = sorted(prediction.energy, key=lambda name: prediction.energy[name].joules_per_token.median)
    of = prediction.energy[first]
    fewest = f"{title_of(first)} takes the fewest a token, {_between(of.joules_per_token.likely)}"
    more = []
    for name in others:
        times = prediction.energy[name].over(of)
        more.append(f"{title_of(name)} {_rate(times.median)} times as many ({_between(times.likely)})")
    return "; ".join([fewest, *more])


def _between(ends: Interval) -> str:
    return f"{_rate(ends.low)}-{_rate(ends.high)}"


def _gains_of_c(prediction: Prediction) -> str:
    """What the best C of each strategy gains over plain sampling."""
    own = {name: next(each for each in of if each.c == prediction.c(name)) for name, of in prediction.over_c.items()}
    return ", ".join(
        f"C {each.c:g} gains {percent(each.gain)} ({title_of(name)})" for name, each in own.items() if each.c != PLAIN
    )


def _rate(tokens: float) -> str:
    """Three digits; of what is above 100 all before the point."""
    return f"{tokens:.0f}" if tokens >= 100.0 else f"{tokens:.3g}"


def _why(prediction: Prediction) -> str:
    """What a round of the best and of the next yields, and how long it takes."""
    decision, scale, unit = prediction.decision, *((1e3, "ms") if prediction.unit == "s" else (1.0, "T_v"))
    if decision.runner_up is None:
        return ""
    said, tokens = [], " tokens a round"
    for name, _ in (decision.chosen, decision.runner_up):
        e = prediction.estimates[name]
        round_s, draft = float(e.round_s), float(e.breakdown_s["draft"])
        drafting = f" ({percent(draft / round_s)} drafting)" if draft > _MOVES * round_s else ""
        said.append(
            f"{title_of(name)} {float(e.tokens_per_round):.2f}{tokens} of {scale * round_s:.3g} {unit}{drafting}"
        )
        tokens = ""
    return ", ".join(said)


def _assumed(prediction: Prediction) -> str:
    """What the answer takes for acceptance and hits, and who says so; ``--explain`` has all that they rest on."""
    told = assumed(prediction.configuration.inputs, prediction.seen)
    return "; ".join(f"{' and '.join(values)}: {standing}" for standing, values in told.items())


def _next(prediction: Prediction) -> str:
    site, settings = prediction.configuration.site, prediction.configuration.settings
    given = {name: value for name, value in settings.items() if settings.source(name) == GIVEN}
    searched = "" if site is None else f"ssdsim recommend --gpus {_searched(site, given)}"
    head = published_head(given)
    heads = f"--drafter {head}: such heads are published for {settings['target']}" if head else ""
    if not searched:
        return "\n".join(filter(None, (_ALL, heads)))
    for more in (_ALL, _MORE):
        if len(beside := f"{searched:29}  {more}") <= _BESIDE_NEXT:
            return "\n".join(filter(None, (beside, heads)))
    return "; ".join((searched, _MORE, *([f"--drafter {head} is published"] if head else [])))


def _searched(site: Site, given: Mapping[str, Any]) -> str:
    """The GPUs of a recommendation and what else it takes: the node's, or both kinds where the draft has its own."""
    if "draft_hardware" not in given:
        nodes = 1 if site.between_stages is None else site.pp
        return f"{nodes * site.profile.device.count}{carried(given, *_ASKED_TOO)}"
    own, other = (short_hardware_name(given.get(r, DEFAULTS["hardware"])) for r in ("hardware", "draft_hardware"))
    rest = {name: value for name, value in given.items() if name != "hardware"}
    return f"{quote(f'{site.tp * site.pp}x{own}+1x{other}')}{carried(rest, *_ASKED_TOO)}"


def _not_there(prediction: Prediction) -> str:
    """The caveat before a verdict on a strategy that the engine does not have, where a user named the engine."""
    settings, best = prediction.configuration.settings, prediction.verdict.best
    named = {name: settings[name] for name in ("engine", "drafter", "pp") if settings.source(name) == GIVEN}
    engine = Engine.of(named)
    return f"{engine.called} does not run {title_of(best)} so; if it did: " if engine.lacks(best) else ""


def _table(prediction: Prediction) -> TextTable:
    told = prediction.display
    aside = {column.headed(prediction.configuration) for column in TITLED[1:]}
    table = TextTable(("",), told.header[1:], first=[header for header in told.header[1:] if header not in aside])
    for row in told.rows:
        table.add_row(*row)
    return table


def _print_round_bars(prediction: Prediction, out: Console) -> None:
    """A bar a strategy, its parts beside it, or below it in a narrow terminal."""
    from rich.columns import Columns  # here, because a first screen has no bars, and starts faster
    from rich.padding import Padding

    longest = max(float(e.round_s) for e in prediction.estimates.values())
    scale, unit = (1e3, "ms") if prediction.unit == "s" else (1.0, "T_v")
    legends = {name: _legend(estimate, scale) for name, estimate in prediction.estimates.items()}
    label = max(len(title_of(name)) for name in legends) + 1
    room = out.width - label
    beside = room - 1 - max(len("  ".join(legend)) for legend in legends.values())
    width = min(BAR_WIDTH, beside if beside >= _SHORTEST_BAR else room)
    out.print(f"Where a round's time goes ({unit})", style="dim")
    for name, legend in legends.items():
        line = Text(f"{title_of(name):{label}}").append(_bar(prediction.estimates[name], longest, width))
        if beside >= _SHORTEST_BAR:
            line.append(" " * (label + width + 1 - len(line))).append("  ".join(legend), "dim")
            out.print(line)
        else:
            out.print(line)
            out.print(Padding(Columns(legend, padding=(0, 2)), (0, 0, 0, label)), style="dim")


def _legend(estimate: Estimate, scale: float) -> list[str]:
    parts = {part: float(estimate.breakdown_s[part]) for part in PARTS}
    return [
        f"{_BLOCKS[part]} {PART_TITLES[part]} {scale * seconds:.2f}" for part, seconds in parts.items() if seconds > 0.0
    ]


def _bar(estimate: Estimate, longest: float, width: int) -> Text:
    line, total = Text(), 0.0
    for part in PARTS:
        total += float(estimate.breakdown_s[part])
        line.append(_BLOCKS[part] * (round(width * total / longest) - len(line)), _STYLES[part])
    return line


def print_shared(configuration: Configuration, out: Console) -> bool:
    """Print which strategies' drafts serve several targets, and how; True where one does."""
    shared = {title_of(n): s.devices.sharing for n, s in configuration.scenarios.items() if s.devices.sharing}
    if shared:
        print_labelled(out, "Draft    ", "; ".join(f"{title}: {words}" for title, words in shared.items()))
    return bool(shared)


def _print_explained(prediction: Prediction) -> None:
    """Every column, where a round's time goes, what else was found out, and what it rests on."""
    out = screen()
    out.print()
    out.print(_table(prediction))
    out.print()
    _print_round_bars(prediction, out)
    out.print()
    _print_decision(prediction, out)
    _print_notes(prediction, out)


def _print_decision(prediction: Prediction, out: Console) -> None:
    """Each strategy's settings and loss, and what other rules choose."""
    decision = prediction.decision
    for name, key in decision.best_of.items():
        settings = ", ".join(f"{spelled(option)} {value}" for option, value in key[1])
        lost = f"loses {percent(decision.losses[key])} on average, best in {percent(decision.best_in[name])} of draws"
        print_labelled(out, UNLABELLED, f"{title_of(name)}: {settings + '; ' if settings else ''}{lost}", "dim")
    for name, of in prediction.over_c.items():
        print_labelled(out, "C        ", f"{title_of(name)}: {'; '.join(map(_at_c, of))}", "dim")
    others = {by: name for by, (name, _) in decision.by_rule.items() if by != decision.rule}
    said = ", ".join(f"{by} {title_of(name)}" for by, name in others.items())
    print_labelled(out, "Rule     ", f"{decision.rule}; others choose: {said}", "dim")


def _at_c(each: AtC) -> str:
    """What one C yields beside plain sampling."""
    hits = "" if each.p_hit is None else f", hits {each.p_hit:.3f}"
    gain = "" if each.c == PLAIN else f" {100 * each.gain:+.1f} %"
    return f"{each.c:g}{gain} ({each.tokens_per_round:.2f} tokens a round{hits})"


def _print_notes(prediction: Prediction, out: Console) -> None:
    configuration = prediction.configuration
    caching = [e for e in prediction.estimates.values() if e.p_hit is not None]
    for e in caching:
        whose = f"{title_of(e.strategy)}: " if len(caching) > 1 else ""
        of_pass = configuration.scenarios[e.strategy].in_a_pass
        together = f", all {of_pass} hit in {e.p_all_hit:.1%} of rounds" if of_pass > 1 else ""
        print_labelled(out, UNLABELLED, f"{whose}hit rate {e.p_hit:.3f}{together}", "dim")
        paper = e.paper_tokens_per_second
        if paper is not None and abs(float(paper) / float(e.tokens_per_second) - 1.0) > 0.005:
            rate = "tokens/s" if prediction.unit == "s" else "tokens/T_v"
            said = f"{whose}the paper's formula, without overheads: {float(paper):.4g} {rate}"
            print_labelled(out, UNLABELLED, said, "dim")
    exact = "exact but for the waits of targets that share a draft" if print_shared(configuration, out) else "exact"
    solvers = {"closed": f"closed form ({exact})", "mc": "Monte Carlo", "des": "event engine"}
    out.print(f"Solver   {solvers[prediction.solver]}", style="dim")
    for told in dict.fromkeys(each.rests_on for of in prediction.energy.values() for each in of.by_role):
        print_labelled(out, "Watts    ", told, "dim")
    print_origins(out, configuration.provenance, configuration.runtime, inputs_text(configuration.inputs))
