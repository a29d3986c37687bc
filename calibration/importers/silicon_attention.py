"""Attention in aiconfigurator's tables: of decoding, with and without windows, and of whole prompts."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np
import pandas as pd

from calibration.importers.silicon import DTYPES, FLOAT_BYTES, Fits, left_out, one_time_a_shape
from calibration.timings.fit import FEWEST_ROWS
from calibration.timings.fit_attention import fit_attention, fit_prefill_attention
from ssdsim.base.checks import Array
from ssdsim.transformer.operations import DTYPE_BYTES

_HEADS = {"num_heads": "heads", "num_key_value_heads": "kv_heads", "head_dim": "head_dim"}
_ATTENTION_SHAPE = {"batch_size": "batch", **_HEADS, "context": "context"}
_PREFILL_SHAPE = {"batch_size": "batch", "isl": "tokens", **_HEADS}
"""The columns of shapes, with the names that fits have for them."""

_FLASH_ATTENTION_2 = r"flash_attn_fa2|flash_attn_2"
_LONG_WINDOWS, _SKIPS = 64, 0.8  # over so many windows of tokens a kernel that skips takes less than this share
_IMPOSSIBLE = 0.01  # share of a table's rows; a single one may be a slip of the timer
_WIDE_QUERIES = ("bfloat16", "float16", "half")


def attention_fits(table: pd.DataFrame, memory_bandwidth: float, most_cached: float) -> tuple[Fits, str]:
    """The fits of decode attention, by the dtype of the cache, and of that with windows over the tokens they leave.

    Beside the fits, what was left out: keys and values that arrived faster than memory streams had stayed in the cache
    from the repeat before. In a pass they come from memory (:mod:`calibration.importers.silicon_gemms`).
    """
    full, windowed = _full_attention(table), _windowed_attention(table)
    full = full.assign(context=full["isl"] + full["step"])
    of = {"attention": full, **({} if windowed is None else {"attention_windowed": windowed})}
    fits: Fits = {}
    said = ""
    for part, some in of.items():
        for dtype, rows in _by_cache(some, _ATTENTION_SHAPE).items():
            values = rows["batch_size"] * rows["num_key_value_heads"] * rows["context"] * rows["head_dim"]
            cached = 2 * DTYPE_BYTES[dtype] * values / rows["seconds"] > memory_bandwidth
            caches = f"{dtype} caches{' with a window' if part != 'attention' else ''}"
            said += left_out(rows, cached, caches, "they were in the device's cache")
            packed = part == "attention" or not _takes_heads_apart(some, dtype)
            if len(kept := rows[~cached]) >= FEWEST_ROWS:
                timed = {**_timed(kept, _ATTENTION_SHAPE), "queries": np.ones(len(kept))}
                whose = DTYPE_BYTES[dtype], "generation_attention_perf"
                fits[part, dtype] = partial(fit_attention, timed, *whose, packed=packed, most_cached=most_cached)
    return fits, said


def _takes_heads_apart(windowed: pd.DataFrame, dtype: str) -> bool:
    """Say whether the kernel of windows packs no query heads that share keys and values.

    FlashAttention 2 packs them over whole contexts and not where there is a window (``seqlenq_ngroups_swapped`` of its
    ``mha_varlen_fwd`` asks for none): its times step with all heads of the batch, however few caches they share.
    """
    own = windowed[windowed["kv_cache_dtype"].map(DTYPES.get) == dtype]
    return "kernel_source" in own and bool(own["kernel_source"].str.contains(_FLASH_ATTENTION_2).all())


def _timed(rows: pd.DataFrame, shape: Mapping[str, str]) -> dict[str, Array]:
    """Columns by the names that fits have for them, with their seconds."""
    return {ours: rows[theirs].to_numpy(float) for theirs, ours in {**shape, "seconds": "seconds"}.items()}


def possible_prefills(tables: dict[str, pd.DataFrame], peak_flops: float) -> pd.DataFrame | None:
    """The full attention of prompts; ``None`` where there is none or it cannot be what it says.

    The H200's rows take as long without a window as with one of 128 tokens, which makes up to 257,000 TFLOP/s of them,
    260 times the device's peak.
    """
    if "context_attention_perf" not in tables:
        return None
    table = _full_attention(tables["context_attention_perf"])
    flops = 2.0 * table["batch_size"] * table["num_heads"] * table["head_dim"] * table["isl"] ** 2
    impossible = flops / table["seconds"] > peak_flops
    return None if impossible.mean() > _IMPOSSIBLE else table


def prefill_fits(table: pd.DataFrame) -> Fits:
    """The fits of attention of whole prompts, by the dtype of their cache; ``table`` holds full attention."""
    fits: Fits = {}
    for dtype, rows in _by_cache(table, _PREFILL_SHAPE).items():
        whose = DTYPE_BYTES[dtype], "context_attention_perf"
        fits["prefill_attention", dtype] = partial(fit_prefill_attention, _timed(rows, _PREFILL_SHAPE), *whose)
    return fits


def _windowed_attention(table: pd.DataFrame) -> pd.DataFrame | None:
    """The rows with a window, ``context`` being what it leaves; None where there are none, or they skip nothing.

    The H200's rows take as long with a window of 128 tokens as without, over 131,072 tokens as well.
    """
    if "window_size" not in table:
        return None
    table = _decode_kernels(table)
    windows = pd.to_numeric(table["window_size"], errors="coerce").fillna(0)
    table = table.assign(window=windows, cached=table["isl"] + table["step"])
    windowed = table[table["window"] > 0]
    shape = [name for name in _ATTENTION_SHAPE if name != "context"] + ["kv_cache_dtype", "cached"]
    long = windowed[windowed["cached"] >= _LONG_WINDOWS * windowed["window"]]
    both = long.groupby(shape)["seconds"].median() / table[table["window"] == 0].groupby(shape)["seconds"].median()
    if windowed.empty or not both.median() < _SKIPS:
        return None
    return windowed.assign(context=windowed[["cached", "window"]].min(axis=1))


def _full_attention(table: pd.DataFrame) -> pd.DataFrame:
    """The rows without a window, of :func:`_decode_kernels`."""
    table = _decode_kernels(table)
    return table[table["window_size"].isin(("0", "0.0", "-1", "-1.0"))] if "window_size" in table else table


def _decode_kernels(table: pd.DataFrame) -> pd.DataFrame:
    """The rows without beams, each with its number of kv heads.

    Triton's rows are left out where another kernel was timed as well: there it is a fallback, on the B200 for a head
    dimension of 192 over 8-bit caches alone.
    """
    if "kernel_source" in table:
        fallback = table["kernel_source"].str.contains("triton", case=False)
        table = table if fallback.all() else table[~fallback]
    if "beam_width" in table:
        table = table[table["beam_width"].isin(("1", "1.0"))]
    kv_heads = table["num_key_value_heads"].where(table["num_key_value_heads"] > 0, table["num_heads"])
    return table.assign(num_key_value_heads=kv_heads)


def _by_cache(table: pd.DataFrame, shape: Mapping[str, str]) -> dict[str, pd.DataFrame]:
    """One time a shape by the dtype of the cache, where there are enough of them for a fit.

    Over a cache of 16 bits the arithmetic has its dtype. Over an 8-bit cache queries have 16 bits: that is how an
    engine is asked for such a cache (a model in bfloat16, ``--kv-cache-dtype fp8``), and the only pair that the
    tables of vLLM on H100, H200 and B200 hold; whether the kernel then multiplies in 8 bits is in its time. Only
    where a table lacks that pair are rows taken whose queries are declared in 8 bits too.
    """
    frames = {}
    for theirs, rows in table.groupby("kv_cache_dtype"):
        dtype = DTYPES.get(str(theirs))
        if dtype is None:
            continue
        wide = rows["attn_dtype"].isin(_WIDE_QUERIES)
        narrow_cache = DTYPE_BYTES[dtype] < FLOAT_BYTES
        rows = rows[wide] if narrow_cache and wide.any() else rows[rows["attn_dtype"] == theirs]
        rows = one_time_a_shape(rows, list(shape))
        if len(rows) >= FEWEST_ROWS:
            frames[dtype] = rows
    return frames
