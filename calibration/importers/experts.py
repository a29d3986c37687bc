"""The expert layers of aiconfigurator's ``moe_perf`` tables as timing models, one kernel for each format.

A row is the router's choice, both grouped products and the way back of one layer, in a CUDA graph. Rows on whole
experts are read, the ``balanced`` ones if there are any: they touch ``min(tokens x per_token, count)`` experts, since
tokens were spread over as many as possible. In a table without them the uneven rows are read, whose experts are drawn
anew. Neither number is a text's, so a workload is priced by its own experts (:mod:`ssdsim.transformer.routing`).

The collector (``collector/helper.py``, ``power_law_<exponent>``) draws the uneven rows' loads from a bounded power law,
rounds them to the visits that there are, and lets no expert be visited twice by one token. Its draws are not in the
tables, so the mean over new draws stands for them. A law fitted to balanced rows alone predicts the uneven ones as well
as other balanced ones (the H100's: medians of 3 to 5 %).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from calibration.importers.silicon import FROM_CACHE, left_out
from calibration.timings.fit_experts import FEWEST_ROWS, FITTED, SHAPE, fit_experts
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
_MOST_TOKENS, _MOST_DEVICES = 8192, 8
_TWO_MATRICES = {(2688, 1856, 6, 128), (1024, 2688, 22, 512), (2048, 5120, 22, 512)}
"""Shapes of Nemotron-H, whose experts have a squared ReLU in the place of a gate: two matrices for three."""
_GROUPED = {(7168, 2048, 8, 256)}
"""DeepSeek-V3 chooses among groups of experts, where balanced tokens do not spread as they are said to."""
_SPREAD_TOKENS = 8  # up to which they do
_UNEVEN = r"power_law_(\d+\.\d+)"
_DRAWS = 20
_FEW = (0.01, 2.0)  # bounds of the loads where there are no more visits than experts
_LEAST, _SHARE = 1.0, 0.8  # and where there are: up to this share of the tokens


def fits(
    table: pd.DataFrame, source: str, memory_bandwidth: float
) -> tuple[dict[tuple[str, Any], Callable[[], TimingModel]], str]:
    """A fit for each format of which one kernel was timed often enough, and what there is to say of them.

    ``table`` has :data:`COLUMNS`; experts that arrived faster than at ``memory_bandwidth`` came from a cache.
    """
    rows, uneven = whole_experts(table)
    by_format: dict[tuple[str, Any], Callable[[], TimingModel]] = {}
    kernels, not_taken = [], ""
    for theirs, of_format in rows.groupby("moe_dtype"):
        kept = FORMATS.get(str(theirs))
        own, kernel = _of_one_kernel(of_format)
        if kept is None or (own["tokens"] <= FEW_TOKENS).sum() < FEWEST_ROWS:
            continue
        own = as_fitted(own, kept)
        cached = own["touched"] * own["expert_bytes"] / own["seconds"] > memory_bandwidth
        if uneven:
            not_taken += left_out(own, cached, str(theirs), FROM_CACHE)
            own = own[~cached]
        by_format["experts", kept] = partial(fit_experts, own.reset_index(drop=True), source)
        kernels.append(f"{kept}: {kernel}")
    said = f"; {', '.join(kernels)}" if kernels else ""
    return by_format, said + ("; experts of uneven rows drawn anew" if uneven else "") + not_taken


def as_fitted(rows: pd.DataFrame, weights: str) -> pd.DataFrame:
    """The columns that the fit takes of gated experts whose ``weights`` have a format."""
    return rows.assign(expert_bytes=3.0 * rows["hidden"] * rows["width"] * WEIGHT_BYTES[weights])[FITTED]


def whole_experts(table: pd.DataFrame) -> tuple[pd.DataFrame, bool]:
    """Whole experts of gated layers with what they touched, and whether the tokens were unevenly spread."""
    rows = table[(table["moe_ep_size"] == 1) & (table["moe_tp_size"] <= _MOST_DEVICES)]
    balanced = rows["distribution"] == "balanced"
    uneven = not balanced.any()
    rows = rows[rows["distribution"].str.fullmatch(_UNEVEN)] if uneven else rows[balanced]
    rows = rows[rows["num_tokens"] <= _MOST_TOKENS].rename(columns=_RENAMED)
    shapes = pd.Series(list(map(tuple, rows[SHAPE].to_numpy().tolist())), index=rows.index, dtype=object)
    gathered = shapes.isin(_GROUPED) & (rows["tokens"] > _SPREAD_TOKENS) & (not uneven)
    rows = rows[~shapes.isin(_TWO_MATRICES) & ~gathered]
    width = rows["width_of_all"] // rows["moe_tp_size"]
    # balanced tokens touch as many as they can
    spread = np.minimum(rows["tokens"] * rows["per_token"], rows["count"]).astype(float)
    return rows.assign(width=width, touched=_touched(rows) if uneven else spread), uneven


def _touched(rows: pd.DataFrame) -> pd.Series:
    """Experts that tokens of a power law touch."""
    exponents = rows["distribution"].str.extract(_UNEVEN)[0].astype(float)
    shapes = zip(rows["tokens"], rows["count"], rows["per_token"], exponents, strict=True)
    touched = [touched_experts(int(m), int(count), int(k), exponent) for m, count, k, exponent in shapes]
    return pd.Series(touched, index=rows.index, dtype=float)


def _of_one_kernel(rows: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """The rows of the kernel with most shapes, as each has a law of its own, and its name."""
    if "kernel_source" not in rows:
        return rows, "a kernel without a name"
    shapes = rows.drop_duplicates(["kernel_source", *SHAPE])
    kernel = shapes["kernel_source"].value_counts().idxmax()
    return rows[rows["kernel_source"] == kernel], str(kernel)


@lru_cache(maxsize=4096)
def touched_experts(tokens: int, count: int, per_token: int, exponent: float) -> float:
    """Distinct experts of ``count``, ``per_token`` a token, whose loads follow a power law; the mean over draws."""
    rng = np.random.default_rng(0)
    return float(np.mean([np.count_nonzero(_loads(tokens, count, per_token, exponent, rng)) for _ in range(_DRAWS)]))


def _loads(tokens: int, count: int, per_token: int, exponent: float, rng: np.random.Generator) -> NDArray[np.int64]:
    """Visits of each expert, together ``tokens * per_token``."""
    visits = tokens * per_token
    low, high = (_LEAST, _SHARE * tokens) if visits > count else _FEW
    power = 1.0 - exponent
    drawn = (low**power + (high**power - low**power) * rng.random(count)) ** (1.0 / power)
    loads: NDArray[np.int64] = np.minimum(np.round(drawn / drawn.sum() * visits), tokens).astype(np.int64)
    missing = visits - int(loads.sum())
    for _ in range(abs(missing)):
        loads[loads.argmin() if missing > 0 else loads.argmax()] += np.sign(missing)
    return loads
