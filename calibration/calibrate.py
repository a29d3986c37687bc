"""Calibrate a machine: plan the points, time those that are not yet timed, fit a profile to what there is."""

from __future__ import annotations

import json
import math
import os
import platform
import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date
from pathlib import Path
from statistics import fmean, median
from typing import Any

import torch
from scipy.stats import trim_mean

from calibration.points import Point, Workload, plan
from calibration.timing import summarise
from calibration.topology import driver_version
from ssdsim.errors import InputError
from ssdsim.executor.ranks import Ranks

VISITS = {"cpu": 10, "cuda": 3}  # short timings of every point: a shared machine's moods last from 0.1 s to minutes
FIRST_OF_EACH = 12  # points of each benchmark that come before the others
ANCHOR_EVERY = 24  # visits between two timings of the anchors
_AROUND = 3  # timings of an anchor on either side of a point that tell the drift around it
_ANSWER_S = 30.0
_HANDLER = "calibration.benchmarks:make_handler"


@dataclass(frozen=True)
class Visit:
    """A timing of a point. ``drift`` is how slow the machine was: an anchor's time around it over its median."""

    result: Mapping[str, Any]
    drift: float


@dataclass(frozen=True)
class Row:
    """A timed point with all its visits."""

    point: Point
    visits: Sequence[Visit]

    @property
    def seconds(self) -> float:
        """Seconds, as on the machine at its median speed: the mean over the visits without the extreme fifths.

        Of fewer than five visits, from which that takes none, the median.
        """
        times = self._times_s
        return float(trim_mean(times, 0.2)) if len(times) >= 5 else median(times)

    @property
    def spread(self) -> float:
        """Robust standard deviation of a visit's time over the median; 0 for a single visit."""
        return summarise(self._times_s).spread

    @property
    def _times_s(self) -> list[float]:
        """Seconds of each visit, less the drift around it."""
        return [float(visit.result["seconds"]) / visit.drift for visit in self.visits]

    @property
    def outliers(self) -> int:
        """Visits that took half as long again as the median."""
        return summarise([float(visit.result["seconds"]) for visit in self.visits]).outliers

    def mean_of(self, name: str) -> float:
        """The mean over the visits of another figure, as it was measured."""
        return fmean(float(visit.result[name]) for visit in self.visits)

    def median_of(self, name: str) -> float:
        """The median over the visits of another figure, as it was measured."""
        return median(float(visit.result[name]) for visit in self.visits)


