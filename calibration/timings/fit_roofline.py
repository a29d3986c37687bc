"""Fit a roofline and the correction of its error, for GEMMs and attention.

The correction is a sum of a few hinges of the logarithms of the shape: multivariate adaptive regression splines
(Friedman, 1991) with a forward pass only. Orthogonal matching pursuit chooses among all hinges at a grid of knots, and
all products of two hinges of different variables.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations, compress

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from calibration.timings.fit import directions, significant
from ssdsim.base.checks import Array
from ssdsim.base.record import Record
from ssdsim.hardware.laws import Correction, Domain, Roofline

SEGMENT_ROWS = 300
ROOFLINE_COEFFICIENTS = 4
_SELECTION_ROWS = 4000  # terms are chosen on a sample this large; coefficients are fitted to every row
_ROWS_PER_TERM = 10
_LARGEST_RESIDUAL = 0.5  # a wilder timing (log ratio) counts as this much when terms are chosen
_HUBER = 0.03  # residuals (log ratio) beyond this count by their size, not by their square
_LEFT = 0.03  # of a feature's length: one with less left beside the chosen features is not chosen
_RIDGE = 0.01  # keeps coefficients of terms that hardly vary in the rows near zero


def fit_roofline(moved_bytes: Array, flops: Array, seconds: Array, most_launch_s: float = np.inf) -> Roofline:
    """The smooth maximum of a launch floor, streaming and arithmetic; all of shape ``(rows,)``.

    ``most_launch_s`` bounds the floor where nothing small enough to show it was timed.
    """
    launch_s = min(seconds.min(), most_launch_s / 1.5)
    fastest = np.array([launch_s, (moved_bytes / seconds).max(), (flops / seconds).max(), 2.0])

    def residuals(logs: Array) -> Array:
        launch, bandwidth, peak, sharpness = np.exp(logs)
        model = Roofline(launch_s=launch, bandwidth=bandwidth, peak_flops=peak, sharpness=sharpness)
        return np.asarray(np.log(model.seconds(moved_bytes, flops) / seconds))

    bounds = np.log(fastest * [0.1, 0.1, 0.1, 0.35]), np.log(fastest * [1.5, 1.3, 10, 6])
    fitted = least_squares(residuals, np.log(fastest), loss="soft_l1", f_scale=0.05, bounds=bounds)
    launch, bandwidth, peak, sharpness = (significant(float(value)) for value in np.exp(fitted.x))
    return Roofline(launch_s=launch, bandwidth=bandwidth, peak_flops=peak, sharpness=sharpness)


class CorrectedFit(Record):
    """A roofline and its correction: ``trained`` without the held-out rows, ``final`` with them."""

    roofline: Roofline
    trained: Correction
    final: Correction


def fit_corrected(
    moved_bytes: Array,
    flops: Array,
    values: Mapping[str, Array],
    seconds: Array,
    held: NDArray[np.bool_],
    knots: Mapping[str, int],
    most_terms: int,
    seed: int = 0,
    most_launch_s: float = np.inf,
) -> CorrectedFit:
    fitted = {name: column[~held] for name, column in values.items()}
    roofline = fit_roofline(moved_bytes[~held], flops[~held], seconds[~held], most_launch_s)
    log_ratio = np.log(seconds / roofline.seconds(moved_bytes, flops))
    terms = choose_terms(log_ratio[~held], fitted, knots, most_terms, seed)
    return CorrectedFit(
        roofline,
        trained=fit_terms(terms, log_ratio[~held], fitted),
        final=with_uncertainty(fit_terms(terms, log_ratio, values), log_ratio, values),
    )


def those(rows: Mapping[str, Array], of: NDArray[np.bool_]) -> dict[str, Array]:
    return {name: column[of] for name, column in rows.items()}


def domain_of(values: Mapping[str, Array]) -> Domain:
    return {name: (float(column.min()), float(column.max())) for name, column in values.items()}


def choose_terms(
    log_ratio: Array, values: Mapping[str, Array], knots: Mapping[str, int], most: int, seed: int
) -> list[str]:
    """Choose at most ``most`` terms, the most useful first (fewer when there are few rows).

    ``log_ratio`` is log(measured / roofline), shape ``(rows,)``, as is each variable of ``values``; ``knots``
    is the number of knots of each variable, evenly spaced in its logarithm.
    """
    rows = len(log_ratio)
    sample = np.random.default_rng(seed).permutation(rows)[:_SELECTION_ROWS]
    sampled = {name: column[sample] for name, column in values.items()}
    hinges = _hinges(sampled, knots)
    names, features = _with_products(hinges, sampled)
    target = np.clip(log_ratio[sample], -_LARGEST_RESIDUAL, _LARGEST_RESIDUAL)
    return [names[i] for i in _matching_pursuit(features, target, min(most, rows // _ROWS_PER_TERM))]


def fit_terms(terms: list[str], log_ratio: Array, values: Mapping[str, Array]) -> Correction:
    """The correction with these terms and the coefficients of least Huber loss."""
    domain = domain_of(values)
    columns = _columns(Correction(terms=dict.fromkeys(terms, 0.0), domain=domain), values)
    intercept, *slopes = (significant(value) for value in _coefficients(columns, log_ratio))
    return Correction(intercept=intercept, terms=dict(zip(terms, slopes, strict=True)), domain=domain)


def with_uncertainty(correction: Correction, log_ratio: Array, values: Mapping[str, Array]) -> Correction:
    """The correction with the uncertainty of its coefficients, by a bootstrap of the rows.

    A row keeps the weight that it has in the fit to all rows.
    """
    columns = _columns(correction, values)
    fitted = np.array([correction.intercept, *correction.terms.values()])
    weights = _weights(columns, log_ratio, fitted)

    def refit(rows: NDArray[np.intp]) -> Array:
        drawn, times = np.unique(rows, return_counts=True)  # a row drawn twice counts twice, a third not at all
        return _least_squares(columns[drawn], log_ratio[drawn], times * weights[drawn])

    return correction.changed(uncertainty=directions(refit, columns))


def _columns(correction: Correction, values: Mapping[str, Array]) -> Array:
    """Factors of the coefficients, shape ``(rows, 1 + terms)``: ones and the terms."""
    rows = len(next(iter(values.values())))
    return np.column_stack([np.ones(rows), *correction.features(values)])


def _coefficients(columns: Array, log_ratio: Array) -> Array:
    """The coefficients of least Huber loss, by iteratively reweighted least squares."""
    coefficients = _least_squares(columns, log_ratio, np.ones(len(log_ratio)))
    for _ in range(7):
        coefficients = _least_squares(columns, log_ratio, _weights(columns, log_ratio, coefficients))
    return coefficients


def _weights(columns: Array, log_ratio: Array, coefficients: Array) -> Array:
    residual = np.abs(log_ratio - columns @ coefficients)
    return np.asarray(_HUBER / np.maximum(residual, _HUBER))


def _least_squares(columns: Array, log_ratio: Array, weights: Array) -> Array:
    roots = np.sqrt(weights)
    weighted = columns * roots[:, None]
    normal = weighted.T @ weighted + _RIDGE * np.eye(columns.shape[1])  # of one matrix: half of it is worked out
    return np.asarray(np.linalg.solve(normal, weighted.T @ (roots * log_ratio)), float)


def _hinges(values: Mapping[str, Array], knots: Mapping[str, int]) -> list[str]:
    """Names of all single hinges."""
    names = []
    for name, count in knots.items():
        logs = np.log(values[name])
        if np.ptp(logs) == 0:
            continue
        grid = np.linspace(logs.min(), logs.max(), count + 1)[:-1]
        places = [significant(float(np.exp(at))) for at in grid]
        names += [f"{name}>{at:g}" for at in places] + [f"{name}<{at:g}" for at in places[1:]]
    return names


def _with_products(hinges: list[str], values: Mapping[str, Array]) -> tuple[list[str], NDArray[np.float32]]:
    """All terms that enough rows reach, and their features, shape ``(terms, rows)``."""
    single = Correction(terms=dict.fromkeys(hinges, 0.0), domain=domain_of(values)).features(values)
    variable = [hinge.replace("<", ">").split(">")[0] for hinge in hinges]
    pairs = [(i, j) for i, j in combinations(range(len(hinges)), 2) if variable[i] != variable[j]]
    names = hinges + [f"{hinges[i]} * {hinges[j]}" for i, j in pairs]
    left, right = np.array(pairs, dtype=np.intp).reshape(-1, 2).T
    single = single.astype(np.float32)  # precise enough to choose by, and twice as fast
    features = np.concatenate([single, single[left] * single[right]])
    supported = np.count_nonzero(features, axis=1) >= _ROWS_PER_TERM
    return list(compress(names, supported)), features[supported]


def _matching_pursuit(features: NDArray[np.float32], target: Array, most: int) -> list[int]:
    """Greedy choice: each time the feature whose part orthogonal to those chosen explains the target best.

    The features stay as they are: of each, only the length of what is left beside those chosen is kept, and how much of
    it lies along the residual, which is orthogonal to all chosen.
    """
    axes = features - features.mean(axis=1, keepdims=True)
    norms = np.sqrt(np.einsum("ij,ij->i", axes, axes, dtype=float))
    usable = norms > 1e-6
    axes /= np.maximum(norms, 1e-6)[:, None].astype(np.float32)
    residual = np.asarray(target - target.mean(), float)
    along = (axes @ residual.astype(np.float32)).astype(float)
    squares = np.ones(len(axes))
    basis = np.empty((min(most, len(axes)), axes.shape[1]))
    chosen: list[int] = []
    while len(chosen) < len(basis):
        usable &= squares > _LEFT**2  # what is left of the others is rounding
        gain = np.where(usable, np.abs(along) / np.sqrt(np.maximum(squares, 1e-18)), 0.0)
        best = int(gain.argmax())
        if gain[best] <= 1e-5:
            break
        before = basis[: len(chosen)]
        axis = axes[best] - before.T @ (before @ axes[best])
        axis /= np.linalg.norm(axis)
        basis[len(chosen)] = axis
        shares = (axes @ axis.astype(np.float32)).astype(float)
        along -= shares * float(axis @ residual)
        squares -= shares**2
        residual -= axis * float(axis @ residual)
        usable[best] = False
        chosen.append(best)
    return chosen
