"""``ssdsim doctor``: what this machine and this installation can do."""

from __future__ import annotations

import os
import platform
import sys
from collections import Counter
from collections.abc import Sequence
from importlib import metadata
from importlib.util import find_spec
from typing import Any

import click

from calibration.machine.drivers import SeenGpu, has_kernels, kernels_missing, seen_gpus, torch_build, torch_missing
from ssdsim import __version__
from ssdsim.base import extras
from ssdsim.base.bundled import models_folder
from ssdsim.cli.console import console, echo, print_labelled
from ssdsim.cli.main import VERBS
from ssdsim.cli.options import Verb, json_option
from ssdsim.cli.output import echo_json
from ssdsim.hardware.catalog import LLAMA_BENCH, hardware_names, transformer_names

_DEPENDENCIES = tuple("numpy scipy simpy pandas pyarrow plotly msgspec click rich httpx2".split())


@click.command("doctor", cls=Verb, example="ssdsim doctor")
@json_option
def command(as_json: bool) -> None:
    """Check the installation and list the devices that calibrate and validate could use."""
    seen, found = seen_gpus(), _torch()
    report = {
        "ssdsim": __version__,
        "python": platform.python_version(),
        "platform": f"{sys.platform} {platform.machine()}",
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "cards": {"transformers": len(transformer_names()), "hardware": len(hardware_names())},
        "dependencies": {name: _version(name) for name in _DEPENDENCIES},
        "numba": None if extras.failure("numba") else _version("numba"),
        "gpus": list(map(_seen_json, seen)),
        "torch": found,
    }
    if as_json:
        echo_json({"schema": 1, **report})
        return
    echo(f"ssdsim {report['ssdsim']} on Python {report['python']}, {report['platform']}, {report['cores']} cores")
    cards = f"{len(transformer_names())} transformers, {len(hardware_names())} hardware profiles"
    echo(f"cards: {cards}, in {models_folder().name}/")
    kinds = Counter((gpu.name, round(gpu.memory_bytes / 2**30)) for gpu in seen)
    told = ", ".join(f"{count} x {name} ({gib} GiB)" for (name, gib), count in kinds.items())
    echo(f"GPUs: {told}" if told else "GPUs: none (nvidia-smi tells none)")
    if found is not None:
        echo(_torch_line(found, seen))
    if missing := [name for name in _DEPENDENCIES if _version(name) is None]:
        echo(f"missing dependencies: {', '.join(missing)}")
    echo(f"with llama.cpp, any GPU or CPU: {LLAMA_BENCH}")
    echo("")
    out, lacking = console(), _lacking(found, seen)
    for verb in VERBS:
        print_labelled(out, verb.ljust(_VERB), lacking.get(verb, "ready"), "yellow" if verb in lacking else "", "bold")


_VERB = 11


def _lacking(found: dict[str, Any] | None, seen: Sequence[SeenGpu]) -> dict[str, str]:
    """What verbs need that is not here, and what installs it."""
    lacking = {} if (numba := _numba_line()) is None else {"serve": numba, "plan": numba}
    models = "" if find_spec("transformers") else "transformers"
    if found is None:
        lacking |= {"calibrate": torch_missing("", seen).strip()}
        lacking |= {"validate": f"ready for paper and rows; run {torch_missing('', seen).strip()}"}
        models = "torch and transformers" if models else "torch"
    elif not found["devices"]:
        lacking |= {"calibrate": "no CUDA device here: --device cpu times these cores"}
    return lacking | ({"measure": f"needs {models}: {extras.install('measure')}"} if models else {})


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _torch() -> dict[str, Any] | None:
    """The devices that torch sees; None where it is not installed."""
    if find_spec("torch") is None:
        return None
    import torch

    devices = []
    for index in range(torch.cuda.device_count()):
        capability = torch.cuda.get_device_capability(index)
        devices.append(
            {
                "name": torch.cuda.get_device_name(index),
                "capability": ".".join(map(str, capability)),
                "supported": has_kernels(torch.cuda.get_arch_list(), capability),
            }
        )
    return {"version": torch.__version__, "cuda": torch.version.cuda, "devices": devices}


def _numba_line() -> str | None:
    """Why long runs are not compiled; None where they are."""
    version, failure = _version("numba"), extras.failure("numba")
    if version is None:
        return f"ready, long runs in a fraction of the time with numba: {extras.install('fast')}"
    if failure is not None:
        return f"ready, but numba {version} cannot be imported ({failure}): long runs are not compiled"
    return None


def _seen_json(gpu: SeenGpu) -> dict[str, object]:
    capability = None if gpu.capability is None else ".".join(map(str, gpu.capability))
    return {"name": gpu.name, "capability": capability, "memory_bytes": gpu.memory_bytes}


def _torch_line(found: dict[str, Any], seen: Sequence[SeenGpu]) -> str:
    devices = found["devices"]
    if not devices:
        told = f", though the driver has {len(seen)}: install one that is made for CUDA" if seen else ", CPU only"
        return f"torch {found['version']}: no CUDA device{told}"
    lacking = [
        SeenGpu(d["name"], (int(major), int(minor)), 0)
        for d in devices
        for major, minor in [d["capability"].split(".")]
        if not d["supported"]
    ]
    if lacking:
        return kernels_missing(found["version"], found["cuda"], lacking)
    return f"{torch_build(found['version'], found['cuda'])}: {', '.join(d['name'] for d in devices)}"
