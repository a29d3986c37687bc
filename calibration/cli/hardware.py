"""``ssdsim hardware``: the simulator's verb, and the check of a profile against another source's timings."""

from __future__ import annotations

from pathlib import Path

import click

from ssdsim.base.errors import InputError
from ssdsim.cli.console import console
from ssdsim.cli.hardware import command
from ssdsim.cli.options import json_option
from ssdsim.cli.output import echo_json
from ssdsim.cli.param_types import completing
from ssdsim.cli.tables import TextTable
from ssdsim.hardware.catalog import find_hardware, hardware_names

__all__ = ["command"]


@command.command("check", example="ssdsim hardware check h100-sxm --vidur-mlp mlp.csv")
@click.argument("name", shell_complete=completing(hardware_names))
@click.option("--vidur-mlp", type=click.Path(path_type=Path), required=True, help="Vidur's mlp.csv of the same device")
@click.option("--dtype", default="bfloat16", show_default=True, help="of the profile's GEMMs")
@json_option
def check_hardware(name: str, vidur_mlp: Path, dtype: str, as_json: bool) -> None:
    """Predict another source's GEMM timings from a profile and show the bias by tokens in flight."""
    from calibration.importers.vidur import cross_check, read_gemms

    profile = find_hardware(name)
    if dtype not in profile.gemm:
        raise InputError(f"profile {profile.name} has no {dtype} gemm timings (it has {', '.join(profile.gemm)})")
    bands = cross_check(profile.gemm[dtype], read_gemms(vidur_mlp))
    if as_json:
        echo_json({"schema": 1, "bands": bands})
        return
    headers = ("tokens", "GEMMs", "median bias", "median error", "measured - predicted")
    table = TextTable((), headers, pad_edge=True)
    for band in bands:
        tokens = f"{band.smallest}-{band.largest}"
        extra = f"{1e6 * band.extra_s:+.1f} us"
        table.add_row(tokens, str(band.rows), f"{band.bias:+.1%}", f"{band.error:.1%}", extra)
    console().print(table)
