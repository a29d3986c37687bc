"""Fit Hockney's law, ``latency + bytes / bandwidth``, whole or in the few ranges where a protocol holds."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
from scipy.optimize import least_squares

from calibration.timings.bootstrap import directions, significant
from ssdsim.base.checks import Array
from ssdsim.hardware.collectives import Regime
from ssdsim.hardware.laws import Directions

_MOST_REGIMES = 4
_MOST_CUTS = 40
_ROWS_PER_REGIME = 3
_FREE_BANDWIDTH = 1e15  # of a range in which time does not grow
_TIMING_NOISE = 0.01  # regimes are not split to explain less than this relative error
_OUTLIER = 0.25
_SINGULAR = 1e-12  # of equal sizes, whose fixed and streamed time nothing tells apart


def fit_line(sizes: Array, seconds: Array) -> tuple[float, float]:
    """``(latency_s, bandwidth)`` of least relative error, robust to outliers; both shapes are ``(rows,)``."""
    latency, slope = _robust_line(sizes, seconds)
    return significant(latency), significant(1 / slope)


def line_uncertainty(sizes: Array, seconds: Array) -> Directions:
    """Wander of :func:`fit_line`'s latency and seconds a byte when the timings are drawn anew."""
    return _wandering(_robust_line, sizes, seconds)


def _wandering(fit: Callable[[Array, Array], tuple[float, float]], sizes: Array, seconds: Array) -> Directions:
    sensitivity = np.column_stack([1 / seconds, sizes / seconds])
    return directions(lambda drawn: np.array(fit(sizes[drawn], seconds[drawn])), sensitivity, fewest=2)


def _robust_line(sizes: Array, seconds: Array) -> tuple[float, float]:
    """The latency and the seconds a byte."""
    latency, slope = _relative_line(sizes, seconds)
    start = np.log([max(latency, seconds.min() / 10), max(slope, 1 / _FREE_BANDWIDTH)])

    def residuals(logs: Array) -> Array:
        return np.asarray(np.log((np.exp(logs[0]) + np.exp(logs[1]) * sizes) / seconds))

    latency, slope = np.exp(least_squares(residuals, start, loss="soft_l1", f_scale=0.05).x)
    return float(latency), float(slope)


def fit_regimes(sizes: Array, seconds: Array) -> tuple[Regime, ...]:
    """The regimes, at most four, that explain the timings best for their number (Schwarz's criterion)."""
    order = np.argsort(sizes, kind="stable")
    sizes, seconds = sizes[order], seconds[order]
    cuts = _cuts(sizes)
    best = _best_partitions(sizes, seconds, cuts)
    rows = len(sizes)

    def criterion(count: int) -> float:
        return float(rows * np.log(best[count][0] / rows + _TIMING_NOISE**2) + 3 * count * np.log(rows))

    edges = best[min(best, key=criterion)][1]
    return tuple(_regime(sizes[a:b], seconds[a:b]) for a, b in pairwise(edges))


def regimes_with_uncertainty(sizes: Array, seconds: Array) -> tuple[Regime, ...]:
    """:func:`fit_regimes`, with how the coefficients of each wander when its timings are drawn anew."""

    def wandering(regime: Regime) -> Directions:
        inside = (sizes >= regime.from_bytes) & (sizes <= regime.to_bytes)
        order = np.argsort(sizes[inside], kind="stable")
        return _wandering(_relative_line, sizes[inside][order], seconds[inside][order])

    regimes = fit_regimes(sizes, seconds)
    return tuple(regime.model_copy(update={"uncertainty": wandering(regime)}) for regime in regimes)


def _relative_line(sizes: Array, seconds: Array) -> tuple[float, float]:
    """Latency and seconds per byte, neither negative, of least squared relative error.

    Of two coefficients: the unconstrained minimum, or the better one with one of them zero.
    """
    scale = sizes.max()
    fixed, streamed = 1 / seconds, sizes / scale / seconds
    ff, fs, ss, f, s = fixed @ fixed, fixed @ streamed, streamed @ streamed, fixed.sum(), streamed.sum()
    determinant = ff * ss - fs * fs
    if determinant > _SINGULAR * ff * ss:
        latency, slope = (ss * f - fs * s) / determinant, (ff * s - fs * f) / determinant
        if latency >= 0 and slope >= 0:
            return float(latency), float(slope / scale)
    return (float(f / ff), 0.0) if f * f / ff >= s * s / ss else (0.0, float(s / ss / scale))


def _cuts(sizes: Array) -> list[int]:
    """Row numbers at which a regime may begin or end: between different sizes, about ``_MOST_CUTS``."""
    inner = np.flatnonzero(np.diff(sizes) > 0) + 1
    thinned = inner[np.unique(np.linspace(0, len(inner) - 1, min(len(inner), _MOST_CUTS)).astype(int))]
    return [0, *map(int, thinned), len(sizes)]


def _best_partitions(sizes: Array, seconds: Array, cuts: list[int]) -> dict[int, tuple[float, list[int]]]:
    """The least loss and the edges that reach it, for each number of regimes (dynamic programming)."""
    loss = {
        (a, b): _loss(sizes[a:b], seconds[a:b])
        for i, a in enumerate(cuts)
        for b in cuts[i + 1 :]
        if b - a >= _ROWS_PER_REGIME or (a, b) == (0, len(sizes))
    }
    reached = {b: (value, [0, b]) for (a, b), value in loss.items() if a == 0}
    best = {1: reached[len(sizes)]}
    for count in range(2, _MOST_REGIMES + 1):
        longer: dict[int, tuple[float, list[int]]] = {}
        for (a, b), value in loss.items():
            if a in reached and (b not in longer or reached[a][0] + value < longer[b][0]):
                longer[b] = (reached[a][0] + value, [*reached[a][1], b])
        reached = longer
        if len(sizes) not in reached:
            break
        best[count] = reached[len(sizes)]
    return best


def _loss(sizes: Array, seconds: Array) -> float:
    latency, slope = _relative_line(sizes, seconds)
    error = np.abs((latency + slope * sizes) / seconds - 1)
    return float(np.sum(np.minimum(error, _OUTLIER) ** 2))


def _regime(sizes: Array, seconds: Array) -> Regime:
    latency, slope = _relative_line(sizes, seconds)
    return Regime(
        latency_s=significant(latency),
        bandwidth=significant(1 / max(slope, 1 / _FREE_BANDWIDTH)),
        from_bytes=float(sizes[0]),
        to_bytes=float(sizes[-1]),
    )
