"""Memory that the machine can still give."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

_CGROUP, _CGROUPS = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")


def free_memory_bytes() -> int:
    """Free memory on Linux, as far as the cgroups (v2) of this process may take it; elsewhere all of the machine."""
    meminfo = Path("/proc/meminfo")
    if meminfo.exists():
        fields = dict(line.split(":", 1) for line in meminfo.read_text().splitlines())
        return min([int(fields["MemAvailable"].split()[0]) * 1024, *_left_to_cgroups()])
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _left_to_cgroups() -> Iterator[int]:
    """Bytes left under each limit. Cached files that are not in use count as free: they go first."""
    own = _CGROUP.read_text().rpartition("0::/")[2].strip() if _CGROUP.exists() else ""
    for group in (_CGROUPS / own, *(_CGROUPS / own).parents):
        limit = group / "memory.max"
        if limit.exists() and (most := limit.read_text().strip()) != "max":
            kinds = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
            yield int(most) - int((group / "memory.current").read_text()) + int(kinds["inactive_file"])
