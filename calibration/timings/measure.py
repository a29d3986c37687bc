"""Time the points of a plan that a log does not have yet."""

from __future__ import annotations

import json
import platform
import random
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

import torch
from msgspec.structs import asdict

from calibration.machine.inventory import device_names, driver_version
from calibration.machine.ranks import Ranks
from calibration.timings.plan import CalibrationWorkload, TimingPoint, plan, wanted
from calibration.timings.rows import CalibrationLog, Visit, fewest_of, law_of, missing_timings
from ssdsim.base.progress import Progress

FIRST_OF_EACH = 12  # points of each benchmark that come before the others
_PREPARE_S, _ANSWER_S = 600.0, 60.0  # to make the models; to time a point
_GRACE_S = 60.0  # at least, beyond the minutes, for timings that a profile needs
_HANDLER = "calibration.timings.benchmarks:make_handler"


def machine_of(devices: Sequence[str], workload: CalibrationWorkload) -> dict[str, Any]:
    """Describe what a measurement depends on: it marks the log, and the profile's provenance."""
    device = devices[0]
    # whose rounds are planned is no part of it: more of them go on with what was timed
    options = {name: value for name, value in workload_options(workload).items() if name != "strategies"}
    return {
        "device": device_names(devices)[device],
        "devices": list(devices),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "driver": driver_version() if device.startswith("cuda") else None,
        "system": platform.system(),
        "workload": json.loads(json.dumps(options)),
    }


def workload_options(workload: CalibrationWorkload) -> dict[str, Any]:
    """The workload as plain values, for the ranks and for the log."""
    sizes = {name: value for name, value in asdict(workload).items() if name not in ("target", "draft")}
    return sizes | {"target": workload.target.as_dict(), "draft": workload.draft.as_dict()}


def measure(
    workload: CalibrationWorkload,
    devices: Sequence[str],
    log: CalibrationLog,
    *,
    minutes: float,
    seed: int,
    progress: Progress,
) -> list[TimingPoint]:
    """Time every point of the plan as often as :func:`wanted`, in random order; returns the plan.

    All points are visited once before any is visited again, first those that a profile needs, and what the log holds is
    not timed again. After ``minutes`` it goes on only while a profile lacks timings, as on a busy machine, and for no
    longer than that again, or :data:`_GRACE_S`.
    """
    points = plan(workload, len(devices))
    often = {point: wanted(point, devices[0]) for point in points}
    visits = [
        point
        for visit in range(max(often.values()))
        for point in _ordered(points, [log.count(one) <= visit < often[one] for one in points], seed + visit)
    ]
    total = sum(often.values())
    with Ranks(devices, _HANDLER, workload_options(workload)) as ranks:
        ranks.ask({"benchmark": "prepare"}, _PREPARE_S)  # no rank waits for another one here
        deadline = time.monotonic() + 60.0 * minutes  # of timing: on a busy machine ranks take minutes to begin
        latest = deadline + max(60.0 * minutes, _GRACE_S)
        for done, point in enumerate(visits):
            progress(total - len(visits) + done, total)
            now = time.monotonic()
            if now > latest or (now > deadline and not missing_timings(points, log.count)):
                break
            start_s = time.time()
            result = next(answer for answer in ranks.ask(point.request(), _ANSWER_S) if answer is not None)
            if law_of(point) is None or result["seconds"] > 0.0:  # noise may leave nothing of a difference of times
                log.add(point, Visit((start_s + time.time()) / 2.0, result))
        progress(sum(map(log.count, points)), total)
    return points


def _ordered(points: Sequence[TimingPoint], due: Sequence[bool], seed: int) -> list[TimingPoint]:
    """The ``due`` points in random order, so that drift hits all shapes alike, but a few of every benchmark first.

    The very first are those that a profile needs, less what was timed before: a run cut short can then price a pass.
    """
    before = [point for point, is_due in zip(points, due, strict=True) if not is_due]
    shuffled = [point for point, is_due in zip(points, due, strict=True) if is_due]
    random.Random(seed).shuffle(shuffled)
    place: Counter[str] = Counter()
    tiers: tuple[list[TimingPoint], ...] = ([], [], [])
    for point in [*before, *shuffled]:
        law = law_of(point)
        kind = law or point.benchmark
        place[kind] += 1
        needed = law is not None and place[kind] <= fewest_of(law)
        tiers[0 if needed else 1 if place[kind] <= FIRST_OF_EACH else 2].append(point)
    due_points = set(shuffled)
    return [point for tier in tiers for point in tier if point in due_points]
