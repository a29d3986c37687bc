"""How far long work is: a bar with the time left on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

from ssdsim.cli.console import console

_LINE_EVERY_S = 5.0


@contextmanager
def shown(verb: str, what: str, quiet: bool) -> Iterator[Callable[[int, int], None]]:
    """A function of (done, total) that shows it on stderr: ``sweep: 40 of 100 points``."""
    log = console(stderr=True)
    if quiet:
        yield lambda done, total: None
    elif log.is_terminal:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn(verb), BarColumn(), MofNCompleteColumn(), TextColumn(what), TimeRemainingColumn())
        with Progress(*columns, console=log, transient=True) as bar:
            task = bar.add_task(verb)
            yield lambda done, total: bar.update(task, completed=done, total=total)
    else:
        yield _lines(verb, what)


def _lines(verb: str, what: str) -> Callable[[int, int], None]:
    last = time.monotonic()

    def line(done: int, total: int) -> None:
        nonlocal last
        if time.monotonic() - last >= _LINE_EVERY_S or done == total:
            click.echo(f"{verb}: {done} of {total} {what}", err=True)
            last = time.monotonic()

    return line
