"""The commands that pages show with what they print: run again, compared, and brought up to date.

A ``console`` block has commands after ``$`` (and ``>`` where they go on) and their standard output. The blocks of a
page run in order in one empty folder, so that a later one finds what an earlier one wrote. A line ``...`` stands for
any lines.

Run: python -m site_generator.shown [PAGES]   rewrites the outputs of these pages, by default of all
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from itertools import pairwise, takewhile
from pathlib import Path

from ssdsim.base.errors import InputError
from ssdsim.base.record import Record

PROJECT = Path(__file__).parents[1]
_BLOCK = re.compile(r"(?<=^```console\n)(.*?)(?=^```$)", flags=re.MULTILINE | re.DOTALL)
_ELISION = "..."
_TIMEOUT_S = 300
Run = Callable[[str, Path], str]
"""What runs a command in a folder and gives its standard output."""


class Shown(Record):
    """A command of a page, what the page says that it prints, and what it prints."""

    command: str
    expected: list[str]
    printed: list[str]

    def refreshed(self) -> list[str]:
        """What was printed, with the elisions of ``expected``: each part begins at the line that begins alike.

        Raises
        ------
        InputError : no line begins as a part of ``expected`` does.
        """
        if _ELISION not in self.expected:
            return self.printed
        cuts = [-1, *(i for i, line in enumerate(self.expected) if line == _ELISION), len(self.expected)]
        lines: list[str] = []
        place = 0
        for begin, end in pairwise(cuts):
            part = self.expected[begin + 1 : end]
            if begin >= 0:
                lines.append(_ELISION)
                place = self._place_of(part[0], place) if part else place
            lines += self.printed[place : place + len(part)]
            place += len(part)
        return lines

    def _place_of(self, line: str, start: int) -> int:
        """Where, from ``start`` on, the same line was printed, or else one that begins with the same word."""
        candidates = range(start, len(self.printed))
        same = [i for i in candidates if self.printed[i] == line]
        first_word = re.match(r"\s*\S+", line)
        alike = [i for i in candidates if first_word and self.printed[i].startswith(first_word.group())]
        if not same and not alike:
            raise InputError(f"'{self.command}' prints no line that begins like '{line}'")
        return (same or alike)[0]


def pages() -> list[Path]:
    """The README and the pages of ``docs/`` that show commands with their output."""
    written = [PROJECT / "README.md", *sorted((PROJECT / "docs").rglob("*.md"))]
    return [page for page in written if _BLOCK.search(page.read_text(encoding="utf-8"))]


def in_a_shell(command: str, folder: Path) -> str:
    """The standard output of a shell command."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env={**os.environ, "PATH": path},
        stdout=subprocess.PIPE,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
    )
    return done.stdout


def shown_on(page: Path, run: Run = in_a_shell) -> list[Shown]:
    """Every command of a page with its output, run in order in an empty folder."""
    with tempfile.TemporaryDirectory() as folder:
        blocks = _BLOCK.findall(page.read_text(encoding="utf-8"))
        return [each for block in blocks for each in _run_block(block, Path(folder), run)]


def refresh(page: Path) -> None:
    """Rewrite a page's outputs."""
    text = page.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        new = _BLOCK.sub(lambda block: _as_text(_run_block(block.group(), Path(folder), in_a_shell)), text)
    page.write_text(new, encoding="utf-8")


def _as_text(showns: Iterator[Shown]) -> str:
    return "".join("\n".join(["$ " + one.command.replace("\n", "\n> "), *one.refreshed(), ""]) for one in showns)


def _run_block(block: str, folder: Path, run: Run) -> Iterator[Shown]:
    for entry in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        first, *rest = entry.rstrip("\n").split("\n")
        more = list(takewhile(lambda line: line.startswith("> "), rest))
        command = "\n".join([first, *(line.removeprefix("> ") for line in more)])
        yield Shown(command, rest[len(more) :], _lines(run(command, folder)))


def _lines(printed: str) -> list[str]:
    """Without spaces at their ends."""
    return [line.rstrip() for line in printed.rstrip("\n").split("\n")] if printed else []


if __name__ == "__main__":
    for path in map(Path, sys.argv[1:]) if sys.argv[1:] else pages():
        refresh(path)
