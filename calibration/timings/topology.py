"""Paths between devices: NVLink, a PCIe switch, or the host."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import combinations

from calibration.machine.machine import Gpu, gpus
from calibration.machine.smi import nvidia_smi

NO_DIRECT_LINK = "no direct link"
_ESCAPES = re.compile(r"\x1b\[[0-9;]*m")

Pair = tuple[int, int]


def topology(devices: Sequence[str]) -> str:
    """The links between ``devices``, the last of which is the draft's, as ``nvidia-smi topo -m`` names them.

    NV2 is two NVLinks; PIX and PXB stay below a PCIe root; PHB, NODE and SYS cross the host. Without the tool only peer
    access is known. CPUs share their memory.
    """
    gpus_here = gpus(devices)
    if not gpus_here:
        return "cores that share memory"
    rows = parse_uuids(nvidia_smi("--query-gpu=index,uuid", "--format=csv,noheader"))
    links = parse_links(nvidia_smi("topo", "-m"))
    return describe(gpus_here, links_of(gpus_here, rows, links))


def describe(gpus: Mapping[str, Gpu], links: Mapping[Pair, str]) -> str:
    """Describe the links of ``gpus``, the last of which is the draft's; by peer access where a link is unknown."""
    index = {name: int(name.split(":")[1]) for name in gpus}
    pairs = list(combinations(sorted(index.values()), 2))
    if all(pair in links for pair in pairs):
        missing = [pair for pair in pairs if crosses_host(links[pair])]
        how = ", ".join(f"{a}-{b} {links[a, b]}" for a, b in pairs)
    else:
        missing = [(a, b) for a, b in pairs if f"cuda:{b}" not in gpus[f"cuda:{a}"].peers]
        how = "every pair has peer access" if pairs and not missing else ""
    if not missing:
        return how or "one GPU"
    draft = list(index.values())[-1]
    where = "from target to draft" if any(draft in pair for pair in missing) else "between some target GPUs"
    absent = ", ".join(f"{a}-{b}" for a, b in missing)
    return f"{NO_DIRECT_LINK} {where} (GPUs {absent})" + (f": {how}" if how else "")


def links_of(gpus: Mapping[str, Gpu], rows: Mapping[str, int], links: Mapping[Pair, str]) -> dict[Pair, str]:
    """``links`` between rows of nvidia-smi as links between torch's numbers, which the UUIDs match to the rows.

    The two differ where GPUs are hidden, or ordered by speed (CUDA's own order) and not by bus.
    """
    row = {int(name.split(":")[1]): rows[gpu.uuid] for name, gpu in gpus.items() if gpu.uuid in rows}
    pairs = {(a, b): (min(row[a], row[b]), max(row[a], row[b])) for a, b in combinations(sorted(row), 2)}
    return {pair: links[of_rows] for pair, of_rows in pairs.items() if of_rows in links}


def parse_uuids(table: str) -> dict[str, int]:
    """Rows by UUID, written as torch writes it, from ``nvidia-smi --query-gpu=index,uuid --format=csv,noheader``."""
    rows = [line.split(",") for line in table.splitlines() if line.count(",") == 1]
    return {uuid.strip().removeprefix("GPU-").lower(): int(row) for row, uuid in rows if row.strip().isdigit()}


def parse_links(matrix: str) -> Mapping[Pair, str]:
    """Links by pair of GPUs (the smaller number first) from the output of ``nvidia-smi topo -m``."""
    rows = [line.split() for line in _ESCAPES.sub("", matrix).splitlines() if line.strip()]
    if not rows:
        return {}
    columns = [int(name[3:]) for name in rows[0] if re.fullmatch(r"GPU\d+", name)]
    links: dict[Pair, str] = {}
    for name, *cells in rows[1:]:
        if re.fullmatch(r"GPU\d+", name):
            links |= {(int(name[3:]), other): cell for other, cell in zip(columns, cells, strict=False)}
    return {(a, b): link for (a, b), link in links.items() if a < b}


def crosses_host(link: str) -> bool:
    return link in ("PHB", "NODE", "SYS")


def driver_version() -> str | None:
    """The version of the NVIDIA driver; None where there is none."""
    lines = nvidia_smi("--query-gpu=driver_version", "--format=csv,noheader").split()
    return lines[0] if lines else None
