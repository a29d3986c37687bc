"""Import a folder of aiconfigurator's silicon data (ai-dynamo/aiconfigurator) as a hardware profile.

The folder holds ``gemm_perf``, ``generation_attention_perf``, ``context_attention_perf``, ``custom_allreduce_perf``,
``nccl_perf`` and the other tables of :data:`_COLUMNS` (as ``.parquet``, or ``.txt`` or ``.csv`` with commas; latencies
in ms) and ``system.yaml`` with datasheet figures. A missing table leaves its operations out of the profile; only the
system card is needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from calibration.importers import compressed, experts, latent, power, recurrence, sparse, vidur
from calibration.importers.silicon import (
    FLOAT_BYTES,
    Fits,
    SystemCard,
    engines,
    fitted,
    one_time_a_shape,
    read_system_card,
)
from calibration.importers.silicon_attention import attention_fits, possible_prefills, prefill_fits
from calibration.importers.silicon_gemms import gemm_fits, without_host_bound
from calibration.importers.tables import bytes_per_count, read_table, with_numbers
from calibration.timings.fit import FEWEST_ROWS, fit_collective
from ssdsim.base.documents import as_record
from ssdsim.base.errors import InputError
from ssdsim.hardware.laws import TimingModel
from ssdsim.hardware.profile import HardwareProfile, Provenance
from ssdsim.transformer.operations import CollectiveKind

GPUS = {
    "V100": (80, 6 << 20),
    "A100": (108, 40 << 20),
    "H100": (132, 50 << 20),
    "H200": (132, 50 << 20),
    "L40S": (142, 96 << 20),
    "B200": (148, 126 << 20),
    "B300": (148, 126 << 20),
    "RTX PRO 6000": (188, 128 << 20),
}
"""Streaming multiprocessors and bytes of the second and last cache, from NVIDIA's datasheets; the B300's as its driver
counts them."""

COLLECTIVES: dict[CollectiveKind, str] = {
    "all_gather": "all_gather",
    "all_reduce": "all_reduce",
    "all_to_all": "alltoall",
}
"""Those that are imported, with their names of them."""


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
    **sparse.COLUMNS,
    **compressed.COLUMNS,
    "custom_allreduce_perf": ("num_gpus", "message_size"),
    "nccl_perf": ("nccl_dtype", "op_name", "num_gpus", "message_size"),
}
"""The tables and the columns that they need besides version, device and latency."""

_MORE_COLUMNS = (
    *("framework", "kernel_source", "backend", "window_size", "beam_width"),
    *("power", "power_limit"),
)  # read where a table has them

_NAMES = (
    *("gemm_dtype", "attn_dtype", "kv_cache_dtype", "nccl_dtype"),
    *("op_name", "moe_dtype", "distribution", "gemm_type", "kernel_source", "phase", "model"),
)  # the rest of the columns are sizes
_PARTS = ("gemm", "attention", "attention_windowed", "prefill_attention", "experts")
_CACHES = 2.0  # times the size of a cache: of so much next to nothing is left there at the next repeat


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
    """
    folder = Path(folder)
    card = read_system_card(Path(system) if system else folder / "system.yaml")
    tables = {stem: table for stem in _COLUMNS if (table := read_silicon_table(folder, stem)) is not None}
    if not tables:
        raise InputError(f"{folder}: no table of aiconfigurator there (gemm_perf.parquet and others)")
    device = _device(card, tables)
    fits, left_out = _fits(tables, card, device)
    models = fitted(fits, sum(map(len, tables.values())), jobs)
    sources = {stem: _provenance(table, commit, left_out.get(stem, "")) for stem, table in tables.items()}
    sources["datasheet"] = Provenance(
        kind="datasheet",
        source="ai-dynamo/aiconfigurator system card",
        commit=commit,
        licence="Apache-2.0",
        note="elementwise at the card's fraction of memory bandwidth and constant latency",
    )
    link: Any = {
        "source": "datasheet",
        "latency_s": card.figure("node", "p2p_latency"),
        "bandwidth": card.figure("node", "intra_node_bw"),
    }
    if link_csv:
        sources[vidur.SOURCE] = vidur.provenance(link_commit)
        link = vidur.import_link(link_csv, card.figure("node", "intra_node_bw"))
    profile = {
        "schema": 1,
        "name": name or folder.resolve().name.replace("_", "-"),
        "device": device,
        **{part: _of_part(models, part) for part in _PARTS},
        "collectives": {kind: by_ranks for kind in COLLECTIVES if (by_ranks := _of_part(models, kind))},
        "link": link,
        "elementwise": {
            "source": "datasheet",
            "launch_s": card.figure("gpu", "mem_empirical_constant_latency"),
            "bandwidth": card.figure("gpu", "mem_bw") * card.figure("gpu", "mem_bw_empirical_scaling_factor"),
        },
        "sources": sources,
    }
    made = as_record(HardwareProfile, profile, folder, "profile")
    more = recurrence.import_recurrences(tables, made.device)
    if "mla_generation_module_perf" in tables:
        blocks = latent.import_latent(tables["mla_generation_module_perf"], made, "mla_generation_module_perf")
        more["latent"] = blocks
    more |= sparse.import_sparse(tables, made) | compressed.import_compressed(tables, made)
    if (law := power.import_power(tables, made.device)) is not None:
        told = sources["gemm_perf"].changed(note=f"{sources['gemm_perf'].note}; watts by the device's own sensor")
        more |= {"power": law, "sources": {**made.sources, power.SOURCE: told}}
    return made.changed(**more)


