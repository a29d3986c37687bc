"""Timelines of ranks, on the machine's monotonic clock, which all ranks share."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

T = TypeVar("T")


class Event(NamedTuple):
    """Part of a step: ``what`` was done, or waited for."""

    step: str
    what: str
    start_s: float
    end_s: float
    waits: bool = False


@dataclass
class Timeline:
    """A rank's events; of the leading role, when its rounds ended and the tokens that they yielded over the batch; of
    who looks outcomes up, how many sequences missed in each round.
    """

    start_s: float = 0.0
    events: list[Event] = field(default_factory=list)
    ends_s: list[float] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    misses: list[int] = field(default_factory=list)

    def record(self, step: str, what: str, action: Callable[[], T], waits: bool = False) -> T:
        """Run ``action`` and record its time; returns what it returns."""
        start = time.perf_counter()
        record = action()
        self.events.append(Event(step, what, start, time.perf_counter(), waits))
        return record

    def end_round(self, tokens: int) -> None:
        """The round's tokens are out."""
        self.ends_s.append(time.perf_counter())
        self.tokens.append(tokens)

    @property
    def mean_round_s(self) -> float:
        """The mean round from the start to the last round's end."""
        return (self.ends_s[-1] - self.start_s) / len(self.ends_s)
