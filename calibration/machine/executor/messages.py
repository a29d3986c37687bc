"""Messages between the first ranks of two roles, and from a role's first rank to its others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from calibration.machine.devices import messages_lie_on, synchronised
from calibration.machine.executor.cache import OUTCOME_VALUES
from ssdsim.base.record import Record
from ssdsim.pricing.step import Message

_VALUE_BYTES = 8


def head_bytes(batch: int) -> int:
    """Bytes that a message begins with: how many values it carries, and at most an outcome's."""
    return _VALUE_BYTES * (1 + batch * OUTCOME_VALUES)


def write(content: Any, message: torch.Tensor) -> None:
    """Put nothing (None), a whole number or an outcome at the head of a message (uint8)."""
    values = np.asarray([] if content is None else content, dtype=np.int64).ravel()
    head = torch.from_numpy(np.concatenate([[values.size], values])).view(torch.uint8)
    message[: head.numel()].copy_(head)


def read(message: torch.Tensor, batch: int) -> Any:
    """Read what was written."""
    head = message[: head_bytes(batch)].cpu().clone().view(torch.int64).numpy()
    values = head[1 : 1 + head[0]]
    if values.size <= 1:
        return int(values[0]) if values.size else None
    return values.reshape(-1, OUTCOME_VALUES)


class Route(Record):
    """A rank's place among those of its role, and the first rank of the other one (None where there is none).

    ``own`` is the group of the role's ranks (None where it has one). Messages there and back go over groups of their
    own (``there``, ``back``; None is the default one), so that two which cross do not wait for each other.
    """

    rank: int
    ranks: Sequence[int]
    other: int | None
    own: dist.ProcessGroup | None
    there: dist.ProcessGroup | None
    back: dist.ProcessGroup | None

    @property
    def is_first(self) -> bool:
        return self.rank == self.ranks[0]


class Mail:
    """One rank's messages of a run, by their names; of the sizes that steps give them, but room for their heads."""

    def __init__(self, route: Route, messages: Mapping[str, Message], batch: int, device: torch.device) -> None:
        self._route, self._messages, self._batch = route, messages, batch
        self._device = messages_lie_on(device)
        self._tags = {name: tag for tag, name in enumerate(messages)}
        self._sent, self._received = (
            {name: self._buffer(message.sent_bytes, message.told_bytes) for name, message in messages.items()}
            for _ in range(2)
        )
        self._under_way: dict[str, dist.Work] = {}

    def _buffer(self, *least_bytes: int) -> torch.Tensor:
        return torch.zeros(max(head_bytes(self._batch), *least_bytes), dtype=torch.uint8, device=self._device)

    def send(self, name: str, content: Any) -> None:
        """Start a message on its way; the next one of its name waits until it is through."""
        if not self._route.is_first:
            return
        self._end(name)
        write(content, self._sent[name])
        work = dist.isend(self._sent[name], self._route.other, group=self._route.there, tag=self._tags[name])
        assert work is not None  # this rank is in the group
        self._under_way[name] = work

    def receive(self, name: str) -> Any:
        """Receive what a message carries, on every rank of the role."""
        message = self._received[name]
        if self._route.is_first:
            other, group, tag = self._route.other, self._route.back, self._tags[name]
            synchronised(lambda: dist.recv(message, other, group=group, tag=tag), self._device)()
        if self._route.own is not None:
            self._broadcast(message[: max(self._messages[name].told_bytes, head_bytes(self._batch))])
        return read(message, self._batch)

    def tell(self, name: str) -> None:
        """The role's first rank tells the others what they need of a message; nothing where they need nothing."""
        told = self._messages[name].told_bytes
        if told and self._route.own is not None:
            self._broadcast(self._sent[name][:told])

    def _broadcast(self, told: torch.Tensor) -> None:
        first, group = self._route.ranks[0], self._route.own
        synchronised(lambda: dist.broadcast(told, first, group=group), self._device)()

    def close(self) -> None:
        """Wait until everything sent is through."""
        for name in list(self._under_way):
            self._end(name)

    def _end(self, name: str) -> None:
        if name in self._under_way:
            self._under_way.pop(name).wait()
