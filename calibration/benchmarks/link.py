"""Messages between the target's first rank and the draft."""

from __future__ import annotations

import torch
import torch.distributed as dist

from calibration.benchmarks.bench import Bench, Result

_RUNS = 60


def measure(bench: Bench, *, message_bytes: int) -> Result | None:
    """One way: half of a ping-pong of equal messages."""
    timed = _ping_pong(bench, message_bytes, message_bytes)
    return None if timed is None else timed | {"seconds": timed["seconds"] / 2.0}


def round_trip(bench: Bench, *, outcome_bytes: int, response_bytes: int) -> Result | None:
    """An outcome there and a speculation back."""
    return _ping_pong(bench, outcome_bytes, response_bytes)


def _ping_pong(bench: Bench, there_bytes: int, back_bytes: int) -> Result | None:
    if bench.rank not in (0, bench.draft_rank):
        return None
    there, back = (
        torch.zeros(size, dtype=torch.uint8, device=bench.message_device) for size in (there_bytes, back_bytes)
    )

    def ping() -> None:
        dist.send(there, bench.draft_rank)
        dist.recv(back, bench.draft_rank)

    def pong() -> None:
        dist.recv(there, 0)
        dist.send(back, 0)

    timed = bench.time(ping if bench.rank == 0 else pong, warm_ups=5, least_runs=_RUNS, most_runs=_RUNS, clock="wall")
    return timed.to_json() if bench.rank == 0 else None
