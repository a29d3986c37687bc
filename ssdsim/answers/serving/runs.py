"""Many runs: here one after the other, or in several processes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures.process import BrokenProcessPool
from typing import Any, TypeVar

from ssdsim.errors import InputError

T = TypeVar("T")


def each_run(
    run: Callable[..., T],
    work: Sequence[tuple[Any, ...]],
    jobs: int = 1,
    progress: Callable[[int, int], None] | None = None,
    done: Callable[[int, T], None] | None = None,
) -> list[T]:
    """``run(*arguments)`` of each, in order, by ``jobs`` processes (-1: one a core); ``done`` hears of each.

    Raises
    ------
    InputError : a process died.
    """
    found: list[T] = []
    try:
        for each in _made(run, work, jobs):
            found.append(each)
            if done is not None:
                done(len(found) - 1, each)
            if progress is not None:
                progress(len(found), len(work))
    except BrokenProcessPool:
        raise InputError("one of the processes died (out of memory?); try fewer --jobs") from None
    return found


def _made(run: Callable[..., T], work: Sequence[tuple[Any, ...]], jobs: int) -> Iterable[T]:
    if jobs == 1 or len(work) < 2:
        return (run(*arguments) for arguments in work)
    from joblib import Parallel, delayed, effective_n_jobs

    processes = min(effective_n_jobs(jobs), len(work))
    made: Iterable[T] = Parallel(n_jobs=processes, return_as="generator")(
        delayed(run)(*arguments) for arguments in work
    )
    return made
