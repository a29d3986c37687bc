"""Vidur's profiles (microsoft/vidur): links and all-reduces of one node, and a layer's operations.

``mlp.csv`` has a layer's operations at several tensor-parallel degrees. Times are in ms, timed eagerly one operation at
a time, so small ones show a launch floor of some 10-20 us that a captured pass does not have. Shapes follow from the
model's sizes: with ``h = n_head / tp`` heads and ``kv = n_kv_head / tp``, attn_pre_proj is ``n_embd -> (h + 2 kv) d``,
attn_post_proj ``h d -> n_embd``, mlp_up_proj ``n_embd -> 2 n / tp`` (gate and up fused) and mlp_down_proj ``n / tp ->
n_embd``.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from calibration.importers.tables import SHORTEST_S, bytes_per_count, read_table, with_numbers
from calibration.timings.fit import fit_collective, fit_elementwise, fit_link
from calibration.timings.fit_gemm import fit_gemm
from ssdsim.base.checks import Array
from ssdsim.base.errors import InputError
from ssdsim.base.record import Record
from ssdsim.hardware.collectives import CollectiveModel
from ssdsim.hardware.elementwise import ElementwiseModel
from ssdsim.hardware.gemm import GemmModel
from ssdsim.hardware.links import LinkModel
from ssdsim.hardware.profile import Provenance

SOURCE = "vidur"
_ELEMENT_BYTES = 2  # Vidur times float16 tensors
DTYPE = "float16"
_ELEMENT_BYTES = 2
_PROJECTIONS = ("attn_pre_proj", "attn_post_proj", "mlp_up_proj", "mlp_down_proj")
# tensors of the hidden size that an operation reads and writes
_STREAMS = {"input_layernorm": 2, "post_attention_layernorm": 2, "add": 3}
_BANDS = ((1, 8), (9, 64), (65, 512), (513, 4096))


def provenance(commit: str = "") -> Provenance:
    """Provenance of a component that is Vidur's."""
    return Provenance(
        kind="imported",
        source="microsoft/vidur",
        commit=commit,
        licence="MIT",
        note="torch NCCL within one node, eager, three repeats of each size",
    )


def import_link(path: str | Path, peak_bandwidth: float) -> LinkModel:
    """The link between two devices of one node; ``peak_bandwidth`` (bytes/s, one way) is the datasheet's."""
    sizes, seconds = _timed(Path(path), "send_recv", peak_bandwidth)[2]
    return fit_link(sizes, seconds, SOURCE)


def import_all_reduce(path: str | Path, peak_bandwidth: float) -> dict[int, CollectiveModel]:
    """All-reduces within one node by number of ranks; ``peak_bandwidth`` (bytes/s, one way) is the datasheet's."""
    timed = _timed(Path(path), "all_reduce", peak_bandwidth)
    return {ranks: fit_collective(sizes, seconds, SOURCE) for ranks, (sizes, seconds) in timed.items()}


def _timed(path: Path, kind: str, peak_bandwidth: float) -> dict[int, tuple[Array, Array]]:
    """Message bytes and seconds within one node, by number of devices.

    On the H100 tables elements would make 690 GB/s one way of a 450 GB/s link: their ``size`` is bytes.
    """
    shape, median_ms = ["num_workers", "devices_per_node", "size"], f"time_stats.{kind}.median"
    table = read_table(path, "CSV of Vidur's", [*shape, median_ms])
    table = with_numbers(with_numbers(table, path, shape, whole=True, least=1), path, [median_ms])
    table = table.dropna(subset=[*shape, median_ms]).assign(seconds=table[median_ms] * 1e-3)
    within = (table["num_workers"] == table["devices_per_node"]) & (table["num_workers"] > 1)
    timed = {}
    for ranks, rows in table[within & (table["seconds"] >= SHORTEST_S)].groupby("num_workers"):
        medians = rows.groupby("size")["seconds"].median()
        timed[round(float(str(ranks)))] = medians.index.to_numpy(float), medians.to_numpy(float)
    if not timed:
        raise InputError(f"{path}: no {kind} within one node (num_workers equal to devices_per_node)")
    unit = bytes_per_count(kind, timed, _ELEMENT_BYTES, peak_bandwidth)
    return {ranks: (unit * sizes, seconds) for ranks, (sizes, seconds) in timed.items()}


