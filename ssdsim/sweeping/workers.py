"""Who works the parts of a sweep out: this process, others on this machine (joblib), or a Dask cluster."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError
from concurrent.futures.process import BrokenProcessPool
from typing import Any

import pyarrow as pa

from ssdsim.errors import InputError
from ssdsim.sweeping.plan import Part, Plan

CONNECT_S = 10.0  # to reach a scheduler, and then for a first worker
_LOOK_S = 15.0  # without a result, after which the cluster is asked whether it still has workers

Done = Iterator[tuple[Part, pa.Table]]


def work(plan: Plan, part: Part) -> tuple[Part, pa.Table]:
    return part, plan.results(part)


def work_here(plan: Plan, parts: Sequence[Part], jobs: int) -> Done:
    """Results as they come, from ``jobs`` processes (-1: one a core).

    Raises
    ------
    InputError : a process died.
    """
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


def _results_of(client: Any, plan: Plan, parts: Sequence[Part], address: str) -> Done:
    from distributed import KilledWorker, wait
    from distributed.comm.core import CommClosedError

    try:
        client.wait_for_workers(1, timeout=CONNECT_S)
        waiting = set(client.map(work, [plan] * len(parts), parts, pure=False))
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
