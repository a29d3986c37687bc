"""Shared by a rank's benchmarks: its place among the ranks, and the two models."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import torch
import torch.distributed as dist

from calibration.machine.devices import group_of, messages_lie_on
from calibration.machine.graph import DTYPES, Graph
from calibration.machine.timing import Streams, TimedRuns, time_action
from calibration.timings.plan import CalibrationWorkload
from ssdsim.base.plain import picked
from ssdsim.transformer.card import Transformer

Result = dict[str, Any]


class BenchmarkRank(Streams):
    """State of one rank: target ranks are ``0 .. tp-1``, the draft is the last one."""

    def __init__(self, rank: int, device: torch.device, *, target: Any, draft: Any, **sizes: Any) -> None:
        self.rank = rank
        cards = Transformer(**target), Transformer(**draft)
        self.workload = CalibrationWorkload(*cards, **sizes)
        super().__init__(device, DTYPES[self.workload.dtype])
        self.ranks = dist.get_world_size()
        self.draft_rank = self.ranks - 1
        self.known_s: dict[str, float] = {}  # about how long a pass takes, by its name
        self.target_group = group_of(range(self.workload.tp), device)

    @property
    def message_device(self) -> torch.device:
        """The device on which messages lie: gloo sends none from a GPU's memory."""
        return messages_lie_on(self.device)

    @property
    def has_target(self) -> bool:
        return self.rank < self.workload.tp

    @property
    def has_draft(self) -> bool:
        return self.rank == self.draft_rank

    @cached_property
    def target(self) -> Graph:
        return self._graph(self.workload.target, tp=self.workload.tp, group=self.target_group)

    @cached_property
    def draft(self) -> Graph:
        return self._graph(self.workload.draft)

    def _graph(self, card: Transformer, **sharing: Any) -> Graph:
        sizes = picked(self.workload, "dtype", "batch", "context")
        return Graph(card, device=self.device, seed=self.rank, **sizes, **sharing)

    def prepare(self) -> None:
        """Make what the benchmarks need, which for billions of random weights takes minutes on a core."""
        if self.has_target:
            _ = self.target
        if self.has_draft and self.workload.draft_passes():
            _ = self.draft
        if self.rank == 0:
            _ = self.pool

    def time(self, action: Any, **limits: Any) -> TimedRuns:
        return time_action(action, self.device, **limits)
