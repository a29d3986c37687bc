"""``ssdsim roofline``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from ssdsim.answers.roofline import BOUNDS, accepted_options, roofline, summarise
from ssdsim.answers.roofline import as_json as roofline_json
from ssdsim.base.errors import InputError, nearest
from ssdsim.cli.console import console, print_warnings
from ssdsim.cli.options import Verb, chosen_options, json_option, quiet_option
from ssdsim.cli.output import echo_json
from ssdsim.cli.tables import Cell, TextTable

if TYPE_CHECKING:
    import pandas as pd

_STYLES = {"memory": "blue", "compute": "green", "latency": "yellow", "communication": "magenta", "fixed": "dim"}
_LEGEND = (
    "pure streaming: the pass's bytes at the memory's full bandwidth. us: one run on one device. of roof: what the "
    "datasheet's roofs allow at best over the time; * beats the datasheet (operands in the cache, several links). "
    "latency: a roof explains less than half of the time and the launch floor is longer. communication: against a ring "
    "over one link. fixed: host work and gaps."
)


@click.command("roofline", cls=Verb, example="ssdsim roofline --model qwen3-32b -b 16")
@chosen_options(accepted_options)
@click.option("--pass", "only", multiple=True, metavar="NAME", help="only these, such as verify [default: all]")
@quiet_option
@json_option
def command(as_json: bool, quiet: bool, only: tuple[str, ...], **options: Any) -> None:
    """Hold every operation of verification, drafting and pre-speculation against its device's roofs.

    A round has one verification; meanwhile the draft runs one glue pass and K branch steps.
    """
    frame = of_passes(roofline(**options), only)
    if as_json:
        echo_json(roofline_json(frame))
        return
    print_roofs(frame)
    print_warnings(frame.attrs["warnings"], quiet)


def of_passes(frame: pd.DataFrame, only: Sequence[str]) -> pd.DataFrame:
    """The rows of the passes that ``--pass`` names; of all where it names none."""
    passes = list(dict.fromkeys(frame["pass"]))
    names = [name.replace("_", " ") for name in only]
    for name in names:
        if name not in passes:
            raise InputError(f"--pass has no '{name}'{nearest(name, passes)} Allowed: {', '.join(passes)}")
    chosen = frame[frame["pass"].isin(names or passes)]
    chosen.attrs = frame.attrs
    return chosen


def print_roofs(frame: pd.DataFrame) -> None:
    """Print every operation of the passes against its device's roofs."""
    out = console()
    for _, summary in summarise(frame).iterrows():
        _print_pass(summary, frame[frame["pass"] == summary["pass"]])
        out.print()
    out.print(_LEGEND, style="dim")


def _print_pass(summary: pd.Series[Any], operations: pd.DataFrame) -> None:
    out = console()
    shares = [f"{bound} {summary[f'{bound}_share']:.1%}" for bound in BOUNDS if summary[f"{bound}_share"] > 0]
    times = f" ({summary['times']} a round)" if summary["times"] > 1 else ""
    device = operations["device"].iloc[0]
    said = f"{1e3 * summary['seconds']:.2f} ms = {' + '.join(shares)}; pure streaming {summary['streaming_share']:.1%}"
    if summary["expert_bytes_share"] > 0:
        said += f"; routed experts are {summary['expert_bytes_share']:.1%} of its bytes"
    out.print(Text.assemble((summary["pass"], "bold"), f"{times} on {device}: {said}"))
    numbers = ("runs", "GFLOP", "MB", "FLOP/B", "us", "TFLOP/s", "TB/s", "of roof")
    table = TextTable(("operation", "shape"), numbers, ("bound",), first=("us", "of roof", "bound", "of pass"))
    table.add_column("of pass")
    for _, row in operations.iterrows():
        table.add_row(*_cells(row), style="dim" if row["share_of_pass"] < 0.01 else "")
    out.print(table)


def _three(value: float) -> str:
    """Three significant digits without an exponent."""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def _cells(row: pd.Series[Any]) -> list[Cell]:
    if row["bound"] == "fixed":
        return ["fixed", *[""] * 5, f"{1e6 * row['seconds']:.1f}", *[""] * 3, "fixed", f"{row['share_of_pass']:.1%}"]
    works = row["flops"] > 0
    return [
        row["operation"],
        row["shape"],
        str(row["count"]),
        f"{row['flops'] / 1e9:.2f}" if works else "",
        _three(row["bytes"] / 1e6),
        _three(row["intensity"]) if works else "",
        f"{1e6 * row['seconds']:.1f}",
        f"{row['flops_per_second'] / 1e12:.1f}" if works else "",
        f"{row['bytes_per_second'] / 1e12:.2f}",
        "-" if math.isnan(row["share_of_roof"]) else f"{row['share_of_roof']:.0%}{'*' if row['above_roof'] else ''}",
        Text(row["bound"], _STYLES[row["bound"]]),
        f"{row['share_of_pass']:.1%}",
    ]
