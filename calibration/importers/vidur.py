"""Import a point-to-point link from Vidur's network profiles (microsoft/vidur, ``send_recv.csv``)."""

from __future__ import annotations

from pathlib import Path

from calibration.importers.messages import bytes_per_count
from calibration.importers.tables import SHORTEST_S, read_table, with_numbers
from calibration.timings.fit import fit_collective, fit_link
from ssdsim.base.checks import Array
from ssdsim.base.errors import InputError
from ssdsim.hardware.collectives import CollectiveModel
from ssdsim.hardware.link import LinkModel
from ssdsim.hardware.profile import Provenance

SOURCE = "vidur"
_ELEMENT_BYTES = 2  # Vidur times float16 tensors


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
