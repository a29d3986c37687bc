"""The first screen of a verb: an answer, a small table, and a few labelled lines, in at most 80 columns."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from shlex import quote
from typing import Any

from rich.console import Console
from rich.text import Text

from ssdsim.answers.verdict import title_of
from ssdsim.base.option import spelled
from ssdsim.cli.console import console, wrapped
from ssdsim.cli.tables import TextTable
from ssdsim.hardware.catalog import short_hardware_name
from ssdsim.question.configuration import Configuration

MOST_COLUMNS = 80
MOST_LINES = 15
_CARRIED = ("target", "drafter", "draft", "hardware", "engine", "b")
_GAP = 2  # blanks between a label and its text


def screen() -> Console:
    """What a first screen is printed on: as wide as COLUMNS says, else the terminal, else 80 columns; never wider."""
    out = console()
    out.width = min(MOST_COLUMNS, out.width)
    return out


def carried(given: Mapping[str, Any], *more: str) -> str:
    """What was given of the models, the machine, the engine, the load and acceptance, as the next command takes it."""
    words = {spelled(name): given.get(name) for name in (*_CARRIED, *more)}
    if words["--hardware"] is not None:
        words["--hardware"] = short_hardware_name(words["--hardware"])
    flags = {"--target": "--model", "--b": "-b"}
    return "".join(f" {flags.get(flag, flag)} {quote(_word(v))}" for flag, v in words.items() if v is not None)


def _word(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def who_is_refused(configuration: Configuration, said: str = "") -> dict[str, str]:
    """The lines of who has no room and of who cannot run so, and why; without what is ``said`` already."""
    cannot = ((title_of(name), why) for name, why in configuration.cannot_run.items() if why not in said)
    return {
        "No room": "; ".join(why for why in configuration.no_room.values() if why not in said),
        "Cannot run": "; ".join(why if title in why else f"{title}: {why}" for title, why in cannot),
    }


def height(headline: str, table: Sequence[Sequence[str]], lines: Sequence[tuple[str, str]]) -> int:
    """Lines that a first screen takes where no row wraps."""
    width, told = screen().width, [(label, text) for label, text in lines if text]
    beside = max((len(label) for label, _ in told), default=0) + _GAP
    paragraphs = [
        len(wrapped(headline, width)),
        len(table),
        sum(len(wrapped(text, width - beside)) for _, text in told),
    ]
    return sum(paragraphs) + sum(number > 0 for number in paragraphs) - 1


def print_screen(
    headline: str,
    table: Sequence[Sequence[str]] = (),
    lines: Mapping[str, str] | Sequence[tuple[str, str]] = (),
    *,
    title: str = "",
    words: Collection[str] = ("",),
    style: str = "bold",
) -> None:
    """Print a first screen.

    Parameters
    ----------
    headline : the answer, a paragraph.
    table : rows of cells, the first is the header. Columns are of numbers, at the right, but those whose headers are
        among ``words``. A narrow terminal turns it, or says what it leaves out.
    lines : labels and their texts, wrapped beside them. A line break stays one; an empty text is left out.
    title : a paragraph above the headline: what was asked.
    """
    out = screen()
    if title:
        _print_wrapped(out, title, "dim")
    _print_wrapped(out, headline, style)
    if table:
        out.print()
        out.print(_table(table, words))
    told = [(label, text) for label, text in (lines.items() if isinstance(lines, Mapping) else lines) if text]
    if told:
        out.print()
    beside = max((len(label) for label, _ in told), default=0) + _GAP
    for label, text in told:
        for i, line in enumerate(wrapped(text, out.width - beside)):
            out.print(Text(("" if i else label).ljust(beside), "dim").append(line, "none"), soft_wrap=True)


def _table(rows: Sequence[Sequence[str]], words: Collection[str]) -> TextTable:
    header, *others = rows
    made = TextTable()
    for each in header:
        made.add_column(each, words=each in words)
    for row in others:
        made.add_row(*row)
    return made


def _print_wrapped(out: Console, text: str, style: str) -> None:
    for line in wrapped(text, out.width):
        out.print(Text(line, style), soft_wrap=True)
