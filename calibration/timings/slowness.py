"""Slowness of the machine at each visit, told by the visits around it.

On a shared machine a neighbour slows whatever is timed, for a tenth of a second or for minutes. Every point is visited
many times at random moments, so a visit that took longer than the others of its point tells of its moment.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ssdsim.base.checks import Array

_NEAR_S = 0.15  # moods of a machine are shared by visits about this near (seen: half of the variance)
_DOUBT = 0.5  # visits' worth of belief that the machine is as always
_LARGEST = 0.3  # a wilder visit (log ratio) tells only this much of its neighbours
_SWEEPS = 8  # the drift and the points' times determine each other


def slowness(points: NDArray[np.int64], at_s: Array, seconds: Array) -> Array:
    """Times slower than usual at each visit, its own time left out; shape ``(visits,)``, median 1.

    ``points`` numbers the point of each visit from 0; ``at_s`` is when it was.
    """
    order = np.argsort(at_s, kind="stable")
    nearness = np.exp(-np.diff(at_s[order]) / _NEAR_S)  # of each visit to the next
    belief = _around(np.ones(len(order)), nearness) + _DOUBT
    points, log_seconds = points[order], np.log(seconds[order])
    of_point = [np.flatnonzero(points == point) for point in range(int(points.max()) + 1)]
    drift = np.zeros(len(order))
    for _ in range(_SWEEPS):
        usual = np.array([np.median((log_seconds - drift)[visits]) for visits in of_point])
        drift = _around(np.clip(log_seconds - usual[points], -_LARGEST, _LARGEST), nearness) / belief
    slowness = np.empty(len(order))
    slowness[order] = np.exp(drift - np.median(drift))
    return slowness


def _around(values: Array, nearness: Array) -> Array:
    """The sum of the other values, each multiplied by its nearness in time."""
    return _before(values, nearness) + _before(values[::-1], nearness[::-1])[::-1]


def _before(values: Array, nearness: Array) -> Array:
    sums = [0.0]
    for value, near in zip(values, nearness, strict=False):  # there is one gap fewer than values
        sums.append((sums[-1] + value) * near)
    return np.array(sums)
