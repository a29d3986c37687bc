"""Devices, links and mailboxes of the event engine, on bare SimPy events (Stores cost five times as much)."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

from simpy import Event

from ssdsim.answers.simulation.clock import Clock
from ssdsim.answers.simulation.trace import Trace


class Device:
    """Something that is busy with one thing at a time: GPUs that work in lockstep, or a link.

    ``tracks`` names the timeline's tracks, one a GPU.
    """

    def __init__(self, env: Clock, tracks: Sequence[str], trace: Trace | None) -> None:
        self.env = env
        self.tracks = tuple(tracks)
        self.trace = trace
        self._busy_s = 0.0
        self.busy_until_s = 0.0

    def occupy(self, what: str, seconds: float) -> None:
        """Be busy for ``seconds`` from now on."""
        self._busy_s += seconds
        self.busy_until_s = end = self.env._now + seconds
        if self.trace is not None:
            for track in self.tracks:
                self.trace.slice(track, what, self.env.now, end)

    def run(self, what: str, seconds: float) -> Event:
        """Be busy for ``seconds``; yield the event to wait for the end."""
        if self.trace is not None:
            self.occupy(what, seconds)
        else:  # as there, without the call
            self._busy_s += seconds
            self.busy_until_s = self.env._now + seconds
        return self.env.after(seconds)

    def run_slices(self, slices: Sequence[tuple[str, float]]) -> Event:
        """Be busy with one thing after the other, with no pause in which anything could cut in."""
        at = self.env.now
        for what, seconds in slices:
            for track in self.tracks:
                if self.trace is not None:
                    self.trace.slice(track, what, at, at + seconds)
            at += seconds
        self._busy_s += at - self.env.now
        self.busy_until_s = at
        return self.env.after(at - self.env.now)

    def stop(self) -> None:
        """Break off what is under way."""
        self._busy_s = self.busy_s
        self.busy_until_s = self.env.now
        if self.trace is not None:
            for track in self.tracks:
                self.trace.cut(self.env.now, track)

    @property
    def busy_s(self) -> float:
        """Seconds of work done by now (work under way counts up to now)."""
        return self._busy_s - max(0.0, self.busy_until_s - self.env.now)


class Mailbox:
    """Messages to one process, in their order; those sent early wait for their receiver."""

    def __init__(self, env: Clock) -> None:
        self._env = env
        self._waiting: Event | None = None
        self._held: deque[Event] = deque()

    def put(self, message: Any) -> None:
        event, self._waiting = self._waiting, None
        if event is None:
            event = Event(self._env)
            self._held.append(event)
        self._env.happens(event, message)

    def get(self) -> Event:
        """Yield it to wait for the next message, which is its value."""
        if self._held:
            return self._held.popleft()
        self._waiting = Event(self._env)
        return self._waiting

    def give_up(self, event: Event, instead: object) -> None:
        """Nobody waits any more; ``event``, if it still does, gets no message but what is there ``instead``."""
        if event is self._waiting:
            self._waiting = None
            self._env.happens(event, instead)

    def here(self) -> list[Any]:
        """All messages that have come and were not got."""
        messages = [event.value for event in self._held]
        self._held.clear()
        return messages
