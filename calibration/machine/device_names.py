"""Names of devices: ``cpu:0``, ``cuda:0``, ``cuda:0-3``."""

from __future__ import annotations

import re

from ssdsim.base.errors import InputError

_NAME = re.compile(r"(cpu|cuda)(?::(\d+)(?:-(\d+))?)?")


def named_devices(text: str) -> list[str]:
    """The names alone, of a machine that need not be this one."""
    match = _NAME.fullmatch(text)
    if not match:
        raise InputError(f"'{text}' is not a device; allowed: cpu, cpu:0, cuda:0, cuda:0-3")
    kind, first, last = match[1], match[2], match[3]
    start = int(first or 0)
    names = [f"{kind}:{i}" for i in range(start, int(last or start) + 1)]
    if not names:
        raise InputError(f"'{text}' names no device: {start} is above {last}")
    return names
