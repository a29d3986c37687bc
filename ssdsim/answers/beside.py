"""Processes beside this one that hold a value in common with it: copies of it where that is safe, else new ones."""

from __future__ import annotations

import multiprocessing
import signal
import sys
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from typing import Any, Protocol, TypeVar

T = TypeVar("T")

_held: Any = None  # by a process of these


class Beside(Protocol):
    def submit(self, run: Callable[..., T], *arguments: Any) -> Future[T]:
        """``run(held, *arguments)`` in one of the processes."""

    def end(self) -> None:
        """End the processes, whatever they do."""


def may_fork() -> bool:
    """Whether a copy of this process can find no lock that a thread of ours holds."""
    return sys.platform == "linux" and threading.active_count() == 1


class Forked:
    """Copies of this process, begun at the first submission; they hold ``held`` with all that it knows by then."""

    def __init__(self, processes: int, held: Any) -> None:
        self._before = set(multiprocessing.active_children())
        self._pool = ProcessPoolExecutor(processes, multiprocessing.get_context("fork"), _hold, (held,))

    def submit(self, run: Callable[..., T], *arguments: Any) -> Future[T]:
        with warnings.catch_warnings():
            # Python 3.12 warns of OpenBLAS's threads when a process forks; OpenBLAS gets itself ready for that
            warnings.simplefilter("ignore", DeprecationWarning)
            return self._pool.submit(_with_held, run, *arguments)

    def end(self) -> None:
        for process in set(multiprocessing.active_children()) - self._before:
            process.kill()
        self._pool.shutdown(cancel_futures=True)


class Started:
    """New processes, there after a second, that hold what ``make`` makes."""

    def __init__(self, processes: int, make: Callable[[], Any]) -> None:
        from joblib.externals.loky import ProcessPoolExecutor as Pool  # here, because small questions do without

        self._pool = Pool(processes, initializer=_hold_new, initargs=(make,), env={"OPENBLAS_NUM_THREADS": "1"})

    def submit(self, run: Callable[..., T], *arguments: Any) -> Future[T]:
        future: Future[T] = self._pool.submit(_with_held, run, *arguments)
        return future

    def end(self) -> None:
        self._pool.shutdown(kill_workers=True)


def _hold(held: Any) -> None:
    global _held
    _held = held
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # this process's parent ends it


def _hold_new(make: Callable[[], Any]) -> None:
    _hold(make())


def _with_held(run: Callable[..., T], *arguments: Any) -> T:
    return run(_held, *arguments)
