"""Fit the timing model of routed experts, judged on shapes that the fit never saw."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.optimize import nnls

from calibration.bootstrap import significant
from calibration.fit import report
from ssdsim.errors import InputError
from ssdsim.hardware.experts import FEW_TOKENS, ExpertCosts, ExpertsModel
from ssdsim.hardware.laws import Array

FEWEST_ROWS = 24
_ROUNDS, _FOLDS = 3, 5
_LARGE = 0.1  # relative error from which on a row weighs less: Huber's, on squares
_FIELDS = ("launch_s", "per_hidden_s", "per_width_s", "bandwidth", "per_expert_s", "flops_per_s", "per_value_s")
_SHAPE = ["hidden", "width_of_all", "per_token", "count"]
FITTED = ["tokens", *_SHAPE, "width", "touched", "expert_bytes", "seconds"]
"""Columns of the rows that :func:`fit_experts` takes."""


def fit_experts(rows: pd.DataFrame, source: str, fewest: int = FEWEST_ROWS) -> ExpertsModel:
    """The model of one format's experts in one kernel.

    Parameters
    ----------
    rows : columns :data:`FITTED`: ``tokens``, ``per_token``, ``count``, ``hidden``, ``width`` (of an expert on the
        device), ``width_of_all`` (on all devices together), ``touched``, ``expert_bytes`` (on the device), ``seconds``.
    source : entry of the profile's sources.

    Returns
    -------
    The model with its report: each shape (``hidden``, ``width_of_all``, ``per_token``, ``count``) is left out in turn
    where there are several, else a fifth of the rows.

    Raises
    ------
    InputError : too few rows.
    """
    if len(rows) < fewest:
        raise InputError(f"experts: {len(rows)} rows are too few to fit; at least {fewest}")
    few = rows[rows["tokens"] <= FEW_TOKENS]
    if len(few) < fewest:
        raise InputError(f"experts: {len(few)} rows of at most {FEW_TOKENS} tokens are too few to fit")
    found = report(few["seconds"].to_numpy(float), _left_out(few), len(few), len(_FIELDS))
    seen = {
        "visits": rows["tokens"] * rows["per_token"],
        "hidden": rows["hidden"],
        "width": rows["width"],
        "touched": rows["touched"],
    }
    many = rows[rows["tokens"] > FEW_TOKENS]
    of_many = report(many["seconds"].to_numpy(float), _left_out(rows, many.index), len(many), 0) if len(many) else None
    return ExpertsModel(
        source=source,
        domain={name: (float(values.min()), float(values.max())) for name, values in seen.items()},
        report=found,
        few=_costs(_fit(few)),
        many=_costs(_fit(rows)),
        many_log_sd=of_many.log_sd if of_many else found.log_sd,
    )


def _features(rows: pd.DataFrame) -> Array:
    """What each cost multiplies, shape ``(rows, 7)``."""
    visits = rows["tokens"] * rows["per_token"]
    columns = (
        np.ones(len(rows)),
        rows["hidden"],
        rows["width"],
        rows["touched"] * rows["expert_bytes"],
        rows["touched"],
        6.0 * visits * rows["hidden"] * rows["width"],
        visits * rows["hidden"],
    )
    return np.column_stack([np.asarray(column, float) for column in columns])


def _fit(rows: pd.DataFrame) -> Array:
    """Costs of at least 0 by least squares of relative errors, large ones weighing less."""
    relative = _features(rows) / rows["seconds"].to_numpy(float)[:, None]
    scale = np.where(relative.max(axis=0) > 0, relative.max(axis=0), 1.0)
    weights = np.ones(len(rows))
    for _ in range(_ROUNDS):
        costs = nnls(relative / scale * weights[:, None], weights)[0] / scale
        off = np.abs(relative @ costs - 1.0)
        weights = np.sqrt(np.minimum(1.0, _LARGE / np.maximum(off, 1e-9)))
    return np.asarray(costs)


def _left_out(rows: pd.DataFrame, asked: pd.Index | None = None) -> Array:
    """Seconds of the rows ``asked`` for (all by default), by fits without their shape; of a single shape, its fifth."""
    shapes = np.asarray(rows.groupby(_SHAPE).ngroup())
    if len(np.unique(shapes)) == 1:
        shapes = np.random.default_rng(0).permutation(len(rows)) % _FOLDS
    predicted = pd.Series(0.0, index=rows.index)
    for shape in np.unique(shapes):
        own = rows[shapes == shape]
        predicted.loc[own.index] = _features(own) @ _fit(rows[shapes != shape])
    found = predicted if asked is None else predicted.loc[asked]
    return np.asarray(found, dtype=float)


def _costs(fitted: Array) -> ExpertCosts:
    named = {name: significant(float(cost)) for name, cost in zip(_FIELDS, fitted, strict=True)}
    a_byte_s, a_flop_s = named.pop("bandwidth"), named.pop("flops_per_s")
    bandwidth = significant(1.0 / a_byte_s) if a_byte_s else 1e30
    return ExpertCosts(**named, bandwidth=bandwidth, flops_per_s=significant(1.0 / a_flop_s) if a_flop_s else None)
