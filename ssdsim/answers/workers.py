"""Workers for many pieces: this process, others on this machine (joblib), or a Dask cluster."""

from __future__ import annotations

import logging
import os
import pickle
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, as_completed
from concurrent.futures.process import BrokenProcessPool
from functools import cached_property
from typing import Any, TypeVar
from uuid import uuid4

from ssdsim import __version__
from ssdsim.answers.beside import Forked, may_fork
from ssdsim.answers.with_parent import end_with
from ssdsim.base.errors import InputError

CONNECT_S = 10.0  # to reach a scheduler, and then for a first worker
_LOOK_S = 15.0  # without a result, after which the cluster is asked whether it still has workers
_MOST_KEPT = 16
_DIED = "one of the processes died (out of memory?)"

T = TypeVar("T")
Work = Sequence[tuple[Any, ...]]


def check_workers(jobs: Any, cluster: str | None) -> None:
    """Raise :class:`InputError` where they are none."""
    if jobs != -1 and not (isinstance(jobs, int) and jobs >= 1):
        raise InputError(f"--jobs must be at least 1, or -1 for one a core, got {jobs!r}")
    if cluster is not None and jobs != 1:
        raise InputError("--jobs has no effect with --cluster (its workers do the work)")


def worked_out(
    run: Callable[..., T], work: Work, jobs: int = 1, cluster: str | None = None, idle: int = 0
) -> Iterator[T]:
    """``run(*arguments)`` of each piece of ``work``, in the order in which they are done.

    ``jobs`` processes (-1: one a core), or the workers of the Dask scheduler at ``cluster``, which give the work of a
    dead one to another. The first argument is what pieces share: a process keeps it, with all that it has learnt.
    With one job, copies of this process help on ``idle`` cores where they begin at once.

    Raises
    ------
    InputError : a process died; no Dask here, no scheduler or no worker there, or all workers went away.
    """
    if cluster is not None:
        return _on_cluster(run, work, cluster)
    if jobs == 1 and min(idle, len(work) - 1) > 0 and may_fork():
        return _in_copies(run, work, min(idle + 1, len(work)))
    if jobs == 1 or len(work) < 2:
        return (run(*arguments) for arguments in work)
    return _in_processes(run, work, jobs)


def _in_copies(run: Callable[..., T], work: Work, processes: int) -> Iterator[T]:
    copies = Forked(processes, work)
    try:
        for done in as_completed([copies.submit(_piece, run, number) for number in range(len(work))]):
            yield done.result()
    except BrokenExecutor:
        raise InputError(_DIED) from None
    finally:
        copies.end()


def _piece(work: Work, run: Callable[..., T], number: int) -> T:
    return run(*work[number])


class _Shared:
    """A value on its way to other processes, where whoever has got it before goes on with that copy."""

    def __init__(self, value: Any, key: str | None = None) -> None:
        self.value = value
        self._key = key or uuid4().hex

    @cached_property
    def _data(self) -> bytes:
        import cloudpickle  # strategies that were registered in __main__ travel, too

        data: bytes = cloudpickle.dumps(self.value)
        return data

    def __reduce__(self) -> tuple[Callable[..., _Shared], tuple[str, bytes]]:
        return _received, (self._key, self._data)


_KEPT: dict[str, _Shared] = {}


def _received(key: str, data: bytes) -> _Shared:
    if key not in _KEPT:
        if len(_KEPT) >= _MOST_KEPT:
            _KEPT.clear()
        _KEPT[key] = _Shared(pickle.loads(data), key)
    return _KEPT[key]


def _with_shared(work: Work) -> list[tuple[Any, ...]]:
    shared = {id(first): _Shared(first) for first, *_ in work}
    return [(shared[id(first)], *rest) for first, *rest in work]


def _run(run: Callable[..., T], shared: _Shared, *arguments: Any) -> T:
    return run(shared.value, *arguments)


