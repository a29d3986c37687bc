"""What is printed in a terminal: labelled lines, where numbers come from, warnings."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NoReturn

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ssdsim.cli.output import VERBOSE, ReaderLeftError
from ssdsim.hardware.timing import EXTRAPOLATED

PIPE_WIDTH = 120
UNLABELLED = " " * len("Verdict  ")


_SHAPES = re.compile(r"\d[\d.x]*")


class _Console(Console):
    def on_broken_pipe(self) -> NoReturn:
        raise ReaderLeftError


def console(stderr: bool = False) -> Console:
    """A console as wide as the terminal, and wide enough for a table where there is none (a file, a pipe).

    Text is shown as it is: names and titles come from files, and what looks like markup in one is none.
    """
    console = _Console(stderr=stderr, highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = PIPE_WIDTH
    return console


def echo(text: str, stderr: bool = False) -> None:
    """A line that a terminal gets broken at blanks, and a file or pipe whole."""
    out = console(stderr)
    out.print(Text(text), soft_wrap=not out.is_terminal)


def print_labelled(out: Console, label: str, text: str, style: str = "", label_style: str | None = None) -> None:
    """``text`` after its label; in a terminal its further lines begin below its first, not below the label."""
    words = Text(label, style if label_style is None else label_style), Text(text, style)
    if not out.is_terminal:
        out.print(*words, sep="")
        return
    beside = Table.grid()
    beside.add_column(no_wrap=True)
    beside.add_column(overflow="fold")
    beside.add_row(*words)
    out.print(beside)


def print_each(label: str, lines: Iterable[str], style: str) -> None:
    """Print lines on stderr, each after the label."""
    log = console(stderr=True)
    for line in lines:
        print_labelled(log, label, line, style)


def print_origins(
    out: Console, timings: Iterable[Mapping[str, str]], runtime: str | None, tokens: str | None = None
) -> None:
    """Print the numbers' origins: timings, the engine, what is accepted."""
    for record in timings:
        print_labelled(out, "Timings  ", f"{record['profile']}: {record['summary']}", "dim")
    for label, text in (("Runtime  ", runtime), ("Tokens   ", tokens)):
        if text:
            print_labelled(out, label, text, "dim")


def print_warnings(warnings: Iterable[str], quiet: bool, share: float | None = None) -> None:
    """Print warnings on stderr, a line for those that differ in numbers only; ``--verbose``, ``--json`` have all.

    ``share`` is how much of the passes' time is of operations that were timed at no such shape.
    """
    if quiet:
        return
    context = click.get_current_context(silent=True)
    verbose = context is not None and context.meta.get(VERBOSE)
    print_each("warning: ", warnings if verbose else _lines(warnings, share), "yellow")


def _lines(warnings: Iterable[str], share: float | None) -> list[str]:
    beyond: dict[str, list[str]] = {}
    kinds: dict[str, list[str]] = {}
    for warning in warnings:
        if found := EXTRAPOLATED.fullmatch(warning):
            beyond.setdefault(found["profile"], []).append(found["operation"])
        else:
            kinds.setdefault(_SHAPES.sub("#", warning), []).append(warning)
    return [*(_of_kind(alike) for alike in kinds.values()), *(_beyond(*each, share) for each in beyond.items())]


def _of_kind(alike: list[str]) -> str:
    return f"{alike[0]} (and {len(alike) - 1} more of this kind: --verbose)" if len(alike) > 1 else alike[0]


def _beyond(profile: str, operations: list[str], share: float | None) -> str:
    """``3 % of pass time (attention, gemm) is extrapolated beyond measured shapes``."""
    families = ", ".join(dict.fromkeys(each.partition(":")[0] for each in operations))
    percent = "under 1 %" if share is None or share < 0.01 else f"{share:.0%}".replace("%", " %")
    what = f"time of {families}" if share is None else f"{percent} of pass time ({families})"
    return f"{profile}: {what} is extrapolated beyond measured shapes (--verbose)"
