"""Which devices reach each other directly, and through what: NVLink, a PCIe switch, or the host."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from itertools import combinations

import torch

NO_DIRECT_LINK = "no direct link"
_ANSWER_S = 20.0
_ESCAPES = re.compile(r"\x1b\[[0-9;]*m")

Pair = tuple[int, int]


def topology(devices: Sequence[str]) -> str:
    """The links between ``devices``, the last of which is the draft's, as ``nvidia-smi topo -m`` names them.

    NV2 is two NVLinks; PIX and PXB stay below a PCIe root; PHB, NODE and SYS cross the host. Without the tool only peer
    access is known. CPUs share their memory.
    """
    indices = [int(name.split(":")[1]) for name in devices if name.startswith("cuda")]
    if not indices:
        return "cores that share memory"
    pairs = list(combinations(sorted(set(indices)), 2))
    # where GPUs are hidden or reordered, torch numbers them otherwise than nvidia-smi does
    links = {} if "CUDA_VISIBLE_DEVICES" in os.environ else parse_links(_nvidia_smi("topo", "-m"))
    if all(pair in links for pair in pairs):
        missing = [pair for pair in pairs if crosses_host(links[pair])]
        found = ", ".join(f"{a}-{b} {links[a, b]}" for a, b in pairs)
    else:
        missing = [(a, b) for a, b in pairs if not torch.cuda.can_device_access_peer(a, b)]
        found = "every pair has peer access" if pairs and not missing else ""
    if not missing:
        return found or "one GPU"
    to_draft = (min(indices[0], indices[-1]), max(indices[0], indices[-1]))
    where = "from target to draft" if to_draft in missing else "between some target GPUs"
    absent = ", ".join(f"{a}-{b}" for a, b in missing)
    return f"{NO_DIRECT_LINK} {where} (GPUs {absent})" + (f": {found}" if found else "")


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
    """Of the NVIDIA driver; None where there is none."""
    lines = _nvidia_smi("--query-gpu=driver_version", "--format=csv,noheader").split()
    return lines[0] if lines else None


def _nvidia_smi(*arguments: str) -> str:
    try:
        done = subprocess.run(
            ["nvidia-smi", *arguments], capture_output=True, text=True, timeout=_ANSWER_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""
