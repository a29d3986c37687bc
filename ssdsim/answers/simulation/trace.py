"""Timelines in Chrome's trace-event format, which Perfetto opens: a track per device and link, flows between them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ssdsim.base.files import write_whole
from ssdsim.base.record import MutableRecord, field

_MICROSECONDS = 1e6


class Trace(MutableRecord):
    """Slices and flows of a run; tracks appear in the order in which they are first used."""

    process: str = "ssdsim"
    _events: list[dict[str, Any]] = field(default_factory=list)
    _tracks: dict[str, int] = field(default_factory=dict)
    _flows: int = 0

    def slice(self, track: str, name: str, start_s: float, end_s: float, **args: Any) -> None:
        """Work of a device or a link from ``start_s`` to ``end_s``; work of no length is left out."""
        if end_s <= start_s:
            return
        event = {"name": name, "ph": "X", "ts": start_s * _MICROSECONDS, "dur": (end_s - start_s) * _MICROSECONDS}
        self._add(track, event | ({"args": args} if args else {}))

    def flow(self, name: str, from_track: str, from_s: float, to_track: str, to_s: float) -> None:
        """An arrow between two slices. It binds to the slices around its ends: give times inside them."""
        self._flows += 1
        common = {"name": name, "cat": "flow", "id": self._flows}
        self._add(from_track, {**common, "ph": "s", "ts": from_s * _MICROSECONDS})
        self._add(to_track, {**common, "ph": "f", "bp": "e", "ts": to_s * _MICROSECONDS})

    def count(self, name: str, at_s: float, **values: float) -> None:
        """Numbers of a curve."""
        self._events.append({"name": name, "ph": "C", "ts": at_s * _MICROSECONDS, "pid": 1, "args": values})

    def cut(self, end_s: float, track: str | None = None) -> None:
        """Cut slices at ``end_s``, when the run, or the work on one track, stopped."""
        end = end_s * _MICROSECONDS
        of = None if track is None else self._tracks.get(track)
        for event in self._events:
            if event["ph"] == "X" and of in (None, event["tid"]):
                event["dur"] = min(event["dur"], max(0.0, end - event["ts"]))
        self._events = [e for e in self._events if e["ph"] != "X" or e["dur"] > 0.0]

    def busy_s(self, track: str) -> float:
        """Seconds covered by a track's slices."""
        tid = self._tracks.get(track)
        return float(sum(e["dur"] for e in self._events if e["ph"] == "X" and e["tid"] == tid)) / _MICROSECONDS

    @property
    def tracks(self) -> list[str]:
        return list(self._tracks)

    def to_json(self) -> dict[str, Any]:
        names: list[dict[str, Any]] = [
            {"name": "process_name", "ph": "M", "pid": 1, "args": {"name": self.process}},
        ]
        for track, tid in self._tracks.items():
            names.append({"name": "thread_name", "ph": "M", "pid": 1, "tid": tid, "args": {"name": track}})
            names.append({"name": "thread_sort_index", "ph": "M", "pid": 1, "tid": tid, "args": {"sort_index": tid}})
        return {"traceEvents": names + self._events, "displayTimeUnit": "ms"}

    def save(self, path: Path) -> None:
        """Write the file whole or not at all."""
        write_whole(path, json.dumps(self.to_json()))

    def _add(self, track: str, event: dict[str, Any]) -> None:
        tid = self._tracks.setdefault(track, len(self._tracks) + 1)
        self._events.append({**event, "pid": 1, "tid": tid})
