"""Time this machine and fit a profile to it: all that ``ssdsim calibrate`` does but print."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calibration.machine.drivers import torch_missing
from calibration.timings.setup import CalibrationOptions, CalibrationSetup
from ssdsim.base.checks import text, whole, within
from ssdsim.base.errors import InputError
from ssdsim.base.option import options_of
from ssdsim.base.progress import ProgressFactory, nobody
from ssdsim.base.record import Record
from ssdsim.hardware.catalog import own_folder
from ssdsim.hardware.profile import HardwareProfile
from ssdsim.question.options import refuse_others

if TYPE_CHECKING:
    from calibration.timings.checks import PassCheck
    from calibration.timings.plan import CalibrationWorkload, TimingPoint
    from calibration.timings.rows import CalibrationLog
_UNTOLD = {"nvidia", "tesla", "intel", "amd", "cpu", "gpu", "processor", "core"}
"""Words of a device's name that tell it from no other."""


class Calibration(Record):
    """A profile, the strategies it was planned for, the passes that check it, its figures, and doubts in words.

    ``output`` is where it lies.
    """

    output: Path
    profile: HardwareProfile
    strategies: Sequence[str]
    checks: Sequence[PassCheck]
    figures: Mapping[str, float]
    doubts: Sequence[str]
    interrupted: bool


def calibrate(
    output: str | Path | None = None,
    *,
    minutes: float = 5.0,
    seed: int = 0,
    told: ProgressFactory = nobody,
    noted: Callable[[str], object] = str,
    **options: Any,
) -> Calibration:
    """Time this machine and fit a hardware profile to it, which is written with its runtime.

    Measurements are kept beside the output (.jsonl) as they come; a later call goes on with them.

    Parameters
    ----------
    output : the profile to write, such as ``mine.json``; None: one in the user's folder of data, named by the device,
        which ``hardware="my-..."`` finds.
    minutes : of timing; up to twice as many, and a minute more at least, while too few timings are there for a profile.
    told, noted : who hears how far it is, and what was chosen for whoever gave no option.
    options : those of ``ssdsim calibrate``: ``device="cpu"`` or ``gpus="0-4"``, ``target``, ``draft``, ``b``, ...

    Raises
    ------
    InputError : an option or a file that is none, or ranks that died.
    """
    refuse_others("calibrate", options, options_of(CalibrationOptions))
    timed = CalibrationOptions(**options)
    check_torch()
    setup = timed.setup()
    for each in setup.said:
        noted(each)
    return calibrate_on(
        None if output is None else Path(text("-o", output)), setup, minutes=minutes, seed=seed, told=told
    )


def check_torch() -> None:
    """Raise :class:`InputError` where there is none."""
    if find_spec("torch") is None:
        raise InputError(torch_missing("calibrate"))


def calibrate_on(
    output: Path | None, setup: CalibrationSetup, *, minutes: float, seed: int, told: ProgressFactory
) -> Calibration:
    """Time what the log beside ``output`` lacks, and write the profile and its runtime."""
    from calibration.timings.build import build_profile, build_runtime
    from calibration.timings.checks import check_passes, check_rank_links, doubts, summary
    from calibration.timings.measure import machine_of
    from calibration.timings.rows import CalibrationLog, missing_timings, rows_of
    from ssdsim.hardware.runtime_card import KERNELS
    from ssdsim.hardware.runtime_catalog import SUFFIX, save_runtime

    whole("--seed", seed, 0)
    within("--minutes", minutes, 0.0)
    devices, workload = list(setup.devices), setup.workload
    machine = machine_of(devices, workload)
    output = output or own_file(machine["device"])
    if output.suffix == ".jsonl":
        raise InputError(f"-o {output}: the measurements go there; name the profile, such as {output.stem}.json")
    log = CalibrationLog(output.with_suffix(".jsonl"), machine)
    points, interrupted = _measured(workload, devices, log, minutes, seed, told)
    if missing := missing_timings(points, log.count):
        cause = "interrupted with too few timings" if interrupted else "too few timings"
        raise InputError(
            f"{cause} for a profile: {', '.join(missing)}; what was timed is kept in {log.path}, run again to go on, "
            "with nothing else at work, or with more --minutes"
        )
    driver = f"driver {log.machine['driver']}, " if log.machine["driver"] else ""
    how = f"torch {log.machine['torch']}, {driver}weights streamed, drift taken from neighbouring visits"
    rows = rows_of(log, points)
    profile = build_profile(output.stem, workload, devices, points, rows, str(log.machine["device"]), how)
    profile = profile.changed(calibrated=setup.calibrated)
    profile.save(output)
    runtime = build_runtime(output.stem, rows)
    if runtime is not None:
        save_runtime(runtime, output.with_suffix(SUFFIX))
    else:  # one of before is no longer this profile's
        output.with_suffix(SUFFIX).unlink(missing_ok=True)
    checks = [*check_passes(profile, runtime or KERNELS, workload, rows), *check_rank_links(profile, rows)]
    doubtful = doubts(profile.device.topology, rows, devices)
    return Calibration(output, profile, workload.strategies, checks, summary(checks, rows), list(doubtful), interrupted)


def own_file(device: str) -> Path:
    """The file in the user's folder for a profile of such devices; ``my-`` keeps it apart from bundled ones."""
    words = re.findall(r"[a-z0-9]+", re.sub(r"\(\w+\)", " ", device.lower()))
    named = "-".join(["my", *(word for word in words if word not in _UNTOLD)])
    own_folder().mkdir(parents=True, exist_ok=True)
    return own_folder() / f"{named}.json"


def _measured(
    workload: CalibrationWorkload,
    devices: list[str],
    log: CalibrationLog,
    minutes: float,
    seed: int,
    told: ProgressFactory,
) -> tuple[list[TimingPoint], bool]:
    """Time the points of the plan, and keep them in the log; returns the plan, and whether Ctrl-C interrupted it."""
    from calibration.machine.ranks import RankError
    from calibration.timings.measure import measure
    from calibration.timings.plan import plan
    from ssdsim.runs.layout import locked

    lock = log.path.with_name(f".{log.path.name}.lock")
    try:
        with locked(lock, log.path, "calibration"), told("calibrate", "timings") as progress:
            return measure(workload, devices, log.open(), minutes=minutes, seed=seed, progress=progress), False
    except KeyboardInterrupt:
        return plan(workload, len(devices)), True
    except RankError as error:
        raise InputError(f"{error}; what was timed is kept in {log.path}, run again to resume") from None
