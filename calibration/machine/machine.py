"""Devices of this machine: what they are and have."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from functools import cache
from multiprocessing import get_context
from pathlib import Path

import torch

from calibration.machine.devices import belong_to_parent
from calibration.machine.smi import SeenGpu, has_kernels, kernels_missing
from ssdsim.base.errors import InputError
from ssdsim.base.record import Record
from ssdsim.transformer.operations import DTYPES

_BFLOAT16_SINCE = (8, 0)  # compute capability
_ANSWER_S = 120.0  # to import torch and to wake the GPUs


class Gpu(Record):
    """A GPU. ``peers`` are those of the GPUs asked about whose memory it reaches directly.

    ``free_bytes`` is what a process finds beside its own CUDA context, as it was when first asked.
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
        """The GPU as the driver tells it."""
        return SeenGpu(self.name, self.capability, self.memory_bytes)


def gpus(devices: Sequence[str]) -> Mapping[str, Gpu]:
    """The GPUs among ``devices`` by their names (``cuda:0``, as torch numbers them).

    They are asked in a process that ends: who asks CUDA holds hundreds of MiB of each GPU as long as it lives, and the
    ranks could not use a GPU in exclusive mode at all.
    """
    return _asked(tuple(dict.fromkeys(name for name in devices if name.startswith("cuda"))))


@cache
def _asked(names: tuple[str, ...]) -> Mapping[str, Gpu]:
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
    return {device: gpus_here[device].name if device in gpus_here else _cpu_name() for device in devices}


def _cpu_name() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


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
