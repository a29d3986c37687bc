"""The V100's profile from what is public: DeepBench's GEMMs and a folder of measurements with a source a row.

The folder holds ``p2p.csv`` (copies between pairs by the number of NVLinks), ``collectives.csv`` (all-reduces in CUDA
graphs), ``memory_bandwidth.csv`` and ``launch.csv`` (streaming and small kernels), and ``nccl`` with tables of
nccl-tests. What nobody measured (attention, all-gather, all-reduce over two and four) stays the datasheet's. Errors are
of sources left out, one after the other.

All-reduce over eight: nccl-tests ran in one process, whose host takes 48 us to launch eight kernels, whatever they do.
A captured pass does not wait for that, so small messages take what CUDA graphs showed, and the table counts from where
the devices take longer than their host.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from calibration.importers.deepbench import import_deepbench
from calibration.importers.nccl_output import runs_in
from calibration.importers.nccl_tests import Timings, read_nccl_tests
from calibration.importers.tables import read_table, with_numbers
from calibration.timings.fit import fit_line, regimes_with_uncertainty, report, significant
from ssdsim.base.checks import Array
from ssdsim.base.documents import read_text
from ssdsim.base.errors import InputError
from ssdsim.base.record import Record
from ssdsim.hardware.collectives import CollectiveModel, Regime
from ssdsim.hardware.device import Device
from ssdsim.hardware.elementwise import ElementwiseModel
from ssdsim.hardware.links import LinkModel
from ssdsim.hardware.profile import HardwareProfile, Provenance

_TABLE, _ONE_SIZE = "allreduce_8xV100-SXM2-16GB_hcm", "allreduce_8xV100-SXM2-16GB_OCI"
_COPY_TABLE = "onerank_copy_V100-SXM2"
_CARD = "V100-SXM2"
_RANKS = 8
_HOST_BOUND_BYTES = 2**19  # smaller messages of the table wait for its host
_GRAPH_BYTES = 2**17  # up to here messages pay the floor of a graph and the table's bandwidth
_LARGE_COPY_BYTES = 2**22  # smaller copies stay in the cache of 6 MB
_ASSUMED_LATENCY_S = 10e-6  # of a message by NCCL, which nobody timed on a V100


class _Typical(Record):
    """A number by the source that measured it, and the geometric mean."""

    by_source: dict[str, float]

    @property
    def typical(self) -> float:
        return float(np.exp(np.mean(np.log(list(self.by_source.values())))))

    def left_out(self) -> tuple[Array, Array]:
        """Each source's number, and what the others say."""
        logs = np.log(list(self.by_source.values()))
        others = (logs.sum() - logs) / (len(logs) - 1)
        return np.exp(logs), np.exp(others)


def import_v100(deepbench: Path, folder: Path, name: str, memory_gib: int = 32, commit: str = "") -> HardwareProfile:
    """The profile called ``name``, of the card with ``memory_gib``."""
    base = import_deepbench(deepbench, name, commit)
    links, nvlinks = _links(folder / "p2p.csv")
    device = base.device.changed(
        name=f"Tesla V100-SXM2-{memory_gib}GB", memory_bytes=memory_gib * 2**30, nvlinks=nvlinks
    )
    collectives = {kind: dict(of) for kind, of in base.collectives.items()}
    all_reduce, said = _all_reduce(folder)
    collectives["all_reduce"][_RANKS] = all_reduce
    elementwise = _elementwise(folder)
    return base.changed(
        device=Device(**device.as_dict()),
        collectives=collectives,
        link=links[1],
        links=links,
        elementwise=elementwise,
        sources={**base.sources, **_sources(said)},
    )


def _sources(all_reduce: str) -> dict[str, Provenance]:
    return {
        "all_reduce": Provenance(
            kind="imported", source="konnase.github.io, 1Cat-vLLM, Oracle Cloud tutorial", note=all_reduce
        ),
        "streaming": Provenance(
            kind="imported",
            source="GPUInspector.jl, nways_multi_gpu, performance-study, GKE notes",
            note="copies and STREAM on V100-SXM2, a rate a source, errors of sources left out; small kernels between "
            "events on a DGX-1 and a V100-PCIE",
        ),
        "p2p": Provenance(
            kind="imported",
            source="GPUInspector.jl, nways_multi_gpu, Dell white paper",
            note="bandwidth of copies by NVLinks, sources agree to 1 % (none: 12 %); NCCL's latency is assumed, so the "
            "error is a datasheet's",
        ),
    }


