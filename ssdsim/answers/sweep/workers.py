"""Who works the parts of a sweep out: this process, others on this machine (joblib), or a Dask cluster."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError
from concurrent.futures.process import BrokenProcessPool
from typing import Any

import pyarrow as pa

from ssdsim import __version__
from ssdsim.answers.sweep.plan import Part, Plan
from ssdsim.errors import InputError

CONNECT_S = 10.0  # to reach a scheduler, and then for a first worker
_LOOK_S = 15.0  # without a result, after which the cluster is asked whether it still has workers

Done = Iterator[tuple[Part, pa.Table]]


def work(plan: Plan, part: Part) -> tuple[Part, pa.Table]:
    return part, plan.results(part)


def work_as(version: str, plan: Plan, part: Part) -> tuple[Part, pa.Table]:
    """:func:`work` of a worker that may have joined late: InputError where it is not of ``version``."""
    if __version__ != version:
        raise InputError(_other_version(__version__, version))
    return work(plan, part)


def _other_version(theirs: str | None, ours: str) -> str:
    has = f"ssdsim {theirs}" if theirs else "no ssdsim that it can import"
    return f"a worker has {has}, here is {ours}: install one version on both sides"


def work_here(plan: Plan, parts: Sequence[Part], jobs: int) -> Done:
    """Results as they come, from ``jobs`` processes (-1: one a core).

    Raises
    ------
    InputError : a process died.
    """
    jobs = min(jobs, len(parts))
    if jobs == 1:
        yield from (work(plan, part) for part in parts)
        return
    from joblib import Parallel, delayed

    try:
        yield from Parallel(n_jobs=jobs, return_as="generator_unordered")(delayed(work)(plan, part) for part in parts)
    except BrokenProcessPool:
        raise InputError("one of the processes died (out of memory?); try fewer --jobs") from None


def work_on_cluster(plan: Plan, parts: Sequence[Part], address: str) -> Done:
    """Results as they come, from the workers of a Dask scheduler; a part whose worker dies goes to another.

    Raises
    ------
    InputError : no Dask here, no scheduler or no worker there, or all workers went away.
    """
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
        yield from _results_of(client, plan, parts, address)


def _check_versions(client: Any, address: str) -> None:
    """Raise :class:`InputError` at a worker with another ssdsim, whose rows would mean something else."""

    def version_there() -> str | None:  # travels by value, so that it runs without any ssdsim
        from importlib import import_module

        try:
            return str(import_module("ssdsim").__version__)
        except ImportError:
            return None

    for found in client.run(version_there).values():
        if found != __version__:
            raise InputError(f"--cluster {address}: {_other_version(found, __version__)}")


def _results_of(client: Any, plan: Plan, parts: Sequence[Part], address: str) -> Done:
    from distributed import KilledWorker, wait
    from distributed.comm.core import CommClosedError

    try:
        client.wait_for_workers(1, timeout=CONNECT_S)
        _check_versions(client, address)
        waiting = set(client.map(work_as, [__version__] * len(parts), [plan] * len(parts), parts, pure=False))
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
