"""``ssdsim calibrate``, and its plan with ``--dry-run``."""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import asdict

from calibration.machine.drivers import cpu_name, physical_bytes, seen_gpus
from calibration.timings.answer import calibrate, check_torch
from calibration.timings.setup import CalibrationOptions
from ssdsim import strategies
from ssdsim.base.errors import InputError
from ssdsim.base.option import pop_record
from ssdsim.cli.console import console, echo, print_labelled
from ssdsim.cli.hardware import print_profile
from ssdsim.cli.options import Verb, common_options, output_option, record_options
from ssdsim.cli.output import echo_json
from ssdsim.cli.param_types import MINUTES, OutputFile, completing
from ssdsim.cli.progress import progress_bar
from ssdsim.cli.tables import TextTable
from ssdsim.hardware.catalog import (
    MACHINES,
    find_hardware,
    full_hardware_name,
    hardware_names,
    short_hardware_name,
)
from ssdsim.hardware.device import Device
from ssdsim.hardware.profile import HardwareProfile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from calibration.timings.checks import PassCheck
    from calibration.timings.dry_run import DryRun

_SAME_MEMORY = 0.05  # a driver tells a little less than a datasheet


@click.command(
    "calibrate",
    cls=Verb,
    example="ssdsim calibrate --gpus 0-4",
    has_no={
        "dcp": "calibrate has no --dcp: it times what one device does alone, and its messages, whoever shares a cache"
    },
)
@record_options(CalibrationOptions)
@click.option("--minutes", type=MINUTES, default=5.0, show_default=True)
@click.option("--dry-run", is_flag=True, help="print the plan and end: points, repeats, minutes, memory, who does what")
@click.option(
    "--machine",
    shell_complete=completing(hardware_names),
    help="with --dry-run: dgx-1 (32 GB), dgx-1-16gb, or a profile, in the place of this machine",
)
@output_option(
    "-o",
    "--output",
    type=OutputFile(),
    help="the profile, such as mine.json [default: in your data folder, under a name that --hardware takes]",
)
@common_options
def command(
    output: Path | None,
    minutes: float,
    dry_run: bool,
    machine: str | None,
    as_json: bool,
    seed: int,
    quiet: bool,
    **options: Any,
) -> None:
    """Time this machine and fit a hardware profile to it.

    Measurements are kept beside the output (.jsonl) as they come; run again to resume.
    """
    if dry_run:
        print_dry_run(machine, minutes, as_json, quiet, pop_record(CalibrationOptions, options))
        return
    if machine:
        raise InputError("--machine describes a machine that is not here: it needs --dry-run")
    check_torch()
    alone_under_torchrun()
    given = {name: value for name, value in options.items() if value is not None}
    told, noted = partial(progress_bar, quiet=quiet), partial(_note, quiet)
    done = calibrate(output, minutes=minutes, seed=seed, told=told, noted=noted, **given)
    output, word = done.output, short_hardware_name(str(done.output))
    for doubt in done.doubts:
        echo(f"warning: {doubt}", stderr=True)
    if as_json:
        passes = [asdict(check) | {"error": check.error} for check in done.checks]
        planned = {"profile": str(output), "strategies": done.strategies}
        echo_json({"schema": 1, **planned, "passes": passes, **done.figures})
    else:
        print_profile(done.profile, output)
        out = console()
        out.print("Whole passes, which were never fitted", style="italic")
        out.print(_checks(done.checks))
        kept = f"{output}, found by the name {word}" if word != str(output) else word
        print_labelled(out, "Kept     ", f"{kept}; for {done.profile.calibrated}")
        print_labelled(out, "Next     ", f"ssdsim predict --hardware {word}")
        print_labelled(out, "         ", f"ssdsim validate run --hardware {word}")
    if done.interrupted:
        click.echo(f"interrupted: a partial profile is in {output}; run again to resume", err=True)
        sys.exit(130)


def print_dry_run(machine: str | None, minutes: float, as_json: bool, quiet: bool, timed: CalibrationOptions) -> None:
    """The plan for a described machine."""
    from calibration.timings.dry_run import dry_run

    here = _these_cores if timed.device == "cpu" else _this_machine
    described = find_hardware(machine) if machine is not None else here()
    if machine is not None and full_hardware_name(machine) != machine and not quiet:
        echo(f"note: --machine {machine} is taken for {described.name}{_of_other_memory(described)}", stderr=True)
    setup = timed.setup(described)
    for each in setup.said:
        _note(quiet, each)
    show_dry_run(dry_run(setup.workload, setup.devices, described), described, minutes, as_json)


