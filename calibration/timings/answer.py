"""Time this machine and fit a profile to it: all that ``ssdsim calibrate`` does but print."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calibration.machine.drivers import named_devices, torch_missing
from ssdsim.base.checks import whole, within
from ssdsim.base.errors import InputError
from ssdsim.base.kinds import OneOf, Text, Whole
from ssdsim.base.option import OptionRecord, option_field, options_of
from ssdsim.base.progress import ProgressFactory, nobody
from ssdsim.base.record import Record
from ssdsim.hardware.catalog import find_transformer
from ssdsim.hardware.profile import HardwareProfile
from ssdsim.question.options import ALL, refuse_others
from ssdsim.transformer.operations import DTYPES

if TYPE_CHECKING:
    from calibration.timings.checks import PassCheck
    from calibration.timings.plan import CalibrationWorkload, TimingPoint
    from calibration.timings.rows import CalibrationLog

_STRATEGIES = ALL["strategies"]


class CalibrationOptions(OptionRecord):
    """Options of a calibration: the models and rounds whose passes are timed, and the devices."""

    device: str | None = option_field(OneOf(("cpu",)), "cpu: two pinned cores with gloo", default_note="--gpus")
    gpus: str | None = option_field(Text(), "GPUs such as 0-4: target ranks first, the draft last")
    tp: int | None = option_field(
        Whole(), "target ranks", default_note="all but the draft's", spellings=ALL["tp"].spellings
    )
    draft_gpu: int | None = option_field(Whole(0), "the draft's GPU", default_note="the last")
    target: str = option_field(Text(), "transformer card", "llama-3.1-70b")
    draft: str = option_field(Text(), "the draft's card", "llama-3.2-1b")
    b: int = option_field(Whole(), "sequences decoded together", 4, spellings=ALL["b"].spellings)
    k: int = option_field(Whole(), "draft tokens verified in a round", 5)
    budget: int | None = option_field(Whole(), "branches a sequence", default_note="3 (k + 1)")
    context: int = option_field(Whole(), "cached tokens of a sequence", 512)
    dtype: str | None = option_field(OneOf(DTYPES), "of weights", default_note="by device")
    strategies: Sequence[str] = option_field(
        _STRATEGIES.kind, "whose passes are timed", _STRATEGIES.default, spellings=_STRATEGIES.spellings
    )

    def devices(self, described: HardwareProfile | None = None) -> list[str]:
        """The target's devices, then the draft's, of this machine or of the ``described`` one."""
        gpus, tp, draft_gpu = self.gpus, self.tp, self.draft_gpu
        if (self.device is None) == (gpus is None):
            of_it = f" ({described.name} has 0-{described.device.count - 1})" if described else ""
            raise InputError(f"give either --device cpu or --gpus 0-4{of_it}")
        if self.device is not None:
            if draft_gpu is not None:
                raise InputError("--draft-gpu has no effect with --device cpu")
            return [f"cpu:{core}" for core in range((tp or 1) + 1)]
        if not re.fullmatch(r"\d+(-\d+)?", str(gpus)):
            raise InputError(f"--gpus {gpus}: one GPU or a range of them, such as 0 or 0-4")
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

    def workload(self, devices: Sequence[str], described: HardwareProfile | None = None) -> CalibrationWorkload:
        """The workload on this machine or the ``described`` one; bfloat16 by default if its GPUs compute it."""
        from calibration.timings.plan import CalibrationWorkload

        if described is None:
            from calibration.machine.inventory import check_dtype, check_kernels, natural_dtype

            check_kernels(devices)
            dtype = self.dtype or natural_dtype(devices)
            check_dtype(dtype, devices)
        else:
            peaks, name = described.device.peak_flops, described.device.name
            natural = next((dtype for dtype in ("bfloat16", "float16") if dtype in peaks), "float32")
            dtype = self.dtype or natural
            if dtype not in peaks:
                raise InputError(f"--dtype {dtype}: a {name} has none; give --dtype {natural}")
        workload = CalibrationWorkload(
            target=find_transformer(self.target),
            draft=find_transformer(self.draft),
            batch=self.b,
            lookahead=self.k,
            branches=self.budget or 3 * (self.k + 1),
            context=self.context,
            tp=len(devices) - 1 if len(devices) > 1 else 1,
            dtype=dtype,
            strategies=tuple(self.strategies),
        )
        workload.target_passes()  # refuses a tp that does not divide the heads before anything starts
        return workload


def _here(names: str) -> list[str]:
    from calibration.machine.devices import (
        parse_devices,  # here, as below: a plan for a described machine needs no torch
    )

    return parse_devices(names)


class Calibration(Record):
    """A profile, the strategies it was planned for, the passes that check it, its figures, and doubts in words."""

    profile: HardwareProfile
    strategies: Sequence[str]
    checks: Sequence[PassCheck]
    figures: Mapping[str, float]
    doubts: Sequence[str]
    interrupted: bool


def calibrate(
    output: str | Path, *, minutes: float = 5.0, seed: int = 0, told: ProgressFactory = nobody, **options: Any
) -> Calibration:
    """Time this machine and fit a hardware profile to it, which is written with its runtime.

    Measurements are kept beside the output (.jsonl) as they come; a later call goes on with them.

    Parameters
    ----------
    output : the profile to write, such as ``mine.json``.
    minutes : of timing; up to twice as many, and a minute more at least, while too few timings are there for a profile.
    told : who hears how far it is.
    options : those of ``ssdsim calibrate``: ``device="cpu"`` or ``gpus="0-4"``, ``target``, ``draft``, ``b``, ...

    Raises
    ------
    InputError : an option or a file that is none, or ranks that died.
    """
    refuse_others("calibrate", options, options_of(CalibrationOptions))
    timed = CalibrationOptions(**options)
    check_torch()
    return calibrate_on(Path(output), timed.devices(), timed, minutes=minutes, seed=seed, told=told)


def check_torch() -> None:
    """Raise :class:`InputError` where there is none."""
    if find_spec("torch") is None:
        raise InputError(torch_missing("calibrate"))


def calibrate_on(
    output: Path, devices: list[str], timed: CalibrationOptions, *, minutes: float, seed: int, told: ProgressFactory
) -> Calibration:
    """Time what the log beside ``output`` lacks on ``devices``, and write the profile and its runtime."""
    from calibration.timings.build import build_profile, build_runtime
    from calibration.timings.checks import check_passes, check_rank_links, doubts, summary
    from calibration.timings.measure import machine_of
    from calibration.timings.memory import check_memory
    from calibration.timings.rows import CalibrationLog, missing_timings, rows_of
    from ssdsim.hardware.runtime_card import KERNELS
    from ssdsim.hardware.runtime_catalog import SUFFIX, save_runtime

    whole("--seed", seed, 0)
    within("--minutes", minutes, 0.0)
    if output.suffix == ".jsonl":
        raise InputError(f"-o {output}: the measurements go there; name the profile, such as {output.stem}.json")
    workload = timed.workload(devices)
    check_memory(workload, devices)
    log = CalibrationLog(output.with_suffix(".jsonl"), machine_of(devices, workload))
    points, interrupted = _measured(workload, devices, log, minutes, seed, told)
    if missing := missing_timings(points, log.count):
        cause = "interrupted with too few timings" if interrupted else "too few timings"
        raise InputError(
            f"{cause} for a profile: {', '.join(missing)}; what was timed is kept in {log.path}, run again to go on"
        )
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
    doubtful = doubts(profile.device.topology, rows, devices)
    return Calibration(profile, workload.strategies, checks, summary(checks, rows), list(doubtful), interrupted)


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
