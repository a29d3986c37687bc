"""A run of nccl-tests or rccl-tests as a file tells it, before anything is judged."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from ssdsim.base.record import Record

MOST_RANKS = 1_000_000
WRONG, UNTIMED, EMPTY, BROKEN = "with a wrong result", "without a time", "of size 0", "broken by another line"
"""Why a row is left out."""

LARGEST_ERROR = 1e-2
"""The most error of a right result, in units of the data: half sums to it; a failed check before 2021 printed 1."""


class Device(Record):
    """A rank's line: ``# Rank 3 Group 0 Pid 746 on host device 3 [0x60] Tesla V100-SXM2-16GB``."""

    rank: int
    host: str = ""
    process: str = ""
    gpu: str = ""
    at: str = ""
    """Its number on the host and the bus."""


class Row(Record):
    """A timed size: bytes, seconds, and the rates printed beside (GB/s; None where there are none)."""

    size: float
    seconds: float
    algorithm_rate: float | None = None
    bus_rate: float | None = None


@dataclass
class Run:
    """One run's settings and its rows: those of use, and how many were left out for which reason."""

    operation: str | None = None
    ranks: int | None = None
    devices: list[Device] = field(default_factory=list)
    settings: dict[str, str] = field(default_factory=dict)
    """The settings as printed in the first line: ``nThread``, ``nGpus``, ``agg iters``, ``graph`` and others."""

    rows: list[Row] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    in_place: int = 0
    """Rows that have a time in place only."""

    reductions: set[str] = field(default_factory=set)
    layout: str = ""

    def add(self, size: float, time_us: float | None, check: str, rates: tuple[float | None, float | None]) -> None:
        """A row with its out-of-place time, or left out."""
        if not is_right(check):
            self.left_out[WRONG] += 1
        elif not size:
            self.left_out[EMPTY] += 1
        elif not time_us:
            self.left_out[UNTIMED] += 1
        else:
            self.rows.append(Row(size, 1e-6 * time_us, *rates))

    @property
    def hosts(self) -> list[str]:
        return list(dict.fromkeys(device.host for device in self.devices if device.host))

    @property
    def gpus(self) -> list[str]:
        return sorted({device.gpu for device in self.devices if device.gpu})

    @property
    def mode(self) -> str:
        """Processes and graphs, which decide the fixed time of a small collective."""
        return f"{self._processes}, {self._graphs}"

    @property
    def _processes(self) -> str:
        processes = {(device.host, device.process) for device in self.devices if device.process}
        if not processes:
            return "processes not said"
        return "one process" if len(processes) == 1 else f"{len(processes)} processes"

    @property
    def _graphs(self) -> str:
        graph = self.settings.get("graph")
        if graph is None:
            return "graphs not said"
        return "eager" if graph == "0" else f"in CUDA graphs ({graph} launches)"


def is_right(check: str) -> bool:
    """Say whether a row's check says that its result was right, or that nobody checked.

    ``0`` wrong elements, an ``error`` below what rounding makes, or none at all (``N/A``).
    """
    text = check.strip().strip('"').lower()
    if text in ("", "n/a", "none", "null", "-1"):
        return True
    number = as_number(text)
    return number is not None and number <= LARGEST_ERROR


def as_number(value: object) -> float | None:
    """A finite number of at least 0 from a number or its text; None otherwise."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if 0.0 <= number < float("inf") else None
