"""``ssdsim calibrate``."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ssdsim.base.checks import whole
from ssdsim.base.errors import InputError
from ssdsim.cli.console import console, echo
from ssdsim.cli.dry_run import show_dry_run
from ssdsim.cli.hardware import print_profile
from ssdsim.cli.help_page import output_option
from ssdsim.cli.options import Verb, common_options, echo_json
from ssdsim.cli.progress import shown
from ssdsim.cli.tables import Table
from ssdsim.cli.values import OutputFile
from ssdsim.hardware.catalog import MACHINES, find_hardware, find_transformer, full_hardware_name, hardware_names
from ssdsim.machine.device_names import named_devices
from ssdsim.machine.smi import seen_gpus, torch_missing
from ssdsim.runs.lock import locked
from ssdsim.scenario.options import ALL
from ssdsim.transformer.operations import DTYPES

_STRATEGIES = ALL["strategies"]
_SAME_MEMORY = 0.05  # a driver tells a little less than a datasheet

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from calibration.build import PassCheck
    from calibration.dry_run import DryRun
    from calibration.points import Workload
    from ssdsim.hardware.profile import HardwareProfile


@click.command(
    "calibrate",
    cls=Verb,
    example="ssdsim calibrate --gpus 0-4 --target llama-3.1-8b -o mine.json",
)
@click.option("--device", default=None, help="cpu: two pinned cores with gloo [default: --gpus]")
@click.option("--gpus", default=None, help="GPUs such as 0-4: target ranks first, the draft last")
@click.option(
    *ALL["tp"].flags, "tp", type=click.IntRange(1), default=None, help="target ranks [default: all but the draft's]"
)
@click.option("--draft-gpu", type=click.IntRange(0), default=None, help="the draft's GPU [default: the last]")
@click.option("--target", default="llama-3.1-70b", show_default=True, help="transformer card")
@click.option("--draft", default="llama-3.2-1b", show_default=True, help="the draft's card")
@click.option(*ALL["b"].flags, "b", type=click.IntRange(1), default=4, show_default=True)
@click.option("--k", type=click.IntRange(1), default=5, show_default=True)
@click.option("--budget", type=click.IntRange(1), default=None, help="branches a sequence [default: 3 (k + 1)]")
@click.option("--context", type=click.IntRange(1), default=512, show_default=True)
@click.option("--dtype", type=click.Choice(DTYPES), default=None, help="[default: by device]")
@click.option(
    *_STRATEGIES.flags, "strategies", help=f"whose passes are timed [default: {','.join(_STRATEGIES.default)}]"
)
@click.option("--minutes", type=click.FloatRange(0.0, min_open=True), default=5.0, show_default=True)
@click.option("--dry-run", is_flag=True, help="print the plan and end: points, repeats, minutes, memory, who does what")
@click.option("--machine", help="with --dry-run: dgx-1 (32 GB), dgx-1-16gb, or a profile, in the place of this machine")
@output_option("-o", "--output", type=OutputFile(), help="the profile [required, but for --dry-run]")
@common_options
def command(output: Path | None, minutes: float, as_json: bool, seed: int, quiet: bool, **options: Any) -> None:
    """Time this machine and fit a hardware profile to it.

    Measurements are kept beside the output (.jsonl) as they come; run again to resume.
    """
    whole("--seed", seed, 0)
    dry, machine = options.pop("dry_run"), options.pop("machine")
    if dry:
        print_dry_run(machine, minutes, as_json, quiet, **options)
        return
    if machine:
        raise InputError("--machine describes a machine that is not here: it needs --dry-run")
    if output is None:
        raise InputError("-o is missing: the profile to write, such as -o mine.json")
    if find_spec("torch") is None:
        raise InputError(torch_missing("calibrate"))
    alone_under_torchrun()
    if output.suffix == ".jsonl":
        raise InputError(f"-o {output}: the measurements go there; name the profile, such as {output.stem}.json")
    devices = _devices(options.pop("device"), options.pop("gpus"), options.pop("tp"), options.pop("draft_gpu"))
    done = calibrate(output, devices, minutes=minutes, seed=seed, quiet=quiet, **options)
    if as_json:
        passes = [vars(check) | {"error": check.error} for check in done.checks]
        planned = {"profile": str(output), "strategies": done.strategies}
        echo_json({"schema": 1, **planned, "passes": passes, **done.figures})
    else:
        print_profile(done.profile, output)
        out = console()
        out.print("Whole passes, which were never fitted", style="italic")
        out.print(_checks(done.checks))
    if done.interrupted:
        click.echo(f"interrupted: a partial profile is in {output}; run again to resume", err=True)
        sys.exit(130)


def print_dry_run(machine: str | None, minutes: float, as_json: bool, quiet: bool, **options: Any) -> None:
    """The plan for a described machine.

    Raises
    ------
    InputError : no machine, more GPUs than it has, or a workload that its ranks cannot share.
    """
    from calibration.dry_run import dry_run

    described = find_hardware(machine) if machine is not None else _this_machine()
    if machine is not None and full_hardware_name(machine) != machine and not quiet:
        others = ", ".join(name for name, means in MACHINES.items() if means != described.name)
        echo(f"note: --machine {machine} is taken for {described.name} (another memory: {others})", stderr=True)
    device, gpus, tp, draft_gpu = (options.pop(name) for name in ("device", "gpus", "tp", "draft_gpu"))
    devices = _devices(device, gpus, tp, draft_gpu, described)
    found = dry_run(_workload(devices, described, **options), devices, described)
    _refuse_too_large(found, described)
    show_dry_run(found, described, minutes, as_json)


def _this_machine() -> HardwareProfile:
    """The bundled description of this machine's GPUs, by the name and the memory that the driver tells.

    Raises
    ------
    InputError : no GPU here, or one that no profile describes.
    """
    seen = seen_gpus()
    said = f"give --machine: {', '.join(MACHINES)}, or a profile (ssdsim hardware list)"
    if not seen:
        raise InputError(f"--dry-run finds no GPU here (nvidia-smi tells none); {said}")
    for profile in map(find_hardware, hardware_names()):
        device = profile.device
        if device.name == seen[0].name and abs(device.memory_bytes / seen[0].memory_bytes - 1.0) < _SAME_MEMORY:
            count = min(device.count, len(seen))
            return profile.model_copy(update={"device": device.model_copy(update={"count": count})})
    raise InputError(f"--dry-run: no profile describes a {seen[0].name}; {said}")


def _refuse_too_large(found: DryRun, described: HardwareProfile) -> None:
    """Raise :class:`InputError` where a rank needs more memory than its device has."""
    for rank in found.ranks:
        if not rank.fits:
            needs, has = (each / 2**30 for each in (rank.needs_bytes, rank.has_bytes))
            raise InputError(
                f"{rank.device} ({rank.role}) needs {needs:.1f} GiB, {described.name} has {has:.1f} GiB: "
                "give a smaller --target, or more --gpus"
            )


@dataclass(frozen=True)
class Calibration:
    """A profile, whose passes it was planned for, those that check it, and how steady the machine was."""

    profile: HardwareProfile
    strategies: Sequence[str]
    checks: Sequence[PassCheck]
    figures: Mapping[str, float]
    interrupted: bool


def calibrate(
    output: Path, devices: list[str], *, minutes: float, seed: int, quiet: bool, **options: Any
) -> Calibration:
    """Time what the log beside ``output`` lacks, write the profile, warn of what makes it doubtful."""
    from calibration.build import build_profile, build_runtime, check_passes, summary
    from calibration.calibrate import machine_of, measure
    from calibration.doubts import doubts
    from calibration.log import Log
    from calibration.memory import check_memory
    from calibration.points import plan
    from calibration.rank_links import check_rank_links
    from calibration.rows import rows_of
    from ssdsim.machine.ranks import RankError
    from ssdsim.runtimes.card import KERNELS
    from ssdsim.runtimes.catalog import SUFFIX, save_runtime

    workload = _workload(devices, **options)
    check_memory(workload, devices)
    log = Log(output.with_suffix(".jsonl"), machine_of(devices, workload))
    interrupted = False
    lock = log.path.with_name(f".{log.path.name}.lock")
    try:
        with locked(lock, log.path, "calibration"), shown("calibrate", "timings", quiet) as progress:
            points = measure(workload, devices, log.open(), minutes=minutes, seed=seed, progress=progress)
    except KeyboardInterrupt:
        interrupted, points = True, plan(workload, len(devices))
    except RankError as error:
        raise InputError(f"{error}; what was timed is kept in {log.path}, run again to resume") from None
    driver = f"driver {log.machine['driver']}, " if log.machine["driver"] else ""
    how = f"torch {log.machine['torch']}, {driver}weights streamed, drift taken from neighbouring visits"
    rows = rows_of(log, points)
    profile = build_profile(output.stem, workload, devices, points, rows, str(log.machine["device"]), how)
    profile.save(output)
    runtime = build_runtime(output.stem, rows)
    if runtime is not None:
        save_runtime(runtime, output.with_suffix(SUFFIX))
    else:  # one of before is no longer this profile's
        output.with_suffix(SUFFIX).unlink(missing_ok=True)
    checks = [*check_passes(profile, runtime or KERNELS, workload, rows), *check_rank_links(profile, rows)]
    for doubt in doubts(profile.device.topology, rows, devices):
        echo(f"warning: {doubt}", stderr=True)
    return Calibration(profile, workload.strategies, checks, summary(checks, rows), interrupted)


def alone_under_torchrun() -> None:
    """End quietly in all of torchrun's processes but the first, which starts ranks of its own.

    Raises
    ------
    InputError : torchrun spans several machines.
    """
    if int(os.environ.get("GROUP_WORLD_SIZE", "1")) > 1:
        raise InputError("torchrun spans several machines: ssdsim times the devices of one (--nnodes 1)")
    if os.environ.get("LOCAL_RANK", "0") != "0":
        sys.exit(0)


def _workload(devices: list[str], described: HardwareProfile | None = None, **options: Any) -> Workload:
    """``described`` stands for this machine's GPUs."""
    from calibration.points import Workload

    natural = _natural(described) if described else _natural_here(devices)
    workload = Workload(
        target=find_transformer(options["target"]),
        draft=find_transformer(options["draft"]),
        batch=options["b"],
        lookahead=options["k"],
        branches=options["budget"] or 3 * (options["k"] + 1),
        context=options["context"],
        tp=len(devices) - 1 if len(devices) > 1 else 1,
        dtype=options["dtype"] or natural,
        strategies=_STRATEGIES.checked(options["strategies"] or _STRATEGIES.default),
    )
    if described is None:
        check_here(workload.dtype, devices)
    elif workload.dtype not in described.device.peak_flops:
        raise InputError(f"--dtype {workload.dtype}: a {described.device.name} has none; give --dtype {natural}")
    workload.target_passes()  # refuses a tp that does not divide the heads before anything starts
    return workload


