"""Fit timing models to measured times, and say how well they predict timings that they were not fitted to.

Thirty percent of the rows, drawn at random from a seed, are held out and only judge the model; the
coefficients that a profile keeps are then fitted to all rows, with the terms chosen without those held out.
All losses are of logarithms, so that the relative error counts, and bounded, so that outliers do not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibration.timings.bootstrap import judged, significant
from calibration.timings.regimes import fit_line, fit_regimes, line_uncertainty, regimes_with_uncertainty
from ssdsim.base.checks import Array
from ssdsim.base.errors import InputError
from ssdsim.hardware.collectives import CollectiveModel
from ssdsim.hardware.convolution import ConvolutionModel
from ssdsim.hardware.elementwise import ElementwiseModel
from ssdsim.hardware.laws import Domain, FitReport
from ssdsim.hardware.link import LinkModel

Line = TypeVar("Line", LinkModel, ElementwiseModel, ConvolutionModel)

HELD_OUT = 0.3
FEWEST_ROWS = 8
FEWEST_SIZES = 6
"""The fewest sizes of collectives: two regimes."""

_SECONDS, _SIZES = (1e-9, 100.0), (1.0, 1e15)
_SPLITS = 10


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
    model = CollectiveModel(source=source, domain=_up_to("message_bytes", sizes), regimes=regimes)
    return judged(model, report, sizes)


def _fit_line(made: type[Line], what: str, fixed: str, sizes: ArrayLike, seconds: ArrayLike, source: str) -> Line:
    """The model of one size whose ``fixed`` time and bandwidth are fitted; both arrays have shape ``(rows,)``."""
    (variable,) = made.dimensions
    given, measured = checked_rows(what, {variable: sizes, "seconds": seconds}).values()

    def fit(sizes: Array, seconds: Array) -> Callable[[Array], Array]:
        fixed_s, bandwidth = fit_line(sizes, seconds)
        return lambda unseen: fixed_s + unseen / bandwidth

    fixed_s, bandwidth = fit_line(given, measured)
    fitted: dict[str, Any] = {fixed: fixed_s, "uncertainty": line_uncertainty(given, measured)}
    model = made(source=source, domain=_up_to(variable, given), bandwidth=bandwidth, **fitted)
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


def _up_to(name: str, sizes: Array) -> Domain:
    """The domain from nothing to the largest size: what is smaller than the smallest timed takes the latency."""
    return {name: (0.0, float(sizes.max()))}


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
