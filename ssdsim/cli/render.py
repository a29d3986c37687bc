"""A prediction as a person reads it in a terminal."""

from __future__ import annotations

from rich.columns import Columns
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from ssdsim.answers.predict import STRATEGIES, Prediction, provenance
from ssdsim.cli.console import console, print_labelled
from ssdsim.cli.tables import Table
from ssdsim.cli.warning_lines import print_warnings
from ssdsim.rounds.estimate import PARTS, Estimate
from ssdsim.scenario.configuration import Configuration

BAR_WIDTH = 56
_SHORTEST_BAR = 24  # with less room beside the parts, they go below
_UNLABELLED = " " * len("Verdict  ")
_STYLES = {"verify": "blue", "draft": "yellow", "communicate": "magenta", "fallback": "red", "host": "bright_black"}
_BLOCKS = {"verify": "█", "draft": "▓", "communicate": "▒", "fallback": "░", "host": "▪"}


def print_prediction(prediction: Prediction, quiet: bool) -> None:
    """The three strategies, where a round's time goes, the verdict and the provenance."""
    out = console()
    out.print(title(prediction.configuration), style="bold")
    out.print(_table(prediction))
    out.print()
    _print_round_bars(prediction, out)
    out.print()
    verdict = prediction.verdict
    print_labelled(out, "Verdict  ", verdict.sentence, "green" if verdict.best == "ssd" else "yellow", "bold")
    if verdict.probability_best is not None:
        probability = f"P(SSD faster than SD and AR | errors of the timings) = {verdict.probability_best:.2f}"
        print_labelled(out, _UNLABELLED, probability)
    _print_notes(prediction, out)
    print_warnings(prediction.configuration.warnings, quiet)


def title(configuration: Configuration) -> str:
    """One line that says what was asked."""
    v = configuration.values
    shape = configuration.shape
    if configuration.costs is None:
        return f"Unit-free (T_v = 1): T_SD {v['t_sd']:g}, T_p {v['t_p']:g}, T_b {v['t_b']:g}; {shape}"
    hardware = v["hardware"] if v["hardware"] == v["draft_hardware"] else f"{v['hardware']} + {v['draft_hardware']}"
    return f"{v['target']} + {v['draft']} on {hardware}, TP {v['tp']}, context {v['context']}; {shape}"


def _table(prediction: Prediction) -> Table:
    seconds = prediction.unit == "s"
    rate = "tokens/s" if seconds else "tokens/T_v"
    time = " ms" if seconds else " T_v"
    columns = [rate, "95 %", "per user", "per GPU", "GPUs", "TPOT" + time, "round" + time, "tokens", "vs AR", "vs SD"]
    table = Table(first=(rate, "95 %", "vs AR", "vs SD"))
    table.add_column("", words=True)
    bounded = any(prediction.intervals.values())
    for column in columns if bounded else [c for c in columns if c != "95 %"]:
        table.add_column(column)
    for name in STRATEGIES:
        table.add_row(name.upper(), *_row(prediction, name))
    return table


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
        f"{rate / float(prediction.estimates['ar'].tokens_per_second):.2f}x",
        f"{rate / float(prediction.estimates['sd'].tokens_per_second):.2f}x",
    ]


def _print_round_bars(prediction: Prediction, out: Console) -> None:
    """A bar a strategy, its parts beside it, or below it in a narrow terminal."""
    longest = max(float(e.round_s) for e in prediction.estimates.values())
    scale, unit = (1e3, "ms") if prediction.unit == "s" else (1.0, "T_v")
    legends = {name: _legend(prediction.estimates[name], scale) for name in STRATEGIES}
    label = max(map(len, legends)) + 1
    room = out.width - label
    beside = room - 1 - max(len("  ".join(legend)) for legend in legends.values())
    width = min(BAR_WIDTH, beside if beside >= _SHORTEST_BAR else room)
    out.print(f"Where a round's time goes ({unit})", style="dim")
    for name, legend in legends.items():
        line = Text(f"{name.upper():{label}}").append(_bar(prediction.estimates[name], longest, width))
        if beside >= _SHORTEST_BAR:
            line.append(" " * (label + width + 1 - len(line))).append("  ".join(legend), "dim")
            out.print(line)
        else:
            out.print(line)
            out.print(Padding(Columns(legend, padding=(0, 2)), (0, 0, 0, label)), style="dim")


def _legend(estimate: Estimate, scale: float) -> list[str]:
    parts = {part: float(estimate.breakdown_s[part]) for part in PARTS}
    return [f"{_BLOCKS[part]} {part} {scale * seconds:.2f}" for part, seconds in parts.items() if seconds > 0.0]


def _bar(estimate: Estimate, longest: float, width: int) -> Text:
    line, total = Text(), 0.0
    for part in PARTS:
        total += float(estimate.breakdown_s[part])
        line.append(_BLOCKS[part] * (round(width * total / longest) - len(line)), _STYLES[part])
    return line


def _print_notes(prediction: Prediction, out: Console) -> None:
    ssd = prediction.estimates["ssd"]
    hits = f"hit rate {ssd.p_hit:.3f}, all {ssd.batch} hit in {ssd.p_all_hit:.1%} of rounds"
    print_labelled(out, _UNLABELLED, hits, "dim")
    paper = ssd.paper_tokens_per_second
    if paper is not None and abs(float(paper) / float(ssd.tokens_per_second) - 1.0) > 0.005:
        rate = "tokens/s" if prediction.unit == "s" else "tokens/T_v"
        print_labelled(out, _UNLABELLED, f"the paper's formula, without overheads: {float(paper):.4g} {rate}", "dim")
    engines = {"closed": "closed form (exact)", "mc": "Monte Carlo", "des": "event engine"}
    out.print(f"Engine   {engines[prediction.engine]}", style="dim")
    for record in provenance(prediction.configuration):
        print_labelled(out, "Timings  ", f"{record['profile']}: {record['summary']}", "dim")
