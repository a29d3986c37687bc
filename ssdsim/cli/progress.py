"""Progress of long work: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

_LINE_EVERY_S = 5.0
_BAR_AFTER_S = 1.0  # what is over sooner needs none


@contextmanager
def shown(verb: str, what: str, quiet: bool, ends: bool = True) -> Iterator[Callable[[int, int], None]]:
    """A function of (done, total) that shows it on stderr: ``sweep: 40 of 100 points, 3 min left``.

    Work that is over soon says nothing where it does not say that it ``ends``.
    """
    if quiet:
        yield lambda done, total: None
    elif sys.stderr is not None and sys.stderr.isatty():
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        from ssdsim.cli.console import console  # here: most answers are there before there is a bar to draw

        columns = (TextColumn(verb), BarColumn(), MofNCompleteColumn(), TextColumn(what), TimeRemainingColumn())
        bar = Progress(*columns, console=console(stderr=True), transient=True)
        task, began = bar.add_task(verb), time.monotonic()

        def moved(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)
            if time.monotonic() - began >= _BAR_AFTER_S:
                bar.start()

        try:
            yield moved
        finally:
            bar.stop()
    else:
        yield _lines(verb, what, ends)


def _lines(verb: str, what: str, ends: bool) -> Callable[[int, int], None]:
    last = time.monotonic()
    first: tuple[float, int] | None = None  # when it was how far: a resumed run begins with what there was

    def line(done: int, total: int) -> None:
        nonlocal last, first
        now = time.monotonic()
        first = first or (now, done)
        if now - last >= _LINE_EVERY_S or (ends and done == total):
            left = _left(now - first[0], done - first[1], total - done)
            click.echo(f"{verb}: {done} of {total} {what}{left}", err=True)
            last = now

    return line


def _left(took_s: float, done: int, left: int) -> str:
    """What it will still cost at the pace so far."""
    return f", {told(took_s / done * left)} left" if done > 0 and left > 0 else ""


def told(seconds: float) -> str:
    """A time as people say it: ``40 s``, ``3 min``, ``2.5 h``."""
    if seconds < 100.0:
        return f"{seconds:.0f} s"
    return f"{seconds / 60.0:.0f} min" if seconds < 6000.0 else f"{seconds / 3600.0:.1f} h"