def _links(path: Path) -> tuple[dict[int, LinkModel], tuple[tuple[int, ...], ...]]:
    """The links by number of NVLinks, and that number between each two of the machine whose every pair was timed."""
    table = read_table(
        path, "table of copies", ("source", "machine", "gpu_a", "gpu_b", "links", "uni_gbs", "latency_us")
    )
    table = table[table["machine"].str.contains(_CARD) & table["uni_gbs"].notna()]
    rates = with_numbers(_between_two(table), path, ["links", "uni_gbs"])
    bandwidths = {}
    for count, rows in rates.groupby("links"):
        by_machine = rows.groupby("machine")["uni_gbs"].median()
        bandwidths[round(float(str(count)))] = 1e9 * float(np.exp(np.log(by_machine).mean()))
    missing = {0, 1, 2} - set(bandwidths)
    if missing:
        raise InputError(f"{path}: no copies between V100-SXM2 with {min(missing)} NVLinks")
    slow_s = _host_delay_s(path)
    links = {
        count: LinkModel(
            source="p2p",
            latency_s=_ASSUMED_LATENCY_S + (slow_s if count == 0 else 0.0),
            bandwidth=significant(rate),
        )
        for count, rate in sorted(bandwidths.items())
    }
    return links, _matrix(path, rates)


def _between_two(table: pd.DataFrame) -> pd.DataFrame:
    """The copies whose number of NVLinks is a number: a device's to itself have none."""
    return table[pd.to_numeric(table["links"], errors="coerce").notna()]


def _host_delay_s(path: Path) -> float:
    """Delay of a copy where no NVLink leads."""
    table = read_table(path, "table of copies", ("machine", "links", "latency_us", "notes"))
    direct = table[table["notes"].str.contains("P2P enabled", na=False) & table["machine"].str.startswith("DGX-1 ")]
    timed = with_numbers(_between_two(direct), path, ["links", "latency_us"])
    none, some = timed[timed["links"] == 0]["latency_us"], timed[timed["links"] > 0]["latency_us"]
    if none.empty or some.empty:
        raise InputError(f"{path}: no latencies of a DGX-1's pairs with NVLinks and without")
    return significant(1e-6 * float(none.median() - some.median()))


def _matrix(path: Path, rates: pd.DataFrame) -> tuple[tuple[int, ...], ...]:
    whole = [rows for _, rows in rates.groupby("machine") if len(rows) == _RANKS * (_RANKS - 1)]
    if not whole:
        raise InputError(f"{path}: no machine whose {_RANKS * (_RANKS - 1)} pairs were all timed")
    numbered = with_numbers(whole[0], path, ["gpu_a", "gpu_b"], whole=True)
    pairs = {
        (int(a), int(b)): int(n) for a, b, n in zip(*(numbered[c] for c in ("gpu_a", "gpu_b", "links")), strict=True)
    }
    return tuple(tuple(pairs.get((a, b), 0) for b in range(_RANKS)) for a in range(_RANKS))


def _elementwise(folder: Path) -> ElementwiseModel:
    """Launch and bandwidth, typical of the sources; the error is of sources left out, of small and large kernels."""
    launches = _launches(folder / "launch.csv")
    rates = _Typical({**_rates(folder / "memory_bandwidth.csv").by_source, "copies by size": _copies(folder)})
    measured, predicted = (np.concatenate(each) for each in zip(launches.left_out(), rates.left_out(), strict=True))
    held_out = report(measured, predicted, len(measured) - 1, 2)
    launch_s, bandwidth = (significant(each.typical) for each in (launches, rates))
    return ElementwiseModel(source="streaming", launch_s=launch_s, bandwidth=bandwidth, report=held_out)


def _launches(path: Path) -> _Typical:
    """Seconds of a small kernel between events, of the GPUs whose host is not what takes the time."""
    table = with_numbers(read_table(path, "table of launches", ("gpu", "what", "time_us")), path, ["time_us"])
    rows = table[table["what"].str.contains("GPU 0 to itself|GPU to itself") & ~table["gpu"].str.contains("SXM3")]
    if len(rows) < 2:
        raise InputError(f"{path}: {len(rows)} copies of a GPU to itself; an error of sources left out needs two")
    return _Typical({str(gpu): 1e-6 * float(us) for gpu, us in zip(rows["gpu"], rows["time_us"], strict=True)})


def _rates(path: Path) -> _Typical:
    """A rate a source of V100-SXM2: the median of its large copies and STREAM kernels."""
    table = read_table(path, "table of bandwidths", ("source", "gpu", "tool", "gbs"))
    kept = table["gpu"].str.contains(_CARD) & ~table["tool"].str.contains("nccl-tests|bandwidthTest")
    kept |= table["gpu"].str.startswith("DGX-1 V100")
    rows = with_numbers(table[kept], path, ["gbs"])
    medians = rows.groupby("source")["gbs"].median()
    if len(medians) < 2:
        raise InputError(f"{path}: {len(medians)} sources of V100-SXM2; an error of sources left out needs two")
    return _Typical({str(source): 1e9 * float(rate) for source, rate in medians.items()})