@dataclass
class Log:
    """Measurements in a JSON-lines file, a line each, appended as they come; what a kill tore is ignored."""

    path: Path
    machine: Mapping[str, Any]
    timed: dict[str, list[Mapping[str, Any]]] = field(default_factory=dict)
    anchors: list[Mapping[str, float]] = field(default_factory=list)

    def open(self) -> Log:
        """Read what an earlier run left; it must be of the same machine and workload.

        Raises
        ------
        InputError : the file belongs to another machine or workload.
        """
        if not self.path.exists() or not self.path.stat().st_size:  # a kill can leave an empty one
            self._append({"machine": self.machine})
            return self
        lines = [_parsed(line) for line in self.path.read_text().splitlines()]
        records = [record for record in lines if record is not None]
        if not records or records[0].get("machine") != dict(self.machine):
            raise InputError(f"{self.path}: measured on another machine or for another workload; remove it or use -o")
        if None in lines:  # drop a torn line for good, so that the next append starts on a fresh one
            self._rewrite(records)
        for record in records[1:]:
            if "anchor" in record:
                self.anchors.append(record["anchor"])
            else:
                self.timed.setdefault(record["key"], []).append(record)
        return self

    def visits(self, point: Point) -> int:
        """How often a point was timed."""
        return len(self.timed.get(point.key, ()))

    def add(self, point: Point, result: Mapping[str, Any]) -> None:
        visit = self.visits(point) + 1
        record = {"key": point.key, "visit": visit, "anchors": len(self.anchors), "result": dict(result)}
        self._append(record)
        self.timed.setdefault(point.key, []).append(record)

    def add_anchors(self, seconds: Mapping[str, float]) -> None:
        """Seconds of each anchor, by its number of tokens."""
        self._append({"anchor": seconds})
        self.anchors.append(seconds)

    def _append(self, record: Mapping[str, Any]) -> None:
        with self.path.open("a") as file:
            file.write(json.dumps(record) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def _rewrite(self, records: Iterable[Mapping[str, Any]]) -> None:
        partial = self.path.with_suffix(".partial")
        partial.write_text("".join(json.dumps(record) + "\n" for record in records))
        partial.replace(self.path)

    def rows(self, points: Sequence[Point]) -> list[Row]:
        """The timed points, every visit with the drift around it."""
        return [
            Row(point, [Visit(one["result"], self._drift(point.tokens, one["anchors"])) for one in records])
            for point in points
            if (records := self.timed.get(point.key))
        ]

    def _drift(self, tokens: int | None, place: int) -> float:
        """How slow the machine was around anchor number ``place`` for an operation on ``tokens`` (None: not known).

        What slows arithmetic need not slow streaming, so the anchor nearest in tokens counts; the median of a few
        anchors, so that a hiccup of one is not taken for a drift.
        """
        if tokens is None or not self.anchors:
            return 1.0
        name = min(self.anchors[0], key=lambda one: abs(math.log(int(one) / tokens)))
        times = [anchor[name] for anchor in self.anchors]
        return median(times[max(0, place - 1 - _AROUND) : place + _AROUND]) / median(times)

    @property
    def instability(self) -> float:
        """Spread of the worst anchor's times: their range from the 10th to the 90th percentile over the median."""
        if len(self.anchors) < 3:
            return 0.0
        return max(_range([anchor[name] for anchor in self.anchors]) for name in self.anchors[0])


def _range(times: Sequence[float]) -> float:
    ordered, last = sorted(times), len(times) - 1
    return (ordered[round(0.9 * last)] - ordered[round(0.1 * last)]) / ordered[last // 2]


def _parsed(line: str) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
    except json.JSONDecodeError:
        return None
    return record if isinstance(record, dict) else None


def machine_of(devices: Sequence[str], workload: Workload) -> dict[str, Any]:
    """What a measurement depends on: it marks the log, and the profile's provenance."""
    device = devices[0]
    name = torch.cuda.get_device_name(device) if device.startswith("cuda") else _cpu_name()
    return {
        "device": name,
        "devices": list(devices),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "driver": driver_version() if device.startswith("cuda") else None,
        "system": platform.system(),
        "workload": json.loads(json.dumps(workload_options(workload))),
    }


def _cpu_name() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def workload_options(workload: Workload) -> dict[str, Any]:
    """The workload as plain values, for the ranks and for the log."""
    sizes = {name: value for name, value in asdict(workload).items() if name not in ("target", "draft")}
    return sizes | {"target": workload.target.model_dump(), "draft": workload.draft.model_dump()}


def measure(
    workload: Workload,
    devices: Sequence[str],
    log: Log,
    *,
    minutes: float,
    seed: int,
    progress: Callable[[int, int], None],
) -> list[Point]:
    """Time every point of the plan :data:`VISITS` times in random order, while there is time; returns the plan.

    All points are visited once before any is visited again, so that a run cut short has a profile, and what the log
    holds is not timed again. Anchors are timed every few visits: machines drift, and a drift must not pass for a
    shape's cost.
    """
    points = plan(workload, len(devices))
    deadline = time.monotonic() + 60.0 * minutes
    anchors = _anchors(points, workload)
    wanted = VISITS[devices[0].split(":")[0]]
    visits = [
        point
        for visit in range(wanted)
        for point in _ordered([one for one in points if log.visits(one) <= visit], seed + visit)
    ]
    total = wanted * len(points)
    with Ranks(devices, _HANDLER, workload_options(workload)) as ranks:
        for done, point in enumerate(visits):
            progress(total - len(visits) + done, total)
            if time.monotonic() > deadline:
                break
            if done % ANCHOR_EVERY == 0:
                found = {name: _first(ranks.ask(anchor.request(), _ANSWER_S)) for name, anchor in anchors.items()}
                log.add_anchors({name: result["seconds"] for name, result in found.items()})
            log.add(point, _first(ranks.ask(point.request(), _ANSWER_S)))
        progress(sum(map(log.visits, points)), total)
    return points


def _ordered(points: Sequence[Point], seed: int) -> list[Point]:
    """In random order, so that drift hits all shapes alike, but a few of every benchmark first.

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


def _anchors(points: Sequence[Point], workload: Workload) -> dict[str, Point]:
    """By tokens, a GEMM of a single token, which streams its weights, and one of a verification, which computes."""
    gemms = [dict(point.parameters) for point in points if point.benchmark == "gemm"]
    sizes = sorted({(shape["n"] * shape["k"], shape["n"], shape["k"]) for shape in gemms})
    _, n, k = sizes[len(sizes) // 2]
    tokens = (1, workload.batch * (workload.lookahead + 1))
    return {str(m): Point.of("gemm", m=m, n=n, k=k, dtype=workload.dtype) for m in tokens}


def _first(answers: Sequence[Any]) -> dict[str, Any]:
    return next(answer for answer in answers if answer is not None)


def today() -> str:
    return date.today().isoformat()
