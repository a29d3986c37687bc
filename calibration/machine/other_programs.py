"""How much of the ranks' cores other programs take: what a timing leaves out, and real rounds wait for."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from calibration.machine.devices import core_of
from ssdsim.base.record import Record

_STAT = Path("/proc/stat")
_BUSY = (1, 2, 3, 6, 7, 8)  # user, nice, system, both kinds of interrupts, and what the host of a machine takes
_SPENT = slice(11, 13)  # of /proc/PID/stat behind the name: user and system


class _Look(Record):
    """Seconds in which the cores worked, for anybody and for us, at a time."""

    at_s: float
    busy_s: float
    ours_s: float


class OtherPrograms:
    """What programs other than the ranks and their parent take of the ranks' cores, from when this is made."""

    def __init__(self, devices: Sequence[str], pids: Iterable[int]) -> None:
        self._cores = {core for name in devices if (core := core_of(name)) is not None}
        self._pids = tuple(pids)
        self._since = self._look()

    def share(self) -> float | None:
        """Their share of the cores' time since the last question; None on GPUs, or where the system has no count."""
        since, self._since = self._since, self._look()
        if since is None or self._since is None:
            return None
        passed_s = len(self._cores) * (self._since.at_s - since.at_s)
        taken_s = self._since.busy_s - since.busy_s - (self._since.ours_s - since.ours_s)
        return min(1.0, max(0.0, taken_s / passed_s)) if passed_s > 0.0 else None

    def _look(self) -> _Look | None:
        if not self._cores or not _STAT.exists():
            return None
        ticks = os.sysconf("SC_CLK_TCK")
        here = len(self._cores) / len(os.sched_getaffinity(0))  # the parent may be on any core
        ours_s = here * time.process_time() + sum(map(_spent_ticks, self._pids)) / ticks
        return _Look(time.monotonic(), busy_ticks(_STAT.read_text(), self._cores) / ticks, ours_s)


def busy_ticks(stat: str, cores: Collection[int]) -> int:
    """Ticks in which these cores worked, in the text of ``/proc/stat``."""
    rows = {words[0]: words for line in stat.splitlines() if (words := line.split())}
    return sum(int(rows[f"cpu{core}"][field]) for core in cores if f"cpu{core}" in rows for field in _BUSY)


def _spent_ticks(pid: int) -> int:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:  # it has ended
        return 0
    return sum(map(int, text.rpartition(")")[2].split()[_SPENT]))
