"""Count of idle cores, so that worker processes take none from other programs."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from ssdsim.base.record import Record

_STAT = Path("/proc/stat")
_IDLE = 0.5  # of its time
_LEAST_S = 0.1  # ten of Linux's hundredths of a second


class _Look(Record):
    """Idle seconds of all cores together at a time, since the machine started; None where the system has no count."""

    at_s: float
    idle_s: float | None

    def idle_until(self, later: _Look) -> float | None:
        """The mean number of idle cores in between; None if too little time has passed, too."""
        passed_s = later.at_s - self.at_s
        if self.idle_s is None or later.idle_s is None or passed_s < _LEAST_S:
            return None
        return (later.idle_s - self.idle_s) / passed_s


_ended_children_s = 0.0


@contextmanager
def counted_as_idle() -> Iterator[None]:
    """Count as idle the time of child processes that end meanwhile: as many may begin again."""
    global _ended_children_s
    before_s = _of_ended_children_s()
    yield
    _ended_children_s += _of_ended_children_s() - before_s


class IdleCores:
    """Idle cores for this process, measured since this object was made; load that has just ended is ignored."""

    def __init__(self) -> None:
        self._since = _look()

    def free(self) -> int:
        """The number of processes that may join: one a core that is idle half of the time or more."""
        return int(self.count() + _IDLE)

    def count(self) -> float:
        """The mean number of idle cores.

        If this object is too young, it is the mean since this module was loaded. Where the system has no count, it is
        the number of cores less the load of the last minute, of which this process is one.
        """
        now = _look()
        for since in (self._since, _LOADED):
            if (idle := since.idle_until(now)) is not None:
                return min(idle, len(_cores()))  # a copy may have begun before the first look
        load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 1.0
        return max(0.0, len(_cores()) - max(1.0, load))


def _cores() -> Collection[int]:
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)


def _look() -> _Look:
    if not _STAT.exists():
        return _Look(time.monotonic(), None)
    idle_s = idle_ticks(_STAT.read_text(), _cores()) / os.sysconf("SC_CLK_TCK")
    return _Look(time.monotonic(), idle_s + _ended_children_s)


def _of_ended_children_s() -> float:
    times = os.times()
    return times.children_user + times.children_system


def idle_ticks(stat: str, cores: Collection[int]) -> int:
    """Idle ticks of these cores in the text of ``/proc/stat``, with those in which a core waits for a disk."""
    rows = (line.split() for line in stat.splitlines())
    of_cores = {row[0]: row for row in rows if row and row[0].startswith("cpu")}
    return sum(int(row[4]) + int(row[5]) for core in cores if (row := of_cores.get(f"cpu{core}")))


_LOADED = _look()
