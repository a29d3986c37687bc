"""Where output goes."""

from __future__ import annotations

from rich.console import Console

PIPE_WIDTH = 120


def console(stderr: bool = False) -> Console:
    """A console as wide as the terminal, and wide enough for a table where there is none (a file, a pipe)."""
    found = Console(stderr=stderr, highlight=False)
    if not found.is_terminal:
        found.width = PIPE_WIDTH
    return found