def _copies(folder: Path) -> float:
    """The bandwidth of nccl-tests with one rank, which copies, at sizes beyond the cache, each read and written."""
    path = _file(folder, _COPY_TABLE)
    rows = [row for run in runs_in(read_text(path, "output of nccl-tests"), path) for row in run.rows]
    large = [(2 * size, seconds) for size, seconds, *_ in rows if size >= _LARGE_COPY_BYTES]
    if len(large) < 3:
        raise InputError(f"{path}: {len(large)} copies of {_LARGE_COPY_BYTES:,} B and more")
    sizes, seconds = np.array(large).T
    return fit_line(sizes, seconds)[1]


def _all_reduce(folder: Path) -> tuple[CollectiveModel, str]:
    """The law, and what it rests on."""
    ((table,), _) = read_nccl_tests([_file(folder, _TABLE)], "all_reduce")
    ((large,), _) = read_nccl_tests([_file(folder, _ONE_SIZE)], "all_reduce")
    sizes, seconds = np.array(sorted(table.rows)).T
    graphs = _graph_floors(folder / "collectives.csv")
    model = CollectiveModel(source="all_reduce", regimes=_regimes(sizes, seconds, list(graphs.values())))
    held = _left_out(sizes, seconds, graphs, large)
    held_out = report(*held, rows_fitted=len(sizes) + len(graphs) - 1, coefficients=3 * len(model.regimes) - 1)
    host = 1e6 * float(np.median(seconds[sizes <= 2**13]))
    floors = ", ".join(f"{name} {1e6 * floor:.1f}" for name, floor in graphs.items())
    said = (
        f"NCCL in CUDA graphs at 8 KiB ({floors} us) up to 128 KiB, one process of eight GPUs from 512 KiB (its host's "
        f"floor, {host:.1f} us, is not a captured pass's); errors of sources and sizes left out"
    )
    domain = {"message_bytes": (0.0, float(max(row[0] for row in large.rows)))}
    return model.changed(report=held_out, domain=domain), said


def _graph_floors(path: Path) -> dict[str, float]:
    """Seconds of NCCL's all-reduces in graphs, by algorithm: the smallest message, where latency is all there is."""
    table = with_numbers(
        read_table(path, "table of collectives", ("machine", "operation", "ranks", "bytes", "method", "time_us")),
        path,
        ["ranks", "bytes", "time_us"],
    )
    isolated = table["method"].str.startswith("NCCL") & table["method"].str.contains("graph")
    isolated &= ~table["method"].str.contains("back to back") & (table["ranks"] == _RANKS)
    rows = table[isolated & (table["operation"] == "all_reduce")]
    if len(rows) < 2:
        raise InputError(f"{path}: {len(rows)} rows of NCCL's all-reduce over {_RANKS} in a graph; errors need two")
    return {
        str(method).replace("NCCL ", ""): 1e-6 * float(us)
        for method, us in zip(rows["method"], rows["time_us"], strict=True)
    }


def _regimes(sizes: Array, seconds: Array, floors: Sequence[float]) -> tuple[Regime, ...]:
    """The graph's floor with the table's bandwidth of small messages; then the table, where its devices are slower."""
    small, device = sizes <= _GRAPH_BYTES, sizes >= _HOST_BOUND_BYTES
    bandwidth = fit_line(sizes[small], seconds[small])[1]
    floor = float(np.exp(np.mean(np.log(floors))))
    first = Regime(
        latency_s=significant(floor), bandwidth=bandwidth, from_bytes=float(sizes[0]), to_bytes=float(_GRAPH_BYTES)
    )
    return (first, *regimes_with_uncertainty(sizes[device], seconds[device]))


def _left_out(sizes: Array, seconds: Array, graphs: dict[str, float], large: Timings) -> tuple[Array, Array]:
    """Measured and predicted: each graph's floor and each size of the table by the others, another machine's by all."""
    pairs = []
    for name, floor in graphs.items():
        others = [value for other, value in graphs.items() if other != name]
        pairs.append((floor, float(_law(sizes, seconds, others)(2**13))))
    for at in np.flatnonzero(sizes >= _HOST_BOUND_BYTES):
        kept = np.arange(len(sizes)) != at
        pairs.append((seconds[at], float(_law(sizes[kept], seconds[kept], list(graphs.values()))(sizes[at]))))
    whole = _law(sizes, seconds, list(graphs.values()))
    pairs += [(each_s, float(whole(size))) for size, each_s in large.rows]
    measured, predicted = np.array(pairs).T
    return measured, predicted


def _law(sizes: Array, seconds: Array, floors: Sequence[float]) -> Callable[[ArrayLike], Array]:
    return CollectiveModel(source="all_reduce", regimes=_regimes(sizes, seconds, floors)).seconds


def _file(folder: Path, start: str) -> Path:
    """The one table of nccl-tests whose name starts so."""
    paths = sorted((folder / "nccl").glob(f"{start}*.txt")) if folder.is_dir() else []
    for path in paths:
        return path
    raise InputError(f"{folder}: no nccl/{start}*.txt there")
