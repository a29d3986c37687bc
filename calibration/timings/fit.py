"""Fit timing models: hold-out and bootstrap errors, and laws of one size (Hockney's ``latency + bytes / bandwidth``).

Thirty percent of the rows, drawn at random from a seed, are held out and only judge the model. The coefficients that a
profile keeps are then fitted to all rows, with the terms chosen without those held out. Losses are of logarithms, so
that the relative error counts, and bounded, so that outliers do not. The bootstrap (Efron, 1979) repeats a fit on rows
drawn anew, and keeps the covariance of the coefficients as a few independent directions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from itertools import pairwise
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import least_squares, nnls

from ssdsim.base.checks import Array
from ssdsim.base.errors import InputError
from ssdsim.hardware.collectives import CollectiveModel, Regime
from ssdsim.hardware.elementwise import ConvolutionModel, ElementwiseModel
from ssdsim.hardware.gemm import GemmModel
from ssdsim.hardware.laws import Directions, Domain, FitReport, LatencyBandwidthModel, ModelOfVariables
from ssdsim.hardware.links import LinkModel

Model = TypeVar("Model", bound=GemmModel | ModelOfVariables | CollectiveModel | LatencyBandwidthModel)

RESAMPLINGS = 50
_MOST_SHAPES = 500
_LEAST = 0.001  # directions that move what is predicted for the timed shapes by less (root mean square) are left out
_MOST_REGIMES = 4
_MOST_CUTS = 40
_ROWS_PER_REGIME = 3
_FREE_BANDWIDTH = 1e15  # of a range in which time does not grow
_TIMING_NOISE = 0.01  # regimes are not split to explain less than this relative error
_OUTLIER = 0.25
_SINGULAR = 1e-12  # of equal sizes, whose fixed and streamed time nothing tells apart
SizeModel = TypeVar("SizeModel", LinkModel, ElementwiseModel, ConvolutionModel)

HELD_OUT = 0.3
FEWEST_ROWS = 8
FEWEST_SIZES = 6
"""The fewest sizes of collectives: two regimes."""

_SECONDS, _SIZES = (1e-9, 100.0), (1.0, 1e15)
_SPLITS = 10
_LATENCY_ALONE = 0.02
"""Of a message's time its bytes at the best rate, up to which it takes hardly more than the smallest. With a tenth NCCL
has changed its protocol by then: up to four times as long on bundled GPUs, with this up to twice, mostly under 1.1."""


def directions(refit: Callable[[NDArray[np.intp]], Array], sensitivity: Array, fewest: int = 1) -> Directions:
    """Independent directions, each one standard deviation long, in which coefficients wander when rows are drawn anew.

    ``refit`` takes the numbers of the rows drawn, shape ``(rows,)``, and returns coefficients, shape ``(p,)``;
    ``sensitivity``, shape ``(rows, p)``, is how much each coefficient moves the logarithm of each row's time. A draw
    holds ``fewest`` different rows: fewer would not determine a line.
    """
    rows = len(sensitivity)
    rng = np.random.default_rng(0)
    drawn = np.array([refit(_drawn(rng, rows, fewest)) for _ in range(RESAMPLINGS)])
    deviations = (drawn - drawn.mean(axis=0)) / np.sqrt(RESAMPLINGS - 1)
    mixtures, sizes, _ = np.linalg.svd(deviations @ sensitivity.T, full_matrices=False)
    significant_ones = (mixtures.T @ deviations)[sizes / np.sqrt(rows) >= _LEAST]
    return tuple(tuple(significant(float(value)) for value in direction) for direction in significant_ones)


def _drawn(rng: np.random.Generator, rows: int, fewest: int) -> NDArray[np.intp]:
    """Rows drawn with replacement, but ``fewest`` different ones at least."""
    while True:
        drawn = rng.integers(rows, size=rows)
        # the first few mostly tell, and a set of them takes a twentieth of the time of sorting all
        if len(set(drawn[: 8 * fewest].tolist())) >= fewest or len(np.unique(drawn)) >= fewest:
            return drawn


def judged(model: Model, report: FitReport, *shapes: Array | float) -> Model:
    """The model with its report, which says how far predictions for the timed ``shapes`` wander with the coefficients.

    ``shapes`` are the arguments of the model's ``seconds``, columns of shape ``(rows,)`` or numbers.
    """
    rows = list(zip(*(np.ravel(column) for column in np.broadcast_arrays(*shapes)), strict=True))
    variances = [
        sum(moved**2 for moved in model.wander(*shape).values()) for shape in rows[:: 1 + len(rows) // _MOST_SHAPES]
    ]
    coefficient_sd = significant(float(np.sqrt(np.mean(variances))))
    update = {"report": report.changed(coefficient_sd=coefficient_sd)}
    return cast(Model, model.changed(**update))


def significant(value: float) -> float:
    """``value`` with six significant digits, as a profile stores it."""
    return float(f"{value:.6g}")


NEVER_FELT = 1e18
"""A rate at which nothing takes time."""
LARGE = 0.05  # relative error from which on a row weighs less
_ROUNDS = 8  # of weighing anew


def rate_of(seconds_each: float) -> float:
    """What takes so long each, a second."""
    return significant(1.0 / seconds_each if seconds_each > 0.0 else NEVER_FELT)


def fit_sum(columns: Array, target: Array, seconds: Array) -> Array:
    """Numbers of ``columns`` whose sum misses ``target`` least, by shares of ``seconds``, and none below nothing.

    Large errors weigh less (a robust fit, weighed anew).
    """
    scale = np.maximum(np.abs(columns / seconds[:, None]).max(axis=0), 1e-30)
    weights = np.ones_like(seconds)
    for _ in range(_ROUNDS):
        numbers, _ = nnls(columns / scale * (weights / seconds)[:, None], target * weights / seconds)
        error = (columns @ (numbers / scale) - target) / seconds
        weights = (1.0 + (error / LARGE) ** 2) ** -0.25
    return np.asarray(numbers / scale)


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
    inner = np.flatnonzero(np.diff(sizes) > 0) + 1
    thinned = inner[np.unique(np.linspace(0, len(inner) - 1, min(len(inner), _MOST_CUTS)).astype(int))]
    cuts = [0, *map(int, thinned), len(sizes)]
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
    return tuple(regime.changed(uncertainty=wandering(regime)) for regime in regimes)


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


def hold_out(rows: int, seed: int = 0) -> NDArray[np.bool_]:
    """Choose the rows that judge, 30 % drawn at random; shape ``(rows,)``."""
    held = np.zeros(rows, dtype=bool)
    held[np.random.default_rng(seed).permutation(rows)[: round(HELD_OUT * rows)]] = True
    return held


def report(measured: Array, predicted: Array, rows_fitted: int, coefficients: int) -> FitReport:
    """The error on held-out rows; both arrays have shape ``(rows,)``, in seconds."""
    error = np.abs(predicted / measured - 1)
    log_error = np.abs(np.log(measured / predicted))
    return FitReport(
        rows_fitted=rows_fitted,
        rows_held_out=len(measured),
        median_error=significant(float(np.median(error))),
        p95_error=significant(float(np.percentile(error, 95))),
        log_sd=significant(float(np.percentile(log_error, 95)) / 1.96),
        coefficients=coefficients,
    )


def fit_collective(message_bytes: ArrayLike, seconds: ArrayLike, source: str) -> CollectiveModel:
    """The model of one kind of collective over one number of ranks; both arrays have shape ``(rows,)``."""
    rows = checked_rows("collective", {"message_bytes": message_bytes, "seconds": seconds}, FEWEST_SIZES)
    sizes, measured = rows["message_bytes"], rows["seconds"]
    regimes = regimes_with_uncertainty(sizes, measured)

    def fit(sizes: Array, seconds: Array) -> Callable[[Array], Array]:
        return CollectiveModel(source=source, regimes=fit_regimes(sizes, seconds)).seconds

    report = _pooled_report(fit, sizes, measured, 3 * len(regimes) - 1)
    model = CollectiveModel(source=source, domain=_of_messages(sizes, measured), regimes=regimes)
    return judged(model, report, sizes)


def _fit_line(
    kind: type[SizeModel], what: str, fixed: str, sizes: ArrayLike, seconds: ArrayLike, source: str
) -> SizeModel:
    """The model of one size whose ``fixed`` time and bandwidth are fitted; both arrays have shape ``(rows,)``."""
    (variable,) = kind.dimensions
    given, measured = checked_rows(what, {variable: sizes, "seconds": seconds}).values()

    def fit(sizes: Array, seconds: Array) -> Callable[[Array], Array]:
        fixed_s, bandwidth = fit_line(sizes, seconds)
        return lambda unseen: fixed_s + unseen / bandwidth

    fixed_s, bandwidth = fit_line(given, measured)
    fitted: dict[str, Any] = {fixed: fixed_s, "uncertainty": line_uncertainty(given, measured)}
    domain = _of_messages(given, measured) if kind is LinkModel else {variable: (0.0, float(given.max()))}
    model = kind(source=source, domain=domain, bandwidth=bandwidth, **fitted)
    return judged(model, _pooled_report(fit, given, measured, 2), given)


fit_link = partial(_fit_line, LinkModel, "link", "latency_s")
"""The model of point-to-point messages: of their bytes, seconds, and a source."""
fit_elementwise = partial(_fit_line, ElementwiseModel, "elementwise", "launch_s")
"""The model of memory-bound kernels: of the bytes that they move, seconds, and a source."""
fit_convolution = partial(_fit_line, ConvolutionModel, "convolution", "launch_s")
"""The model of short convolutions before a recurrence, likewise."""


def checked_rows(what: str, columns: Mapping[str, ArrayLike], fewest: int = FEWEST_ROWS) -> dict[str, Array]:
    """The columns as arrays of one length, each within what an operation on a machine can be."""
    rows = {name: np.atleast_1d(np.asarray(column, float)) for name, column in columns.items()}
    lengths = {name: len(column) for name, column in rows.items()}
    if len(set(lengths.values())) > 1:
        raise InputError(f"{what} timings: columns of different lengths ({lengths})")
    if min(lengths.values()) < fewest:
        raise InputError(f"{what} timings: {min(lengths.values())} rows; a fit needs at least {fewest}")
    for name, column in rows.items():
        if not np.all(np.isfinite(column) & (column > 0)):
            raise InputError(f"{what} timings: {name} must be finite and positive in every row")
        low, high = _SECONDS if name == "seconds" else _SIZES
        if not low <= column.min() <= column.max() <= high:
            raise InputError(
                f"{what} timings: {name} must lie in [{low:g}, {high:g}], got {column.min():g} to {column.max():g}"
            )
    if all(np.ptp(column) == 0 for name, column in rows.items() if name != "seconds"):
        raise InputError(f"{what} timings: every row has the same shape; a fit needs several")
    return rows


def _of_messages(sizes: Array, seconds: Array) -> Domain:
    """The domain from the smallest message to the largest; from nothing where the smallest took the latency.

    It did where its bytes, at the best rate of all, are a small part of its time: smaller ones then take as long.
    """
    smallest, best_rate = float(sizes.min()), float(np.max(sizes / seconds))
    took_latency = smallest / best_rate <= _LATENCY_ALONE * float(np.min(seconds[sizes == smallest]))
    return {"message_bytes": (0.0 if took_latency else smallest, float(sizes.max()))}


def _pooled_report(
    fit: Callable[[Array, Array], Callable[[Array], Array]], sizes: Array, seconds: Array, coefficients: int
) -> FitReport:
    """The error on held-out rows of ten random splits together: such tables hold some twenty sizes."""
    measured, predicted = [], []
    for split in range(_SPLITS):
        held = hold_out(len(sizes), split)
        measured.append(seconds[held])
        predicted.append(fit(sizes[~held], seconds[~held])(sizes[held]))
    return report(np.concatenate(measured), np.concatenate(predicted), int(np.sum(~held)), coefficients)
