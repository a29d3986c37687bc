"""What ranks do together: collectives of the target, alone and while messages pass, and messages to the draft."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from statistics import median

import torch
import torch.distributed as dist

from calibration.machine.devices import busy, synchronised
from calibration.machine.timing import Clock, capture
from calibration.timings.benchmarks.bench import BenchmarkRank, Result

_MESSAGE_BYTES = 1 << 20
_IN_GRAPH = 20
_COLLECTIVE_RUNS = (
    10  # of each visit; the same number on every rank: a collective that one rank skips would hang the others
)
_MESSAGE_RUNS = 4  # of each visit
_WORK_S = 0.005  # before a send: the receiver goes to sleep, as while it waits for a pass to end


def all_reduce(bench: BenchmarkRank, *, message_bytes: int, ranks: int, with_messages: bool = False) -> Result | None:
    tensor = torch.zeros(message_bytes // bench.dtype.itemsize, dtype=bench.dtype, device=bench.device)
    return _over_target(bench, lambda: dist.all_reduce(tensor, group=bench.target_group), with_messages)


def all_gather(bench: BenchmarkRank, *, message_bytes: int, ranks: int, with_messages: bool = False) -> Result | None:
    share = message_bytes // bench.dtype.itemsize // ranks
    tensor, gathered = (torch.zeros(size, dtype=bench.dtype, device=bench.device) for size in (share, share * ranks))
    action = partial(dist.all_gather_into_tensor, gathered, tensor, group=bench.target_group)
    return _over_target(bench, action, with_messages)


def _over_target(bench: BenchmarkRank, action: Callable[[], object], with_messages: bool) -> Result | None:
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
    timed = bench.time(once, warm_ups=5, least_runs=_COLLECTIVE_RUNS, most_runs=_COLLECTIVE_RUNS, clock=clock)
    return timed.to_json() if bench.rank == 0 else None


def _captured(bench: BenchmarkRank, action: Callable[[], object]) -> Result | None:
    if not bench.has_target:
        return None
    timed = bench.time(capture(action, _IN_GRAPH), warm_ups=5, least_runs=_COLLECTIVE_RUNS, most_runs=_COLLECTIVE_RUNS)
    return timed.to_json() | {"seconds": timed.seconds / _IN_GRAPH} if bench.rank == 0 else None


def link(bench: BenchmarkRank, *, message_bytes: int, rank: int = 0) -> Result | None:
    """A message between a target rank and the draft: from the start of a send to its receipt, mean of both ways."""
    times = _one_ways(bench, rank, message_bytes, message_bytes)
    return None if times is None else _result([there / 2.0 + back / 2.0 for there, back in times])


def round_trip(bench: BenchmarkRank, *, outcome_bytes: int, response_bytes: int) -> Result | None:
    """An outcome from the first rank to the draft, and a speculation back."""
    times = _one_ways(bench, 0, outcome_bytes, response_bytes)
    return None if times is None else _result([there + back for there, back in times])


def _result(seconds: list[float]) -> Result:
    return {"seconds": median(seconds), "runs": len(seconds)}


def _one_ways(bench: BenchmarkRank, rank: int, there_bytes: int, back_bytes: int) -> list[tuple[float, float]] | None:
    """Seconds of each message from ``rank`` there and of each back, by the clock that the ranks of a machine share."""
    device = bench.message_device
    there, back = (torch.zeros(size, dtype=torch.uint8, device=device) for size in (there_bytes, back_bytes))
    moments: list[tuple[float, float]] = []  # of this rank: there, back
    for _ in range(_MESSAGE_RUNS + 1):  # the first one warms up
        if bench.rank == rank:
            sent = _send(there, bench.draft_rank, device)
            moments.append((sent, _receive(back, bench.draft_rank, device)))
        elif bench.rank == bench.draft_rank:
            received = _receive(there, rank, device)
            moments.append((received, _send(back, rank, device)))
    everyone: list[list[tuple[float, float]]] = [[] for _ in range(bench.ranks)]
    dist.all_gather_object(everyone, moments)
    if bench.rank != 0:
        return None
    pairs = zip(everyone[rank][1:], everyone[bench.draft_rank][1:], strict=True)
    return [(received - sent, answered_at - answer_sent) for (sent, answered_at), (received, answer_sent) in pairs]


def _send(message: torch.Tensor, to: int, device: torch.device) -> float:
    """Work, then send; returns when the send began."""
    busy(_WORK_S)
    began = time.perf_counter()
    synchronised(lambda: dist.send(message, to), device)()
    return began


def _receive(message: torch.Tensor, source: int, device: torch.device) -> float:
    """Receive; returns when the message had come."""
    synchronised(lambda: dist.recv(message, source), device)()
    return time.perf_counter()
