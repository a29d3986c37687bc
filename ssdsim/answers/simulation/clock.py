"""SimPy's clock."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Any

from simpy import Environment, Event
from simpy.events import NORMAL


class Clock(Environment):
    """SimPy's environment, with the calls between its events left out."""

    def after(self, seconds: float) -> Event:
        """Wait as :meth:`simpy.Environment.timeout` does."""
        event = Event(self)
        event._ok, event._value = True, None
        heappush(self._queue, (self._now + seconds, NORMAL, next(self._eid), event))
        return event

    def past(self) -> Event:
        """An event that was processed long ago: who yields it goes on at once."""
        event = Event(self)
        event.callbacks, event._ok, event._value = None, True, None  # type: ignore[assignment]
        return event

    def happens(self, event: Event, value: Any) -> None:
        """Let an event happen as :meth:`simpy.Event.succeed` does, if it did not."""
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
