"""Messages that nobody waits for: whole numbers between two ranks, in their order, heard while passes run."""

from __future__ import annotations

from collections.abc import Mapping
from queue import Empty, SimpleQueue
from threading import Thread

import torch
import torch.distributed as dist

_END = -1


class Post:
    """One rank's share of a run's posted messages, by their names; ``other`` is the rank that they go to and come from.

    A thread a name hears what comes. Numbers are from 0 on. Over gloo: NCCL has no messages beside its passes.
    """

    def __init__(self, other: int, names: Mapping[str, int]) -> None:
        self._other, self._tags = other, names
        self._heard: dict[str, SimpleQueue[int]] = {}
        self._threads: dict[str, Thread] = {}
        self._sent: dict[str, None] = {}
        self.over = False  # the other side has said that it ends

    def send(self, name: str, content: int) -> None:
        self._sent[name] = None
        dist.send(torch.tensor([content]), self._other, tag=self._tags[name])

    def wait(self, name: str) -> int:
        """The next message."""
        return self._told(self._queue(name).get())

    def look(self, name: str) -> list[int]:
        """What has come since the last look."""
        queue, found = self._queue(name), []
        try:
            while True:
                found.append(self._told(queue.get_nowait()))
        except Empty:
            return [content for content in found if content != _END]

    def close(self) -> None:
        """Say that this side ends, and hear until the other one does."""
        for name in self._sent:
            self.send(name, _END)
        for thread in self._threads.values():
            thread.join()

    def _told(self, content: int) -> int:
        self.over = self.over or content == _END
        return content

    def _queue(self, name: str) -> SimpleQueue[int]:
        if name not in self._heard:
            self._heard[name] = SimpleQueue()
            self._threads[name] = Thread(target=self._hear, args=(name,), daemon=True)
            self._threads[name].start()
        return self._heard[name]

    def _hear(self, name: str) -> None:
        message = torch.zeros(1, dtype=torch.int64)
        while True:
            dist.recv(message, self._other, tag=self._tags[name])
            self._heard[name].put(int(message))
            if int(message) == _END:
                return
