"""Timed points as a fit reads them: every visit less the machine's drift around it."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, median

import numpy as np
from scipy.stats import trim_mean

from calibration.machine.timing import summarise
from calibration.timings.log import Log, Visit
from calibration.timings.points import OPERATIONS, Point
from calibration.timings.slowness import slowness
from ssdsim.base.record import Record

_COMPUTING = (*OPERATIONS, "pass", "layer")  # what a slow core slows


class Row(Record):
    """A timed point with all its visits, and how many times slower than usual the machine was at each."""

    point: Point
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


def rows_of(log: Log, points: Sequence[Point]) -> list[Row]:
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
    return [Row(point, log.visits[point.key], slower.get(point.key, [1.0] * log.count(point))) for point in timed]


def instability(rows: Sequence[Row]) -> float:
    """Wander of the machine's speed: its slowness from the 10th to the 90th percentile of visits."""
    slowest = [slow for row in rows if row.point.benchmark in _COMPUTING for slow in row.slowness]
    return float(np.subtract(*np.percentile(slowest, (90, 10)))) if slowest else 0.0
