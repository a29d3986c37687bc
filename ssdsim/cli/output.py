"""Plain output to stdout, JSON among it, and its end where nobody reads it."""

from __future__ import annotations

import json
import sys
from typing import Any

import click

VERBOSE = f"{__name__}.verbose"
"""The key of click's ``ctx.meta`` under which a call keeps that it is asked for every warning."""


class ReaderLeftError(Exception):
    """Raised where the output's reader has gone. Click and rich would end with 1, which here says no."""


def print_out(text: str) -> None:
    """Print a line, as it is."""
    try:
        click.echo(text)
    except BrokenPipeError:
        raise ReaderLeftError from None


def echo_json(value: Any) -> None:
    """Print a record, or a mapping of records, as :func:`ssdsim.base.plain.plain` has it."""
    from ssdsim.base.plain import plain  # here: it loads numpy, which starts threads unless main said before how many

    print_out(json.dumps(plain(value), indent=2, allow_nan=False))


def flush() -> None:
    """Flush the output: here a pipe is noticed that was closed after the last line."""
    try:
        if sys.stdout is not None:  # it is, where it was closed from the start
            sys.stdout.flush()
    except BrokenPipeError:
        raise ReaderLeftError from None
