"""Messages that nobody waits for: whole numbers between ranks, in their order, heard while passes run."""

from __future__ import annotations

from collections.abc import Mapping
from queue import Empty, SimpleQueue
from threading import Thread

import torch
import torch.distributed as dist

_END = -1


class Post:
    """One rank's share of a run's posted messages, by their names; ``others`` are the ranks of other roles, by these.

    A thread for each name and rank hears what comes. Numbers are from 0 on. Over gloo: NCCL has no messages beside its
    passes.
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
        return self._told(self._queue(name).get())

    def look(self, name: str) -> list[int]:
        """Look for what has come since the last look."""
        queue, news = self._queue(name), []
        try:
            while True:
                news.append(self._told(queue.get_nowait()))
        except Empty:
            return [content for content in news if content != _END]

    def close(self) -> None:
        """Say that this side ends, and hear until the others do."""
        for to, name in self._sent:
            self.send(to, name, _END)
        for thread in self._threads:
            thread.join()

    def _told(self, content: int) -> int:
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
            dist.recv(message, rank, tag=self._tags[name])
            if int(message) == _END:
                break
            self._heard[name].put(int(message))
        self._ended.append((name, rank))
        if sum(ended == name for ended, _ in self._ended) == len(self._others):
            self._heard[name].put(_END)
