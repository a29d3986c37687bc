"""Copies of this process that hold a value in common with it."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from typing import Any, TypeVar

from ssdsim.answers.with_parent import end_with

T = TypeVar("T")

_held: Any = None  # by a process of these


def may_fork() -> bool:
    """Say whether a copy of this process can find no lock that a thread of ours holds, and may be its child."""
    alone = threading.active_count() == 1
    return sys.platform == "linux" and alone and not multiprocessing.current_process().daemon


class Forked:
    """Copies of this process, begun at the first submission; they hold ``held`` with all that it knows by then."""

    def __init__(self, processes: int, held: Any) -> None:
        self._before = set(multiprocessing.active_children())
        self._pool = ProcessPoolExecutor(processes, multiprocessing.get_context("fork"), _hold, (held, os.getpid()))

    def submit(self, run: Callable[..., T], *arguments: Any) -> Future[T]:
        with warnings.catch_warnings():
            # Python 3.12 warns of OpenBLAS's threads when a process forks; OpenBLAS gets itself ready for that
            warnings.simplefilter("ignore", DeprecationWarning)
            return self._pool.submit(_with_held, run, *arguments)

    def end(self) -> None:
        for process in set(multiprocessing.active_children()) - self._before:
            process.kill()
        self._pool.shutdown(cancel_futures=True)


def _hold(held: Any, parent: int) -> None:
    global _held
    _held = held
    end_with(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # this process's parent ends it


def _with_held(run: Callable[..., T], *arguments: Any) -> T:
    return run(_held, *arguments)
