"""Visits: how often each point of a plan is timed."""

from __future__ import annotations

from calibration.timings.points import Point

VISITS = {"cpu": 16, "cuda": 3}  # short timings of every point: a shared machine's moods last from 0.1 s to minutes
FEWER = {"interference": 6, "layer": 6}  # visits of what takes long


def wanted(point: Point, device: str) -> int:
    """Number of times that a point is timed on a device such as ``cpu:0``."""
    visits = VISITS[device.split(":")[0]]
    return min(visits, FEWER.get(point.benchmark, visits))
