"""Copies of this process that work beside it, and hold what it holds."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import TypeVar

from ssdsim.answers.idle_cores import given_back
from ssdsim.answers.shared_value import Work
from ssdsim.answers.with_parent import end_with
from ssdsim.base.progress import hearing_shares

T = TypeVar("T")

_work: Work = ()  # of a process of these


def may_fork() -> bool:
    """Say whether a copy of this process can find no lock that a thread of ours holds, and may be its child."""
    alone = threading.active_count() == 1
    return sys.platform == "linux" and alone and not multiprocessing.current_process().daemon


def with_copies(run: Callable[..., T], work: Work, copies: int, heard: Callable[[int, float], None]) -> Iterator[T]:
    """``run(*arguments)`` of each piece of ``work``: copies take the first one that is left, this process the last.

    The copies know all that this process knows as they begin. ``heard`` hears of the piece that this process works at:
    how many were done before, and what share of it is done.

    Raises
    ------
    BrokenExecutor : a copy died.
    """
    left, ended = deque(range(len(work))), SimpleQueue[Future[T]]()
    before = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(copies, multiprocessing.get_context("fork"), _begin, (work, os.getpid()))

    def submit() -> None:
        number = _taken(left.popleft)
        if number is not None:
            with suppress(BrokenExecutor):  # which the piece before has told
                pool.submit(_piece, run, number).add_done_callback(go_on)

    def go_on(done: Future[T]) -> None:
        ended.put(done)
        with suppress(RuntimeError):  # the pool was shut down meanwhile: nobody waits any more
            submit()

    try:
        with warnings.catch_warnings():
            # Python 3.12 warns of OpenBLAS's threads when a process forks; OpenBLAS gets itself ready for that
            warnings.simplefilter("ignore", DeprecationWarning)
            for _ in range(copies):
                submit()
        missing = len(work)
        while missing:
            number = _taken(left.pop) if ended.empty() else None
            if number is None:
                result = ended.get().result()
            else:
                with hearing_shares(partial(heard, len(work) - missing)):
                    result = run(*work[number])
            yield result
            missing -= 1
    finally:
        left.clear()
        with given_back():
            for process in set(multiprocessing.active_children()) - before:
                process.kill()
            pool.shutdown(cancel_futures=True)


def _taken(take: Callable[[], int]) -> int | None:
    """A number that is left; another thread may have taken the last one a moment ago."""
    try:
        return take()
    except IndexError:
        return None


def _begin(work: Work, parent: int) -> None:
    global _work
    _work = work
    end_with(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # this process's parent ends it


def _piece(run: Callable[..., T], number: int) -> T:
    return run(*_work[number])
