"""Devices without torch: their names, cores, the GPUs that nvidia-smi lists, and the torch that has their kernels."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from ssdsim.base.documents import without_codes
from ssdsim.base.errors import InputError
from ssdsim.base.extras import install
from ssdsim.base.record import Record

_NAME = re.compile(r"(cpu|cuda)(?::(\d{1,4})(?:-(\d{1,4}))?)?")
_ANSWER_S = 20.0
_QUERY = "index,name,compute_cap,memory.total"
_OLDEST = (7, 5)  # compute capability of which builds for every CUDA have kernels
OLD_WHEEL = "pip install torch --index-url https://download.pytorch.org/whl/cu126"
"""The builds for CUDA 12.6, the last that have kernels of a V100."""
_ROCM = "cuda here: torch for ROCm numbers its GPUs as CUDA's, cuda:0-3 (calibrate --gpus 0-4)"
_ELSEWHERE = {
    "mps": "not timed: on Metal torch captures no passes and connects no ranks; cpu times cores, "
    "ssdsim import llama-bench takes llama.cpp's passes of your models",
    "hip": _ROCM,
    "rocm": _ROCM,
}


def elsewhere(name: str) -> str | None:
    """What a kind of device is that has another name here, or none; None of any other."""
    return _ELSEWHERE.get(name.partition(":")[0].lower())


def named_devices(text: str) -> list[str]:
    """Parse the names, such as ``cuda:0-3`` or ``cuda:0,cuda:2``; the machine need not be this one."""
    if "," in text:
        return [name for each in text.split(",") for name in named_devices(each)]
    match = _NAME.fullmatch(text)
    if not match:
        is_none = "not a device; allowed: cpu, cpu:0, cuda:0, cuda:0-3"
        raise InputError(f"'{text}' is {elsewhere(text) or is_none}")
    kind, first, last = match[1], match[2], match[3]
    start = int(first or 0)
    names = [f"{kind}:{i}" for i in range(start, int(last or start) + 1)]
    if not names:
        raise InputError(f"'{text}' names no device: {start} is above {last}")
    return names


Pair = tuple[int, int]


class SeenGpu(Record):
    """A GPU as the driver lists it; ``capability`` is None if the driver is too old to know it."""

    name: str
    capability: tuple[int, int] | None
    memory_bytes: int


def nvidia_smi(*arguments: str) -> str:
    """Read what ``nvidia-smi`` prints; empty where there is no driver, or it fails."""
    command = ["nvidia-smi", *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_ANSWER_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""


def parse_links(matrix: str) -> Mapping[Pair, str]:
    """Links by pair of GPUs (the smaller number first) in what ``nvidia-smi topo -m`` prints."""
    links: dict[Pair, str] = {}
    columns: list[int] = []
    for name, *cells in (line.split() for line in without_codes(matrix).splitlines() if line.lstrip()[:3] == "GPU"):
        if cells and re.fullmatch(r"GPU\d+", cells[0]):
            columns = [int(each[3:]) for each in (name, *cells) if re.fullmatch(r"GPU\d+", each)]
        elif re.fullmatch(r"GPU\d+", name):
            links |= {(int(name[3:]), other): cell for other, cell in zip(columns, cells, strict=False)}
    return {(a, b): link for (a, b), link in links.items() if a < b}


def crosses_host(link: str) -> bool:
    return link in ("PHB", "NODE", "SYS")


def seen_gpus() -> list[SeenGpu]:
    """The GPUs in the driver's order."""
    told = nvidia_smi(f"--query-gpu={_QUERY}", "--format=csv,noheader")
    if not told:  # a driver that knows no compute_cap refuses the whole question
        told = nvidia_smi("--query-gpu=index,name,memory.total", "--format=csv,noheader")
    return [gpu for gpu in map(_seen, told.splitlines()) if gpu is not None]


def _seen(line: str) -> SeenGpu | None:
    """The GPU of ``0, Tesla V100-SXM2-32GB, 7.0, 32768 MiB``, the capability left out or not."""
    found = re.fullmatch(r"\s*\d+, (.+?)(?:, (\d+)\.(\d+))?, (\d+) MiB\s*", line)
    if found is None:
        return None
    name, major, minor, mebibytes = found.groups()
    capability = (int(major), int(minor)) if major else (7, 0) if "V100" in name else None
    return SeenGpu(name, capability, int(mebibytes) << 20)


def cpu_name() -> str:
    """The model of this machine's cores."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def physical_bytes() -> int:
    """Of the whole machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def has_kernels(architectures: Iterable[str], capability: tuple[int, int]) -> bool:
    """Say whether a build with these architectures runs on a GPU.

    Kernels of ``sm_80`` run on 8.0, 8.6 and 8.9, not on 9.0; ``compute_80`` is compiled on the machine for whatever is
    newer. One with a letter (``sm_90a``) is of that capability alone. ROCm's ``gfx942`` is of 9.4, an MI300X's.
    """
    for each in architectures:
        if (rocm := re.fullmatch(r"gfx(\d+)([0-9a-f])[0-9a-f]", each)) and capability == (
            int(rocm[1]),
            int(rocm[2], 16),
        ):
            return True
        found = re.fullmatch(r"(sm|compute)_(\d+)(\d)([a-z]?)", each)
        if found is None:
            continue
        kind, of, alone = found[1], (int(found[2]), int(found[3])), bool(found[4])
        if of == capability or (not alone and of <= capability and (kind == "compute" or of[0] == capability[0])):
            return True
    return False


def wheel_for(gpus: Iterable[SeenGpu]) -> str:
    """The command that installs a torch with kernels of these GPUs."""
    old = any(gpu.capability is not None and gpu.capability < _OLDEST for gpu in gpus)
    return OLD_WHEEL if old else install("torch")


def torch_missing(verb: str, gpus: Sequence[SeenGpu] | None = None) -> str:
    """Complaint of ``verb`` where torch is not installed, on these GPUs, or on those that are here."""
    command = wheel_for(seen_gpus() if gpus is None else gpus)
    why = " (builds for later CUDA have no kernels of these GPUs)" if command == OLD_WHEEL else ""
    return f"{verb} needs torch: {command}{why}"


def kernels_missing(torch_version: str, cuda: str | None, gpus: Sequence[SeenGpu]) -> str:
    """Complaint about a torch that is installed and has no kernels of these GPUs."""
    names = ", ".join(dict.fromkeys(gpu.name for gpu in gpus))
    cure = f"{OLD_WHEEL} --force-reinstall" if wheel_for(gpus) == OLD_WHEEL else "install a newer torch"
    return f"{torch_build(torch_version, cuda)} has no kernels for {names}: {cure}"


def torch_build(version: str, cuda: str | None) -> str:
    """A torch and the CUDA that it is made for; one for ROCm says so in its version."""
    return f"torch {version}" + (f" (CUDA {cuda})" if cuda else "")
