"""Requests that wait, in one array, which compiled rounds read and write, too."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


class Queue:
    """First come, first served. Each request is pushed once, and to the front only after it was taken from there."""

    def __init__(self, most: int) -> None:
        self.places = np.empty(most, dtype=np.int64)
        self.head = self.tail = 0

    def __len__(self) -> int:
        return self.tail - self.head

    @property
    def requests(self) -> NDArray[np.int64]:
        """All that wait, in their order."""
        return self.places[self.head : self.tail]

    @property
    def first(self) -> int:
        return int(self.places[self.head])

    def push(self, request: int) -> None:
        self.places[self.tail] = request
        self.tail += 1

    def push_front(self, request: int) -> None:
        self.head -= 1
        self.places[self.head] = request

    def pop(self) -> None:
        """Take the first one away."""
        self.head += 1
