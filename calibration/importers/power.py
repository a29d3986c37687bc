"""Watts by operation of aiconfigurator's tables that have the columns ``power`` and ``power_limit``, as a power law.

The collector repeats an operation and reads the device's own sensor. That averages over about a second: a loop that is
shorter tells of what ran before it, too, and neighbouring rows differ by a factor of two. So laws go through medians,
and their error is that of whole matrices (all rows of one ``n`` and ``k``, of one attention's heads, of one layer's
experts) that no fit saw. Laws of timings are the profile's: here shares are those of the row's own time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from calibration.importers.experts import FORMATS, whole_experts
from calibration.importers.silicon import DTYPES, GEMM_FORMATS
from ssdsim.base.checks import Array
from ssdsim.hardware.device import Device
from ssdsim.hardware.laws import FitReport
from ssdsim.hardware.power import LoadLaw, PowerKind, PowerLaw
from ssdsim.transformer.operations import Attention, ExpertMlp, Gemm, Operation

SOURCE = "power"
_MOST_TOKENS = 512  # of a decoding pass
_KEPT_BACK = 3  # every third matrix
_FEWEST = 5  # rows of a matrix whose median is a measurement
_FEWEST_ROWS = 50
_SENSOR = 0.05  # of log watts: what is off by more counts by its distance, not by its square
_AT_REST = 0.01  # quantile of all watts
_REST_SD = 0.1  # at least: nobody read the watts of a device that only waits
_Z_95 = 1.96
_BOUNDS = ((-3.0, 0.0, 0.0, 0.3), (0.0, 5.0, 20.0, 3.0))  # log of busy over limit, memory, arithmetic, bend


def import_power(tables: Mapping[str, pd.DataFrame], device: Device) -> PowerLaw | None:
    """The power law of a device; None where no table of matrix products tells watts."""
    told = {stem: with_watts(table) for stem, table in tables.items() if "power" in table}
    made: dict[PowerKind, LoadLaw] = {}
    apart: dict[PowerKind, float] = {}
    for kind, (stem, operations_of) in _KINDS.items():
        if (table := told.get(stem)) is not None and len(table) >= _FEWEST_ROWS:
            limit_w = float(table["power_limit"].median())
            made[kind], apart[kind] = fit_load(*_loads(operations_of(table), device), limit_w)
    if "gemm" not in made:
        return None
    watts = pd.concat([table["power"] for table in told.values()])
    idle_w = float(watts.quantile(_AT_REST))
    return PowerLaw(
        source=SOURCE,
        limit_w=float(told["gemm_perf"]["power_limit"].median()),
        idle_w=idle_w,
        kinds=made,
        pass_log_sd=max(apart.values()),
        idle_log_sd=max(_REST_SD, abs(float(np.log(made["gemm"].busy_w / idle_w)))),
    )


def with_watts(table: pd.DataFrame) -> pd.DataFrame:
    """The rows whose watts and their limit were read."""
    watts = {name: pd.to_numeric(table[name], errors="coerce") for name in ("power", "power_limit")}
    table = table.assign(**watts)
    return table[(table["power"] > 0.0) & (table["power_limit"] > 0.0)]


_READ = "seconds", "power"
Rows = Iterable[tuple[Operation, str, float, float]]
"""Operations with the matrix that each is of, its seconds and watts."""


def _cells(table: pd.DataFrame, *names: str) -> Iterator[Any]:
    """The rows of some columns."""
    return zip(*(table[name].tolist() for name in names), strict=True)


def _gemms(table: pd.DataFrame) -> Rows:
    few = table[(table["m"] <= _MOST_TOKENS) & table["gemm_dtype"].isin([*GEMM_FORMATS])]
    for m, n, k, dtype, seconds, watts in _cells(few, "m", "n", "k", "gemm_dtype", *_READ):
        yield Gemm("", int(m), int(n), int(k), GEMM_FORMATS[dtype]), f"{n} {k}", seconds, watts


def _attentions(table: pd.DataFrame) -> Rows:
    full = table[table["window_size"].astype(float) == 0.0] if "window_size" in table else table
    full = full[full["attn_dtype"].isin([*DTYPES]) & full["kv_cache_dtype"].isin([*DTYPES])]
    sizes = "batch_size", "isl", "step", "num_heads", "num_key_value_heads", "head_dim"
    for batch, isl, step, heads, kv_heads, head_dim, dtype, kept, seconds, watts in _cells(
        full, *sizes, "attn_dtype", "kv_cache_dtype", *_READ
    ):
        of = int(batch), 1, int(isl + step), int(heads), int(kv_heads), int(head_dim)
        op = Attention("", *of, DTYPES[dtype], kv_dtype=DTYPES[kept])
        yield op, f"{heads} {kv_heads} {head_dim}", seconds, watts


def _experts(table: pd.DataFrame) -> Rows:
    rows, _ = whole_experts(table)
    rows = rows[(rows["tokens"] <= _MOST_TOKENS) & rows["moe_dtype"].isin([*FORMATS])]
    sizes = "tokens", "hidden", "width", "count", "per_token"
    for tokens, hidden, width, count, per_token, touched, dtype, seconds, watts in _cells(
        rows, *sizes, "touched", "moe_dtype", *_READ
    ):
        of = int(tokens), int(hidden), int(width), int(count), int(per_token)
        yield ExpertMlp("", *of, touched, FORMATS[dtype], "bfloat16"), f"{hidden} {width} {count}", seconds, watts


_KINDS: Mapping[PowerKind, tuple[str, Callable[[pd.DataFrame], Rows]]] = {
    "gemm": ("gemm_perf", _gemms),
    "attention": ("generation_attention_perf", _attentions),
    "experts": ("moe_perf", _experts),
}


def _loads(rows: Rows, device: Device) -> tuple[Array, Array, Array, Any]:
    """Shares of bandwidth and of peak flops, watts, and the matrix of each row."""
    found = [(device.memory_s(op) / s, device.compute_s(op) / s, w, of) for op, of, s, w in rows]
    memory, arithmetic, watts, matrices = zip(*found, strict=True)
    return np.minimum(1.0, memory), np.minimum(1.0, arithmetic), np.array(watts), np.array(matrices)


def fit_load(memory: Array, arithmetic: Array, watts: Array, matrices: Any, limit_w: float) -> tuple[LoadLaw, float]:
    """The law of one kind, through medians of watts, and the error of the median of a matrix that no fit saw."""
    from scipy.optimize import least_squares

    names = np.unique(matrices)
    held = np.isin(matrices, names[np.random.default_rng(0).permutation(len(names)) % _KEPT_BACK == 0])

    def watts_of(c: Array) -> Array:
        load = np.minimum(1.0, (c[1] * memory) ** c[3] + c[2] * arithmetic)
        return np.asarray(limit_w * (np.exp(c[0]) + (1.0 - np.exp(c[0])) * load))

    def errors(c: Array) -> Array:
        return np.asarray(np.log(watts / watts_of(c)))

    fitted = least_squares(
        lambda c: errors(c)[~held], (-1.5, 0.9, 1.2, 1.0), bounds=_BOUNDS, loss="soft_l1", f_scale=_SENSOR
    )
    busy, in_memory, in_arithmetic, bend = map(float, fitted.x)
    of_held = pd.Series(errors(fitted.x)[held])
    by_matrix = of_held.groupby(matrices[held]).agg(["median", "size"])
    apart = by_matrix["median"][by_matrix["size"] >= _FEWEST].abs()
    apart = apart if len(apart) else of_held.abs()
    p95 = float(np.quantile(of_held.abs(), 0.95))
    report = FitReport(
        rows_fitted=int((~held).sum()),
        rows_held_out=int(held.sum()),
        median_error=float(of_held.abs().median()),
        p95_error=p95,
        log_sd=p95 / _Z_95,
        coefficients=4,
    )
    busy_w = float(limit_w * np.exp(busy))
    law = LoadLaw(busy_w=busy_w, memory=in_memory, arithmetic=in_arithmetic, bend=bend, report=report)
    return law, float(np.quantile(apart, 0.95)) / _Z_95
