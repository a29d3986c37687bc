"""Inventory of this machine: its devices, their memory and number formats, and the links between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from itertools import combinations
from multiprocessing import get_context

import torch

from calibration.machine.devices import belong_to_parent
from calibration.machine.drivers import (
    Pair,
    SeenGpu,
    cpu_name,
    crosses_host,
    has_kernels,
    kernels_missing,
    nvidia_smi,
    parse_links,
)
from ssdsim.base.errors import InputError
from ssdsim.base.record import Record
from ssdsim.transformer.operations import DTYPES

_BFLOAT16_SINCE = (8, 0)  # compute capability
_ANSWER_S = 120.0  # to import torch and to wake the GPUs
NO_DIRECT_LINK = "no direct link"


class Gpu(Record):
    """A GPU. ``peers`` are the other GPUs whose memory it reaches directly.

    ``free_bytes`` is the free memory beside a process's own CUDA context, at the first query.
    """

    name: str
    uuid: str
    capability: tuple[int, int]
    memory_bytes: int
    free_bytes: int
    compute_units: int
    peers: frozenset[str]

    @property
    def as_seen(self) -> SeenGpu:
        """The GPU as the driver lists it."""
        return SeenGpu(self.name, self.capability, self.memory_bytes)


def gpus(devices: Sequence[str]) -> Mapping[str, Gpu]:
    """The GPUs among ``devices`` by their names (``cuda:0``, as torch numbers them).

    A process of its own asks CUDA and ends. A CUDA context takes hundreds of MiB of each GPU while its process lives,
    and blocks GPUs in exclusive mode.
    """
    return _described_elsewhere(tuple(dict.fromkeys(name for name in devices if name.startswith("cuda"))))


@cache
def _described_elsewhere(names: tuple[str, ...]) -> Mapping[str, Gpu]:
    if not names:
        return {}
    with get_context("spawn").Pool(1, initializer=belong_to_parent) as pool:
        try:
            return pool.apply_async(_describe, (names,)).get(_ANSWER_S)
        except Exception as error:  # CUDA and torch raise many kinds
            what = next(iter(str(error).splitlines()), "") or type(error).__name__
            raise InputError(f"{', '.join(names)} cannot be asked: {what}") from None


def _describe(names: Sequence[str]) -> dict[str, Gpu]:
    gpus = {}
    for name in names:
        properties = torch.cuda.get_device_properties(name)
        gpus[name] = Gpu(
            name=properties.name,
            uuid=str(getattr(properties, "uuid", "")),  # not in the oldest torch that is allowed
            capability=(properties.major, properties.minor),
            memory_bytes=properties.total_memory,
            free_bytes=int(torch.cuda.mem_get_info(name)[0]),
            compute_units=properties.multi_processor_count,
            peers=frozenset(
                other for other in names if other != name and torch.cuda.can_device_access_peer(name, other)
            ),
        )
    return gpus


def device_names(devices: Sequence[str]) -> dict[str, str]:
    """The model of each device, such as ``Tesla V100-SXM2-32GB`` for ``cuda:0``."""
    gpus_here = gpus(devices)
    return {device: gpus_here[device].name if device in gpus_here else cpu_name() for device in devices}


def natural_dtype(devices: Sequence[str]) -> str:
    """float32 on CPUs; bfloat16 where every GPU has it, else float16 (a V100)."""
    gpus_here = gpus(devices).values()
    if not gpus_here:
        return "float32"
    return "bfloat16" if all(gpu.capability >= _BFLOAT16_SINCE for gpu in gpus_here) else "float16"


def check_kernels(devices: Sequence[str]) -> None:
    """Raise :class:`InputError` where this build of torch has no kernels of a GPU: it names the build that has."""
    lacking = [gpu for gpu in gpus(devices).values() if not has_kernels(torch.cuda.get_arch_list(), gpu.capability)]
    if lacking:
        raise InputError(kernels_missing(torch.__version__, torch.version.cuda, [gpu.as_seen for gpu in lacking]))


def check_dtype(dtype: str, devices: Sequence[str]) -> None:
    """Raise :class:`InputError` for a dtype that is priced only, or bfloat16 on a GPU that computes it by emulation."""
    if dtype not in DTYPES:
        raise InputError(f"--dtype {dtype} is priced only; real ranks run {', '.join(DTYPES)}")
    for name, gpu in gpus(devices).items():
        if dtype == "bfloat16" and gpu.capability < _BFLOAT16_SINCE:
            has, needs = (".".join(map(str, version)) for version in (gpu.capability, _BFLOAT16_SINCE))
            raise InputError(
                f"--dtype bfloat16 needs compute capability {needs}, {name} ({gpu.name}) has {has}; "
                "give --dtype float16"
            )


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


def driver_version() -> str | None:
    """The version of the NVIDIA driver; None where there is none."""
    lines = nvidia_smi("--query-gpu=driver_version", "--format=csv,noheader").split()
    return lines[0] if lines else None
