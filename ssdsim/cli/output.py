"""Plain output to stdout, and its end where nobody reads it."""

from __future__ import annotations

import sys

import click


class ReaderLeftError(Exception):
    """Raised where the output's reader has gone. Click and rich would end with 1, which here says no."""


def print_out(text: str) -> None:
    """Print a line, as it is."""
    try:
        click.echo(text)
    except BrokenPipeError:
        raise ReaderLeftError from None


def flush() -> None:
    """Flush the output: here a pipe is noticed that was closed after the last line."""
    try:
        if sys.stdout is not None:  # it is, where it was closed from the start
            sys.stdout.flush()
    except BrokenPipeError:
        raise ReaderLeftError from None
