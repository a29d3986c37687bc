"""Messages between ranks: :class:`Mail` is waited for, :class:`Post` is heard while passes run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from calibration.machine.devices import messages_lie_on, synchronised
from ssdsim.base.record import Record
from ssdsim.pricing.step import Message

_VALUE_BYTES = 8
OUTCOME_VALUES = 2  # of a sequence's outcome: accepted tokens and bonus token
_END = -1
_SILENCE = timedelta(hours=1)  # a side may say nothing in a whole run; who asked for the run bounds it


def head_bytes(batch: int) -> int:
    """Size of a message's head: the number of values, and room for an outcome's values."""
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
    """A rank's place in its role, and ``other``, the first rank of the other role (None: there is no other role).

    ``own`` is the group of the role's ranks (None: it has one rank). Messages ``there`` and ``back`` use two groups
    (None: the default group), so that messages which cross do not wait for each other.
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
    """One rank's messages of a run, by name. Each has the size that its step says, but at least that of its head."""

    def __init__(self, route: Route, messages: Mapping[str, Message], batch: int, device: torch.device) -> None:
        self._route, self._messages, self._batch = route, messages, batch
        self._device = messages_lie_on(device)
        self._tags = {name: tag for tag, name in enumerate(messages)}
        self._sent, self._received = (
            {name: self._buffer(message.sent_bytes, message.broadcast_bytes) for name, message in messages.items()}
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
            self._broadcast(message[: max(self._messages[name].broadcast_bytes, head_bytes(self._batch))])
        return read(message, self._batch)

    def tell(self, name: str) -> None:
        """Broadcast the part of a message that the role's other ranks need, if any."""
        told = self._messages[name].broadcast_bytes
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


class Post:
    """One rank's posted messages by their names: whole numbers from 0 on, which arrive in order while passes run.

    ``others`` maps each other role to its rank. A thread for each name and rank receives. This needs gloo: NCCL sends
    no messages beside its passes.
    """

    def __init__(self, others: Mapping[str, int], names: Mapping[str, int]) -> None:
        self._others, self._tags = others, names
        self._heard: dict[str, SimpleQueue[int]] = {}
        self._threads: list[Thread] = []
        self._sent: dict[tuple[str, str], None] = {}
        self._ended: list[tuple[str, int]] = []  # names and the ranks that send no more of them
        self.over = False  # all others have said that they end

    def send(self, to: str, name: str, content: int) -> None:
        self._sent[to, name] = None
        dist.send(torch.tensor([content]), self._others[to], tag=self._tags[name])

    def wait(self, name: str) -> int:
        """The next message."""
        return self._noting_end(self._queue(name).get())

    def look(self, name: str) -> list[int]:
        """Look for what has come since the last look."""
        queue, news = self._queue(name), []
        try:
            while True:
                news.append(self._noting_end(queue.get_nowait()))
        except Empty:
            return [content for content in news if content != _END]

    def close(self) -> None:
        """Say that this side ends, and hear until the others do."""
        for to, name in self._sent:
            self.send(to, name, _END)
        for thread in self._threads:
            thread.join()

    def _noting_end(self, content: int) -> int:
        self.over = self.over or content == _END
        return content

    def _queue(self, name: str) -> SimpleQueue[int]:
        if name not in self._heard:
            self._heard[name] = SimpleQueue()
            threads = [Thread(target=self._hear, args=(name, rank), daemon=True) for rank in self._others.values()]
            for thread in threads:
                thread.start()
            self._threads += threads
        return self._heard[name]

    def _hear(self, name: str, rank: int) -> None:
        message = torch.zeros(1, dtype=torch.int64)
        while True:
            heard = dist.irecv(message, rank, tag=self._tags[name])
            assert heard is not None  # of a rank of the same group
            heard.wait(timeout=_SILENCE)
            if int(message) == _END:
                break
            self._heard[name].put(int(message))
        self._ended.append((name, rank))
        if sum(ended == name for ended, _ in self._ended) == len(self._others):
            self._heard[name].put(_END)
