"""Fit the timing model of attention over a latent cache to whole attention blocks."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from scipy.optimize import least_squares

from calibration.timings.bootstrap import significant
from calibration.timings.fit import FEWEST_ROWS, hold_out, report
from calibration.timings.fit_corrected import those
from calibration.timings.hinges import domain_of
from ssdsim.base.checks import Array
from ssdsim.base.errors import InputError
from ssdsim.hardware.latent import LatentCosts, LatentModel

_START = (3e-5, 3e-6, 2e-6, 5e-8, 1e-9, 1e-10, 0.9, 7e14, 3.0)  # in the order of the costs' fields
_LEAST = (1e-9, 1e-9, 1e-9, 1e-12, 1e-13, 1e-14, 0.01, 1e12, 1.0)  # the bandwidth as a share of the most
_MOST = (1e-3, 1e-4, 1e-4, 1e-5, 1e-7, 1e-7, 1.0, 1e17, 12.0)
_NOTHING = 2.0  # times the least of a cost: it was driven to its bound
_LARGE = 0.03  # relative error from which on a row weighs less

Rows = Mapping[str, Array]
"""``batch, rows, context, cached, cache_bytes, row_flops`` as :class:`LatentCosts` has them, ``seconds`` of the block,
and ``products_s`` of it that its other operations take as timed alone."""


def fit_latent(rows: Rows, source: str, most_bandwidth: float) -> LatentModel:
    """The model of what a block takes beyond its products, which streams no faster than ``most_bandwidth``.

    Its errors are those of whole blocks, of rows held out: what is left of a block once its products are taken off may
    be next to nothing, and nobody waits for it alone.
    """
    count = len(rows["seconds"])
    if count < 2 * FEWEST_ROWS:
        raise InputError(f"latent attention: {count} rows are too few to fit; at least {2 * FEWEST_ROWS}")
    held = hold_out(count)
    unseen, trained = those(rows, held), _fit(those(rows, ~held), most_bandwidth)
    predicted = unseen["products_s"] + _seconds(trained, unseen)
    return LatentModel(
        source=source,
        domain=domain_of({name: rows[name] for name in LatentModel.dimensions}),
        report=report(unseen["seconds"], predicted, int(np.sum(~held)), len(_START)),
        costs=_fit(rows, most_bandwidth),
    )


def _seconds(costs: LatentCosts, rows: Rows) -> Array:
    return costs.seconds(rows["batch"], 1, rows["rows"], rows["cache_bytes"], rows["row_flops"])


def _fit(rows: Rows, most_bandwidth: float) -> LatentCosts:
    """Least squares of blocks' relative errors over logarithms of the costs, which keeps these positive."""

    def costs(logs: Array) -> LatentCosts:
        named = dict(zip(LatentCosts.model_fields, map(float, np.exp(logs)), strict=True))
        return LatentCosts(**{**named, "bandwidth": most_bandwidth * named["bandwidth"]})

    def residuals(logs: Array) -> Array:
        return np.asarray((rows["products_s"] + _seconds(costs(logs), rows)) / rows["seconds"] - 1.0)

    bounds = np.log(_LEAST), np.log(_MOST)
    fitted = least_squares(residuals, np.log(_START), loss="soft_l1", f_scale=_LARGE, bounds=bounds)
    least = dict(zip(LatentCosts.model_fields, _LEAST, strict=True))
    fields = {name: significant(value) for name, value in costs(fitted.x).model_dump().items()}
    return LatentCosts(**{name: 0.0 if value < _NOTHING * least[name] else value for name, value in fields.items()})
