"""Fit the model of GEMMs: a segment for decoding, one for verification of large batches, one for prefill."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibration.timings.fit import FEWEST_ROWS, checked_rows, hold_out, judged, report, significant
from calibration.timings.fit_roofline import ROOFLINE_COEFFICIENTS, SEGMENT_ROWS, domain_of, fit_corrected, those
from ssdsim.base.checks import Array
from ssdsim.hardware.gemm import GemmModel, GemmSegment, gemm_variables

GEMM_BLENDS = ((64.0, 96.0), (512.0, 768.0))
"""The ranges of m over which the segments of GEMMs meet: decoding, verification of large batches, prefill."""

_GEMM_KNOTS = {"m": 8, "n": 8, "k": 8, "nk": 8}
_GEMM_TERMS = 56
_TILED_KNOTS = {**_GEMM_KNOTS, "rows": 5, "step": 4}
"""Knots of kernels that differ by how the tokens fill their tiles."""

_WEIGHTS = (2.0**18, 2.0**22, 2.0**24, 2.0**26, 2.0**40)
"""Ends of the ranges of a matrix's weights that have errors of their own."""
_JUDGED_ROWS = 40  # of a range, whose percentile tells something
_NORMAL_80 = 1.2816  # standard deviations within which 80 % of a normal distribution are
_STREAMED_WEIGHTS = 1e6
_FULL_TILES = (16.0, 32.0, 64.0)
_FAR_LONGER = 5.0
_PADDED_BEYOND = 0.1  # in logs: so much longer for fewer tokens is no noise
_LONGER_BEYOND = 0.06  # a token more than full tiles hold; of bfloat16 on an H100 it is 1 %, of 8 bits 20 %


def fit_gemm(
    m: ArrayLike,
    n: ArrayLike,
    k: ArrayLike,
    seconds: ArrayLike,
    element_bytes: float,
    source: str,
    seed: int = 0,
    base: GemmModel | None = None,
) -> GemmModel:
    """The model of timed GEMMs ``(m, k) @ (k, n)``; all arrays have shape ``(rows,)``.

    Where every matrix streams for far longer than a launch of ``base`` takes, a launch takes no longer than there.
    """
    rows = checked_rows("gemm", {"m": m, "n": n, "k": k, "seconds": seconds})
    launch_s = np.inf if base is None else base.segments[0].roofline.launch_s
    most_launch_s = launch_s if rows["seconds"].min() > _FAR_LONGER * launch_s else np.inf
    rows["nk"] = rows["n"] * rows["k"]
    held = hold_out(len(rows["m"]), seed)
    blends = _blends(rows["m"])
    knots = _TILED_KNOTS if _is_tiled(rows) else _GEMM_KNOTS
    fits = [_fit_segment(rows, held, *limits, element_bytes, knots, seed, most_launch_s) for limits in _ranges(blends)]
    trained = GemmModel(
        source=source,
        element_bytes=element_bytes,
        domain=domain_of({name: rows[name] for name in _GEMM_KNOTS}),
        segments=tuple(fit[0] for fit in fits),
        blends=blends,
    )
    unseen = those(rows, held & ~_is_padded(rows))  # what engines pad, none waits for
    predicted = trained.seconds(unseen["m"], unseen["n"], unseen["k"])
    serving = np.searchsorted([np.sqrt(start * end) for start, end in blends], unseen["m"])
    segments = []
    for i, (_, final, rows_fitted) in enumerate(fits):
        of = serving == i
        coefficients = ROOFLINE_COEFFICIENTS + 1 + len(final.correction.terms)
        held_out = report(unseen["seconds"][of], predicted[of], rows_fitted, coefficients) if of.any() else None
        by_weights = _by_weights(unseen["nk"][of], unseen["seconds"][of], predicted[of])
        segments.append(final.changed(report=held_out, by_weights=by_weights))
    coefficients = sum(ROOFLINE_COEFFICIENTS + 1 + len(fit[1].correction.terms) for fit in fits)
    total = report(unseen["seconds"], predicted, int(np.sum(~held)), coefficients)
    model = trained.changed(segments=tuple(segments))
    return judged(model, total, rows["m"], rows["n"], rows["k"])


