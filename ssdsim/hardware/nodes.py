"""Fitted times tabulated on a lattice of shapes, made monotone there and interpolated between the nodes.

A fit of logarithms may fall, or rise too steeply, between its timings and beyond them. The lattice corrects it once,
along every axis: more work takes no less time, and twice the work at most twice as long. Interpolation is linear in the
logarithms, which keeps both properties. Beyond the largest timed node seconds continue along the line through the last
nodes.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate
from operator import mul

import numpy as np
from numpy.typing import NDArray

from ssdsim.base.checks import Array, FloatOrArray
from ssdsim.base.record import Record

_SLOPE_NODES = 2  # back from the last timed node: a slope over one step is a timing's noise


class Lattice(Record, eq=False):
    """Logarithms of seconds at the nodes of some axes; clamped to the outermost nodes."""

    nodes: tuple[Array, ...]
    log_seconds: Array

    @cached_property
    def _flat(self) -> tuple[list[tuple[list[float], int]], Array]:
        """Axes (logarithms of the nodes, and how far apart two are in the flat values), and the flat values."""
        strides = [*accumulate(reversed(self.log_seconds.shape[1:]), mul, initial=1)][::-1]
        axes = [(np.log(nodes).tolist(), stride) for nodes, stride in zip(self.nodes, strides, strict=True)]
        return axes, np.ascontiguousarray(self.log_seconds).ravel()

    def at(self, *values: FloatOrArray) -> FloatOrArray:
        """Logarithms of seconds at values of the axes, which broadcast together."""
        if all(isinstance(value, int | float) for value in values):
            return self._at_one(*values)
        axes, flat_values = self._flat
        corners: list[tuple[NDArray[np.intp], Array]] = [(np.zeros((), np.intp), np.ones(()))]
        for (logs, stride), value in zip(axes, values, strict=True):
            place = np.interp(np.log(value), logs, np.arange(len(logs)))
            before = place.astype(np.intp)
            after = np.minimum(before + 1, len(logs) - 1)
            corners = [
                (flat + stride * node, weight * part)
                for flat, weight in corners
                for node, part in ((before, 1.0 - (place - before)), (after, place - before))
            ]
        return np.asarray(sum(weight * flat_values[flat] for flat, weight in corners))

    def _at_one(self, *values: float) -> float:
        """One logarithm without arrays, which take ten times as long for one number; most values are nodes."""
        axes, flat_values = self._flat
        corners = [(0, 1.0)]
        for (logs, stride), value in zip(axes, values, strict=True):
            log = min(max(math.log(value), logs[0]), logs[-1])
            after = bisect_left(logs, log)
            share = (logs[after] - log) / (logs[after] - logs[after - 1]) if logs[after] > log else 0.0
            parts = ((after, 1.0 - share), (after - 1, share)) if share else ((after, 1.0),)
            corners = [(flat + stride * node, weight * part) for flat, weight in corners for node, part in parts]
        return sum(weight * float(flat_values[flat]) for flat, weight in corners)


def doublings(start: float, end: float) -> Array:
    """Nodes from ``start``, each twice the one before, the last at least ``end``."""
    return np.asarray(start * 2.0 ** np.arange(np.ceil(np.log2(end / start)) + 1))


def midway(log_seconds: Array) -> Array:
    """Logarithms that never fall along any axis: halfway between the largest so far and the smallest still to come."""
    largest, smallest = log_seconds, log_seconds
    for axis in range(log_seconds.ndim):
        largest = np.maximum.accumulate(largest, axis)
        smallest = np.flip(np.minimum.accumulate(np.flip(smallest, axis), axis), axis)
    return np.asarray((largest + smallest) / 2)


def padded(log_seconds: Array) -> Array:
    """Logarithms that never fall along the last axis: a kernel may be given more than was asked for."""
    return np.asarray(np.minimum.accumulate(log_seconds[..., ::-1], axis=-1)[..., ::-1])


def in_proportion(log_seconds: Array, nodes: Array, axis: int, steps: Sequence[int] = ()) -> Array:
    """Logarithms that grow at most as work does along ``axis``; but not from a node to one of ``steps``."""
    logs = np.moveaxis(np.array(log_seconds), axis, -1)
    growth = np.diff(np.log(nodes))
    for node in range(1, len(nodes)):
        if node not in steps:
            logs[..., node] = np.minimum(logs[..., node], logs[..., node - 1] + growth[node - 1])
    return np.moveaxis(logs, -1, axis)


def continued(seconds: Array, nodes: Array, axis: int, inside: NDArray[np.bool_] | None = None) -> Array:
    """Seconds of the first of ``nodes`` along ``axis``, and from there on along the line through the last ones.

    So they go on, too, beyond the first ones that are ``inside`` what was timed.
    """
    given = np.moveaxis(seconds, axis, -1)
    of_timings = np.moveaxis(np.broadcast_to(True if inside is None else inside, seconds.shape), axis, -1)
    last = np.maximum(of_timings.sum(axis=-1, keepdims=True), 1) - 1
    before = np.maximum(last - _SLOPE_NODES, 0)
    last_s, before_s = (np.take_along_axis(given, at, axis=-1) for at in (last, before))
    rise = (last_s - before_s) / np.where(last > before, nodes[last] - nodes[before], np.inf)
    slope = np.clip(rise, 0.0, last_s / nodes[last])
    filled = last_s + slope * (nodes - nodes[last])
    own = filled[..., : given.shape[-1]]
    np.copyto(own, given, where=np.arange(given.shape[-1]) <= last)
    return np.moveaxis(filled, -1, axis)
