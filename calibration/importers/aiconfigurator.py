"""Import a folder of aiconfigurator's silicon data (ai-dynamo/aiconfigurator) as a hardware profile.

The folder holds ``gemm_perf``, ``generation_attention_perf``, ``context_attention_perf``, ``custom_allreduce_perf``,
``nccl_perf`` and the other tables of :data:`_COLUMNS` (as ``.parquet``, or ``.txt`` or ``.csv`` with commas; latencies
in ms) and ``system.yaml`` with datasheet figures. A missing table leaves its operations out of the profile; only the
system card is needed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from calibration.fit import FEWEST_ROWS, fit_attention, fit_collective, fit_gemm, fit_prefill_attention
from calibration.importers import experts, latent, recurrence, vidur
from calibration.importers.messages import bytes_per_count
from calibration.importers.system_card import SystemCard, read_system_card
from calibration.importers.tables import read_table, with_numbers
from calibration.side_by_side import fitted
from ssdsim.base.documents import as_record
from ssdsim.base.errors import InputError
from ssdsim.hardware.laws import TimingModel
from ssdsim.hardware.link import LinkModel
from ssdsim.hardware.profile import HardwareProfile, Provenance
from ssdsim.transformer.operations import DTYPE_BYTES, CollectiveKind

DTYPES = {
    "bfloat16": "bfloat16",
    "float16": "float16",
    "half": "float16",
    "float32": "float32",
    "fp8": "float8",
    "int8": "int8",
}
"""Their names of plain dtypes."""

GEMM_FORMATS = DTYPES | {"fp8_block": "float8-block", "nvfp4": "nvfp4"}
"""Their names of the weights' formats; weight-only formats are not imported."""

WEIGHT_BYTES = DTYPE_BYTES | {"float8-block": 1, "nvfp4": 0.5625}
"""Of a weight: four bits and an eight-bit scale for sixteen make 0.5625 (scales of 128 x 128 blocks are nothing)."""

COMPUTE_UNITS = {
    "V100": 80,
    "A100": 108,
    "H100": 132,
    "H200": 132,
    "L40S": 142,
    "B200": 148,
    "B300": 148,
    "RTX PRO 6000": 188,
}
"""Streaming multiprocessors, from NVIDIA's datasheets; the B300's as its driver counts them."""

CACHE_BYTES = {
    "V100": 6 << 20,
    "A100": 40 << 20,
    "H100": 50 << 20,
    "H200": 50 << 20,
    "L40S": 96 << 20,
    "B200": 126 << 20,
    "B300": 126 << 20,
    "RTX PRO 6000": 128 << 20,
}
"""Of the second and last level, from the same."""

COLLECTIVES: dict[CollectiveKind, str] = {
    "all_gather": "all_gather",
    "all_reduce": "all_reduce",
    "all_to_all": "alltoall",
}
"""Those that are imported, with their names of them."""

Fits = dict[tuple[str, Any], Callable[[], TimingModel]]
"""By the part of a profile, and the format or the number of ranks within it."""

_COLUMNS = {
    "gemm_perf": ("gemm_dtype", "m", "n", "k"),
    "generation_attention_perf": (
        *("attn_dtype", "kv_cache_dtype", "batch_size", "num_heads"),
        *("num_key_value_heads", "head_dim", "isl", "step"),
    ),
    "context_attention_perf": (
        *("attn_dtype", "kv_cache_dtype", "batch_size", "num_heads"),
        *("num_key_value_heads", "head_dim", "isl"),
    ),
    "moe_perf": experts.COLUMNS,
    "mla_generation_module_perf": latent.COLUMNS,
    **dict.fromkeys(recurrence.TABLES, recurrence.COLUMNS),
    "custom_allreduce_perf": ("num_gpus", "message_size"),
    "nccl_perf": ("nccl_dtype", "op_name", "num_gpus", "message_size"),
}
"""The tables and the columns that they need besides version, device and latency."""

_MORE_COLUMNS = ("framework", "kernel_source", "backend", "window_size", "beam_width")  # read where a table has them

