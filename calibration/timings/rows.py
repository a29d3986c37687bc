"""Timed points: the log that keeps every visit, and the rows that a fit reads, corrected for the machine's drift.

On a shared machine a neighbour slows whatever is timed, for a tenth of a second or for minutes. Every point is visited
many times at random moments, so a visit that took longer than the others of its point tells of its moment.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import trim_mean

from calibration.machine.timing import summarise
from calibration.timings.fit import FEWEST_ROWS
from calibration.timings.plan import OPERATIONS, TimingPoint
from ssdsim.base.checks import Array
from ssdsim.base.documents import surviving_records
from ssdsim.base.errors import InputError
from ssdsim.base.files import append_record, write_records
from ssdsim.base.record import MutableRecord, Record, field

_SCHEMA = 2
FEWEST_TIMED = 10  # points of GEMMs, attention or experts: five folds leave enough of them for a fit
_COMPUTING = (*OPERATIONS, "pass", "layer")  # what a slow core slows
_NEAR_S = 0.15  # moods of a machine are shared by visits about this near (seen: half of the variance)
_DOUBT = 0.5  # visits' worth of belief that the machine is as always
_LARGEST = 0.3  # a wilder visit (log ratio) tells only this much of its neighbours
_SWEEPS = 8  # the drift and the points' times determine each other


class Visit(Record):
    """One timing of a point: its middle in seconds since the epoch, and what the benchmark found."""

    at_s: float
    result: Mapping[str, Any]

    @property
    def seconds(self) -> float:
        return float(self.result["seconds"])


class CalibrationLog(MutableRecord):
    """Visits in a file, a line each, appended as they come; what a kill tore is ignored."""

    path: Path
    machine: Mapping[str, Any]
    visits: dict[str, list[Visit]] = field(default_factory=dict)
    """Visits by the point's key, in the order of time."""

    def open(self) -> CalibrationLog:
        """Read what an earlier run left; it must be of the same machine and workload."""
        records = [record for record in surviving_records(self.path) if isinstance(record, dict)]
        header = {"schema": _SCHEMA, "machine": dict(self.machine)}
        if not records:  # a kill can leave an empty file, or a torn header
            write_records(self.path, [header])
            return self
        if records[0].get("schema") != _SCHEMA:
            raise InputError(f"{self.path}: written by another version of ssdsim; remove it or use -o")
        if records[0] != header:
            said = f"{self.path}: measured on another machine or for another workload{_workload_of(records[0])}"
            raise InputError(f"{said}; give its options to go on, remove it, or use -o")
        visits = list(filter(_is_visit, records[1:]))
        write_records(self.path, [header, *visits])  # what a kill tore goes for good: the next append starts a line
        for visit in visits:
            self.visits.setdefault(visit["key"], []).append(Visit(visit["at_s"], visit["result"]))
        return self

    def count(self, point: TimingPoint) -> int:
        """Count how often a point was timed."""
        return len(self.visits.get(point.key, ()))

    def add(self, point: TimingPoint, visit: Visit) -> None:
        self.visits.setdefault(point.key, []).append(visit)
        record = {"key": point.key, "visit": self.count(point), "at_s": visit.at_s, "result": dict(visit.result)}
        append_record(self.path, record)


def _workload_of(header: Mapping[str, Any]) -> str:
    """What a log is of, in brackets; empty where it says so in another way."""
    try:
        of = header["machine"]["workload"]
        models = f"{of['target']['name']} + {of['draft']['name']}"
        sizes = f"TP {of['tp']}, context {of['context']}, b {of['batch']}, K {of['lookahead']}"
        return f" ({models}, {of['dtype']}, {sizes}, on {', '.join(header['machine']['devices'])})"
    except (KeyError, TypeError):
        return ""


def _is_visit(record: Mapping[str, Any]) -> bool:
    """Say whether a record holds a point's key, a time, and what a benchmark found, with its seconds."""
    result = record.get("result")
    seconds = result.get("seconds") if isinstance(result, dict) else None
    numbers = (record.get("at_s"), seconds)
    return isinstance(record.get("key"), str) and all(type(number) in (int, float) for number in numbers)