def _note(quiet: bool, said: str) -> None:
    if not quiet:
        echo(f"note: {said}", stderr=True)


def _of_other_memory(described: HardwareProfile) -> str:
    """The bundled machines that differ from this one in their memory alone; empty where none is known."""
    if described.name not in MACHINES.values():
        return ""
    return f" (another memory: {', '.join(name for name, means in MACHINES.items() if means != described.name)})"


def _this_machine() -> HardwareProfile:
    """The bundled description of this machine's GPUs, by the name and the memory that the driver tells."""
    seen = seen_gpus()
    others = f"{', '.join(MACHINES)}, or a profile (ssdsim hardware list)"
    said = f"describe one, such as --machine dgx-1 --gpus 0-4; --machine may be {others}"
    if not seen:
        raise InputError(f"--dry-run finds no GPU here (nvidia-smi tells none); {said}")
    for profile in map(find_hardware, hardware_names()):
        device = profile.device
        if device.name == seen[0].name and abs(device.memory_bytes / seen[0].memory_bytes - 1.0) < _SAME_MEMORY:
            count = min(device.count, len(seen))
            return profile.changed(device=device.changed(count=count))
    raise InputError(f"--dry-run: no profile describes a {seen[0].name}; {said}")


def _these_cores() -> HardwareProfile:
    """The cores of this machine, as far as a plan needs to know them."""
    device = Device(
        name=cpu_name(),
        kind="cpu",
        memory_bytes=physical_bytes(),
        memory_bandwidth=1.0,
        peak_flops={"float32": 1.0},
        count=os.cpu_count() or 1,
        topology="cores that share memory",
    )
    return HardwareProfile(schema_=1, name="this machine", device=device, sources={})


def alone_under_torchrun() -> None:
    """End quietly in all of torchrun's processes but the first, which starts ranks of its own."""
    if int(os.environ.get("GROUP_WORLD_SIZE", "1")) > 1:
        raise InputError("torchrun spans several machines: ssdsim times the devices of one (--nnodes 1)")
    if os.environ.get("LOCAL_RANK", "0") != "0":
        sys.exit(0)


def _checks(checks: Sequence[PassCheck]) -> TextTable:
    table = TextTable(("model", "pass"), ("measured ms", "predicted ms", "error"), names=2, pad_edge=True)
    for check in checks:
        seconds = (f"{1e3 * check.measured_s:.3f}", f"{1e3 * check.predicted_s:.3f}")
        table.add_row(check.role, check.name, *seconds, f"{check.error:+.1%}")
    return table


def show_dry_run(dry_run: DryRun, machine: HardwareProfile, minutes: float, as_json: bool) -> None:
    """Show who holds and does what, points, visits, minutes and memory; all of them fit."""
    if as_json:
        ranks = [asdict(rank) | {"fits": rank.fits} for rank in dry_run.ranks]
        whole = {"schema": 1, "machine": machine.name, "strategies": dry_run.strategies, "minutes": dry_run.minutes}
        echo_json(whole | {"ranks": ranks, "benchmarks": dry_run.benchmarks})
        return
    out, device = console(), machine.device
    out.print(f"{machine.name}: {device.count} x {device.name}, {device.topology}", style="bold")
    out.print(_ranks(dry_run))
    out.print(_work(dry_run))
    points, visits = (sum(getattr(each, name) for each in dry_run.benchmarks) for name in ("points", "visits"))
    titles = ", ".join(strategies.ALL.named(name).title for name in dry_run.strategies)
    out.print(
        f"{points} points for {titles}, {visits} visits, about {dry_run.minutes:.0f} minutes; --minutes {minutes:g}"
    )
    if dry_run.minutes > minutes:
        out.print("Longer than --minutes: every point is visited once before any is again; run again to resume")


def _ranks(dry_run: DryRun) -> TextTable:
    table = TextTable(("device", "role", "to the draft"), ("needs GiB", "has GiB"), names=2, pad_edge=True)
    for rank in dry_run.ranks:
        sizes = (f"{each / 2**30:.1f}" for each in (rank.needs_bytes, rank.has_bytes))
        table.add_row(rank.device, rank.role, rank.to_draft, *sizes)
    return table


def _work(dry_run: DryRun) -> TextTable:
    table = TextTable(("timing", "who"), ("points", "visits", "in the fit", "minutes"), pad_edge=True)
    for each in dry_run.benchmarks:
        table.add_row(each.name, each.who, str(each.points), str(each.visits), str(each.fitted), f"{each.minutes:.1f}")
    return table
