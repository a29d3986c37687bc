"""What a rank's benchmarks share: its device, a pool of memory larger than any cache, and the two models."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from itertools import count
from typing import Any

import torch
import torch.distributed as dist

from calibration.points import Workload
from calibration.timing import Timed, time_action
from ssdsim.executor.graph import DTYPES, Graph
from ssdsim.transformer import Transformer

Result = dict[str, Any]

_POOL_BYTES = {"cpu": 256 << 20, "cuda": 1 << 30}  # beyond an L3 of a CPU, and many times the L2 of a GPU


class Bench:
    """State of one rank: target ranks are ``0 .. tp-1``, the draft is the last one."""

    def __init__(self, rank: int, device: torch.device, *, target: Any, draft: Any, **sizes: Any) -> None:
        self.rank = rank
        self.device = device
        cards = Transformer.model_validate(target), Transformer.model_validate(draft)
        self.workload = Workload(*cards, **sizes)
        self.dtype = DTYPES[self.workload.dtype]
        self.ranks = dist.get_world_size()
        self.draft_rank = self.ranks - 1
        self.target_group = dist.new_group(list(range(self.workload.tp)))

    @property
    def has_target(self) -> bool:
        return self.rank < self.workload.tp

    @property
    def has_draft(self) -> bool:
        return self.rank == self.draft_rank

    @cached_property
    def pool(self) -> torch.Tensor:
        """Random values that views of any shape are cut from; walking through it streams from memory."""
        values = _POOL_BYTES[self.device.type] // self.dtype.itemsize
        block = torch.randn(1 << 20, device=self.device).to(self.dtype)  # random numbers are slow to make
        return block.repeat(values // block.numel())

    def views(self, *shape: int) -> Iterator[torch.Tensor]:
        """Endless views of ``shape``, each at the next place of the pool, so that none is still in a cache."""
        size = torch.Size(shape).numel()
        places = max(1, self.pool.numel() // size)
        if size > self.pool.numel():
            whole = torch.zeros(shape, dtype=self.dtype, device=self.device)
            return (whole for _ in count())
        return (self.pool[i % places * size : (i % places + 1) * size].view(shape) for i in count())

    @cached_property
    def target(self) -> Graph:
        w = self.workload
        return Graph(
            w.target,
            device=self.device,
            dtype=w.dtype,
            batch=w.batch,
            context=w.context,
            tp=w.tp,
            group=self.target_group,
            seed=self.rank,
        )

    @cached_property
    def draft(self) -> Graph:
        w = self.workload
        return Graph(w.draft, device=self.device, dtype=w.dtype, batch=w.batch, context=w.context, seed=self.rank)

    def time(self, action: Any, **limits: Any) -> Timed:
        return time_action(action, self.device, **limits)
