"""A calibration's plan for a machine that is only described: who does what, how often, how long."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from calibration.timings.memory import rank_bytes
from calibration.timings.plan import OPERATIONS, CalibrationWorkload, TimingPoint, plan, wanted
from ssdsim.base.record import Record
from ssdsim.hardware.profile import HardwareProfile

# 60 ms timed (machine/timing.py) and its warm-up; more where ranks meet or a graph is captured; no GPU timed these
_SHORT_S = 0.1
_SHORT = frozenset({*OPERATIONS, "link", "rank link", "round trip"})
_OTHERWISE_S = 0.3  # whole passes, captures and what several ranks do together
_PREPARE_S = 60.0  # to start the ranks, to make both models and to connect them

TARGET_ALONE, ALL_TARGETS, EACH, BOTH = "rank 0", "target ranks", "target ranks, then the draft", "target and draft"


class PlannedBenchmark(Record):
    """A kind of point: how many, how often each is visited, how many the fit sees, who works, about how long."""

    name: str
    points: int
    visits: int
    fitted: int
    who: str
    minutes: float


class PlannedRank(Record):
    """A rank: its device, what it holds, the bytes that it needs and has, and how it reaches the draft's device."""

    device: str
    role: str
    needs_bytes: int
    has_bytes: int
    to_draft: str

    @property
    def fits(self) -> bool:
        return self.needs_bytes <= self.has_bytes


class DryRun(Record):
    """The whole plan."""

    strategies: tuple[str, ...]
    ranks: tuple[PlannedRank, ...]
    benchmarks: tuple[PlannedBenchmark, ...]

    @property
    def minutes(self) -> float:
        return _PREPARE_S / 60.0 + sum(each.minutes for each in self.benchmarks)


def dry_run(workload: CalibrationWorkload, devices: Sequence[str], machine: HardwareProfile) -> DryRun:
    """The plan of a calibration of ``workload`` on ``devices`` (the draft's last) of a machine such as ``machine``."""
    points = plan(workload, len(devices))
    ranks = planned_ranks(workload, devices, machine)
    return DryRun(workload.strategies, tuple(ranks), tuple(_benchmarks(points, devices[0])))


def _benchmarks(points: Sequence[TimingPoint], device: str) -> list[PlannedBenchmark]:
    kinds = Counter(point.benchmark for point in points)
    planned_benchmarks = []
    for name, count in kinds.items():
        of_kind = [point for point in points if point.benchmark == name]
        visits = sum(wanted(point, device) for point in of_kind)
        fitted = sum(point.fitted for point in of_kind)
        minutes = visits * (_SHORT_S if name in _SHORT else _OTHERWISE_S) / 60.0
        planned_benchmarks.append(PlannedBenchmark(name, count, visits, fitted, _who(of_kind[0]), minutes))
    return planned_benchmarks


def _who(point: TimingPoint) -> str:
    if point.benchmark in OPERATIONS:
        return TARGET_ALONE
    if point.benchmark == "pass":
        return EACH
    return ALL_TARGETS if point.benchmark in ("layer", "host gap", "all_reduce", "all_gather") else BOTH


def planned_ranks(workload: CalibrationWorkload, devices: Sequence[str], machine: HardwareProfile) -> list[PlannedRank]:
    """What each rank is for, and needs."""
    numbers = [int(device.split(":")[1]) for device in devices]
    last = len(devices) - 1
    return [
        PlannedRank(
            device=device,
            role=_role(rank, last, workload),
            needs_bytes=rank_bytes(workload, rank, len(devices), machine.device.kind),
            has_bytes=machine.device.memory_bytes,
            to_draft="" if rank == last else _link(machine, (numbers[rank], numbers[last])),
        )
        for rank, device in enumerate(devices)
    ]


def _role(rank: int, last: int, workload: CalibrationWorkload) -> str:
    target = f"target {rank} of {workload.tp}, {workload.target.name}" if rank < workload.tp else ""
    draft = f"draft, {workload.draft.name}" if rank == last else ""
    return " and ".join(part for part in (target, draft) if part)


def _link(machine: HardwareProfile, pair: tuple[int, int]) -> str:
    """The link as the machine's description has it: how many NVLinks, and what they carry."""
    matrix = machine.device.nvlinks
    if machine.link is None:
        return "not described"
    _, link = machine.link_between(pair)
    rate = f"{link.bandwidth / 1e9:.3g} GB/s"
    if matrix is None:
        return rate
    count = matrix[pair[0]][pair[1]]
    return f"{count} NVLink{'s' if count > 1 else ''}, {rate}" if count else f"no NVLink, through the host, {rate}"
