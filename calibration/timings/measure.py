"""Time the points of a plan that a log does not have yet."""

from __future__ import annotations

import json
import platform
import random
import time
from collections.abc import Sequence
from typing import Any

import torch
from msgspec.structs import asdict

from calibration.machine.inventory import device_names, driver_version
from calibration.machine.ranks import Ranks
from calibration.timings.plan import CalibrationWorkload, TimingPoint, plan, wanted
from calibration.timings.rows import CalibrationLog, Visit
from ssdsim.base.progress import Progress

FIRST_OF_EACH = 12  # points of each benchmark that come before the others
_PREPARE_S, _ANSWER_S = 600.0, 60.0  # to make the models; to time a point
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
    return sizes | {"target": workload.target.model_dump(), "draft": workload.draft.model_dump()}


def measure(
    workload: CalibrationWorkload,
    devices: Sequence[str],
    log: CalibrationLog,
    *,
    minutes: float,
    seed: int,
    progress: Progress,
) -> list[TimingPoint]:
    """Time every point of the plan as often as :func:`wanted`, in random order, while there is time; returns the plan.

    All points are visited once before any is visited again, so that a run cut short has a profile, and what the log
    holds is not timed again.
    """
    points = plan(workload, len(devices))
    deadline = time.monotonic() + 60.0 * minutes
    often = {point: wanted(point, devices[0]) for point in points}
    visits = [
        point
        for visit in range(max(often.values()))
        for point in _ordered([one for one in points if log.count(one) <= visit < often[one]], seed + visit)
    ]
    total = sum(often.values())
    with Ranks(devices, _HANDLER, workload_options(workload)) as ranks:
        ranks.ask({"benchmark": "prepare"}, _PREPARE_S)  # no rank waits for another one here
        for done, point in enumerate(visits):
            progress(total - len(visits) + done, total)
            if time.monotonic() > deadline:
                break
            start_s = time.time()
            result = next(answer for answer in ranks.ask(point.request(), _ANSWER_S) if answer is not None)
            log.add(point, Visit((start_s + time.time()) / 2.0, result))
        progress(sum(map(log.count, points)), total)
    return points


def _ordered(points: Sequence[TimingPoint], seed: int) -> list[TimingPoint]:
    """The points in random order, so that drift hits all shapes alike, but a few of every benchmark first.

    A run that is cut short then still leaves a profile that can price a pass.
    """
    shuffled = list(points)
    random.Random(seed).shuffle(shuffled)
    place: dict[str, int] = {}
    ranks = []
    for point in shuffled:
        kind = f"{point.benchmark} {dict(point.parameters).get('masked')}"
        place[kind] = place.get(kind, 0) + 1
        ranks.append(place[kind] > FIRST_OF_EACH)
    return [point for later in (False, True) for point, late in zip(shuffled, ranks, strict=True) if late is later]
