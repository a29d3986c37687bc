"""What is printed in a terminal: labelled lines, where numbers come from, warnings."""

from __future__ import annotations

import os
import re
import sys
import textwrap
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import NoReturn

import click
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from ssdsim.cli.output import VERBOSE, ReaderLeftError
from ssdsim.hardware.timing import EXTRAPOLATED

UNTOLD_WIDTH = 80
"""Columns where nothing says how many there are."""
UNLABELLED = " " * len("Verdict  ")


_SHAPES = re.compile(r"\d[\d.x]*")
_WITH_UNIT, _UNBROKEN = re.compile(r"(\d) (%|ms\b|GPUs?\b)"), "\xa0"


_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""Characters that a terminal obeys, but for those of lines and blanks."""


class _Console(Console):
    def on_broken_pipe(self) -> NoReturn:
        raise ReaderLeftError

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Segments whose text a terminal shows: styles are beside it, so what it would obey comes from a file."""
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else _CONTROL.sub(lambda c: repr(c[0])[1:-1], text), style, control)


def console(stderr: bool = False) -> Console:
    """A console of :func:`columns`.

    Text is shown as it is: names and titles come from files, and what looks like markup in one is none.
    """
    console = _Console(stderr=stderr, highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = columns()
    return console


def columns() -> int:
    """As many columns as COLUMNS says, or else the terminal has from which a pipe was begun, or else 80."""
    said = os.environ.get("COLUMNS", "")
    if re.fullmatch(r"0*[1-9][0-9]{0,5}", said):
        return int(said)
    for stream in (sys.__stdout__, sys.__stderr__, sys.__stdin__):
        with suppress(OSError, ValueError, AttributeError):  # no terminal, closed, or not there at all
            return os.get_terminal_size(stream.fileno()).columns or UNTOLD_WIDTH  # type: ignore[union-attr]
    return UNTOLD_WIDTH


def echo(text: str, stderr: bool = False) -> None:
    """A line that a terminal gets broken at blanks, and a file or pipe whole."""
    out = console(stderr)
    out.print(Text(text), soft_wrap=not out.is_terminal)


def print_labelled(out: Console, label: str, text: str, style: str = "", label_style: str | None = None) -> None:
    """``text`` after its label: its further lines begin below its first, not below the label.

    A line of stderr that is kept in a file is whole.
    """
    in_a_file = out.stderr and not out.is_terminal
    for number, line in enumerate([text] if in_a_file else wrapped(text, out.width - len(label))):
        begins = " " * len(label) if number else label
        words = Text(begins, style if label_style is None else label_style).append(line, style)
        out.print(words, soft_wrap=True)


def wrapped(text: str, width: int) -> list[str]:
    """Lines that break at blanks alone: an option or a path stays whole, and a number with its unit."""
    wrapper = textwrap.TextWrapper(max(20, width), break_long_words=False, break_on_hyphens=False)
    kept = _WITH_UNIT.sub(f"\\1{_UNBROKEN}\\2", text)
    return [line.replace(_UNBROKEN, " ") for each in kept.splitlines() for line in wrapper.wrap(each) or [""]]


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


def print_warnings(
    warnings: Iterable[str], quiet: bool, share: float | None = None, telling: Iterable[str] | None = None
) -> None:
    """Print warnings on stderr, a line for those that differ in numbers only; ``--verbose``, ``--json`` have all.

    ``share`` is how much of the passes' time is of operations that were timed at no such shape. ``telling`` are those
    that can move the answer; all where it is None.
    """
    if quiet:
        return
    context = click.get_current_context(silent=True)
    verbose = context is not None and context.meta.get(VERBOSE)
    print_each("warning: ", warnings if verbose else _lines(warnings if telling is None else telling, share), "yellow")


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
