"""Vidur's layer profiles (microsoft/vidur, ``mlp.csv``): a layer's operations at several tensor-parallel degrees.

Times are in ms, timed eagerly one operation at a time, so that small ones show a launch floor of some 10-20 us which a
captured pass does not have. Shapes follow from the model's sizes: with ``h = n_head / tp`` heads and ``kv = n_kv_head /
tp``, attn_pre_proj is ``n_embd -> (h + 2 kv) d``, attn_post_proj ``h d -> n_embd``, mlp_up_proj ``n_embd -> 2 n / tp``
(gate and up fused) and mlp_down_proj ``n / tp -> n_embd``.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from calibration.importers.tables import SHORTEST_S, read_table, with_numbers
from calibration.importers.vidur import SOURCE
from calibration.timings.fit import fit_elementwise
from calibration.timings.fit_gemm import fit_gemm
from ssdsim.base.errors import InputError
from ssdsim.hardware.elementwise import ElementwiseModel
from ssdsim.hardware.gemm import GemmModel

DTYPE = "float16"
_ELEMENT_BYTES = 2
_PROJECTIONS = ("attn_pre_proj", "attn_post_proj", "mlp_up_proj", "mlp_down_proj")
# tensors of the hidden size that an operation reads and writes
_STREAMS = {"input_layernorm": 2, "post_attention_layernorm": 2, "add": 3}


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