_NAMES = (
    *("gemm_dtype", "attn_dtype", "kv_cache_dtype", "nccl_dtype"),
    *("op_name", "moe_dtype", "distribution", "gemm_type", "kernel_source", "phase"),
)  # the rest of the columns are sizes
_GEMM_SHAPE = ["m", "n", "k"]
_ATTENTION_SHAPE = ["batch_size", "num_heads", "num_key_value_heads", "head_dim", "context"]
_PREFILL_SHAPE = ["batch_size", "isl", "num_heads", "num_key_value_heads", "head_dim"]
_FEW_TOKENS, _HOST_BOUND = 16, 5.0  # a GEMM of few tokens so many times slower than another format's waits for the host
_STREAMED_TOKENS = 512  # products of more wait for arithmetic
_PARTS = ("gemm", "attention", "attention_windowed", "prefill_attention", "experts")
_FLASH_ATTENTION_2 = r"flash_attn_fa2|flash_attn_2"
_CACHES = 2.0  # times the size of a cache: of so much next to nothing is left there at the next repeat
_LONG_WINDOWS, _SKIPS = 64, 0.8  # over so many windows of tokens a kernel that skips takes less than this share
_IMPOSSIBLE = 0.01  # share of a table's rows; a single one may be a slip of the timer
_WIDE_QUERIES = ("bfloat16", "float16", "half")
_FLOAT_BYTES = 2  # of the 16-bit floats whose messages are imported


def import_aiconfigurator(
    folder: str | Path,
    name: str | None = None,
    system: str | Path | None = None,
    link_csv: str | Path | None = None,
    commit: str = "",
    link_commit: str = "",
    jobs: int | None = None,
) -> HardwareProfile:
    """The profile called ``name`` (the folder's name if not given).

    ``system`` is the system card (``system.yaml`` in the folder if not given), ``link_csv`` Vidur's
    ``send_recv.csv`` of the same machine (the datasheet's link if not given), ``jobs`` the processes that fit (None:
    one a core for large tables), which change no digit.

    Raises
    ------
    InputError : no system card, no table at all, or a table without the columns needed.
    """
    folder = Path(folder)
    card = read_system_card(Path(system) if system else folder / "system.yaml")
    tables = {stem: table for stem in _COLUMNS if (table := _read_table(folder, stem)) is not None}
    if not tables:
        raise InputError(f"{folder}: no table of aiconfigurator there (gemm_perf.parquet and others)")
    device = _device(card, tables)
    prefills = _possible_prefills(tables, max(device["peak_flops"].values()))
    fits: Fits = {}
    said_of_gemms = ""
    if "gemm_perf" in tables:
        tables["gemm_perf"], waiting = _without_host_bound(tables["gemm_perf"])
        fits, from_cache = _gemms(tables["gemm_perf"], card)
        said_of_gemms = waiting + from_cache
    cached_attention = ""
    if "generation_attention_perf" in tables:
        most_cached = _CACHES * (device["cache_bytes"] or np.inf)
        of_decoding = tables["generation_attention_perf"]
        found, cached_attention = _attentions(of_decoding, card.figure("gpu", "mem_bw"), most_cached)
        fits |= found
    if prefills is not None:
        fits |= _prefills(prefills)
    said_of_experts = ""
    if "moe_perf" in tables:
        of_experts, said_of_experts = experts.fits(tables["moe_perf"], "moe_perf", card.figure("gpu", "mem_bw"))
        fits |= of_experts
    fits |= _collectives(tables, card)
    models = fitted(fits, sum(map(len, tables.values())), jobs)
    left_out = {
        "gemm_perf": said_of_gemms,
        "generation_attention_perf": cached_attention,
        "moe_perf": said_of_experts,
    }
    if "context_attention_perf" in tables and prefills is None:
        left_out["context_attention_perf"] = "; left out, it exceeds the device's peak flops and is no full attention"
    sources = {stem: _provenance(table, commit, left_out.get(stem, "")) for stem, table in tables.items()}
    sources["datasheet"] = Provenance(
        kind="datasheet",
        source="ai-dynamo/aiconfigurator system card",
        commit=commit,
        licence="Apache-2.0",
        note="elementwise at the card's fraction of memory bandwidth and constant latency",
    )
    link = _datasheet_link(card)
    if link_csv:
        sources["vidur"] = vidur.provenance(link_commit)
        link = vidur.import_link(link_csv, card.figure("node", "intra_node_bw"))
    profile = {
        "schema": 1,
        "name": name or folder.resolve().name.replace("_", "-"),
        "device": device,
        **{part: _of_part(models, part) for part in _PARTS},
        "collectives": {kind: by_ranks for kind in COLLECTIVES if (by_ranks := _of_part(models, kind))},
        "link": link,
        "elementwise": _elementwise(card),
        "sources": sources,
    }
    made = as_record(HardwareProfile, profile, folder, "profile")
    more = recurrence.import_recurrences(tables, made.device)
    if "mla_generation_module_perf" in tables:
        blocks = latent.import_latent(tables["mla_generation_module_perf"], made, "mla_generation_module_perf")
        more["latent"] = blocks
    return made.model_copy(update=more)


