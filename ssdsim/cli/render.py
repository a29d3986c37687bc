"""A prediction as a person reads it in a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ssdsim import strategies
from ssdsim.answers.predict import Prediction
from ssdsim.cli.console import console
from ssdsim.cli.warning_lines import print_warnings
from ssdsim.option import Group
from ssdsim.rounds.estimate import PARTS, Estimate
from ssdsim.scenario.configuration import Configuration
from ssdsim.scenario.options import ALL, members

BAR_WIDTH = 56
_STYLES = {"verify": "blue", "draft": "yellow", "communicate": "magenta", "fallback": "red", "host": "bright_black"}
_BLOCKS = {"verify": "█", "draft": "▓", "communicate": "▒", "fallback": "░", "host": "▪"}


def print_prediction(prediction: Prediction, quiet: bool) -> None:
    """The strategies, where a round's time goes, the verdict and the provenance."""
    out = console()
    out.print(title(prediction.configuration), style="bold")
    out.print(_table(prediction))
    out.print()
    for line in _round_bars(prediction):
        out.print(line)
    out.print()
    verdict = prediction.verdict
    colour = "green" if verdict.best == verdict.subject else "yellow"
    out.print(Text("Verdict  ", "bold"), Text(verdict.sentence, colour), sep="")
    if verdict.probability_best is not None:
        others = " and ".join(versus.rival.title for versus in verdict.over.values())
        what = f"P({title_of(verdict.subject)} faster than {others} | errors of the timings)"
        out.print(f"         {what} = {verdict.probability_best:.2f}")
    _print_notes(prediction, out)
    print_warnings(prediction.configuration.warnings, quiet)


def title_of(name: str) -> str:
    """What a person reads for a strategy's name."""
    return strategies.ALL.named(name).title


def title(configuration: Configuration) -> str:
    """One line that says what was asked."""
    v = configuration.settings
    shape = configuration.shape
    if configuration.site is None:
        units = [f"{ALL[name].axis.split()[-2]} {v[name]:g}" for name in members(Group.UNIT_FREE) if name in v]
        return f"Unit-free (T_v = 1): {', '.join(units)}; {shape}"
    hardware = v["hardware"] if v["hardware"] == v["draft_hardware"] else f"{v['hardware']} + {v['draft_hardware']}"
    return f"{v['target']} + {v['draft']} on {hardware}, TP {v['tp']}, context {v['context']}; {shape}"


def _table(prediction: Prediction) -> Table:
    seconds = prediction.unit == "s"
    table = Table(box=None, pad_edge=False, header_style="dim")
    rate = "tokens/s" if seconds else "tokens/T_v"
    time = " ms" if seconds else " T_v"
    columns = [rate, "95 %", "per user", "per GPU", "GPUs", "TPOT" + time, "round" + time, "tokens"]
    columns += [f"vs {title_of(name)}" for name in _rivals(prediction)]
    table.add_column("", no_wrap=True)
    bounded = any(prediction.intervals.values())
    for column in columns if bounded else [c for c in columns if c != "95 %"]:
        table.add_column(column, justify="right", no_wrap=True)
    for name in prediction.estimates:
        table.add_row(title_of(name), *_row(prediction, name))
    return table


def _rivals(prediction: Prediction) -> list[str]:
    """Those that the others are held against: all but the subject, unless it is alone."""
    return [name for name in prediction.estimates if name != prediction.verdict.subject]


def _row(prediction: Prediction, name: str) -> list[str]:
    e, interval = prediction.estimates[name], prediction.intervals[name]
    scale = 1e3 if prediction.unit == "s" else 1.0
    rate = float(e.tokens_per_second)
    digits = 1 if prediction.unit == "s" else 3
    bounds = [f"{interval.low:.4g}-{interval.high:.4g}"] if interval else []
    return [
        f"{rate:.{digits}f}",
        *bounds,
        f"{rate / e.batch:.{digits}f}",
        f"{rate / e.gpus:.{digits}f}",
        str(e.gpus),
        f"{scale * float(e.round_s) / e.tokens_per_round:.2f}",
        f"{scale * float(e.round_s):.2f}",
        f"{e.tokens_per_round:.2f}",
        *(f"{rate / float(prediction.estimates[r].tokens_per_second):.2f}x" for r in _rivals(prediction)),
    ]


def _round_bars(prediction: Prediction) -> list[Text]:
    longest = max(float(e.round_s) for e in prediction.estimates.values())
    scale, unit = (1e3, "ms") if prediction.unit == "s" else (1.0, "T_v")
    lines = [Text(f"Where a round's time goes ({unit})", "dim")]
    name_width = 1 + max(len(title_of(name)) for name in prediction.estimates)
    for name in prediction.estimates:
        lines.append(_bar(name, prediction.estimates[name], longest, scale, name_width))
    return lines


def _bar(name: str, estimate: Estimate, longest: float, scale: float, name_width: int) -> Text:
    line, legend, filled, total = Text(f"{title_of(name):{name_width}}"), [], 0, 0.0
    for part in PARTS:
        seconds = float(estimate.breakdown_s[part])
        total += seconds
        end = round(BAR_WIDTH * total / longest)
        line.append(_BLOCKS[part] * (end - filled), _STYLES[part])
        filled = end
        if seconds > 0.0:
            legend.append(f"{_BLOCKS[part]} {part} {scale * seconds:.2f}")
    line.append(" " * (BAR_WIDTH - filled + 1))
    line.append("  ".join(legend), "dim")
    return line


def _print_notes(prediction: Prediction, out: Console) -> None:
    for reason in prediction.configuration.no_room.values():
        if reason not in prediction.verdict.sentence:
            out.print(f"         {reason}", style="yellow")
    caching = [e for e in prediction.estimates.values() if e.p_hit is not None]
    for e in caching:
        whose = f"{title_of(e.strategy)}: " if len(caching) > 1 else ""
        shares = f"hit rate {e.p_hit:.3f}, all {e.batch} hit in {e.p_all_hit:.1%} of rounds"
        out.print(f"         {whose}{shares}", style="dim")
        paper = e.paper_tokens_per_second
        if paper is not None and abs(float(paper) / float(e.tokens_per_second) - 1.0) > 0.005:
            rate = "tokens/s" if prediction.unit == "s" else "tokens/T_v"
            out.print(f"         {whose}the paper's formula, without overheads: {float(paper):.4g} {rate}", style="dim")
    engines = {"closed": "closed form (exact)", "mc": "Monte Carlo", "des": "event engine"}
    out.print(f"Engine   {engines[prediction.engine]}", style="dim")
    for record in prediction.configuration.provenance:
        out.print(f"Timings  {record['profile']}: {record['summary']}", style="dim")
