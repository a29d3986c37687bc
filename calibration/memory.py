"""Does a calibration fit? What each rank allocates, against the memory that is free, before anything starts."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import torch

from calibration.benchmarks.streams import POOL_BYTES
from calibration.points import Workload
from ssdsim.errors import InputError
from ssdsim.memory import draft_demand, target_demand

_OTHER_BYTES = 600 << 20  # torch itself, buffers, masks


def rank_bytes(workload: Workload, rank: int, ranks: int, kind: str) -> int:
    """Weights and cache of the models that a rank holds, and the pool that operations stream from."""
    w = workload
    total = POOL_BYTES[kind] + _OTHER_BYTES
    if rank < w.tp:
        total += target_demand(w.target, w.tp, w.context, w.lookahead, w.dtype).total_bytes(w.batch)
    if rank == ranks - 1:
        total += draft_demand(w.draft, 1, w.context, w.lookahead, 0, w.dtype, False).total_bytes(w.batch)
    return total


def check_memory(workload: Workload, devices: Sequence[str]) -> None:
    """Raise :class:`InputError` where the ranks need more than their devices have free."""
    needs: dict[str, int] = defaultdict(int)
    for rank, device in enumerate(devices):
        kind = device.split(":")[0]
        needs["cpu" if kind == "cpu" else device] += rank_bytes(workload, rank, len(devices), kind)
    for device, need in needs.items():
        free = free_bytes(device)
        if need > free:
            raise InputError(
                f"{workload.target.name} with {workload.draft.name} needs {need / 2**30:.1f} GiB on {device}, "
                f"{free / 2**30:.1f} GiB are free; give smaller cards (--target transformer-shaped-1536x4) or more GPUs"
            )


def free_bytes(device: str) -> int:
    """Memory that is free on a GPU, or that the machine can still give (Linux; elsewhere all that it has)."""
    if device != "cpu":
        return int(torch.cuda.mem_get_info(device)[0])
    meminfo = Path("/proc/meminfo")
    if meminfo.exists():
        fields = dict(line.split(":", 1) for line in meminfo.read_text().splitlines())
        return int(fields["MemAvailable"].split()[0]) * 1024
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
