"""Messages between a rank of the target and the draft, as a round sends them: each side worked before."""

from __future__ import annotations

import time
from statistics import median

import torch
import torch.distributed as dist

from calibration.machine.devices import busy, synchronised
from calibration.timings.benchmarks.bench import Bench, Result

_RUNS = 4  # of each visit
_WORK_S = 0.005  # meanwhile the receiver has gone to sleep, as it does while it waits for a pass to end


def measure(bench: Bench, *, message_bytes: int, rank: int = 0) -> Result | None:
    """One way: from the start of a send to the end of its receipt, the mean of both directions."""
    times = _one_ways(bench, rank, message_bytes, message_bytes)
    return None if times is None else _result([there / 2.0 + back / 2.0 for there, back in times])


def round_trip(bench: Bench, *, outcome_bytes: int, response_bytes: int) -> Result | None:
    """An outcome there and a speculation back, by the first rank."""
    times = _one_ways(bench, 0, outcome_bytes, response_bytes)
    return None if times is None else _result([there + back for there, back in times])


def _result(seconds: list[float]) -> Result:
    return {"seconds": median(seconds), "runs": len(seconds)}


def _one_ways(bench: Bench, rank: int, there_bytes: int, back_bytes: int) -> list[tuple[float, float]] | None:
    """Seconds of each message from ``rank`` there and of each back, by the clock that the ranks of a machine share."""
    device = bench.message_device
    there, back = (torch.zeros(size, dtype=torch.uint8, device=device) for size in (there_bytes, back_bytes))
    moments: list[tuple[float, float]] = []  # of this rank: there, back
    for _ in range(_RUNS + 1):  # the first one warms up
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
    """Work, then send; returns when the sending began."""
    busy(_WORK_S)
    began = time.perf_counter()
    synchronised(lambda: dist.send(message, to), device)()
    return began


def _receive(message: torch.Tensor, source: int, device: torch.device) -> float:
    """Returns when the message was there."""
    synchronised(lambda: dist.recv(message, source), device)()
    return time.perf_counter()
