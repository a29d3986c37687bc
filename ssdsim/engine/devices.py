"""Devices, links and mailboxes of the event engine, on bare SimPy events (Stores cost five times as much)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from simpy import Environment, Event

from ssdsim.engine.trace import Trace


class Device:
    """Something that is busy with one thing at a time: GPUs that work in lockstep, or a link.

    ``tracks`` names the timeline's tracks, one a GPU.
    """

    def __init__(self, env: Environment, tracks: Sequence[str], trace: Trace | None) -> None:
        self.env = env
        self.tracks = tuple(tracks)
        self.trace = trace
        self._busy_s = 0.0
        self._busy_until_s = 0.0

    def run(self, what: str, seconds: float, **args: Any) -> Event:
        """Be busy for ``seconds``; yield the event to wait for the end."""
        self._busy_s += seconds
        self._busy_until_s = end = self.env.now + seconds
        if self.trace is not None:
            for track in self.tracks:
                self.trace.slice(track, what, self.env.now, end, **args)
        return self.env.timeout(seconds)

    def run_steps(self, steps: Sequence[tuple[str, float]]) -> Event:
        """Be busy with one step after the other, with no pause in which anything could cut in."""
        if self.trace is None:
            return self.run("", sum(seconds for _, seconds in steps))
        at = self.env.now
        for what, seconds in steps:
            for track in self.tracks:
                self.trace.slice(track, what, at, at + seconds)
            at += seconds
        self._busy_s += at - self.env.now
        self._busy_until_s = at
        return self.env.timeout(at - self.env.now)

    @property
    def busy_s(self) -> float:
        """Seconds of work done by now (work under way counts up to now)."""
        return self._busy_s - max(0.0, self._busy_until_s - self.env.now)


class Mailbox:
    """Holds one message between two processes that take turns; a message sent early waits for its receiver."""

    def __init__(self, env: Environment) -> None:
        self._env = env
        self.arrival: Event = env.event()

    def send(self, message: Any) -> None:
        self.arrival.succeed(message)

    def empty(self) -> None:
        """Make room for the next message; the receiver calls it after waiting for ``arrival``."""
        self.arrival = self._env.event()
