"""The expert layers of aiconfigurator's ``moe_perf`` tables as timing models, a kernel a format.

A row is the router's choice, both grouped products and the way back of one layer, in a CUDA graph. Only ``balanced``
rows on whole experts are read: there the experts touched are known, ``min(tokens x per_token, count)``, since tokens
were spread over as many as possible. That is a worst case of what a text touches, so a workload is priced by its own
number of experts (:mod:`ssdsim.transformer.routing`), never by its tokens.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from calibration.fit_experts import FEWEST_ROWS, FITTED, fit_experts
from ssdsim.hardware.experts import FEW_TOKENS
from ssdsim.hardware.laws import TimingModel
from ssdsim.transformer.operations import WEIGHT_BYTES

FORMATS = {
    "bfloat16": "bfloat16",
    "fp8": "float8",
    "fp8_block": "float8-block",
    "int4_wo": "int4",
    "w4a16_mxfp4": "mxfp4",
    "nvfp4": "nvfp4",
}
"""Their names of the experts' weights."""

COLUMNS = (
    *("moe_dtype", "num_tokens", "hidden_size", "inter_size", "topk", "num_experts"),
    *("moe_tp_size", "moe_ep_size", "distribution"),
)
_RENAMED = {
    "num_tokens": "tokens",
    "hidden_size": "hidden",
    "inter_size": "width_of_all",
    "topk": "per_token",
    "num_experts": "count",
}
_SHAPE = ["hidden", "width_of_all", "per_token", "count"]
_MOST_TOKENS, _MOST_DEVICES = 8192, 8
_TWO_MATRICES = {(2688, 1856, 6, 128), (1024, 2688, 22, 512), (2048, 5120, 22, 512)}
"""Shapes of Nemotron-H, whose experts have a squared ReLU in the place of a gate: two matrices for three."""
_GROUPED = {(7168, 2048, 8, 256)}
"""DeepSeek-V3 chooses among groups of experts, where balanced tokens do not spread as they are said to."""
_SPREAD_TOKENS = 8  # up to which they do


def fits(table: pd.DataFrame, source: str) -> dict[tuple[str, Any], Callable[[], TimingModel]]:
    """A fit for each format of which one kernel was timed often enough; ``table`` has :data:`COLUMNS`."""
    rows = _rows(table)
    found: dict[tuple[str, Any], Callable[[], TimingModel]] = {}
    for theirs, of_format in rows.groupby("moe_dtype"):
        kept = FORMATS.get(str(theirs))
        own = _of_one_kernel(of_format)
        if kept is None or (own["tokens"] <= FEW_TOKENS).sum() < FEWEST_ROWS:
            continue
        own = own.assign(expert_bytes=3.0 * own["hidden"] * own["width"] * WEIGHT_BYTES[kept])
        found["experts", kept] = partial(fit_experts, own.reset_index(drop=True)[FITTED], source)
    return found


def _rows(table: pd.DataFrame) -> pd.DataFrame:
    """Whole experts of gated layers with tokens spread over as many as possible."""
    rows = table[(table["moe_ep_size"] == 1) & (table["moe_tp_size"] <= _MOST_DEVICES)]
    rows = rows[(rows["distribution"] == "balanced") & (rows["num_tokens"] <= _MOST_TOKENS)].rename(columns=_RENAMED)
    shapes = pd.Series(list(map(tuple, rows[_SHAPE].to_numpy().tolist())), index=rows.index, dtype=object)
    gathered = shapes.isin(_GROUPED) & (rows["tokens"] > _SPREAD_TOKENS)
    rows = rows[~shapes.isin(_TWO_MATRICES) & ~gathered]
    touched = np.minimum(rows["tokens"] * rows["per_token"], rows["count"])
    return rows.assign(width=rows["width_of_all"] // rows["moe_tp_size"], touched=touched.astype(float))


def _of_one_kernel(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of the kernel with most shapes: each has a law of its own."""
    if "kernel_source" not in rows:
        return rows
    shapes = rows.drop_duplicates(["kernel_source", *_SHAPE])
    return rows[rows["kernel_source"] == shapes["kernel_source"].value_counts().idxmax()]
