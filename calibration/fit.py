"""Fit timing models to measured times, and say how well they predict timings that they were not fitted to.

Thirty percent of the rows, drawn at random from a seed, are held out and only judge the model; the
coefficients that a profile keeps are then fitted to all rows, with the terms chosen without those held out.
All losses are of logarithms, so that the relative error counts, and bounded, so that outliers do not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import least_squares

from calibration.bootstrap import judged, significant
from calibration.hinges import choose_terms, domain_of, fit_terms, with_uncertainty
from calibration.regimes import fit_line, fit_regimes, line_uncertainty, regimes_with_uncertainty
from ssdsim.base.checks import Array
from ssdsim.base.errors import InputError
from ssdsim.hardware.attention import AttentionModel
from ssdsim.hardware.collectives import CollectiveModel
from ssdsim.hardware.convolution import ConvolutionModel
from ssdsim.hardware.elementwise import ElementwiseModel
from ssdsim.hardware.gemm import GemmModel, GemmSegment, gemm_variables
from ssdsim.hardware.laws import Correction, Domain, FitReport, Roofline
from ssdsim.hardware.link import LinkModel
from ssdsim.hardware.prefill_attention import PrefillAttentionModel

Line = TypeVar("Line", LinkModel, ElementwiseModel, ConvolutionModel)

HELD_OUT = 0.3
FEWEST_ROWS = 8
FEWEST_SIZES = 6
"""The fewest sizes of collectives: two regimes."""

_SECONDS, _SIZES = (1e-9, 100.0), (1.0, 1e15)
GEMM_BLENDS = ((64.0, 96.0), (512.0, 768.0))
"""The ranges of m over which the segments of GEMMs meet: decoding, verification of large batches, prefill."""

_SEGMENT_ROWS = 300
_SPLITS = 10
_GEMM_KNOTS = {"m": 8, "n": 8, "k": 8, "nk": 8}
_GEMM_TERMS = 56
_TILED_KNOTS = {**_GEMM_KNOTS, "rows": 5, "step": 4}
"""Knots of kernels that differ by how the tokens fill their tiles."""

_STREAMED_WEIGHTS = 1e6
_FULL_TILES = (16.0, 32.0, 64.0)
_LONGER_BEYOND = 0.06  # a token more than full tiles hold; of bfloat16 on an H100 it is 1 %, of 8 bits 20 %

_ATTENTION_KNOTS = {"kv": 20, "context": 8, "batch": 8, "blocks": 8, "group": 6}
ATTENTION_SHAPE = ("batch", "queries", "context", "heads", "kv_heads", "head_dim")
_UNLIKE = 0.9  # of the error of one law for all, below which kernels of single query rows have a law of their own
_TILE_ROWS = 64.0  # the fewest of FlashAttention 2
_ATTENTION_TERMS = 56
_PREFILL_KNOTS = {"flops": 16, "tokens": 12, "batch": 8, "blocks": 8, "group": 6}
_PREFILL_TERMS = 56
_ROOFLINE_COEFFICIENTS = 4


def hold_out(rows: int, seed: int = 0) -> NDArray[np.bool_]:
    """True for the rows that judge, 30 % drawn at random; shape ``(rows,)``."""
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


def fit_roofline(moved_bytes: Array, flops: Array, seconds: Array) -> Roofline:
    """The smooth maximum of a launch floor, streaming and arithmetic; all of shape ``(rows,)``."""
    fastest = np.array([seconds.min(), (moved_bytes / seconds).max(), (flops / seconds).max(), 2.0])

    def residuals(logs: Array) -> Array:
        launch, bandwidth, peak, sharpness = np.exp(logs)
        model = Roofline(launch_s=launch, bandwidth=bandwidth, peak_flops=peak, sharpness=sharpness)
        return np.asarray(np.log(model.seconds(moved_bytes, flops) / seconds))

    bounds = np.log(fastest * [0.1, 0.1, 0.1, 0.35]), np.log(fastest * [1.5, 1.3, 10, 6])
    fitted = least_squares(residuals, np.log(fastest), loss="soft_l1", f_scale=0.05, bounds=bounds)
    launch, bandwidth, peak, sharpness = (significant(float(value)) for value in np.exp(fitted.x))
    return Roofline(launch_s=launch, bandwidth=bandwidth, peak_flops=peak, sharpness=sharpness)


def fit_gemm(
    m: ArrayLike,
    n: ArrayLike,
    k: ArrayLike,
    seconds: ArrayLike,
    element_bytes: float,
    source: str,
    seed: int = 0,
) -> GemmModel:
    """The model of timed GEMMs ``(m, k) @ (k, n)``; all arrays have shape ``(rows,)``.

    Raises
    ------
    InputError : fewer than eight rows, sizes or times that are not positive, or a single shape.
    """
    rows = _checked("gemm", m=m, n=n, k=k, seconds=seconds)
    rows["nk"] = rows["n"] * rows["k"]
    held = hold_out(len(rows["m"]), seed)
    blends = _blends(rows["m"])
    knots = _TILED_KNOTS if _is_tiled(rows) else _GEMM_KNOTS
    fits = [_fit_segment(rows, held, *limits, element_bytes, knots, seed) for limits in _ranges(blends)]
    trained = GemmModel(
        source=source,
        element_bytes=element_bytes,
        domain=domain_of({name: rows[name] for name in _GEMM_KNOTS}),
        segments=tuple(fit[0] for fit in fits),
        blends=blends,
    )
    # what kernels of tiles take for an odd number of tokens, no engine waits for: it pads them
    unseen = _those(rows, held & _is_graphed(rows["m"]) if trained.tiled else held)
    predicted = trained.seconds(unseen["m"], unseen["n"], unseen["k"])
    serving = np.searchsorted([np.sqrt(start * end) for start, end in blends], unseen["m"])
    segments = []
    for i, (_, final, rows_fitted) in enumerate(fits):
        of = serving == i
        coefficients = _ROOFLINE_COEFFICIENTS + 1 + len(final.correction.terms)
        held_out = report(unseen["seconds"][of], predicted[of], rows_fitted, coefficients) if of.any() else None
        segments.append(final.model_copy(update={"report": held_out}))
    coefficients = sum(_ROOFLINE_COEFFICIENTS + 1 + len(fit[1].correction.terms) for fit in fits)
    total = report(unseen["seconds"], predicted, int(np.sum(~held)), coefficients)
    model = trained.model_copy(update={"segments": tuple(segments)})
    return judged(model, total, rows["m"], rows["n"], rows["k"])


def fit_attention(
    batch: ArrayLike,
    queries: ArrayLike,
    context: ArrayLike,
    heads: ArrayLike,
    kv_heads: ArrayLike,
    head_dim: ArrayLike,
    seconds: ArrayLike,
    element_bytes: float,
    source: str,
    seed: int = 0,
    packed: bool = True,
    most_cached: float = np.inf,
) -> AttentionModel:
    """The model of timed decode attention; all arrays have shape ``(rows,)``.

    ``packed`` is as the model has it. Keys and values of more than ``most_cached`` bytes come from memory each time.

    Raises
    ------
    InputError : fewer than eight rows, sizes or times that are not positive, or a single shape.
    """
    rows = _checked(
        "attention",
        batch=batch,
        queries=queries,
        context=context,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        seconds=seconds,
    )
    held = hold_out(len(rows["seconds"]), seed)
    # heads apart read what they share from the cache, whatever memory does
    streaming = _streaming(rows, element_bytes, most_cached) if packed else None
    kinds = {"source": source, "packed": packed, "streaming": streaming}
    trained, final = _fit_attention(rows, held, element_bytes, kinds, seed)
    report = _judged_attention(trained, rows, held, element_bytes)
    one = rows["queries"] * rows["heads"] == rows["kv_heads"]
    if packed and min(np.sum(one), np.sum(~one)) >= _SEGMENT_ROWS:
        parts = [_fit_attention(_those(rows, of), held[of], element_bytes, kinds, seed) for of in (~one, one)]
        trained, apart = (_with_single(several, single) for several, single in zip(*parts, strict=True))
        of_apart = _judged_attention(trained, rows, held, element_bytes)
        if of_apart.log_sd < _UNLIKE * report.log_sd:
            final, report = apart, of_apart
    shape = [rows[name] for name in ATTENTION_SHAPE]
    return judged(final, report, *shape, element_bytes)


def _with_single(several: AttentionModel, single: AttentionModel) -> AttentionModel:
    """One model of both, whose domain holds the timings of either."""
    ends = {name: np.array([several.domain[name], single.domain[name]]) for name in several.domain}
    domain = {name: (float(of.min()), float(of.max())) for name, of in ends.items()}
    most_rows = max(several.most_rows or 1, single.most_rows or 1)
    return several.model_copy(update={"domain": domain, "most_rows": most_rows, "single": single})


def _fit_attention(
    rows: Mapping[str, Array], held: NDArray[np.bool_], element_bytes: float, kinds: Mapping[str, Any], seed: int
) -> tuple[AttentionModel, AttentionModel]:
    """The fits without the rows ``held`` out, and with them."""
    shape = {name: rows[name] for name in ATTENTION_SHAPE}
    values = AttentionModel.variables(**shape, element_bytes=element_bytes, packed=kinds["packed"])
    knots, work = _with_head_dims(_ATTENTION_KNOTS, rows["head_dim"]), AttentionModel.work(values, element_bytes)
    fit = _fit_corrected(*work, values, rows["seconds"], held, knots, _ATTENTION_TERMS, seed)
    domain = domain_of(values)
    if not kinds["packed"]:  # a head's tile is as long for one query of a sequence as for all that fit into it
        domain["group"] = (domain["group"][0], max(_TILE_ROWS, domain["group"][1]))
    known: dict[str, Any] = {**kinds, "domain": domain, "roofline": fit.roofline}
    known["most_rows"] = int((rows["queries"] * rows["heads"]).max())
    return AttentionModel(**known, correction=fit.trained), AttentionModel(**known, correction=fit.final)


def _streaming(rows: Mapping[str, Array], element_bytes: float, most_cached: float) -> float | None:
    """The best rate of rows whose keys and values no cache holds; None where there are none."""
    cached = 2 * element_bytes * rows["batch"] * rows["kv_heads"] * rows["context"] * rows["head_dim"]
    rates = (cached / rows["seconds"])[cached > most_cached]
    return significant(float(rates.max())) if len(rates) else None


def _judged_attention(
    trained: AttentionModel, rows: Mapping[str, Array], held: NDArray[np.bool_], element_bytes: float
) -> FitReport:
    unseen = _those(rows, held)
    predicted = trained.seconds(*(unseen[name] for name in ATTENTION_SHAPE), element_bytes)
    return report(unseen["seconds"], predicted, int(np.sum(~held)), trained.coefficients)


def _those(rows: Mapping[str, Array], of: NDArray[np.bool_]) -> dict[str, Array]:
    return {name: column[of] for name, column in rows.items()}


def fit_prefill_attention(
    batch: ArrayLike,
    tokens: ArrayLike,
    heads: ArrayLike,
    kv_heads: ArrayLike,
    head_dim: ArrayLike,
    seconds: ArrayLike,
    element_bytes: float,
    source: str,
    seed: int = 0,
) -> PrefillAttentionModel:
    """The model of timed prefill attention; all arrays have shape ``(rows,)``.

    Raises
    ------
    InputError : fewer than eight rows, sizes or times that are not positive, or a single shape.
    """
    rows = _checked(
        "prefill attention",
        batch=batch,
        tokens=tokens,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        seconds=seconds,
    )
    measured = rows.pop("seconds")
    values = PrefillAttentionModel.variables(**rows)
    knots = _with_head_dims(_PREFILL_KNOTS, rows["head_dim"])
    fit, held_out = _fit_reported(
        PrefillAttentionModel.work(values, element_bytes), values, measured, knots, _PREFILL_TERMS, seed
    )
    model = PrefillAttentionModel(source=source, domain=domain_of(values), roofline=fit.roofline, correction=fit.final)
    return judged(model, held_out, *rows.values(), element_bytes)


def fit_collective(message_bytes: ArrayLike, seconds: ArrayLike, source: str, seed: int = 0) -> CollectiveModel:
    """The model of one kind of collective over one number of ranks; both arrays have shape ``(rows,)``.

    Raises
    ------
    InputError : fewer than six rows, sizes or times that are not positive, or a single size.
    """
    rows = _checked("collective", fewest=FEWEST_SIZES, message_bytes=message_bytes, seconds=seconds)
    sizes, measured = rows["message_bytes"], rows["seconds"]
    regimes = regimes_with_uncertainty(sizes, measured)

    def fit(sizes: Array, seconds: Array) -> Callable[[Array], Array]:
        return CollectiveModel(source=source, regimes=fit_regimes(sizes, seconds)).seconds

    report = _pooled_report(fit, sizes, measured, 3 * len(regimes) - 1, seed)
    model = CollectiveModel(source=source, domain=_up_to("message_bytes", sizes), regimes=regimes)
    return judged(model, report, sizes)


def fit_link(message_bytes: ArrayLike, seconds: ArrayLike, source: str, seed: int = 0) -> LinkModel:
    """The model of point-to-point messages; both arrays have shape ``(rows,)``.

    Raises
    ------
    InputError : fewer than eight rows, sizes or times that are not positive, or a single size.
    """
    return _fit_line(LinkModel, "link", "latency_s", message_bytes, seconds, source, seed)


def fit_elementwise(moved_bytes: ArrayLike, seconds: ArrayLike, source: str, seed: int = 0) -> ElementwiseModel:
    """The model of memory-bound kernels; both arrays have shape ``(rows,)``.

    Raises
    ------
    InputError : fewer than eight rows, sizes or times that are not positive, or a single size.
    """
    return _fit_line(ElementwiseModel, "elementwise", "launch_s", moved_bytes, seconds, source, seed)


def fit_convolution(moved_bytes: ArrayLike, seconds: ArrayLike, source: str, seed: int = 0) -> ConvolutionModel:
    """The model of short convolutions before a recurrence; both arrays have shape ``(rows,)``.

    Raises
    ------
    InputError : fewer than eight rows, sizes or times that are not positive, or a single size.
    """
    return _fit_line(ConvolutionModel, "convolution", "launch_s", moved_bytes, seconds, source, seed)


def _fit_line(
    made: type[Line], what: str, fixed: str, sizes: ArrayLike, seconds: ArrayLike, source: str, seed: int
) -> Line:
    """A model of one size whose ``fixed`` time and bandwidth are fitted."""
    (variable,) = made.dimensions
    columns: dict[str, Any] = {variable: sizes, "seconds": seconds}
    rows = _checked(what, **columns)
    (fixed_s, bandwidth), held_out = _fit_judged_line(rows[variable], rows["seconds"], seed)
    fitted: dict[str, Any] = {fixed: fixed_s, "uncertainty": line_uncertainty(rows[variable], rows["seconds"])}
    model = made(source=source, domain=_up_to(variable, rows[variable]), bandwidth=bandwidth, **fitted)
    return judged(model, held_out, rows[variable])


def _checked(what: str, *, fewest: int = FEWEST_ROWS, **columns: ArrayLike) -> dict[str, Array]:
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


def _with_head_dims(knots: Mapping[str, int], head_dims: Array) -> dict[str, int]:
    """A knot between any two of the few head dimensions that were timed."""
    return {**knots, "head_dim": max(1, len(np.unique(head_dims)) - 1)}


@dataclass(frozen=True)
class _CorrectedFit:
    """A roofline and its correction: ``trained`` without the held-out rows, ``final`` with them."""

    roofline: Roofline
    trained: Correction
    final: Correction


def _fit_corrected(
    moved_bytes: Array,
    flops: Array,
    values: Mapping[str, Array],
    seconds: Array,
    held: NDArray[np.bool_],
    knots: Mapping[str, int],
    most_terms: int,
    seed: int,
) -> _CorrectedFit:
    fitted = {name: column[~held] for name, column in values.items()}
    roofline = fit_roofline(moved_bytes[~held], flops[~held], seconds[~held])
    log_ratio = np.log(seconds / roofline.seconds(moved_bytes, flops))
    terms = choose_terms(log_ratio[~held], fitted, knots, most_terms, seed)
    return _CorrectedFit(
        roofline,
        trained=fit_terms(terms, log_ratio[~held], fitted),
        final=with_uncertainty(fit_terms(terms, log_ratio, values), log_ratio, values),
    )


def _fit_reported(
    work: tuple[Array, Array],
    values: Mapping[str, Array],
    measured: Array,
    knots: Mapping[str, int],
    terms: int,
    seed: int,
) -> tuple[_CorrectedFit, FitReport]:
    """A fit of one roofline to ``work``, bytes moved and flops, and its errors on the rows that it holds out."""
    held = hold_out(len(measured), seed)
    fit = _fit_corrected(*work, values, measured, held, knots, terms, seed)
    predicted = fit.roofline.seconds(*work) * np.exp(fit.trained.log_factor(values))
    coefficients = _ROOFLINE_COEFFICIENTS + 1 + len(fit.final.terms)
    return fit, report(measured[held], predicted[held], int(np.sum(~held)), coefficients)


def _fit_segment(
    rows: Mapping[str, Array],
    held: NDArray[np.bool_],
    smallest: float,
    largest: float,
    element_bytes: float,
    knots: Mapping[str, int],
    seed: int,
) -> tuple[GemmSegment, GemmSegment, int]:
    """The segment for ``smallest <= m <= largest``: trained, final, and the number of rows trained on."""
    inside = (rows["m"] >= smallest) & (rows["m"] <= largest)
    m, n, k, seconds = (rows[name][inside] for name in ("m", "n", "k", "seconds"))
    values = {name: np.asarray(each, float) for name, each in gemm_variables(m, n, k, knots).items()}
    moved_bytes = element_bytes * (m * k + k * n + m * n)
    fit = _fit_corrected(moved_bytes, 2 * m * n * k, values, seconds, held[inside], knots, _GEMM_TERMS, seed)
    trained = GemmSegment(roofline=fit.roofline, correction=fit.trained)
    return trained, GemmSegment(roofline=fit.roofline, correction=fit.final), int(np.sum(~held[inside]))


def _is_graphed(m: Array) -> NDArray[np.bool_]:
    """Whether engines capture graphs of so many tokens: one, two, four and multiples of eight."""
    return np.asarray((m % 8 == 0) | np.isin(m, (1, 2, 4)))


def _is_tiled(rows: Mapping[str, Array]) -> bool:
    """Whether a token more than tiles of sixteen hold costs notably more, where both were timed for enough matrices."""
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
        if np.sum(before) >= _SEGMENT_ROWS and np.sum(m > end) >= _SEGMENT_ROWS:
            kept.append((start, end))
    return tuple(kept)


def _ranges(blends: tuple[tuple[float, float], ...]) -> list[tuple[float, float]]:
    """The range of m of each segment, the blends at its ends included."""
    starts = [0.0, *(start for start, _ in blends)]
    ends = [*(end for _, end in blends), np.inf]
    return list(zip(starts, ends, strict=True))


def _up_to(name: str, sizes: Array) -> Domain:
    """The domain from nothing to the largest size: what is smaller than the smallest timed takes the latency."""
    return {name: (0.0, float(sizes.max()))}


def _fit_judged_line(sizes: Array, seconds: Array, seed: int) -> tuple[tuple[float, float], FitReport]:
    def fit(sizes: Array, seconds: Array) -> Callable[[Array], Array]:
        latency, bandwidth = fit_line(sizes, seconds)
        return lambda unseen: latency + unseen / bandwidth

    return fit_line(sizes, seconds), _pooled_report(fit, sizes, seconds, 2, seed)


def _pooled_report(
    fit: Callable[[Array, Array], Callable[[Array], Array]],
    sizes: Array,
    seconds: Array,
    coefficients: int,
    seed: int,
) -> FitReport:
    """The error on held-out rows of ten random splits together: such tables hold some twenty sizes."""
    measured, predicted = [], []
    for split in range(_SPLITS):
        held = hold_out(len(sizes), seed + split)
        measured.append(seconds[held])
        predicted.append(fit(sizes[~held], seconds[~held])(sizes[held]))
    return report(np.concatenate(measured), np.concatenate(predicted), int(np.sum(~held)), coefficients)
