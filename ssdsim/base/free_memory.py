"""Memory that the machine can still give."""

from __future__ import annotations

import os
from pathlib import Path


def free_memory_bytes() -> int:
    """Free memory on Linux; elsewhere all that the machine has."""
    meminfo = Path("/proc/meminfo")
    if meminfo.exists():
        fields = dict(line.split(":", 1) for line in meminfo.read_text().splitlines())
        return int(fields["MemAvailable"].split()[0]) * 1024
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
