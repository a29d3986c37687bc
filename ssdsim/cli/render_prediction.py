"""A prediction as a person reads it in a terminal."""

from __future__ import annotations

from rich.columns import Columns
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from ssdsim import strategies
from ssdsim.answers.columns import TITLED
from ssdsim.answers.evidence import inputs_text
from ssdsim.answers.predict import Prediction
from ssdsim.answers.verdict import called_together
from ssdsim.base.settings import GIVEN
from ssdsim.cli.console import UNLABELLED, console, print_labelled, print_origins, print_warnings
from ssdsim.cli.tables import TextTable
from ssdsim.question.configuration import Configuration
from ssdsim.question.engines import Engine
from ssdsim.rounds.round import PART_TITLES, PARTS, Estimate

BAR_WIDTH = 56
_SHORTEST_BAR = 24  # with less room beside the parts, they go below
_STYLES = {"verify": "blue", "draft": "yellow", "communicate": "magenta", "fallback": "red", "host": "bright_black"}
_BLOCKS = {"verify": "█", "draft": "▓", "communicate": "▒", "fallback": "░", "host": "▪"}


def print_prediction(prediction: Prediction, quiet: bool) -> None:
    """The strategies, where a round's time goes, the verdict and the provenance."""
    out = console()
    out.print(prediction.display.title, style="bold")
    out.print(_table(prediction))
    out.print()
    _print_round_bars(prediction, out)
    out.print()
    verdict = prediction.verdict
    colour = "green" if verdict.decided and verdict.best == verdict.subject else "yellow"
    print_labelled(out, "Verdict  ", f"{_not_there(prediction)}{verdict.sentence}", colour, "bold")
    if verdict.probability_best is not None:
        others = called_together(list(verdict.over))
        faster = f"P({title_of(verdict.subject)} faster than {others}) = {verdict.probability_best:.2f}"
        rest = f"; not known: {verdict.doubts_told}" if verdict.doubts_told else ""
        print_labelled(out, UNLABELLED, faster + rest)
    if prediction.other_k:
        print_labelled(out, UNLABELLED, prediction.other_k)
    _print_notes(prediction, out)
    configuration = prediction.configuration
    told = configuration.telling_warnings
    print_warnings(configuration.warnings, quiet, configuration.share_beyond_timings, told)


def _not_there(prediction: Prediction) -> str:
    """The caveat before a verdict on a strategy that the engine does not have, where a user named the engine."""
    settings, subject = prediction.configuration.settings, prediction.verdict.subject
    named = {name: settings[name] for name in ("engine", "drafter") if settings.source(name) == GIVEN}
    engine = Engine.of(named)
    return f"{engine.called} does not run {title_of(subject)} so; if it did: " if engine.lacks(subject) else ""


def title_of(name: str) -> str:
    """The name by which a person knows a strategy."""
    return strategies.ALL.named(name).title


def _table(prediction: Prediction) -> TextTable:
    told = prediction.display
    aside = {column.headed(prediction.unit == "s") for column in TITLED[1:]}
    table = TextTable(("",), told.header[1:], first=[header for header in told.header[1:] if header not in aside])
    for row in told.rows:
        table.add_row(*row)
    return table


def _print_round_bars(prediction: Prediction, out: Console) -> None:
    """A bar a strategy, its parts beside it, or below it in a narrow terminal."""
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


def _print_notes(prediction: Prediction, out: Console) -> None:
    configuration = prediction.configuration
    for reason in configuration.no_room.values():
        if reason not in prediction.verdict.sentence:
            print_labelled(out, UNLABELLED, reason, "yellow")
    caching = [e for e in prediction.estimates.values() if e.p_hit is not None]
    for e in caching:
        whose = f"{title_of(e.strategy)}: " if len(caching) > 1 else ""
        together = f", all {e.batch} hit in {e.p_all_hit:.1%} of rounds" if e.batch > 1 else ""
        print_labelled(out, UNLABELLED, f"{whose}hit rate {e.p_hit:.3f}{together}", "dim")
        paper = e.paper_tokens_per_second
        if paper is not None and abs(float(paper) / float(e.tokens_per_second) - 1.0) > 0.005:
            rate = "tokens/s" if prediction.unit == "s" else "tokens/T_v"
            said = f"{whose}the paper's formula, without overheads: {float(paper):.4g} {rate}"
            print_labelled(out, UNLABELLED, said, "dim")
    exact = "exact but for the waits of targets that share a draft" if print_shared(configuration, out) else "exact"
    solvers = {"closed": f"closed form ({exact})", "mc": "Monte Carlo", "des": "event engine"}
    out.print(f"Solver   {solvers[prediction.solver]}", style="dim")
    print_origins(out, configuration.provenance, configuration.runtime, inputs_text(configuration.inputs))
