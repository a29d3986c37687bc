"""Fit the timing model of routed experts, judged on shapes that the fit never saw."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.optimize import nnls

from calibration.timings.fit import report, significant
from ssdsim.base.checks import Array
from ssdsim.base.errors import InputError
from ssdsim.hardware.experts import FEW_TOKENS, ExpertCosts, ExpertsModel

FEWEST_ROWS = 24
_ROUNDS, _FOLDS = 3, 5
_FEWEST_SIDE = 16  # rows of more and of fewer tokens than experts that tell their tiles apart
_ALTERNATIONS = 6  # the factor and the costs determine each other
_PLAIN = 1.3  # three in four rows are slower by more: less may be the law's own error
_LARGE = 0.1  # relative error from which on a row weighs less: Huber's, on squares
_FIELDS = ("launch_s", "per_hidden_s", "per_width_s", "bandwidth", "per_expert_s", "flops_per_s", "per_value_s")
SHAPE = ["hidden", "width_of_all", "per_token", "count"]
FITTED = ["tokens", *SHAPE, "width", "touched", "expert_bytes", "seconds"]
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
    """
    if len(rows) < fewest:
        raise InputError(f"experts: {len(rows)} rows are too few to fit; at least {fewest}")
    few = rows[rows["tokens"] <= FEW_TOKENS]
    if len(few) < fewest:
        raise InputError(f"experts: {len(few)} rows of at most {FEW_TOKENS} tokens are too few to fit")
    held_out = report(few["seconds"].to_numpy(float), _left_out(few), len(few), len(_FIELDS))
    seen = {
        "visits": rows["tokens"] * rows["per_token"],
        "hidden": rows["hidden"],
        "width": rows["width"],
        "touched": rows["touched"],
    }
    outnumbered = _outnumbered(few)
    rows, of_few = _as_if_tuned(rows, outnumbered), _as_if_tuned(few, outnumbered)
    many = rows[rows["tokens"] > FEW_TOKENS]
    of_many = report(many["seconds"].to_numpy(float), _left_out(rows, many.index), len(many), 0) if len(many) else None
    return ExpertsModel(
        source=source,
        domain={name: (float(values.min()), float(values.max())) for name, values in seen.items()},
        report=held_out,
        few=_costs(_fit(of_few)),
        many=_costs(_fit(rows)),
        many_log_sd=of_many.log_sd if of_many else held_out.log_sd,
        outnumbered=outnumbered,
    )


def _outnumbered(rows: pd.DataFrame) -> float:
    """The factor by which rows of more tokens than experts are slower than others say; 1 where that is not plain.

    vLLM's fused kernel takes tiles of 16 rows up to as many tokens as there are experts, and tiles of 64 beyond them,
    where no file of its tuned settings names the device.
    """
    beyond = (rows["tokens"] > rows["count"]).to_numpy()
    if beyond.sum() < _FEWEST_SIDE or (~beyond).sum() < _FEWEST_SIDE:
        return 1.0
    factor = 1.0
    for _ in range(_ALTERNATIONS):
        costs = _fit(_as_if_tuned(rows, factor))
        slower = rows["seconds"].to_numpy(float)[beyond] / (_features(rows[beyond]) @ costs)
        factor = float(np.exp(np.median(np.log(slower))))
    return significant(factor) if np.percentile(slower, 25) > _PLAIN else 1.0


def _as_if_tuned(rows: pd.DataFrame, outnumbered: float) -> pd.DataFrame:
    """The rows with the seconds that they would have taken in the tiles of few tokens."""
    return rows.assign(seconds=rows["seconds"] / _slower(rows, outnumbered))


def _slower(rows: pd.DataFrame, outnumbered: float) -> Array:
    """The factor by which the tiles of each row's tokens are slower than those of few."""
    return np.where(rows["tokens"] > rows["count"], outnumbered, 1.0)


def _features(rows: pd.DataFrame) -> Array:
    """Factors of each cost, shape ``(rows, 7)``."""
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
    shapes = np.asarray(rows.groupby(SHAPE).ngroup())
    if len(np.unique(shapes)) == 1:
        shapes = np.random.default_rng(0).permutation(len(rows)) % _FOLDS
    predicted = pd.Series(0.0, index=rows.index)
    for shape in np.unique(shapes):
        own, others = rows[shapes == shape], rows[shapes != shape]
        outnumbered = _outnumbered(others[others["tokens"] <= FEW_TOKENS])
        costs = _fit(_as_if_tuned(others, outnumbered))
        predicted.loc[own.index] = _slower(own, outnumbered) * (_features(own) @ costs)
    asked_for = predicted if asked is None else predicted.loc[asked]
    return np.asarray(asked_for, dtype=float)


def _costs(fitted: Array) -> ExpertCosts:
    named = {name: significant(float(cost)) for name, cost in zip(_FIELDS, fitted, strict=True)}
    a_byte_s, a_flop_s = named.pop("bandwidth"), named.pop("flops_per_s")
    bandwidth = significant(1.0 / a_byte_s) if a_byte_s else 1e30
    return ExpertCosts(**named, bandwidth=bandwidth, flops_per_s=significant(1.0 / a_flop_s) if a_flop_s else None)
