"""Worker processes: what travels to them, their watch on the parent, and forked copies that share its memory."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sys
import threading
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor
from contextlib import suppress
from functools import cached_property, partial
from queue import SimpleQueue
from threading import Thread
from time import sleep
from typing import Any, TypeVar
from uuid import uuid4

from ssdsim.answers.idle_cores import counted_as_idle
from ssdsim.base.progress import hearing_shares

_LOOK_S = 0.5  # between looks at the parent
_MOST_REMEMBERED = 16  # shared values of a process

T = TypeVar("T")
Work = Sequence[tuple[Any, ...]]
"""The arguments of each piece. The first is what pieces share: a process keeps it, with all that it learns."""


def end_with(parent: int) -> None:
    """End this process soon after its parent was killed.

    The kernel could do it (``prctl``), but it watches the thread that made the process, which a pool may have ended.
    """

    def watch() -> None:
        while os.getppid() == parent:
            sleep(_LOOK_S)
        os._exit(1)

    Thread(target=watch, daemon=True, name="ends with its parent").start()


class Shared:
    """A large value that is sent to each worker process once; a process that has it goes on with its copy.

    What travels is the value as it was sent first: a copy learns while its process works, and cannot be read meanwhile.
    """

    def __init__(self, value: Any) -> None:
        self.value = value
        self._key = uuid4().hex

    @cached_property
    def _data(self) -> bytes:
        import cloudpickle  # strategies that were registered in __main__ travel, too

        data: bytes = cloudpickle.dumps(self.value)
        return data

    @classmethod
    def received(cls, key: str, data: bytes) -> Shared:
        """The copy of a process, which may have to send it to another."""
        copy = cls(pickle.loads(data))
        copy._key, copy._data = key, data
        return copy

    def __reduce__(self) -> tuple[Callable[..., Shared], tuple[str, bytes]]:
        return _received, (self._key, self._data)


_RECEIVED: dict[str, Shared] = {}


def _received(key: str, data: bytes) -> Shared:
    if key not in _RECEIVED:
        if len(_RECEIVED) >= _MOST_REMEMBERED:
            _RECEIVED.clear()
        _RECEIVED[key] = Shared.received(key, data)
    return _RECEIVED[key]


def with_shared(work: Work) -> list[tuple[Any, ...]]:
    """Copy pieces so that their first arguments travel once."""
    shared = {id(first): Shared(first) for first, *_ in work}
    return [(shared[id(first)], *rest) for first, *rest in work]


def run_with(run: Callable[..., T], shared: Shared, *arguments: Any) -> T:
    return run(shared.value, *arguments)


def may_fork() -> bool:
    """Say whether this process may fork: no other thread may hold a lock, and daemons have no children."""
    alone = threading.active_count() == 1
    return sys.platform == "linux" and alone and not multiprocessing.current_process().daemon


_work: Work = ()  # of a forked copy


def with_copies(run: Callable[..., T], work: Work, copies: int, heard: Callable[[int, float], None]) -> Iterator[T]:
    """``run(*arguments)`` of each piece of ``work``. Forked copies take the first that is left, this process the last.

    The copies know all that this process knows when they begin. ``heard`` hears of the piece in this process: how many
    pieces were done before it, and what share of it is done.

    Raises
    ------
    BrokenExecutor : a copy died.
    """
    left, ended = deque(range(len(work))), SimpleQueue[Future[T]]()
    before = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(copies, multiprocessing.get_context("fork"), _begin, (work, os.getpid()))

    def submit() -> None:
        number = _next(left.popleft)
        if number is not None:
            with suppress(BrokenExecutor):  # which the piece before has reported
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
            number = _next(left.pop) if ended.empty() else None
            if number is None:
                result = ended.get().result()
            else:
                with hearing_shares(partial(heard, len(work) - missing)):
                    result = run(*work[number])
            yield result
            missing -= 1
    finally:
        left.clear()
        with counted_as_idle():
            for process in set(multiprocessing.active_children()) - before:
                process.kill()
            pool.shutdown(cancel_futures=True)


def _next(take: Callable[[], int]) -> int | None:
    """A number that is left; another thread may have taken the last one a moment ago."""
    try:
        return take()
    except IndexError:
        return None


def _begin(work: Work, parent: int) -> None:
    global _work
    _work = work
    end_with(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends this process


def _piece(run: Callable[..., T], number: int) -> T:
    return run(*_work[number])
