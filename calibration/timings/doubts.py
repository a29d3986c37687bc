"""Doubts of a calibration, a sentence each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median

from calibration.machine.inventory import NO_DIRECT_LINK
from calibration.timings.rank_links import slow_ranks
from calibration.timings.rows import Row, instability

_WANDERED = 0.1
_TAKEN = 0.1


def doubts(topology: str, rows: Sequence[Row], devices: Sequence[str]) -> Iterator[str]:
    """``topology`` is the profile's, ``rows`` what was timed on ``devices``."""
    if (wandered := instability(rows)) > _WANDERED:
        yield f"this machine's speed wandered by {wandered:.0%} meanwhile"
    if (share := share_taken(rows)) > _TAKEN:
        yield f"other programs took {share:.0%} of the cores meanwhile; timings leave that out, real rounds will not"
    if topology.startswith(NO_DIRECT_LINK):
        yield f"{topology}; messages may cross the host"
    for rank, (size, factor) in slow_ranks(rows).items():
        who = f"target rank {rank} ({devices[rank]})"
        yield f"messages of {size:,} B to the draft take {who} {factor:.1f}x rank 0's time"


def share_taken(rows: Sequence[Row]) -> float:
    """The share of the wall clock that other programs took from what computes, the median over operations."""
    shares = [row.mean_of("off_core") for row in rows if row.point.benchmark in ("gemm", "attention")]
    return median(shares) if shares else 0.0
