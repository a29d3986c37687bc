"""The number of idle cores, so that a second process takes none from anybody."""

from __future__ import annotations

import os
import time
from collections.abc import Collection
from pathlib import Path

_STAT = Path("/proc/stat")
_IDLE = 0.5  # of its time
_LEAST_S = 0.1  # ten of Linux's hundredths of a second


class IdleCores:
    """Idle cores available to this process, measured since construction; load that has just ended is ignored."""

    def __init__(self) -> None:
        self._since_s = time.monotonic()
        self._idle_s = _idle_s()

    def free(self) -> int:
        """The number of processes that may join: one for each core that is idle half of the time or more."""
        return int(self.count() + _IDLE)

    def count(self) -> float:
        """The mean number of idle cores; where Linux does not tell, or too early, by the load of the last minute."""
        passed_s, now_s = time.monotonic() - self._since_s, _idle_s()
        if self._idle_s is None or now_s is None or passed_s < _LEAST_S:
            load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
            return max(0.0, len(_cores()) - load)
        return (now_s - self._idle_s) / passed_s


def _cores() -> Collection[int]:
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)


def _idle_s() -> float | None:
    """Seconds that the cores together have been idle since the machine started."""
    return idle_ticks(_STAT.read_text(), _cores()) / os.sysconf("SC_CLK_TCK") if _STAT.exists() else None


def idle_ticks(stat: str, cores: Collection[int]) -> int:
    """Idle ticks of these cores in the text of ``/proc/stat``, those idle while a disk works among them."""
    rows = (line.split() for line in stat.splitlines())
    of_cores = {row[0]: row for row in rows if row and row[0].startswith("cpu")}
    return sum(int(row[4]) + int(row[5]) for core in cores if (row := of_cores.get(f"cpu{core}")))
