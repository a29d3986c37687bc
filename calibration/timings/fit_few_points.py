"""Fits to the hundred or so points that a calibration times, judged by cross-validation instead of one split."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import pairwise
from typing import Any

import numpy as np

from calibration.timings.fit import FEWEST_ROWS, fit_line, judged, report, significant
from calibration.timings.fit_attention import ATTENTION_SHAPE, fit_additive_attention, fit_attention
from calibration.timings.fit_gemm import fit_gemm
from calibration.timings.fit_roofline import fit_terms, those, with_uncertainty
from ssdsim.base.checks import Array
from ssdsim.base.errors import InputError
from ssdsim.hardware.attention import AnyAttention
from ssdsim.hardware.gemm import GemmModel, GemmSegment
from ssdsim.hardware.laws import FitReport, Roofline

_FOLDS = 5
_FEW_TOKENS = 16  # up to here libraries have kernels of their own: three tokens can take longer than four
_ROWS_A_SEGMENT = 6
_NEVER = 1e30  # flops/s that are no limit

Rows = Mapping[str, Array]


def fit_gemm_to_few_points(rows: Rows, element_bytes: int, source: str) -> GemmModel:
    """GEMMs, with a segment for each of the few tokens; ``rows`` holds ``m, n, k, seconds``, shape ``(rows,)``."""

    def fit(some: Rows) -> GemmModel:
        return _fit_segments(some, element_bytes, source)

    def predict(model: GemmModel, some: Rows) -> Array:
        return model.seconds(some["m"], some["n"], some["k"])

    model = fit(rows)
    report = cross_validate(rows, fit, predict, sum(5 + len(segment.correction.terms) for segment in model.segments))
    segments = tuple(segment.changed(report=report) for segment in model.segments)
    return judged(model.changed(segments=segments), report, rows["m"], rows["n"], rows["k"])


def fit_attention_to_few_points(rows: Rows, element_bytes: int, source: str) -> AnyAttention:
    """Decode attention; ``rows`` holds ``batch, queries, context, heads, kv_heads, head_dim, seconds``.

    A sum of the parts or a corrected roofline, whichever predicts rows left out better.
    """

    def additive(some: Rows) -> AnyAttention:
        return fit_additive_attention(some, element_bytes, source)

    def corrected(some: Rows) -> AnyAttention:
        return fit_attention(some, element_bytes, source)

    def predict(model: AnyAttention, some: Rows) -> Array:
        return model.seconds(*(some[name] for name in ATTENTION_SHAPE), element_bytes)

    def candidate(fit: Callable[[Rows], AnyAttention]) -> AnyAttention:
        model = fit(rows)
        report = cross_validate(rows, fit, predict, model.coefficients)
        return judged(model, report, *(rows[name] for name in ATTENTION_SHAPE), element_bytes)

    candidates = [candidate(corrected)]
    with suppress(InputError):  # too few rows of some number of query rows
        candidates.append(candidate(additive))
    return min(candidates, key=lambda model: model.report.median_error if model.report else np.inf)


def cross_validate(
    rows: Rows, fit: Callable[[Rows], Any], predict: Callable[[Any, Rows], Array], coefficients: int
) -> FitReport:
    """Every row predicted by a fit that did not see it (five folds at random)."""
    count = len(rows["seconds"])
    fold_of = np.random.default_rng(0).permutation(count) % _FOLDS
    predicted = np.empty(count)
    for fold in range(_FOLDS):
        held = fold_of == fold
        predicted[held] = predict(fit(those(rows, ~held)), those(rows, held))
    return report(rows["seconds"], predicted, count - count // _FOLDS, coefficients)


def _fit_segments(rows: Rows, element_bytes: int, source: str) -> GemmModel:
    """A segment for each of the few tokens that were timed often enough, one for all larger numbers."""

    def fitted(some: Rows) -> GemmModel:
        return fit_gemm(some["m"], some["n"], some["k"], some["seconds"], element_bytes, source)

    counts = {int(m): int(np.sum(rows["m"] == m)) for m in np.unique(rows["m"]) if m <= _FEW_TOKENS}
    few = [m for m, count in counts.items() if count >= _ROWS_A_SEGMENT]
    many = np.ones(len(rows["m"]), dtype=bool) if not few else rows["m"] > few[-1]
    if np.sum(many) < FEWEST_ROWS:
        return fitted(rows)
    rest = fitted(those(rows, many))
    segments: list[GemmSegment] = []
    for m in few:  # what streams a single token's weights streams them for more
        bandwidth = segments[0].roofline.bandwidth if segments else np.inf
        segments.append(_fit_one_token_count(those(rows, rows["m"] == m), element_bytes, bandwidth))
    edges = [float(m) for m in few] + [float(rows["m"][many].min())]
    domain = dict(rest.domain) | {"m": (float(rows["m"].min()), rest.domain["m"][1])}
    return GemmModel(
        source=source,
        element_bytes=element_bytes,
        domain=domain,
        segments=(*segments, *rest.segments),
        blends=(*pairwise(edges), *rest.blends),
    )


def _fit_one_token_count(rows: Rows, element_bytes: int, most_bandwidth: float) -> GemmSegment:
    """One number of tokens: a launch and a time in proportion to the weights, corrected for n and k.

    For one number of tokens bytes and arithmetic grow alike; what streaming at ``most_bandwidth`` leaves is arithmetic.
    Libraries stream a matrix well or badly by its k (kernels differ from k to k), so powers of n and k compete with a
    broken line through every k, and another one through every n; what predicts a matrix left out best is kept.
    """
    m, n, k = rows["m"], rows["n"], rows["k"]
    moved_bytes = element_bytes * (m * k + k * n + m * n)
    flops = 2.0 * m * n * k
    launch_s, bandwidth = fit_line(moved_bytes, rows["seconds"])
    computing_s = (1.0 / bandwidth - 1.0 / most_bandwidth) * float(np.sum(moved_bytes))
    peak_flops = float(np.sum(flops)) / computing_s if bandwidth < most_bandwidth < np.inf else _NEVER
    bandwidth = most_bandwidth if peak_flops < _NEVER else bandwidth
    roofline = Roofline(launch_s=launch_s, bandwidth=bandwidth, peak_flops=significant(peak_flops), sharpness=1.0)
    log_ratio = np.log(rows["seconds"] / roofline.seconds(moved_bytes, flops))
    powers = [_hinges(name, sizes)[:1] for name, sizes in (("n", n), ("k", k))]
    lines = [_hinges(name, sizes) for name, sizes in (("n", n), ("k", k))]
    candidates = [[*powers[0], *powers[1]], [*powers[0], *lines[1]], [*lines[0], *lines[1]]]
    values = {"n": n, "k": k}
    terms = min(candidates, key=lambda some: _leave_one_out_error(some, log_ratio, values))
    correction = with_uncertainty(fit_terms(terms, log_ratio, values), log_ratio, values)
    return GemmSegment(roofline=roofline, correction=correction)


def _hinges(name: str, sizes: Array) -> list[str]:
    """A broken line in log ``name`` with a knot at each size."""
    return [f"{name}>{size:g}" for size in np.unique(sizes)[:-1]]


def _leave_one_out_error(terms: list[str], log_ratio: Array, values: Rows) -> float:
    """Mean absolute error of each row's logarithm, predicted from the other rows."""
    errors = []
    for i in range(len(log_ratio)):
        others = np.arange(len(log_ratio)) != i
        fitted = fit_terms(terms, log_ratio[others], those(values, others))
        errors.append(abs(log_ratio[i] - float(fitted.log_factor({name: v[i] for name, v in values.items()}))))
    return float(np.mean(errors))
