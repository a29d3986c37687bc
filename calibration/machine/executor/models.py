"""The models of a rank, and the passes over them that were prepared."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist

from calibration.machine.devices import synchronised
from calibration.machine.executor.plan import RankPass
from calibration.machine.graph import Graph
from ssdsim.base.plain import picked
from ssdsim.base.record import Record
from ssdsim.pricing.between_kernels import Model
from ssdsim.transformer.card import Transformer

_WARM_UPS = 3  # buffers are allocated, kernels chosen


class Room(Record):
    """Room that is allocated of a model, once for all runs: for so many sequences of so much context.

    Its experts lie in ``ep`` groups of the ranks that have it together.
    """

    card: Transformer
    dtype: str
    batch: int
    context: int
    ep: int = 1


class Models:
    """Shards of models and prepared passes, made when a pass is first needed and kept."""

    def __init__(self, rank: int, device: torch.device, rooms: Mapping[Model, Room]) -> None:
        self._rank, self._device, self._rooms = rank, device, rooms
        self._graphs: dict[tuple[Model, Sequence[int]], Graph] = {}
        self._passes: dict[tuple[Any, ...], Callable[[], object]] = {}

    def prepared(self, work: RankPass, team: Sequence[int], group: dist.ProcessGroup | None) -> Callable[[], object]:
        """An action that runs the pass on the ranks of ``team``, which all prepare it; captured on a GPU."""
        key = (*work.key, team)
        if key not in self._passes:
            graph = self._graph(work.model, team, group)
            self._passes[key] = synchronised(graph.prepare(work.forward), self._device)
            for _ in range(_WARM_UPS):
                self._passes[key]()
        return self._passes[key]

    def _graph(self, model: Model, team: Sequence[int], group: dist.ProcessGroup | None) -> Graph:
        """A model's shard on this rank, one of a team."""
        if (model, team) not in self._graphs:
            room = self._rooms[model]
            self._graphs[model, team] = Graph(
                room.card,
                device=self._device,
                tp=len(team),
                group=group,
                seed=self._rank,
                **picked(room, "dtype", "batch", "context", "ep"),
            )
        return self._graphs[model, team]
