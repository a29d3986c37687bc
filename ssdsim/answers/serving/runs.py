"""Many runs: here one after the other, or in several processes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures.process import BrokenProcessPool
from typing import Any, TypeVar

from ssdsim.errors import InputError

T = TypeVar("T")


def each_run(
    run: Callable[..., T],
    work: Sequence[tuple[Any, ...]],
    jobs: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> list[T]:
    """``run(*arguments)`` of each, in order, by ``jobs`` processes (-1: one a core).

    Raises
    ------
    InputError : a process died.
    """
    if jobs != 1:
        from joblib import Parallel, delayed, effective_n_jobs

        jobs = min(effective_n_jobs(jobs), len(work))
    found = []
    if jobs <= 1:
        for arguments in work:
            found.append(run(*arguments))
            if progress is not None:
                progress(len(found), len(work))
        return found
    try:
        for each in Parallel(n_jobs=jobs, return_as="generator")(delayed(run)(*arguments) for arguments in work):
            found.append(each)
            if progress is not None:
                progress(len(found), len(work))
    except BrokenProcessPool:
        raise InputError("one of the processes died (out of memory?); try fewer --jobs") from None
    return found