def _in_processes(run: Callable[..., T], work: Work, jobs: int) -> Iterator[T]:
    from joblib import Parallel, delayed, effective_n_jobs

    processes = min(effective_n_jobs(jobs), len(work))
    tasks = (delayed(_run)(run, *arguments) for arguments in _with_shared(work))
    try:
        own = {"initializer": end_with, "initargs": (os.getpid(),)}
        yield from Parallel(n_jobs=processes, backend="loky", return_as="generator_unordered", **own)(tasks)
    except BrokenProcessPool:
        raise InputError(f"{_DIED}; try fewer --jobs") from None


def _on_cluster(run: Callable[..., T], work: Work, address: str) -> Iterator[T]:
    if not re.fullmatch(r"\w+://\S+:\d+", str(address)):
        raise InputError(f"--cluster must be an address such as tcp://host:8786, got '{address}'")
    try:
        from distributed import Client
    except ImportError:
        raise InputError("--cluster needs Dask: pip install 'ssdsim[cluster]'") from None
    logging.getLogger("distributed.client").setLevel(logging.CRITICAL)  # a lost scheduler is said in one line below
    try:
        client = Client(address, timeout=CONNECT_S, set_as_default=False)
    except (OSError, ValueError) as error:  # a timeout is an OSError
        detail = " ".join(str(error).split())[:120]
        raise InputError(f"--cluster {address}: no Dask scheduler answers within {CONNECT_S:g} s ({detail})") from None
    with client:
        yield from _results_of(client, run, work, address)


def _run_as(version: str, run: Callable[..., T], shared: _Shared, *arguments: Any) -> T:
    """``run`` on a worker that may have joined late: InputError where it is not of ``version``."""
    if __version__ != version:
        raise InputError(_other_version(__version__, version))
    return _run(run, shared, *arguments)


def _other_version(theirs: str | None, ours: str) -> str:
    has = f"ssdsim {theirs}" if theirs else "no ssdsim that it can import"
    return f"a worker has {has}, here is {ours}: install one version on both sides"


def _check_versions(client: Any, address: str) -> None:
    """Raise :class:`InputError` at a worker with another ssdsim, whose results would mean something else."""

    def version_there() -> str | None:  # travels by value, so that it runs without any ssdsim
        from importlib import import_module

        try:
            return str(import_module("ssdsim").__version__)
        except ImportError:
            return None

    for version in client.run(version_there).values():
        if version != __version__:
            raise InputError(f"--cluster {address}: {_other_version(version, __version__)}")


def _submitted(client: Any, run: Callable[..., T], work: Work) -> Iterator[Any]:
    """What is shared is a task of its own: it travels once, and is made again where its worker dies."""
    import dask

    there: dict[int, Any] = {}
    with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1GB"}):  # of what did not travel once
        for first, *rest in work:
            if id(first) not in there:
                receive, pickled = _Shared(first).__reduce__()
                there[id(first)] = client.submit(receive, *pickled, pure=False)
            yield client.submit(_run_as, __version__, run, there[id(first)], *rest, pure=False)


def _results_of(client: Any, run: Callable[..., T], work: Work, address: str) -> Iterator[T]:
    from distributed import KilledWorker, wait
    from distributed.comm.core import CommClosedError

    try:
        client.wait_for_workers(1, timeout=CONNECT_S)
        _check_versions(client, address)
        waiting = set(_submitted(client, run, work))
        while waiting:
            try:
                with client.as_current():
                    done, waiting = wait(waiting, timeout=_LOOK_S, return_when="FIRST_COMPLETED")
            except TimeoutError:
                if not client.scheduler_info()["workers"]:
                    raise InputError(f"--cluster {address}: all its workers are gone") from None
                continue
            for future in done:
                yield future.result()
    except TimeoutError:
        raise InputError(f"--cluster {address}: the scheduler has no workers") from None
    except (KilledWorker, CommClosedError, CancelledError) as error:
        detail = " ".join(str(error).split())[:120]
        raise InputError(f"--cluster {address}: workers or scheduler died ({detail})") from None
