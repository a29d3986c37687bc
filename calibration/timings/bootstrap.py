"""Errors of a fit's coefficients: the fit is repeated on timings drawn anew (Efron, 1979).

What is kept is the covariance of the coefficients, as the few independent directions in which predictions move.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from ssdsim.base.checks import Array
from ssdsim.hardware.collectives import CollectiveModel
from ssdsim.hardware.gemm import GemmModel
from ssdsim.hardware.laws import Directions, FitReport, LatencyBandwidthModel, ModelOfVariables

Model = TypeVar("Model", bound=GemmModel | ModelOfVariables | CollectiveModel | LatencyBandwidthModel)

RESAMPLINGS = 50
_MOST_SHAPES = 500
_LEAST = 0.001  # directions that move what is predicted for the timed shapes by less (root mean square) are left out


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
    update = {"report": report.model_copy(update={"coefficient_sd": coefficient_sd})}
    return cast(Model, model.model_copy(update=update))


def significant(value: float) -> float:
    """``value`` with six significant digits, as a profile stores it."""
    return float(f"{value:.6g}")
