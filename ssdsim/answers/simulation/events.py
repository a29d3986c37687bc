"""The event engine's clock, devices, links and mailboxes, on bare SimPy events (Stores cost five times as much)."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from heapq import heappop, heappush
from typing import Any

from simpy import Environment, Event
from simpy.events import NORMAL

from ssdsim.answers.simulation.trace import Trace


class Clock(Environment):
    """SimPy's environment, with the calls between its events left out."""

    def after(self, seconds: float) -> Event:
        """Wait as :meth:`simpy.Environment.timeout` does."""
        event = Event(self)
        event._ok, event._value = True, None
        heappush(self._queue, (self._now + seconds, NORMAL, next(self._eid), event))
        return event

    def past(self) -> Event:
        """An event that is already processed: a process that yields it goes on at once."""
        event = Event(self)
        event.callbacks, event._ok, event._value = None, True, None  # type: ignore[assignment]
        return event

    def happens(self, event: Event, value: Any) -> None:
        """Trigger an event as :meth:`simpy.Event.succeed` does, without its checks."""
        event._ok, event._value = True, value
        heappush(self._queue, (self._now, NORMAL, next(self._eid), event))

    def run_to(self, end: Event) -> None:
        """Process events until ``end`` is processed, as :meth:`simpy.Environment.run` does.

        Raises
        ------
        RuntimeError : nothing is left that could end in ``end``.
        """
        queue = self._queue
        while end.callbacks is not None:
            try:
                self._now, _, _, event = heappop(queue)
            except IndexError:
                raise RuntimeError(f"no event is left, and {end} did not happen") from None
            callbacks, event.callbacks = event.callbacks, None  # type: ignore[assignment]
            for callback in callbacks:
                callback(event)
            if not event._ok:
                raise event._value


class SimDevice:
    """GPUs that work in lockstep, or a link: it does one thing at a time.

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
        """Do one thing after the other, without a pause in between."""
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
        """Abort the work under way."""
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
    """A queue of messages to one process."""

    def __init__(self, env: Clock) -> None:
        self._env = env
        self._waiting: Event | None = None
        self._arrived: deque[Event] = deque()

    def put(self, message: Any) -> None:
        event, self._waiting = self._waiting, None
        if event is None:
            event = Event(self._env)
            self._arrived.append(event)
        self._env.happens(event, message)

    def get(self) -> Event:
        """Yield it to wait for the next message, which is its value."""
        if self._arrived:
            return self._arrived.popleft()
        self._waiting = Event(self._env)
        return self._waiting

    def give_up(self, event: Event, instead: object) -> None:
        """Stop to wait: ``event``, if it is still open, happens with ``instead`` in place of a message."""
        if event is self._waiting:
            self._waiting = None
            self._env.happens(event, instead)

    def here(self) -> list[Any]:
        """All messages that have arrived and were not received."""
        messages = [event.value for event in self._arrived]
        self._arrived.clear()
        return messages
