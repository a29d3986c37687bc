"""Checks of a calibration: passes that it never fitted, links of every rank, and doubts about the machine."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from statistics import median

from calibration.machine.inventory import NO_DIRECT_LINK
from calibration.timings.plan import CalibrationWorkload
from calibration.timings.rows import TimedPoint, instability
from ssdsim.base.errors import InputError
from ssdsim.base.record import Record, replace
from ssdsim.hardware.profile import HardwareProfile
from ssdsim.hardware.runtime_card import Runtime
from ssdsim.pricing.passes import cost_of_pass

_SLOW = 1.5  # times the first rank's time
_WANDERED = 0.1
_TAKEN = 0.1


class PassCheck(Record):
    """A whole pass in seconds: measured, and as the profile adds it up."""

    role: str
    name: str
    measured_s: float
    predicted_s: float

    @property
    def error(self) -> float:
        return self.predicted_s / self.measured_s - 1.0


def check_passes(
    profile: HardwareProfile, runtime: Runtime, workload: CalibrationWorkload, rows: Sequence[TimedPoint]
) -> list[PassCheck]:
    """Whole passes, single layers and a round trip, where the profile can price them (a partial one may lack some)."""
    passes = {("target", n): f for n, f in workload.target_passes()}
    passes |= {("draft", n): f for n, f in workload.draft_passes()}
    pass_checks = []
    for row in rows:
        parameters = dict(row.point.parameters)
        with suppress(InputError):
            if row.point.benchmark == "round trip":
                sizes = (parameters["outcome_bytes"], parameters["response_bytes"])
                predicted = sum(profile.message_seconds(size).seconds for size in sizes)
                pass_checks.append(PassCheck("link", row.point.benchmark, row.seconds, predicted))
            elif row.point.benchmark in ("pass", "layer"):
                role, name = parameters["role"], parameters["name"]
                forward, label, times = passes[role, name], name, 1
                if row.point.benchmark == "layer":  # timed with all of the model's, which share the host's time a pass
                    forward, label, times = replace(forward, before=(), after=()), f"{name}, a layer", forward.layers
                predicted = cost_of_pass(forward, profile, runtime, role).seconds / times
                pass_checks.append(PassCheck(role, label, row.seconds, predicted))
    return pass_checks


def check_rank_links(profile: HardwareProfile, rows: Sequence[TimedPoint]) -> list[PassCheck]:
    """Messages of the other ranks, measured and as the profile prices them; empty without a link."""
    if profile.link is None:
        return []
    return [
        PassCheck("link", f"rank {rank}, {size:,} B", seconds, profile.message_seconds(size).seconds)
        for rank, of_rank in _by_rank(rows).items()
        for size, seconds in of_rank.items()
    ]


def slow_ranks(rows: Sequence[TimedPoint]) -> dict[int, tuple[int, float]]:
    """Ranks whose messages take notably longer than the first rank's: the worst size, and how many times as long."""
    given = [(dict(row.point.parameters), row.seconds) for row in rows if row.point.benchmark == "link"]
    first = {point["message_bytes"]: seconds for point, seconds in given}
    worst = {}
    for rank, of_rank in _by_rank(rows).items():
        slower = [(seconds / first[size], size) for size, seconds in of_rank.items() if size in first]
        if slower and max(slower)[0] > _SLOW:
            factor, size = max(slower)
            worst[rank] = (size, factor)
    return worst


def _by_rank(rows: Sequence[TimedPoint]) -> dict[int, dict[int, float]]:
    """Seconds by rank and message size."""
    seconds_by_rank: dict[int, dict[int, float]] = defaultdict(dict)
    for row in rows:
        if row.point.benchmark == "rank link":
            given = dict(row.point.parameters)
            seconds_by_rank[given["rank"]][given["message_bytes"]] = row.seconds
    return {rank: dict(sorted(seconds_by_rank[rank].items())) for rank in sorted(seconds_by_rank)}


def doubts(topology: str, rows: Sequence[TimedPoint], devices: Sequence[str]) -> Iterator[str]:
    """Warnings about a calibration: a machine that wandered or was shared, missing links, slow ranks."""
    if (wandered := instability(rows)) > _WANDERED:
        yield f"this machine's speed wandered by {wandered:.0%} meanwhile"
    shares = [row.mean_of("off_core") for row in rows if row.point.benchmark in ("gemm", "attention")]
    if (share := (median(shares) if shares else 0.0)) > _TAKEN:
        yield f"other programs took {share:.0%} of the cores meanwhile; timings leave that out, real rounds will not"
    if topology.startswith(NO_DIRECT_LINK):
        yield f"{topology}; messages may cross the host"
    for rank, (size, factor) in slow_ranks(rows).items():
        who = f"target rank {rank} ({devices[rank]})"
        yield f"messages of {size:,} B to the draft take {who} {factor:.1f}x rank 0's time"


def summary(checks: Sequence[PassCheck], rows: Sequence[TimedPoint]) -> Mapping[str, float]:
    """The worst error of a pass, and how much the machine's speed wandered."""
    worst = max((abs(check.error) for check in checks), default=float("nan"))
    return {"worst_pass_error": worst, "instability": instability(rows)}