def _of_part(models: Mapping[tuple[str, Any], TimingModel], part: str) -> dict[Any, TimingModel]:
    """The models of one part of a profile, by format or number of ranks."""
    return {key: model for (of, key), model in models.items() if of == part}


def _read_table(folder: Path, stem: str) -> pd.DataFrame | None:
    """The table with columns ``seconds`` and lower-case text, without failed rows; ``None`` if there is none."""
    for path in (folder / f"{stem}{suffix}" for suffix in (".parquet", ".csv", ".txt")):
        if not path.exists():
            continue
        table = read_table(path, "table", ("version", "device", "latency", *_COLUMNS[stem]))
        latencies = table["latency"] if pd.api.types.is_float_dtype(table["latency"]) else _texts(table["latency"])
        latency_ms = pd.to_numeric(latencies, errors="coerce")  # of a failed run it is no number
        table = table[np.isfinite(latency_ms) & (latency_ms > 0)]
        sizes = [name for name in _COLUMNS[stem] if name not in _NAMES]
        table = with_numbers(table, path, sizes, whole=True).dropna(subset=sizes)
        if table.empty:
            raise InputError(f"{path}: no row with a latency and all of {', '.join(sizes)}")
        more = [name for name in _MORE_COLUMNS if name in table and name not in _COLUMNS[stem]]
        names = ["version", "device", *(name for name in _COLUMNS[stem] if name in _NAMES), *more]
        texts = table[names].apply(_texts)
        return texts.assign(seconds=1e-3 * latency_ms[table.index], **{name: table[name] for name in sizes})
    return None


def _texts(column: pd.Series) -> pd.Series:
    """The cells as text: one may hold anything, a list say, that cannot be grouped by."""
    if isinstance(column.dtype, pd.StringDtype) and column.notna().all():
        return column
    return column.map(str)


def _provenance(table: pd.DataFrame, commit: str, left_out: str) -> Provenance:
    versions = ", ".join(sorted({f"{row[0]} {row[1]}" for row in _versions(table)}))
    return Provenance(
        kind="imported",
        source="ai-dynamo/aiconfigurator",
        commit=commit,
        licence="Apache-2.0",
        note=f"{versions} on {', '.join(sorted(table['device'].unique()))}; one operation on an idle device{left_out}",
    )


def _versions(table: pd.DataFrame) -> list[tuple[str, str]]:
    frameworks = table["framework"] if "framework" in table else pd.Series("", index=table.index)
    pairs = pd.DataFrame({"framework": frameworks, "version": table["version"]}).drop_duplicates()
    return list(pairs.itertuples(index=False, name=None))


def _one_time_per_shape(table: pd.DataFrame, shape: list[str]) -> pd.DataFrame:
    """One row per shape: of its newest version, the fastest kernel's median.

    An engine picks the kernel for a shape, and a later version replaces an earlier one's timings.
    """
    age = {version: i for i, version in enumerate(sorted(table["version"].unique(), key=_natural))}
    ages = table["version"].map(age)
    table = table[ages == ages.groupby([table[column] for column in shape]).transform("max")]
    kernel = ["kernel_source"] if "kernel_source" in table else []
    medians = table.groupby(shape + kernel)["seconds"].median().reset_index()
    return medians.groupby(shape)["seconds"].min().reset_index()


def _natural(version: str) -> list[tuple[int, int, str]]:
    """A key by which ``0.9.0`` sorts before ``0.19.0`` and ``1.0rc1`` before ``1.0``."""
    parts = re.findall(r"\d+|[a-z]+", version.lower())
    return [(1, int(part), "") if part.isdigit() else (0, 0, part) for part in parts] + [(0, 1, "")]


