"""Progress of long work: a bar on a terminal, nothing where nobody watches."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ssdsim.base.progress import Progress

if TYPE_CHECKING:
    from rich.progress import Progress as RichBar
    from rich.progress import TaskID

_BAR_AFTER_S = 2.0  # what is over sooner needs none
_DRAWN_EVERY_S = 0.1


@contextmanager
def progress_bar(verb: str, what: str, quiet: bool, kept: str = "nothing is kept") -> Iterator[Progress]:
    """A function of (done, total) that shows it on stderr: ``sweep 40/100 points``, and how long it still takes.

    A terminal shows that there is work, and for how long, where nobody calls it. A pipe or a file gets nothing. An
    interrupt says what is ``kept``.
    """
    terminal = sys.stderr is not None and sys.stderr.isatty() and not quiet
    bar = _Bar(verb, what) if terminal else None
    try:
        if bar is not None:
            yield bar.moved
        else:
            yield lambda done, total: None
    except KeyboardInterrupt as interrupt:
        raise KeyboardInterrupt(str(interrupt) or kept) from None
    finally:
        if bar is not None:
            bar.end()


class _Bar:
    """A progress bar that begins by itself once the work has taken a while, with or without news of how far that is.

    A timer's signal draws it. A thread would keep the process from making copies that help. There is one timer: a bar
    around this one goes on when this one ends.
    """

    def __init__(self, verb: str, what: str) -> None:
        self._verb, self._what = verb, what
        self._far: tuple[float, int] | None = None
        self._shown: tuple[RichBar, TaskID] | None = None
        self._ended = False
        self._before = signal.signal(signal.SIGALRM, self._drawn_again)
        self._timer_before = signal.setitimer(signal.ITIMER_REAL, _BAR_AFTER_S)

    def moved(self, done: float, total: int) -> None:
        self._far = done, total

    def end(self) -> None:
        self._ended = True
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, self._before)
        if self._shown is not None:
            self._shown[0].stop()
        signal.setitimer(signal.ITIMER_REAL, *self._timer_before)

    def _drawn_again(self, *of_signal: object) -> None:
        if self._ended:
            return
        with suppress(ImportError):  # of a module that the work imports at this moment
            self._draw()
        signal.setitimer(signal.ITIMER_REAL, _DRAWN_EVERY_S)  # once: no drawing begins within another

    def _draw(self) -> None:
        if self._shown is None:
            self._shown = self._begun()
        bar, task = self._shown
        if self._far is not None:
            done, total = self._far
            so_far = f"{done:.{0 if done == int(done) else 1}f}/{total} {self._what}"
            bar.update(task, completed=done, total=total, far=so_far)
        bar.refresh()

    def _begun(self) -> tuple[RichBar, TaskID]:
        from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
        from rich.progress import Progress as RichBar

        from ssdsim.cli.console import console  # here: most answers are there before there is a bar to draw

        columns = (TextColumn(self._verb), BarColumn(), TextColumn("{task.fields[far]}"), TimeElapsedColumn())
        how: dict[str, Any] = {"console": console(stderr=True), "transient": True, "redirect_stdout": False}
        bar = RichBar(*columns, TimeRemainingColumn(), auto_refresh=False, **how)
        task = bar.add_task(self._verb, total=None, far="")
        bar.start()
        return bar, task


def kept_in(folder: Path | None, what: str) -> str:
    """The words on what an interrupt of work with ``-o`` leaves."""
    return f"{folder} keeps each {what} that is done" if folder else f"-o FOLDER would keep each {what} that is done"


def duration_text(seconds: float) -> str:
    """A time as people say it: ``40 s``, ``3 min``, ``2.5 h``."""
    if seconds < 100.0:
        return f"{seconds:.0f} s"
    return f"{seconds / 60.0:.0f} min" if seconds < 6000.0 else f"{seconds / 3600.0:.1f} h"
