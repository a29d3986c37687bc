"""Consoles to which output goes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NoReturn

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ssdsim.cli.output import ReaderLeftError

PIPE_WIDTH = 120
UNLABELLED = " " * len("Verdict  ")


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