class TimedPoint(Record):
    """A point with all its visits, and the machine's slowdown factor at each."""

    point: TimingPoint
    visits: Sequence[Visit]
    slowness: Sequence[float]

    @property
    def seconds(self) -> float:
        """Seconds, as on the machine at its median speed: the mean over the visits without the extreme fifths.

        Of fewer than five visits, from which that takes none, the median.
        """
        times = self._times_s
        return float(trim_mean(times, 0.2)) if len(times) >= 5 else median(times)

    @property
    def spread(self) -> float:
        """Robust standard deviation of a visit's time over the median; 0 for a single visit."""
        return summarise(self._times_s).spread

    @property
    def _times_s(self) -> list[float]:
        return [visit.seconds / slower for visit, slower in zip(self.visits, self.slowness, strict=True)]

    @property
    def outliers(self) -> int:
        """Visits that took half as long again as the median."""
        return summarise([visit.seconds for visit in self.visits]).outliers

    def mean_of(self, name: str) -> float:
        """The mean over the visits of another figure, as it was measured."""
        return fmean(float(visit.result[name]) for visit in self.visits)

    def median_of(self, name: str) -> float:
        """The median over the visits of another figure, as it was measured."""
        return median(float(visit.result[name]) for visit in self.visits)


def law_of(point: TimingPoint) -> str | None:
    """The law of a profile that a point's timings are fitted to; None for checks, the host's gaps and interference."""
    if not point.fitted or point.benchmark in ("host gap", "interference"):
        return None
    return (
        "masked attention"
        if dict(point.parameters).get("masked") and point.benchmark == "attention"
        else point.benchmark
    )


def fewest_of(law: str) -> int:
    """The fewest points that a law is fitted to: cross-validation takes more than a line in one size."""
    return FEWEST_TIMED if law in ("gemm", "attention", "masked attention", "experts") else FEWEST_ROWS


def missing_timings(points: Sequence[TimingPoint], visits: Callable[[TimingPoint], int]) -> list[str]:
    """The laws that a profile of this plan needs and too few points were timed for, such as ``link (5 of 8)``."""
    planned = Counter(law for point in points if (law := law_of(point)))
    timed = Counter(law for point in points if (law := law_of(point)) and visits(point))
    needed = {law: min(count, fewest_of(law)) for law, count in planned.items()}
    return [f"{law} ({timed[law]} of {fewest})" for law, fewest in needed.items() if timed[law] < fewest]


def rows_of(log: CalibrationLog, points: Sequence[TimingPoint]) -> list[TimedPoint]:
    """The points that were timed; messages, collectives, host gaps and slow-downs are not corrected for drift."""
    timed = [point for point in points if log.count(point)]
    computing = [point for point in timed if point.benchmark in _COMPUTING]
    visits = [(i, visit) for i, point in enumerate(computing) for visit in log.visits[point.key]]
    slower: dict[str, list[float]] = {}
    if visits:
        numbers = np.array([i for i, _ in visits])
        at_s, seconds = (np.array(column) for column in zip(*((v.at_s, v.seconds) for _, v in visits), strict=True))
        for i, slow in zip(numbers, slowness(numbers, at_s, seconds), strict=True):
            slower.setdefault(computing[i].key, []).append(float(slow))
    return [
        TimedPoint(point, log.visits[point.key], slower.get(point.key, [1.0] * log.count(point))) for point in timed
    ]


def instability(rows: Sequence[TimedPoint]) -> float:
    """Wander of the machine's speed: its slowness from the 10th to the 90th percentile of visits."""
    slowest = [slow for row in rows if row.point.benchmark in _COMPUTING for slow in row.slowness]
    return float(np.subtract(*np.percentile(slowest, (90, 10)))) if slowest else 0.0


def slowness(points: NDArray[np.int64], at_s: Array, seconds: Array) -> Array:
    """The machine's slowdown factor at each visit, by the visits around it; shape ``(visits,)``, median 1.

    ``points`` numbers the point of each visit from 0; ``at_s`` is when it was.
    """
    order = np.argsort(at_s, kind="stable")
    nearness = np.exp(-np.diff(at_s[order]) / _NEAR_S)  # of each visit to the next
    belief = _around(np.ones(len(order)), nearness) + _DOUBT
    points, log_seconds = points[order], np.log(seconds[order])
    of_point = [np.flatnonzero(points == point) for point in range(int(points.max()) + 1)]
    drift = np.zeros(len(order))
    for _ in range(_SWEEPS):
        usual = np.array([np.median((log_seconds - drift)[visits]) for visits in of_point])
        drift = _around(np.clip(log_seconds - usual[points], -_LARGEST, _LARGEST), nearness) / belief
    slowness = np.empty(len(order))
    slowness[order] = np.exp(drift - np.median(drift))
    return slowness


def _around(values: Array, nearness: Array) -> Array:
    """The sum of the other values, each multiplied by its nearness in time."""
    return _before(values, nearness) + _before(values[::-1], nearness[::-1])[::-1]


def _before(values: Array, nearness: Array) -> Array:
    sums = [0.0]
    for value, near in zip(values, nearness, strict=False):  # there is one gap fewer than values
        sums.append((sums[-1] + value) * near)
    return np.array(sums)
