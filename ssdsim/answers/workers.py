"""Workers of many pieces: this process, forked copies on idle cores, processes of joblib, or a Dask cluster."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import cached_property, partial
from typing import Any, TypeVar

from ssdsim.answers.cluster import on_cluster
from ssdsim.answers.idle_cores import IdleCores
from ssdsim.answers.worker_processes import Work, end_with, may_fork, run_with, with_copies, with_shared
from ssdsim.base.errors import InputError, short_repr
from ssdsim.base.kinds import Kind, Whole
from ssdsim.base.option import ALWAYS, OptionRecord, Section, option_field
from ssdsim.base.progress import Progress, hearing_shares
from ssdsim.base.record import Record

_DIED = "one of the processes died (out of memory?)"

T = TypeVar("T")


class _Jobs(Whole):
    """A number of processes."""

    requirement = "be at least 1, or -1 for one a core"

    def checked(self, said: str, value: Any) -> int:
        if isinstance(value, int) and value == -1:
            return value
        if not isinstance(value, int) or value < 1:
            raise InputError(f"{said} must {self.requirement}, got {short_repr(value)}")
        return super().checked(said, value)


class _Address(Kind, Record):
    """The address at which a Dask scheduler listens."""

    metavar = "tcp://host:port"
    requirement = "be an address such as tcp://host:8786"

    def checked(self, said: str, value: Any) -> str:
        if not isinstance(value, str) or not re.fullmatch(r"\w+://\S+:\d+", value):
            raise InputError(f"{said} must {self.requirement}, got {short_repr(value)}")
        return value


class Workers(OptionRecord):
    """``jobs`` processes on this machine (-1: one a core), or the workers of the Dask scheduler at ``cluster``.

    A cluster's workers need ssdsim and every file that options name. ``progress`` hears of each piece, and of the share
    that is done of a piece in this process. The answer is the same to the byte.
    """

    section, prominence = Section.OUTPUT, 0

    jobs: int = option_field(_Jobs(), "processes on this machine; -1: one a core", 1, prominence=ALWAYS)
    cluster: str | None = option_field(_Address(), "a Dask scheduler, whose workers do the work")
    progress: Progress | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self._idle  # noqa: B018  # whose first look is now
        if self.cluster is not None and self.jobs != 1:
            raise InputError("--jobs has no effect with --cluster (its workers do the work)")

    @property
    def at_once(self) -> int:
        """The number of pieces at once on this machine; 0 with a cluster."""
        return 0 if self.cluster is not None else self.jobs if self.jobs > 0 else os.cpu_count() or 1

    @cached_property
    def _idle(self) -> IdleCores:
        return IdleCores()

    def idle(self) -> int:
        """The number of cores on which copies of this process may help."""
        return self._idle.free()

    def answers(self, questions: Sequence[Callable[[], Any]]) -> list[Any]:
        """The answer to each question, in order.

        Copies of this process on idle cores answer from the first one on, this process from the last one back.
        """
        answered = self.each(_answered, [(question, number) for number, question in enumerate(questions)])
        return [answered[number] for number in range(len(questions))]

    def each(
        self,
        run: Callable[..., tuple[int, T]],
        work: Sequence[tuple[Any, ...]],
        done: Callable[[int, T], None] | None = None,
        *,
        room: int | None = None,
    ) -> Mapping[int, T]:
        """The results of ``run`` by the number of the piece of work; ``done`` hears of each as it comes.

        Copies of this process help on cores that have been idle since this record was made. ``room`` is the number of
        pieces for which memory suffices at once.
        """
        results: dict[int, T] = {}
        idle = self.idle() if room is None else min(self.idle(), room - 1)
        for number, result in self.as_they_come(run, work, idle):
            results[number] = result
            if done is not None:
                done(number, result)
            if self.progress is not None:
                self.progress(len(results), len(work))
        return results

    def as_they_come(self, run: Callable[..., T], work: Work, idle: int = 0) -> Iterator[T]:
        """``run(*arguments)`` of each piece of ``work``, in the order in which they are done.

        The first argument is what pieces share. With one job, copies of this process help on ``idle`` cores. They take
        pieces from the first one on, this process from the last one back.
        """
        if self.cluster is not None:
            return on_cluster(run, work, self.cluster)
        if self.jobs == 1 and min(idle, len(work) - 1) > 0 and may_fork():
            return _with_copies(run, work, min(idle, len(work) - 1), partial(self._hear, len(work)))
        if self.jobs == 1 or len(work) < 2:
            return self._here(run, work)
        return _in_processes(run, work, self.jobs)

    def _here(self, run: Callable[..., T], work: Work) -> Iterator[T]:
        """One piece after the other; each may report the share of it that is done."""
        for number, arguments in enumerate(work):
            with hearing_shares(partial(self._hear, len(work), number)):
                result = run(*arguments)
            yield result

    def _hear(self, total: int, done: int, share: float) -> None:
        if self.progress is not None:
            self.progress(done + share, total)


def _answered(question: Callable[[], T], number: int) -> tuple[int, T]:
    return number, question()


def _with_copies(run: Callable[..., T], work: Work, copies: int, heard: Callable[[int, float], None]) -> Iterator[T]:
    try:
        yield from with_copies(run, work, copies, heard)
    except BrokenExecutor:
        raise InputError(_DIED) from None


def _begin(parent: int) -> None:
    """Begin a process of loky: it ends with its parent, and it keeps what it remembers.

    Loky ends a process that grows by 300 MB, which it takes for a leak. The process's memory is lost then. And if two
    end at once while work is sent, all wait for ever.
    """
    from joblib.externals.loky import process_executor

    end_with(parent)
    process_executor._MAX_MEMORY_LEAK_SIZE = sys.maxsize


def _in_processes(run: Callable[..., T], work: Work, jobs: int) -> Iterator[T]:
    from joblib import Parallel, delayed, effective_n_jobs

    processes = min(effective_n_jobs(jobs), len(work))
    tasks = (delayed(run_with)(run, *arguments) for arguments in with_shared(work))
    try:
        own = {"initializer": _begin, "initargs": (os.getpid(),)}
        yield from Parallel(n_jobs=processes, backend="loky", return_as="generator_unordered", **own)(tasks)
    except BrokenProcessPool:
        raise InputError(f"{_DIED}; try fewer --jobs") from None
