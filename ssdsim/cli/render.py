"""A prediction as a person reads it in a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ssdsim.answers.predict import STRATEGIES, Prediction, provenance
from ssdsim.cli.console import console
from ssdsim.cli.warning_lines import print_warnings
from ssdsim.rounds.estimate import PARTS, Estimate
from ssdsim.scenario.configuration import Configuration

BAR_WIDTH = 56
_STYLES = {"verify": "blue", "draft": "yellow", "communicate": "magenta", "fallback": "red", "host": "bright_black"}
_BLOCKS = {"verify": "█", "draft": "▓", "communicate": "▒", "fallback": "░", "host": "▪"}


def print_prediction(prediction: Prediction, quiet: bool) -> None:
    """The three strategies, where a round's time goes, the verdict and the provenance."""
    out = console()
    out.print(title(prediction.configuration), style="bold")
    out.print(_table(prediction))
    out.print()
    for line in _round_bars(prediction):
        out.print(line)
    out.print()
    verdict = prediction.verdict
    out.print(Text("Verdict  ", "bold"), Text(verdict.sentence, "green" if verdict.best == "ssd" else "yellow"), sep="")
    if verdict.probability_best is not None:
        out.print(f"         P(SSD faster than SD and AR | errors of the timings) = {verdict.probability_best:.2f}")
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
    table = Table(box=None, pad_edge=False, header_style="dim")
    rate = "tokens/s" if seconds else "tokens/T_v"
    time = " ms" if seconds else " T_v"
    columns = [rate, "95 %", "per user", "per GPU", "GPUs", "TPOT" + time, "round" + time, "tokens", "vs AR", "vs SD"]
    table.add_column("", no_wrap=True)
    bounded = any(prediction.intervals.values())
    for column in columns if bounded else [c for c in columns if c != "95 %"]:
        table.add_column(column, justify="right", no_wrap=True)
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


def _round_bars(prediction: Prediction) -> list[Text]:
    longest = max(float(e.round_s) for e in prediction.estimates.values())
    scale, unit = (1e3, "ms") if prediction.unit == "s" else (1.0, "T_v")
    lines = [Text(f"Where a round's time goes ({unit})", "dim")]
    for name in STRATEGIES:
        lines.append(_bar(name, prediction.estimates[name], longest, scale))
    return lines


def _bar(name: str, estimate: Estimate, longest: float, scale: float) -> Text:
    line, legend, filled, total = Text(f"{name.upper():4}"), [], 0, 0.0
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
    ssd = prediction.estimates["ssd"]
    out.print(f"         hit rate {ssd.p_hit:.3f}, all {ssd.batch} hit in {ssd.p_all_hit:.1%} of rounds", style="dim")
    paper = ssd.paper_tokens_per_second
    if paper is not None and abs(float(paper) / float(ssd.tokens_per_second) - 1.0) > 0.005:
        rate = "tokens/s" if prediction.unit == "s" else "tokens/T_v"
        out.print(f"         the paper's formula, without overheads: {float(paper):.4g} {rate}", style="dim")
    engines = {"closed": "closed form (exact)", "mc": "Monte Carlo", "des": "event engine"}
    out.print(f"Engine   {engines[prediction.engine]}", style="dim")
    for record in provenance(prediction.configuration):
        out.print(f"Timings  {record['profile']}: {record['summary']}", style="dim")
