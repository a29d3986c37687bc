"""A roofline with its correction, as GEMMs and attention are fitted."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from calibration.timings.bootstrap import significant
from calibration.timings.hinges import choose_terms, fit_terms, with_uncertainty
from ssdsim.base.checks import Array
from ssdsim.base.record import Record
from ssdsim.hardware.laws import Correction, Roofline

SEGMENT_ROWS = 300
ROOFLINE_COEFFICIENTS = 4


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
) -> CorrectedFit:
    fitted = {name: column[~held] for name, column in values.items()}
    roofline = fit_roofline(moved_bytes[~held], flops[~held], seconds[~held])
    log_ratio = np.log(seconds / roofline.seconds(moved_bytes, flops))
    terms = choose_terms(log_ratio[~held], fitted, knots, most_terms, seed)
    return CorrectedFit(
        roofline,
        trained=fit_terms(terms, log_ratio[~held], fitted),
        final=with_uncertainty(fit_terms(terms, log_ratio, values), log_ratio, values),
    )


def those(rows: Mapping[str, Array], of: NDArray[np.bool_]) -> dict[str, Array]:
    return {name: column[of] for name, column in rows.items()}
