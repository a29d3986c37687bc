"""``ssdsim window``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from ssdsim.answers.window import AXES, accepted_options, sentence, window
from ssdsim.answers.window import as_json as window_json
from ssdsim.cli.console import console, print_labelled, print_warnings
from ssdsim.cli.options import Verb, chosen_options, common_options
from ssdsim.cli.output import echo_json
from ssdsim.cli.progress import progress_bar
from ssdsim.cli.tables import TextTable

if TYPE_CHECKING:
    import pandas as pd

_LEGEND = (
    "window: verification, host work and the outcome's message, until the draft must answer. T_p: glue pass and K "
    "branch steps at one guess a position. outcomes: the most a sequence that pre-speculation finishes in the window."
)


@click.command("window", cls=Verb, example="ssdsim window --tp 2,4,8 -b 1,16,64")
@chosen_options(lambda: AXES, several=True)
@chosen_options(lambda: (name for name in accepted_options() if name not in AXES))
@common_options
def command(as_json: bool, seed: int, quiet: bool, **options: Any) -> int:
    """Show how much drafting fits into one verification, and so how many outcomes can be cached.

    Every option down to --k takes a list or an inclusive range: 1,2,4 or 1:8 or 1:64:8.
    """
    with progress_bar("window", "", quiet):
        frame = window(seed=seed, **options)
    if as_json:
        echo_json(window_json(frame))
    else:
        print_windows(frame)
    if not as_json:
        print_warnings(sorted({w for warnings in frame["warnings"].dropna() for w in warnings}), quiet)
    return int(frame["reason"].notna().all())


def print_windows(frame: pd.DataFrame) -> None:
    """Print a table of windows, what is not possible, and a sentence on the narrowest and the widest."""
    out = console()
    fixed, varying = _split(frame)
    out.print(", ".join(f"{_label(name)} {frame[name].iloc[0]}" for name in fixed), style="bold")
    possible = frame[frame["reason"].isna()]
    if not possible.empty:
        out.print(_table(possible, varying))
    for line in _impossible(frame, varying):
        out.print(line, style="yellow")
    if possible.empty:
        return
    out.print()
    for title, row in _worth_saying(possible):
        print_labelled(out, title, sentence(row))
    out.print()
    out.print(_LEGEND, style="dim")


def _impossible(frame: pd.DataFrame, varying: list[str]) -> Iterator[str]:
    """A line for each distinct reason: the first combination that it rules out, and how many more."""
    for reason, rows in frame.groupby("reason", sort=False):
        axes = ", ".join(f"{_label(name)} {rows[name].iloc[0]}" for name in varying)
        more = f" and {len(rows) - 1} more" if len(rows) > 1 else ""
        yield f"Not possible: {axes}{more}: {reason}" if axes else f"Not possible: {reason}"


def _split(frame: pd.DataFrame) -> tuple[list[str], list[str]]:
    """Axes with one value, for the title, and those that vary, for the table."""
    names = [name for name in AXES if name != "draft_hardware" or (frame[name] != frame["hardware"]).any()]
    return [n for n in names if frame[n].nunique() == 1], [n for n in names if frame[n].nunique() > 1]


def _label(name: str) -> str:
    return {"b": "batch", "tp": "TP", "k": "K", "draft_hardware": "draft on"}.get(name, name)


def _table(frame: pd.DataFrame, varying: list[str]) -> TextTable:
    passes, outcomes = ("passes", "95 %", "passes/K"), ("outcomes", "F", "ended by")
    table = TextTable(names=len(varying), first=(*passes, *outcomes))
    for name in varying:
        table.add_column(_label(name), words=frame[name].dtype == object)
    for column in ("verify ms", "draft ms", *passes, "window ms", "T_p ms", *outcomes):
        table.add_column(column)
    for _, row in frame.iterrows():
        table.add_row(*(str(row[name]) for name in varying), *_cells(row))
    return table


def _cells(row: pd.Series[Any]) -> list[str]:
    return [
        f"{1e3 * row['verify_s']:.2f}",
        f"{1e3 * row['draft_pass_s']:.2f}",
        str(row["passes"]),
        f"{row['passes_low']}-{row['passes_high']}",
        str(row["budget_of_passes"]),
        f"{1e3 * row['window_s']:.2f}",
        f"{1e3 * row['prespeculate_s']:.2f}",
        str(row["budget"]),
        str(row["fan_out"]),
        row["limit"],
    ]


def _worth_saying(possible: pd.DataFrame) -> list[tuple[str, Any]]:
    """The rows worth a sentence: the one there is; of several the narrowest and the widest."""
    records = possible.to_dict("records")
    if len(records) == 1:
        return [("", records[0])]
    ordered = sorted(records, key=lambda row: (row["budget"], row["passes"]))
    return [("Fewest outcomes  ", ordered[0]), ("Most outcomes    ", ordered[-1])]
