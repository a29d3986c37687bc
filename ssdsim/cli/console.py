"""Consoles to which output goes."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from ssdsim.cli.lines import Line, wrapped
from ssdsim.cli.output import print_out
from ssdsim.cli.tables import Table

PIPE_WIDTH = 120
UNLABELLED = " " * len("Verdict  ")


class Console(Protocol):
    """A terminal, or a :class:`Pipe`."""

    @property
    def width(self) -> int: ...
    @property
    def is_terminal(self) -> bool: ...
    def print(self, shown: Any = ..., /, *, style: str = ..., soft_wrap: bool = ...) -> None: ...


class Pipe:
    """A file or a pipe: wide enough for a table, and without styles."""

    width = PIPE_WIDTH
    is_terminal = False

    def __init__(self, stderr: bool) -> None:
        self._stderr = stderr

    def print(self, shown: Any = "", /, *, style: str = "", soft_wrap: bool = False) -> None:
        """Print a table, or text, whose lines are broken where they are too long for a reader."""
        text = "\n".join(map(str, shown.lines(self.width))) if isinstance(shown, Table) else str(shown)
        print_out(text if soft_wrap else "\n".join(wrapped(text, self.width)), self._stderr)


def console(stderr: bool = False) -> Console:
    """Where output goes; what draws in colours is loaded for a terminal only."""
    stream = sys.stderr if stderr else sys.stdout
    if not (os.environ.get("FORCE_COLOR") or (stream is not None and stream.isatty())):
        return Pipe(stderr)
    from ssdsim.cli.terminal import Terminal

    return Terminal(stderr)


def echo(text: str, stderr: bool = False) -> None:
    """A line that a terminal gets broken at blanks, and a file or pipe whole."""
    out = console(stderr)
    out.print(text, soft_wrap=not out.is_terminal)


def print_labelled(out: Console, label: str, text: str, style: str = "", label_style: str | None = None) -> None:
    """``text`` after its label; in a terminal its further lines begin below its first, not below the label."""
    for line in wrapped(text, max(1, out.width - len(label))) if out.is_terminal else [text]:
        out.print(Line().append(label, style if label_style is None else label_style).append(line, style))
        label = " " * len(label)


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