def _here(names: str) -> list[str]:
    from ssdsim.machine.devices import parse_devices

    return parse_devices(names)


def _natural_here(devices: list[str]) -> str:
    from ssdsim.machine.machine import natural_dtype

    return natural_dtype(devices)


def check_here(dtype: str, devices: list[str]) -> None:
    """Raise :class:`InputError` where these devices do not compute ``dtype``, or torch has no kernels for them."""
    from ssdsim.machine.machine import check_dtype, check_kernels

    check_kernels(devices)
    check_dtype(dtype, devices)


def _natural(described: HardwareProfile) -> str:
    """bfloat16 where the GPU computes it, as its peaks tell."""
    peaks = described.device.peak_flops
    return next((dtype for dtype in ("bfloat16", "float16") if dtype in peaks), "float32")


def _devices(
    device: str | None,
    gpus: str | None,
    tp: int | None,
    draft_gpu: int | None,
    described: HardwareProfile | None = None,
) -> list[str]:
    """The target's, then the draft's; of a machine that is ``described`` where one is."""
    if (device is None) == (gpus is None):
        raise InputError("give either --device cpu or --gpus 0-4")
    if device is not None:
        if device != "cpu":
            raise InputError(f"--device must be cpu, got '{device}' (GPUs are given by --gpus)")
        if draft_gpu is not None:
            raise InputError("--draft-gpu has no effect with --device cpu")
        return [f"cpu:{core}" for core in range((tp or 1) + 1)]
    found = named_devices(f"cuda:{gpus}") if described else _here(f"cuda:{gpus}")
    if described and max(int(name.split(":")[1]) for name in found) >= described.device.count:
        raise InputError(
            f"--gpus {gpus}: {described.name} has {described.device.count} GPUs, 0-{described.device.count - 1}"
        )
    draft = f"cuda:{draft_gpu}" if draft_gpu is not None else found[-1]
    if draft not in found:
        raise InputError(f"--draft-gpu {draft_gpu} is not among --gpus {gpus}")
    targets = [name for name in found if name != draft][: tp or None]
    if tp is not None and tp > max(1, len(targets)):
        raise InputError(f"--tp {tp} needs {tp + 1} GPUs with the draft's, --gpus {gpus} has {len(found)}")
    return [*targets, draft]


def _checks(checks: Sequence[PassCheck]) -> Table:
    table = Table(names=2, pad_edge=True)
    for column in ("model", "pass", "measured ms", "predicted ms", "error"):
        table.add_column(column, words=column in ("model", "pass"))
    for check in checks:
        seconds = (f"{1e3 * check.measured_s:.3f}", f"{1e3 * check.predicted_s:.3f}")
        table.add_row(check.role, check.name, *seconds, f"{check.error:+.1%}")
    return table
