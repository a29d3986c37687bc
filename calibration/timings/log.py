"""The log of a calibration: a JSON-lines file that a kill cannot spoil and a later run goes on with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from calibration.timings.points import Point
from ssdsim.base.documents import surviving_records
from ssdsim.base.errors import InputError
from ssdsim.base.files import append_record, write_records
from ssdsim.base.record import Record

_SCHEMA = 2


class Visit(Record):
    """One timing of a point: its middle in seconds since the epoch, and what the benchmark found."""

    at_s: float
    result: Mapping[str, Any]

    @property
    def seconds(self) -> float:
        return float(self.result["seconds"])


@dataclass
class Log:
    """Visits in a file, a line each, appended as they come; what a kill tore is ignored."""

    path: Path
    machine: Mapping[str, Any]
    visits: dict[str, list[Visit]] = field(default_factory=dict)
    """Visits by the point's key, in the order of time."""

    def open(self) -> Log:
        """Read what an earlier run left; it must be of the same machine and workload."""
        records = [record for record in surviving_records(self.path) if isinstance(record, dict)]
        header = {"schema": _SCHEMA, "machine": dict(self.machine)}
        if not records:  # a kill can leave an empty file, or a torn header
            write_records(self.path, [header])
            return self
        if records[0].get("schema") != _SCHEMA:
            raise InputError(f"{self.path}: written by another version of ssdsim; remove it or use -o")
        if records[0] != header:
            raise InputError(f"{self.path}: measured on another machine or for another workload; remove it or use -o")
        visits = list(filter(_is_visit, records[1:]))
        write_records(self.path, [header, *visits])  # what a kill tore goes for good: the next append starts a line
        for visit in visits:
            self.visits.setdefault(visit["key"], []).append(Visit(visit["at_s"], visit["result"]))
        return self

    def count(self, point: Point) -> int:
        """Count how often a point was timed."""
        return len(self.visits.get(point.key, ()))

    def add(self, point: Point, visit: Visit) -> None:
        self.visits.setdefault(point.key, []).append(visit)
        record = {"key": point.key, "visit": self.count(point), "at_s": visit.at_s, "result": dict(visit.result)}
        append_record(self.path, record)


def _is_visit(record: Mapping[str, Any]) -> bool:
    """Say whether a record holds a point's key, a time, and what a benchmark found, with its seconds."""
    result = record.get("result")
    seconds = result.get("seconds") if isinstance(result, dict) else None
    numbers = (record.get("at_s"), seconds)
    return isinstance(record.get("key"), str) and all(type(number) in (int, float) for number in numbers)
