"""The terminal, whose width and colours are rich's to know."""

from __future__ import annotations

from typing import NoReturn

from rich.console import Console

from ssdsim.cli.output import ReaderLeftError


class Terminal(Console):
    """A console as wide as the terminal.

    Text is shown as it is: names and titles come from files, and what looks like markup in one is none.
    """

    def __init__(self, stderr: bool) -> None:
        super().__init__(stderr=stderr, highlight=False, markup=False, emoji=False)

    def on_broken_pipe(self) -> NoReturn:
        raise ReaderLeftError