def _without_host_bound(table: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """The GEMMs of each format of one engine, and what was left out: those of few tokens that wait for the host.

    These take several times as long as another format's, whatever their size. So does vLLM's ``fp8_block`` on the B200:
    150 to 280 us for every matrix up to 256 tokens, where bfloat16, of twice the bytes, takes 8 to 24. An engine that
    replays a graph launches nothing, so these times are not its own. A format is of the engine whose rows come first in
    the table; where those wait, of the next that has it.
    """
    engines = table["framework"] if "framework" in table else pd.Series("", index=table.index)
    few = table[table["m"] <= _FEW_TOKENS]
    times = few.groupby([*_GEMM_SHAPE, "gemm_dtype", engines])["seconds"].min().unstack([-2, -1])
    slower = times.div(times.min(axis=1), axis=0).median()
    waiting = [(str(theirs), str(engine)) for theirs, engine in slower.index[slower > _HOST_BOUND]]
    taken: dict[str, str] = {}
    for pair in dict.fromkeys(zip(table["gemm_dtype"], engines, strict=True)):
        if pair not in waiting:
            taken.setdefault(*pair)
    said = "".join(
        f"; {theirs} of {taken[theirs]}, {engine}'s times of few tokens are the host's"
        if theirs in taken
        else f"; {theirs} left out, its times of few tokens are the host's"
        for theirs, engine in waiting
    )
    return table[engines == table["gemm_dtype"].map(taken)], said


def gemm_rows(folder: str | Path) -> dict[str, pd.DataFrame]:
    """The GEMMs of a folder that a fit takes, by their name of the weights' format: columns m, n, k and seconds.

    Raises
    ------
    InputError : no system card or no such table.
    """
    folder = Path(folder)
    card, table = read_system_card(folder / "system.yaml"), _read_table(folder, "gemm_perf")
    if table is None:
        raise InputError(f"{folder}: no gemm_perf there")
    found = {theirs: rows[~cached] for theirs, rows, cached in _by_format(_without_host_bound(table)[0], card)}
    return {theirs: rows for theirs, rows in found.items() if len(rows) >= FEWEST_ROWS}


def _gemms(table: pd.DataFrame, card: SystemCard) -> tuple[Fits, str]:
    """A fit a format, and what of the table was left out."""
    fits: Fits = {}
    left_out = ""
    for theirs, rows, cached in _by_format(table, card):
        if cached.any():
            left_out += f"; {cached.sum()} of {len(rows)} rows of {theirs} left out, their weights came from a cache"
        rows, weights = rows[~cached], GEMM_FORMATS[theirs]
        if len(rows) >= FEWEST_ROWS:
            m, n, k, seconds = (rows[name].to_numpy(float) for name in (*_GEMM_SHAPE, "seconds"))
            fits["gemm", weights] = partial(fit_gemm, m, n, k, seconds, WEIGHT_BYTES[weights], "gemm_perf")
    return fits, left_out


def _by_format(table: pd.DataFrame, card: SystemCard) -> Iterator[tuple[str, pd.DataFrame, pd.Series]]:
    """Each format that is imported: its name there, a time a shape, and which of them came from a cache."""
    for theirs, rows in table.groupby("gemm_dtype"):
        weights = GEMM_FORMATS.get(str(theirs))
        if weights:
            rows = _one_time_per_shape(rows, _GEMM_SHAPE)
            yield str(theirs), rows, _from_cache(rows, WEIGHT_BYTES[weights], card.figure("gpu", "mem_bw"))


def _from_cache(rows: pd.DataFrame, weight_bytes: float, memory_bandwidth: float) -> pd.Series:
    """Rows of matrices whose weights arrived faster than memory streams: repeated, they stayed in the cache.

    In a pass every matrix is read once, after all others, from memory. On an L40S (96 MB of cache) matrices of 4 to 16
    MB show twice its bandwidth; a matrix that does at any number of tokens is left out where it streams.
    """
    faster = weight_bytes * rows["n"] * rows["k"] / rows["seconds"] > memory_bandwidth
    of_matrix = faster.groupby([rows["n"], rows["k"]]).transform("any")
    return of_matrix & (rows["m"] <= _STREAMED_TOKENS)


def _attentions(table: pd.DataFrame, memory_bandwidth: float, most_cached: float) -> tuple[Fits, str]:
    """Of decode attention, by the dtype of the cache, and of that with windows, over the tokens that they leave.

    Beside the fits, what was left out: keys and values that arrived faster than memory streams had stayed in the cache
    from the repeat before. In a pass they come from memory (:func:`_from_cache`).
    """
    full, windowed = _full_attention(table), _windowed_attention(table)
    full = full.assign(context=full["isl"] + full["step"])
    of = {"attention": full, **({} if windowed is None else {"attention_windowed": windowed})}
    fits: Fits = {}
    left_out = ""
    for part, some in of.items():
        for dtype, rows in _by_cache(some, _ATTENTION_SHAPE).items():
            values = rows["batch_size"] * rows["num_key_value_heads"] * rows["context"] * rows["head_dim"]
            cached = 2 * DTYPE_BYTES[dtype] * values / rows["seconds"] > memory_bandwidth
            if cached.any():
                whose = f"{dtype} caches{' with a window' if part != 'attention' else ''}"
                left_out += f"; {cached.sum()} of {len(rows)} rows of {whose} left out, they were in the device's cache"
            packed = part == "attention" or not _takes_heads_apart(some, dtype)
            if len(kept := rows[~cached]) >= FEWEST_ROWS:
                fits[part, dtype] = _attention_fit(kept, dtype, packed, most_cached)
    return fits, left_out


def _takes_heads_apart(windowed: pd.DataFrame, dtype: str) -> bool:
    """Whether the kernel of windows packs no query heads that share keys and values.

    FlashAttention 2 packs them over whole contexts and not where there is a window (``seqlenq_ngroups_swapped`` of its
    ``mha_varlen_fwd`` asks for none): its times step with all heads of the batch, however few caches they share.
    """
    own = windowed[windowed["kv_cache_dtype"].map(DTYPES.get) == dtype]
    return "kernel_source" in own and bool(own["kernel_source"].str.contains(_FLASH_ATTENTION_2).all())


def _attention_fit(rows: pd.DataFrame, dtype: str, packed: bool, most_cached: float) -> Callable[[], TimingModel]:
    batch, heads, kv_heads, head_dim, context = (rows[name].to_numpy(float) for name in _ATTENTION_SHAPE)
    shape = (batch, np.ones(len(rows)), context, heads, kv_heads, head_dim)
    seconds = rows["seconds"].to_numpy(float)
    whose = DTYPE_BYTES[dtype], "generation_attention_perf"
    return partial(fit_attention, *shape, seconds, *whose, packed=packed, most_cached=most_cached)


def _possible_prefills(tables: dict[str, pd.DataFrame], peak_flops: float) -> pd.DataFrame | None:
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


def _prefills(table: pd.DataFrame) -> Fits:
    """Of attention of whole prompts, by the dtype of the cache that they fill; ``table`` holds full attention."""
    fits: Fits = {}
    for dtype, rows in _by_cache(table, _PREFILL_SHAPE).items():
        batch, tokens, heads, kv_heads, head_dim = (rows[name].to_numpy(float) for name in _PREFILL_SHAPE)
        shape = (batch, tokens, heads, kv_heads, head_dim)
        fits["prefill_attention", dtype] = partial(
            fit_prefill_attention, *shape, rows["seconds"].to_numpy(float), DTYPE_BYTES[dtype], "context_attention_perf"
        )
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


def _by_cache(table: pd.DataFrame, shape: list[str]) -> dict[str, pd.DataFrame]:
    """One time a shape by the dtype of the cache, where there are enough of them for a fit.

    Over a cache of 16 bits the arithmetic has its dtype. Over an 8-bit cache queries have 16 bits: that is how an
    engine is asked for such a cache (a model in bfloat16, ``--kv-cache-dtype fp8``), and the only pair that the
    tables of vLLM on H100, H200 and B200 hold; whether the kernel then multiplies in 8 bits is in its time. Only
    where a table lacks that pair are rows taken whose queries are declared in 8 bits too.
    """
    found = {}
    for theirs, rows in table.groupby("kv_cache_dtype"):
        dtype = DTYPES.get(str(theirs))
        if dtype is None:
            continue
        wide = rows["attn_dtype"].isin(_WIDE_QUERIES)
        narrow_cache = DTYPE_BYTES[dtype] < _FLOAT_BYTES
        rows = rows[wide] if narrow_cache and wide.any() else rows[rows["attn_dtype"] == theirs]
        rows = _one_time_per_shape(rows, shape)
        if len(rows) >= FEWEST_ROWS:
            found[dtype] = rows
    return found


def _collectives(tables: dict[str, pd.DataFrame], card: SystemCard) -> Fits:
    """Of NCCL's collectives, by number of ranks; the engine's own all-reduce where it was timed."""
    peak = card.figure("node", "intra_node_bw")
    fits: Fits = {}
    if "nccl_perf" in tables:
        table = tables["nccl_perf"]
        table = table[table["nccl_dtype"].isin(["half", "float16", "bfloat16"])]
        for kind, theirs in COLLECTIVES.items():
            fits |= _by_ranks(table[table["op_name"] == theirs], kind, peak, "nccl_perf")
    if "custom_allreduce_perf" in tables:
        table = _captured(tables["custom_allreduce_perf"])
        fits |= _by_ranks(table, "all_reduce", peak, "custom_allreduce_perf")
    return {key: fits[key] for key in sorted(fits)}


def _captured(table: pd.DataFrame) -> pd.DataFrame:
    """The rows timed in a CUDA graph where the table tells, otherwise all but the eager ones."""
    text = table.filter(["kernel_source", "backend"]).agg(" ".join, axis=1).str.lower()
    graph = text.str.contains("graph")
    return table[graph] if graph.any() else table[~text.str.contains("eager")]


def _by_ranks(table: pd.DataFrame, kind: CollectiveKind, peak_bandwidth: float, source: str) -> Fits:
    """A fit for each number of ranks.

    ``message_size`` is the full tensor in elements on the H100: a device then sends up to 468 GB/s in an
    all-reduce over 8 GPUs (450 GB/s is NVLink's, one way, and NVLS exceeds the ring's bound a little), and rows
    of one-byte integers take the time of half as many 16-bit floats. The all-gather reaches 258 to 336 GB/s;
    were its size one rank's share, it would be 516 GB/s at 2 GPUs. The all-to-all's is what one rank sends, its own
    part included: 269 to 332 GB/s.
    """
    timed = {}
    for ranks in map(int, sorted(table["num_gpus"].unique())):
        rows = _one_time_per_shape(table[table["num_gpus"] == ranks], ["message_size"])
        if ranks > 1 and len(rows) >= FEWEST_ROWS:
            timed[ranks] = rows["message_size"].to_numpy(float), rows["seconds"].to_numpy(float)
    unit = bytes_per_count(kind, timed, _FLOAT_BYTES, peak_bandwidth)
    return {
        (kind, ranks): partial(fit_collective, unit * counts, seconds, source)
        for ranks, (counts, seconds) in timed.items()
    }


def _device(card: SystemCard, tables: dict[str, pd.DataFrame]) -> dict[str, Any]:
    peaks = {
        dtype: peak
        for dtype, key in (
            ("bfloat16", "bfloat16_tc_flops"),
            ("float16", "bfloat16_tc_flops"),  # tensor cores run both 16-bit floats at one rate
            ("float8", "fp8_tc_flops"),
            ("float8-block", "fp8_tc_flops"),
            ("nvfp4", "fp4_tc_flops"),
            ("int8", "int8_tc_flops"),
        )
        if (peak := card.figure("gpu", key, otherwise=0.0))
    }
    if not peaks:
        raise InputError(
            f"{card.path}: no peak of the device above 0; a system card has gpu.bfloat16_tc_flops or another"
        )
    name = str(next(iter(tables.values()))["device"].iloc[0])
    wires = card.figure("node", "intra_node_bw")
    kind = "NVLink" if wires > card.figure("node", "pcie_bw", otherwise=0.0) else "PCIe"
    return {
        "name": name,
        "kind": "cuda",
        "memory_bytes": int(card.figure("gpu", "mem_capacity")),
        "memory_bandwidth": card.figure("gpu", "mem_bw"),
        "peak_flops": peaks,
        "cache_bytes": _of_device(CACHE_BYTES, name),
        "compute_units": _of_device(COMPUTE_UNITS, name),
        "count": int(card.figure("node", "num_gpus_per_node")),
        "topology": f"{kind}, {wires / 1e9:g} GB/s each way per device",
    }


def _of_device(known: Mapping[str, int], name: str) -> int | None:
    return next((figure for key, figure in known.items() if key in name.upper()), None)


def _elementwise(card: SystemCard) -> dict[str, Any]:
    return {
        "source": "datasheet",
        "launch_s": card.figure("gpu", "mem_empirical_constant_latency"),
        "bandwidth": card.figure("gpu", "mem_bw") * card.figure("gpu", "mem_bw_empirical_scaling_factor"),
    }


def _datasheet_link(card: SystemCard) -> LinkModel | dict[str, Any]:
    return {
        "source": "datasheet",
        "latency_s": card.figure("node", "p2p_latency"),
        "bandwidth": card.figure("node", "intra_node_bw"),
    }
