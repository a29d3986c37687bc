"""All-reduce and all-gather over the target's ranks, alone and while messages pass to the draft."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
import torch.distributed as dist

from calibration.machine.timing import Clock, capture
from calibration.timings.benchmarks.bench import Bench, Result

_MESSAGE_BYTES = 1 << 20
_IN_GRAPH = 20
_RUNS = 10  # of each visit; the same number on every rank: a collective that one rank skips would hang the others


def all_reduce(bench: Bench, *, message_bytes: int, ranks: int, with_messages: bool = False) -> Result | None:
    tensor = torch.zeros(message_bytes // bench.dtype.itemsize, dtype=bench.dtype, device=bench.device)
    return _over_target(bench, lambda: dist.all_reduce(tensor, group=bench.target_group), with_messages)


def all_gather(bench: Bench, *, message_bytes: int, ranks: int, with_messages: bool = False) -> Result | None:
    share = message_bytes // bench.dtype.itemsize // ranks
    tensor, gathered = (torch.zeros(size, dtype=bench.dtype, device=bench.device) for size in (share, share * ranks))
    action = partial(dist.all_gather_into_tensor, gathered, tensor, group=bench.target_group)
    return _over_target(bench, action, with_messages)


def _over_target(bench: Bench, action: Callable[[], object], with_messages: bool) -> Result | None:
    """Time ``action`` a fixed number of times on the target's ranks; the first one's time counts.

    On GPUs it is captured, as in a pass. ``with_messages`` keeps a message from the first rank to the draft in flight
    during each run, which is not captured.
    """
    if bench.device.type == "cuda" and not with_messages:
        return _captured(bench, action)
    message = torch.zeros(_MESSAGE_BYTES, dtype=torch.uint8, device=bench.message_device)
    talks = with_messages and bench.draft_rank != 0 and bench.rank in (0, bench.draft_rank)

    def once() -> None:
        pending = None
        if talks:
            pending = dist.isend(message, bench.draft_rank) if bench.rank == 0 else dist.irecv(message, 0)
        if bench.has_target:
            action()
        if pending is not None:
            pending.wait()

    if not bench.has_target and not talks:
        return None
    clock: Clock = "core" if bench.device.type == "cuda" else "wall"
    timed = bench.time(once, warm_ups=5, least_runs=_RUNS, most_runs=_RUNS, clock=clock)
    return timed.to_json() if bench.rank == 0 else None


def _captured(bench: Bench, action: Callable[[], object]) -> Result | None:
    if not bench.has_target:
        return None
    timed = bench.time(capture(action, _IN_GRAPH), warm_ups=5, least_runs=_RUNS, most_runs=_RUNS)
    return timed.to_json() | {"seconds": timed.seconds / _IN_GRAPH} if bench.rank == 0 else None