def read_gemms(path: Path) -> pd.DataFrame:
    """The projections as GEMMs: columns ``m, n, k, tp, seconds`` (medians)."""
    table = _read(path)
    tp = table["num_tensor_parallel_workers"]
    head_dim = table["n_embd"] // table["n_head"]
    heads, kv_heads = table["n_head"] // tp, np.maximum(1, table["n_kv_head"] // tp)
    inner = table["n_expanded_embd"] // tp
    gated = np.where(table["use_gated_mlp"].astype(str).str.lower().isin(("true", "1", "1.0")), 2, 1)
    shapes = {
        "attn_pre_proj": ((heads + 2 * kv_heads) * head_dim, table["n_embd"]),
        "attn_post_proj": (table["n_embd"], heads * head_dim),
        "mlp_up_proj": (gated * inner, table["n_embd"]),
        "mlp_down_proj": (table["n_embd"], inner),
    }
    parts = [
        pd.DataFrame(
            {"m": table["num_tokens"], "n": n, "k": k, "tp": tp, "seconds": table[f"time_stats.{name}.median"] * 1e-3}
        )
        for name, (n, k) in shapes.items()
    ]
    rows = pd.concat(parts, ignore_index=True).dropna()
    rows = rows[(rows > 0).all(axis=1) & (rows["seconds"] >= SHORTEST_S)]
    if rows.empty:
        raise InputError(f"{path}: no row with a time of each projection and its sizes")
    return rows


def import_gemms(path: Path) -> GemmModel:
    """The projections' timings as a GEMM model."""
    rows = read_gemms(path)
    m, n, k, seconds = (rows[name].to_numpy(float) for name in ("m", "n", "k", "seconds"))
    return fit_gemm(m, n, k, seconds, _ELEMENT_BYTES, SOURCE)


def import_elementwise(path: Path) -> ElementwiseModel:
    """Norms and residual additions by the bytes that they move."""
    table = _read(path)
    parts = [
        pd.DataFrame(
            {
                "moved_bytes": tensors * _ELEMENT_BYTES * table["num_tokens"] * table["n_embd"],
                "seconds": table[f"time_stats.{name}.median"] * 1e-3,
            }
        )
        for name, tensors in _STREAMS.items()
        if f"time_stats.{name}.median" in table
    ]
    rows = pd.concat(parts, ignore_index=True).dropna()
    return fit_elementwise(rows["moved_bytes"].to_numpy(float), rows["seconds"].to_numpy(float), SOURCE)


def _read(path: Path) -> pd.DataFrame:
    sizes = ["n_head", "n_kv_head", "n_embd", "n_expanded_embd", "num_tokens", "num_tensor_parallel_workers"]
    times = [f"time_stats.{name}.median" for name in _PROJECTIONS]
    table = read_table(path, "CSV of Vidur's", [*sizes, "use_gated_mlp", *times])
    times += [name for name in (f"time_stats.{stream}.median" for stream in _STREAMS) if name in table]
    return with_numbers(with_numbers(table, path, sizes, whole=True, least=1), path, times).dropna(subset=sizes)


class Band(Record):
    """GEMMs of ``smallest <= m <= largest``: median of predicted over measured less 1, and of its absolute value.

    ``extra_s`` is the median of measured less predicted seconds: a launch floor of the other source would show as the
    same few microseconds in every band, another clock or library as a share.
    """

    smallest: int
    largest: int
    rows: int
    bias: float
    error: float
    extra_s: float


def cross_check(model: GemmModel, rows: pd.DataFrame) -> list[Band]:
    """Predict another source's GEMMs (columns ``m, n, k, seconds``) and compare, by bands of ``m``."""
    m, n, k, seconds = (rows[name].to_numpy(float) for name in ("m", "n", "k", "seconds"))
    predicted = model.seconds(m, n, k)
    ratio, extra = predicted / seconds - 1.0, seconds - predicted
    bands = []
    for smallest, largest in _BANDS:
        inside = (m >= smallest) & (m <= largest)
        if inside.any():
            medians = (float(np.median(x[inside])) for x in (ratio, np.abs(ratio), extra))
            bands.append(Band(smallest, largest, int(inside.sum()), *medians))
    return bands