def _fit_segment(
    rows: Mapping[str, Array],
    held: NDArray[np.bool_],
    smallest: float,
    largest: float,
    element_bytes: float,
    knots: Mapping[str, int],
    seed: int,
    most_launch_s: float,
) -> tuple[GemmSegment, GemmSegment, int]:
    """The segment for ``smallest <= m <= largest``: trained, final, and the number of rows trained on."""
    inside = (rows["m"] >= smallest) & (rows["m"] <= largest)
    m, n, k, seconds = (rows[name][inside] for name in ("m", "n", "k", "seconds"))
    values = {name: np.asarray(each, float) for name, each in gemm_variables(m, n, k, knots).items()}
    moved_bytes = element_bytes * (m * k + k * n + m * n)
    work = moved_bytes, 2 * m * n * k
    fit = fit_corrected(*work, values, seconds, held[inside], knots, _GEMM_TERMS, seed, most_launch_s)
    trained = GemmSegment(roofline=fit.roofline, correction=fit.trained)
    return trained, GemmSegment(roofline=fit.roofline, correction=fit.final), int(np.sum(~held[inside]))


def _is_padded(rows: Mapping[str, Array]) -> NDArray[np.bool_]:
    """Say of which tokens engines run more: matrices take notably longer for them than for some larger number.

    One token of 8-bit products takes a B200 two to three times as long as two, and an odd number fills no tiles.
    """
    tokens, at = np.unique(rows["m"], return_inverse=True)
    _, matrix = np.unique(np.stack([rows["n"], rows["k"]]), axis=1, return_inverse=True)
    logs = np.full((len(tokens), matrix.max() + 1), np.nan)
    logs[at, matrix.ravel()] = np.log(rows["seconds"])

    def longer(fewer: int, more: int) -> bool:
        both = logs[fewer] - logs[more]
        both = both[~np.isnan(both)]
        return len(both) >= FEWEST_ROWS and float(np.median(both)) > _PADDED_BEYOND

    padded = [any(longer(few, more) for more in range(few + 1, len(tokens))) for few in range(len(tokens))]
    return np.asarray(np.array(padded)[at])


def _by_weights(nk: Array, measured: Array, predicted: Array) -> tuple[tuple[float, float], ...]:
    """The log-sd of each range of matrices' weights that has enough rows, with the weights where it ends.

    It is that of the 80th percentile: single slow timings (7 % of 8-bit products on a B200) are no pass's, which
    averages over its matrices.
    """
    log_errors, found = np.abs(np.log(measured / predicted)), []
    for start, end in pairwise((0.0, *_WEIGHTS)):
        of = (nk > start) & (nk <= end)
        if of.sum() >= _JUDGED_ROWS:
            found.append((end, significant(float(np.percentile(log_errors[of], 80)) / _NORMAL_80)))
    return tuple(found)


def _is_tiled(rows: Mapping[str, Array]) -> bool:
    """Say whether a token beyond a tile of sixteen costs notably more, where enough matrices were timed at both."""
    times = _times(rows)
    for full in _FULL_TILES:
        pairs = ((s, times.get((full + 1, n, k))) for (m, n, k), s in times.items() if m == full)
        jumps = [np.log(beyond / s) for s, beyond in pairs if beyond]
        if len(jumps) >= FEWEST_ROWS and float(np.median(jumps)) > _LONGER_BEYOND:
            return True
    return False


def _times(rows: Mapping[str, Array]) -> dict[tuple[float, float, float], float]:
    """Seconds by m, n and k of the matrices that stream: a million weights and more."""
    streamed = rows["nk"] >= _STREAMED_WEIGHTS
    m, n, k, seconds = (rows[name][streamed].tolist() for name in ("m", "n", "k", "seconds"))
    return dict(zip(zip(m, n, k, strict=True), seconds, strict=True))


def _blends(m: Array) -> tuple[tuple[float, float], ...]:
    """The blends with enough rows on both sides for segments of their own."""
    kept: list[tuple[float, float]] = []
    for start, end in GEMM_BLENDS:
        before = m < start if not kept else (m > kept[-1][1]) & (m < start)
        if np.sum(before) >= SEGMENT_ROWS and np.sum(m > end) >= SEGMENT_ROWS:
            kept.append((start, end))
    return tuple(kept)


def _ranges(blends: tuple[tuple[float, float], ...]) -> list[tuple[float, float]]:
    """The range of m of each segment, the blends at its ends included."""
    starts = [0.0, *(start for start, _ in blends)]
    ends = [*(end for _, end in blends), np.inf]
    return list(zip(starts, ends, strict=True))