def _fits(tables: dict[str, pd.DataFrame], card: SystemCard, device: Mapping[str, Any]) -> tuple[Fits, dict[str, str]]:
    """The fits of the tables, and what is said of the rows that they leave out; those bound by the host are dropped."""
    bandwidth = card.figure("gpu", "mem_bw")
    fits: Fits = {}
    left_out: dict[str, str] = {}
    if "gemm_perf" in tables:
        tables["gemm_perf"], waiting = without_host_bound(tables["gemm_perf"])
        fits, from_cache = gemm_fits(tables["gemm_perf"], card)
        left_out["gemm_perf"] = waiting + from_cache
    if (decoding := tables.get("generation_attention_perf")) is not None:
        most_cached = _CACHES * (device["cache_bytes"] or np.inf)
        of_attention, left_out["generation_attention_perf"] = attention_fits(decoding, bandwidth, most_cached)
        fits |= of_attention
    prefills = possible_prefills(tables, max(device["peak_flops"].values()))
    if prefills is not None:
        fits |= prefill_fits(prefills)
    elif "context_attention_perf" in tables:
        left_out["context_attention_perf"] = "; left out, it exceeds the device's peak flops and is no full attention"
    if "moe_perf" in tables:
        of_experts, left_out["moe_perf"] = experts.fits(tables["moe_perf"], "moe_perf", bandwidth)
        fits |= of_experts
    return fits | _collectives(tables, card), left_out


def _of_part(models: Mapping[tuple[str, Any], TimingModel], part: str) -> dict[Any, TimingModel]:
    """The models of one part of a profile, by format or number of ranks."""
    return {key: model for (of, key), model in models.items() if of == part}


def read_silicon_table(folder: Path, stem: str) -> pd.DataFrame | None:
    """One table with columns ``seconds`` and lower-case text, without failed rows; ``None`` if there is none."""
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
    versions = ", ".join(sorted({*(engines(table) + " " + table["version"])}))
    return Provenance(
        kind="imported",
        source="ai-dynamo/aiconfigurator",
        commit=commit,
        licence="Apache-2.0",
        note=f"{versions} on {', '.join(sorted(table['device'].unique()))}; one operation on an idle device{left_out}",
    )


def _collectives(tables: dict[str, pd.DataFrame], card: SystemCard) -> Fits:
    """The fits of NCCL's collectives, by number of ranks; the engine's own all-reduce where it was timed."""
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
        rows = one_time_a_shape(table[table["num_gpus"] == ranks], ["message_size"])
        if ranks > 1 and len(rows) >= FEWEST_ROWS:
            timed[ranks] = rows["message_size"].to_numpy(float), rows["seconds"].to_numpy(float)
    unit = bytes_per_count(kind, timed, FLOAT_BYTES, peak_bandwidth)
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
    compute_units, cache_bytes = next((GPUS[gpu] for gpu in GPUS if gpu in name.upper()), (None, None))
    wires = card.figure("node", "intra_node_bw")
    kind = "NVLink" if wires > card.figure("node", "pcie_bw", otherwise=0.0) else "PCIe"
    return {
        "name": name,
        "kind": "cuda",
        "memory_bytes": int(card.figure("gpu", "mem_capacity")),
        "memory_bandwidth": card.figure("gpu", "mem_bw"),
        "peak_flops": peaks,
        "cache_bytes": cache_bytes,
        "compute_units": compute_units,
        "count": int(card.figure("node", "num_gpus_per_node")),
        "topology": f"{kind}, {wires / 1e9:g} GB/s each way per device",
    }
