"""Fits that do not know of each other, side by side on this machine's cores."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

Key = TypeVar("Key")
Made = TypeVar("Made")
_ROWS_WORTH_IT = 20_000  # fitted in about a second, which a second process takes to start


def fitted(fits: Mapping[Key, Callable[[], Made]], rows: int, jobs: int | None = None) -> dict[Key, Made]:
    """Run ``fits`` beside each other: what each returns, in their order, whatever the number of processes.

    Parameters
    ----------
    fits : calls (``partial``) of functions that another process can import; the longest first keeps all cores busy.
    rows : that are fitted in all, which say whether more than one process pays.
    jobs : processes (None: one a core where that pays).

    Linear algebra runs on one thread in each: threads that wait for each other cost more than they bring to matrices of
    sixty columns, and sums are rounded alike.
    """
    from joblib import Parallel, cpu_count, delayed, parallel_config
    from threadpoolctl import threadpool_limits

    jobs = min(len(fits), jobs or (cpu_count() if rows >= _ROWS_WORTH_IT else 1))
    if jobs < 2:
        with threadpool_limits(1):
            return {key: fit() for key, fit in fits.items()}
    with parallel_config("loky", inner_max_num_threads=1):
        made = Parallel(n_jobs=jobs)(delayed(_called)(fit) for fit in fits.values())
    return dict(zip(fits, made, strict=True))


def _called(fit: Callable[[], Made]) -> Made:
    return fit()
