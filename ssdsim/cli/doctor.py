"""``ssdsim doctor``: what this machine and this installation can do."""

from __future__ import annotations

import os
import platform
import sys
from importlib import metadata
from importlib.util import find_spec

import click

from ssdsim import __version__
from ssdsim.base.bundled import models_folder
from ssdsim.cli.console import echo
from ssdsim.cli.options import echo_json, json_option
from ssdsim.hardware.catalog import hardware_names, transformer_names

_DEPENDENCIES = ("numpy", "scipy", "simpy", "pandas", "pyarrow", "plotly", "pydantic", "click", "rich", "httpx2")


@click.command("doctor")
@json_option
def command(as_json: bool) -> None:
    """Check the installation and list the devices that calibrate and validate could use."""
    report = {
        "ssdsim": __version__,
        "python": platform.python_version(),
        "platform": f"{sys.platform} {platform.machine()}",
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "cards": {"transformers": len(transformer_names()), "hardware": len(hardware_names())},
        "dependencies": {name: _version(name) for name in _DEPENDENCIES},
        "torch": _torch(),
    }
    if as_json:
        echo_json({"schema": 1, **report})
        return
    echo(f"ssdsim {report['ssdsim']} on Python {report['python']}, {report['platform']}, {report['cores']} cores")
    cards = f"{len(transformer_names())} transformers, {len(hardware_names())} hardware profiles"
    echo(f"cards: {cards} in {models_folder().name}/")
    missing = [name for name in _DEPENDENCIES if _version(name) is None]
    echo(f"missing dependencies: {', '.join(missing)}" if missing else "every dependency is installed")
    echo("predict, models, hardware, import: ready")
    echo(_torch_line(report["torch"]))


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _torch() -> dict[str, object] | None:
    """What torch sees; None where it is not installed."""
    if find_spec("torch") is None:
        return None
    import torch

    devices = []
    for index in range(torch.cuda.device_count()):
        major, minor = torch.cuda.get_device_capability(index)
        arch = f"sm_{major}{minor}"
        devices.append(
            {
                "name": torch.cuda.get_device_name(index),
                "capability": f"{major}.{minor}",
                "supported": arch in torch.cuda.get_arch_list(),
            }
        )
    return {"version": torch.__version__, "cuda": torch.version.cuda, "devices": devices}


def _torch_line(torch: object) -> str:
    if not isinstance(torch, dict):
        return "torch is not installed: device timings need it (pip install 'ssdsim[torch]')"
    devices = torch["devices"]
    if not devices:
        return f"torch {torch['version']}: no CUDA device, CPU only"
    unsupported = [d["name"] for d in devices if not d["supported"]]
    names = ", ".join(d["name"] for d in devices)
    if unsupported:
        return (
            f"torch {torch['version']} (CUDA {torch['cuda']}) has no kernels for {', '.join(unsupported)}: "
            "a V100 (compute capability 7.0) needs a CUDA 12.6 build"
        )
    return f"torch {torch['version']} (CUDA {torch['cuda']}): {names}"
