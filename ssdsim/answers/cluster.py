"""Pieces of work on a Dask cluster."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from typing import Any, TypeVar

from ssdsim import __version__
from ssdsim.answers.worker_processes import Shared, Work, run_with
from ssdsim.base.errors import InputError
from ssdsim.base.extras import install

CONNECT_S = 10.0  # to reach a scheduler, and then for a first worker
_LOOK_S = 15.0  # without a result, after which the cluster is asked whether it still has workers

T = TypeVar("T")


def on_cluster(run: Callable[..., T], work: Work, address: str) -> Iterator[T]:
    """``run(*arguments)`` of each piece of ``work``, in the order in which they are done.

    The scheduler gives the work of a dead worker to another.
    """
    try:
        from distributed import Client
    except ImportError:
        raise InputError(f"--cluster needs Dask: {install('cluster')}") from None
    logging.getLogger("distributed.client").setLevel(logging.CRITICAL)  # a lost scheduler is said in one line below
    try:
        client = Client(address, timeout=CONNECT_S, set_as_default=False)
    except (OSError, ValueError) as error:  # a timeout is an OSError
        detail = " ".join(str(error).split())[:120]
        raise InputError(f"--cluster {address}: no Dask scheduler answers within {CONNECT_S:g} s ({detail})") from None
    with client:
        yield from _results_of(client, run, work, address)


def _run_as(version: str, run: Callable[..., T], shared: Shared, *arguments: Any) -> T:
    """``run`` on a worker that may have joined late; InputError if it has another version."""
    if __version__ != version:
        raise InputError(_other_version(__version__, version))
    return run_with(run, shared, *arguments)


def _other_version(theirs: str | None, ours: str) -> str:
    has = f"ssdsim {theirs}" if theirs else "no ssdsim that it can import"
    return f"a worker has {has}, here is {ours}: install one version on both sides"


def _check_versions(client: Any, address: str) -> None:
    """Raise :class:`InputError` if a worker has another version, whose results may differ."""

    def version_there() -> str | None:  # travels by value, so that it runs without any ssdsim
        from importlib import import_module

        try:
            return str(import_module("ssdsim").__version__)
        except ImportError:
            return None

    for version in client.run(version_there).values():
        if version != __version__:
            raise InputError(f"--cluster {address}: {_other_version(version, __version__)}")


def _submitted(client: Any, run: Callable[..., T], work: Work, there: dict[int, Any]) -> Iterator[Any]:
    """Futures of the work; ``there`` gets those of its shared parts.

    A shared part is a task of its own: it is sent once, and again if its worker dies, as long as ``there`` is kept.
    """
    import dask

    with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1GB"}):  # of what did not travel once
        for first, *rest in work:
            if id(first) not in there:
                receive, pickled = Shared(first).__reduce__()
                there[id(first)] = client.submit(receive, *pickled, pure=False)
            yield client.submit(_run_as, __version__, run, there[id(first)], *rest, pure=False)


def _results_of(client: Any, run: Callable[..., T], work: Work, address: str) -> Iterator[T]:
    from distributed import KilledWorker, wait
    from distributed.comm.core import CommClosedError

    try:
        client.wait_for_workers(1, timeout=CONNECT_S)
        _check_versions(client, address)
        there: dict[int, Any] = {}
        waiting = set(_submitted(client, run, work, there))
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
