"""Devices by name: ``cpu:0`` is a pinned core with one thread, ``cuda:0`` a GPU."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from datetime import timedelta

import torch
import torch.distributed as dist

from calibration.machine.drivers import named_devices
from ssdsim.base.errors import InputError

_PR_SET_PDEATHSIG = 1
COLLECTIVE_S = 20.0  # a collective that waits longer for another rank fails by itself
LOOPBACK = "lo" if sys.platform == "linux" else "lo0"  # the network interface of a machine to itself


def parse_devices(text: str) -> list[str]:
    """``cuda:0-3`` -> four names; ``cpu`` -> the first core that this process may use."""
    names = named_devices(text)
    check_devices(names)
    return names


def check_devices(names: Sequence[str]) -> None:
    """Raise :class:`InputError` for a GPU that is not there. More ranks than cores are allowed (they take turns)."""
    wanted = [int(name.split(":")[1]) for name in names if name.startswith("cuda")]
    device_count = torch.cuda.device_count() if wanted else 0
    for index in wanted:
        if index >= device_count:
            have = f"torch sees {device_count} GPUs" if device_count else "torch sees no CUDA GPU"
            raise InputError(f"cuda:{index} is not there: {have}; --device cpu calibrates pinned cores")


def draft_devices(named: str | None, target: Sequence[str]) -> list[str]:
    """The draft's devices: the named ones, else the one after the target's last; empty if there is no such GPU."""
    if named is not None:
        return parse_devices(named)
    kind, last = target[-1].split(":")
    if kind == "cuda" and int(last) + 1 >= torch.cuda.device_count():
        return []
    return [f"{kind}:{int(last) + 1}"]


def backend_of(names: Sequence[str]) -> str:
    """Nccl where every rank has a GPU, gloo otherwise."""
    on_gpu = [name for name in names if name.startswith("cuda")]
    if len(set(on_gpu)) < len(on_gpu):
        raise InputError(f"two ranks share a GPU ({', '.join(names)}); NCCL needs one device a rank")
    return "nccl" if len(on_gpu) == len(names) else "gloo"


def group_of(ranks: Sequence[int], device: torch.device, collective_s: float = COLLECTIVE_S) -> dist.ProcessGroup:
    """The group of some ranks; every rank makes it, those outside cannot use it.

    A collective fails after ``collective_s``. Torch's default for a new group is half an hour, whatever the default
    group has.

    With a draft on a CPU the default group is gloo's, which gathers no GPU tensors. The target's ranks on GPUs then
    use NCCL for these.
    """
    mixed = device.type == "cuda" and dist.get_backend() == "gloo"
    group: dist.ProcessGroup = dist.new_group(
        list(ranks), timeout=timedelta(seconds=collective_s), backend="cpu:gloo,cuda:nccl" if mixed else None
    )
    return group


def messages_lie_on(device: torch.device) -> torch.device:
    """The device of a rank's point-to-point messages: its own memory, but gloo sends none from a GPU's."""
    return device if dist.get_backend() == "nccl" else torch.device("cpu")


def busy(seconds: float) -> None:
    """Keep the core at work for so long."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def synchronised(action: Callable[[], object], device: torch.device) -> Callable[[], object]:
    """``action`` that returns when the device is done, not when a GPU has launched it."""
    if device.type != "cuda":
        return action

    def run() -> None:
        action()
        torch.cuda.synchronize()

    return run


def core_of(name: str) -> int | None:
    """The core of a CPU rank, by the number of its name among those that this process may use; None of a GPU's."""
    kind, index = name.split(":")
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    return cores[int(index) % len(cores)] if cores and kind == "cpu" else None


def occupy(name: str) -> torch.device:
    """Claim a device for this process: pin it to the core, with one thread, or select the GPU.

    Call it before any tensor is made, so that large CPU tensors get huge pages. With small pages a weight streams up to
    a tenth slower or faster depending on where they lie, and a matrix timed alone does not tell its time in a pass.
    """
    kind, index = name.split(":")
    if kind == "cuda":
        torch.cuda.set_device(int(index))
        return torch.device(name)
    if (core := core_of(name)) is not None:
        os.sched_setaffinity(0, {core})
    torch.set_num_threads(1)
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")  # torch reads it at its first large allocation
    return torch.device("cpu")


def belong_to_parent() -> None:
    """Leave Ctrl-C to the parent, and ask the kernel to kill this process when the parent dies (Linux)."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
