"""Run strategies here for real and compare them with predictions: all that ``ssdsim validate run`` does but print."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from calibration.machine.drivers import torch_missing
from calibration.timings.answer import calibrate_on
from calibration.timings.setup import CalibrationOptions
from calibration.validation.comparison import GRIDS, GridPoint, RoundComparison, grid_of
from ssdsim.base.checks import text, whole
from ssdsim.base.errors import InputError
from ssdsim.base.files import write_whole
from ssdsim.base.kinds import OneOf, Text, Whole
from ssdsim.base.kinds_of_lists import ListOf
from ssdsim.base.option import OptionRecord, option_field, options_of
from ssdsim.base.plain import picked
from ssdsim.base.progress import ProgressFactory, nobody
from ssdsim.base.record import Record, replace
from ssdsim.hardware.catalog import find_hardware, full_hardware_name
from ssdsim.question.options import ALL, files, refuse_others
from ssdsim.question.place import calibrated_options
from ssdsim.runs.layout import CONFIG, MEASURED_TRACE, VALIDATION, is_written, locked
from ssdsim.runs.named_files import keep, names_in_folder, renamed
from ssdsim.strategies.protocols.alternate import PLACES
from ssdsim.transformer.operations import DTYPES

if TYPE_CHECKING:
    from calibration.validation.bench import RoundsBench

_CALIBRATION_MINUTES = 5.0
_TAKEN = 0.05  # a share of the cores from which on rounds are longer than their prediction's error
_STRATEGIES = ALL["strategies"]
_ON_ONE_DEVICE = ("ar", "sd")
_USUAL = {
    "target": "transformer-shaped-1536x4",
    "draft": "transformer-shaped-768x2",
    "target_device": "cpu:0",
    "context": 256,
}
"""Values where nobody gave any, and no profile was calibrated for them."""


def _of_profile(name: str) -> str:
    return f"the profile's, else {_USUAL[name]}"


class Real(OptionRecord):
    """Runs on devices of this machine."""

    hardware: str | None = option_field(Text(), "a profile measured here", default_note="calibrate now")
    draft_hardware: str | None = option_field(
        Text(), "profile of the draft's device, where it is of another kind", default_note="--hardware"
    )
    target: str | None = option_field(
        Text(), "the target's card", default_note=_of_profile("target"), spellings=("--model",)
    )
    draft: str | None = option_field(Text(), "the draft's card", default_note=_of_profile("draft"))
    target_device: str | None = option_field(
        Text(), "cpu:0, cuda:0 or cuda:0-3", default_note=_of_profile("target_device")
    )
    draft_device: str | None = option_field(
        Text(),
        "the draft's own device",
        default_note="the profile's, else the one after the target's; none where there is no other, and then no SSD",
    )
    ep: int = option_field(Whole(), "groups of the target's ranks that hold different experts", 1)
    targets: int = option_field(
        Whole(),
        "that share the draft and the target's ranks evenly: SD's, with --sd-draft separate, one after the other",
        1,
    )
    context: int | None = option_field(Whole(), "cached tokens of a sequence", default_note=_of_profile("context"))
    dtype: str | None = option_field(OneOf(DTYPES), "of weights", default_note="the profile's")
    strategies: Sequence[str] = option_field(
        _STRATEGIES.kind, _STRATEGIES.about, _STRATEGIES.default, spellings=_STRATEGIES.spellings
    )
    grid: str = option_field(OneOf(tuple(GRIDS)), "the settings", "short")
    sd_draft: str | None = option_field(
        OneOf(PLACES.words),
        "SD's draft on the target's devices, or on its own as in SSD, at every point",
        default_note="some points each",
    )
    fl: Sequence[int] | None = option_field(
        ListOf(Whole(0)),
        "K+1 fan-outs for every point, which set its K and, by predict's hit curve, its p_hit",
        default_note="the grid's",
    )
    rounds: int = option_field(Whole(), "of each strategy and repeat", 12)
    repeats: int = option_field(Whole(2), "runs of each strategy at a point", 5)
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        whole("--seed", self.seed, 0)

    @cached_property
    def as_calibrated(self) -> dict[str, Any]:
        """What nobody gave, as the profile was calibrated."""
        made_for = None if self.hardware is None else find_hardware(self.hardware).calibrated
        if self.hardware is None or made_for is None:
            return {}
        ranks = made_for.devices[: made_for.tp], made_for.devices[made_for.tp :]
        models = {name for name in ("target", "draft", "context") if getattr(self, name) is not None}
        values = calibrated_options(self.hardware, {*models, "tp", "dtype"})
        values["target_device"] = ",".join(ranks[0])
        if ranks[1] and self.target_device is None:
            values["draft_device"] = ",".join(ranks[1])
        return {name: value for name, value in values.items() if getattr(self, name) is None}

    def settled(self) -> Real:
        """With what the profile was calibrated for, or else what is usual, in the place of what nobody gave."""
        usual = {name: value for name, value in _USUAL.items() if getattr(self, name) is None}
        profiles = {name: getattr(self, name) for name in ("hardware", "draft_hardware")}
        full = {name: full_hardware_name(said) for name, said in profiles.items() if said is not None}
        settled = replace(self, **{**usual, **self.as_calibrated, **full})
        if settled.draft_device or settled.devices[1]:
            return settled
        asked = tuple(self.strategies)
        named = _ON_ONE_DEVICE if asked == tuple(_STRATEGIES.default) else asked
        return replace(settled, strategies=named, sd_draft=self.sd_draft or "colocated")

    @cached_property
    def points(self) -> tuple[GridPoint, ...]:
        return grid_of(self.grid, self.sd_draft, tuple(self.fl) if self.fl else None)

    @cached_property
    def devices(self) -> tuple[list[str], list[str]]:
        """The target's and the draft's."""
        from calibration.machine.devices import draft_devices, parse_devices

        target = parse_devices(str(self.target_device))
        return target, draft_devices(self.draft_device, target)

    def check(self) -> None:
        """Raise :class:`InputError` for what cannot run here, before a calibration."""
        from calibration.validation.bench import check_runs

        ranks = len(self.devices[0])
        if ranks % self.targets:
            shared = f"--targets {self.targets} cannot share {ranks} target ranks evenly"
            raise InputError(f"{shared}: --target-device cpu:0-1 has two")
        check_runs(self.strategies, self.points, ranks, self.targets)

    def bench(self, hardware: str) -> RoundsBench:
        """Bench of these runs with this profile."""
        from calibration.validation.bench import RoundsBench, check_profile

        on_target, on_draft = map(tuple, self.devices)
        profile = find_hardware(hardware)
        if len({name.split(":")[0] for name in (*on_target, *on_draft)}) > 1 and not self.draft_hardware:
            raise InputError("a draft on a device of another kind needs --draft-hardware, a profile of that device")
        check_profile(profile, on_target)
        check_profile(find_hardware(self.draft_hardware or hardware), on_draft)
        return RoundsBench(
            strategies=tuple(self.strategies),
            target_devices=on_target,
            draft_devices=on_draft,
            hardware=hardware,
            dtype=self.dtype or next(iter(profile.gemm)),
            **picked(
                self, *("target", "draft", "draft_hardware", "context", "rounds", "repeats", "seed", "ep", "targets")
            ),
        )

    def calibrated(self, log: Path, told: ProgressFactory) -> str:
        """The profile beside the measurements, of the grid's passes on this machine; it is resumed as they are.

        Where rounds were measured beside it already it is done: they are predicted with what it was then.
        """
        ranks, draft = self.devices
        target = ranks[: len(ranks) // self.targets]
        devices = [*target, *draft[:1]]
        if len(target) > 1 and not draft:
            raise InputError("several GPUs of a target and none of a draft need --hardware, from ssdsim calibrate")
        if len({name.split(":")[0] for name in devices}) > 1:
            raise InputError("devices of two kinds need --hardware and --draft-hardware, each from ssdsim calibrate")
        output = log.with_name(f"{log.stem}-profile.json")
        if log.exists() and output.exists():
            return str(output)
        timed = CalibrationOptions(
            tp=len(target),
            b=max(point.b for point in self.points),
            k=max(point.k for point in self.points),
            budget=max(point.branches for point in self.points),
            **picked(self, "target", "draft", "context", "dtype", "strategies"),
        )
        setup = timed.on(devices)
        log.parent.mkdir(parents=True, exist_ok=True)
        done = calibrate_on(output, setup, minutes=_CALIBRATION_MINUTES, seed=self.seed, told=told)
        if done.interrupted:
            raise KeyboardInterrupt(f"what was timed is kept beside {log}; run again to resume")
        return str(output)


class Validated(Record):
    """The comparisons of each grid point, one a strategy, what makes them doubtful, and what ``ran`` where."""

    ran: str
    points: Sequence[Sequence[RoundComparison]]
    warnings: Sequence[str]

    @property
    def others(self) -> float | None:
        return _others(self.points)

    @property
    def errors(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        """The absolute ones, of every comparison."""
        return np.abs([each.error for comparisons in self.points for each in comparisons])


def validate(
    output: str | Path = "validation",
    *,
    trace: str | Path | None = None,
    told: ProgressFactory = nobody,
    **options: Any,
) -> Validated:
    """Run strategies here for real, and compare with what is predicted from microbenchmarks alone.

    Parameters
    ----------
    output : a run folder for ``ssdsim report``, or a .jsonl file; a later call goes on with what it holds.
    trace : rounds of the first point in one file: measured, and simulated ones of the strategy asked about.
    told : who hears how far it is.
    options : those of ``ssdsim validate run``: ``hardware`` (a profile measured here; else one is made), ``grid``, ...

    Raises
    ------
    InputError : an option that is none, devices that are not here, or ranks that died.
    """
    refuse_others("validate", options, [*options_of(Real), "seed"])
    if find_spec("torch") is None:
        raise InputError(torch_missing("validate"))
    asked = Real(**options)
    real = asked.settled()
    output = Path(text("-o", output))
    log, where = output, None if trace is None else Path(text("--trace", trace))
    if output.suffix == ".jsonl" and not output.parent.is_dir():
        raise InputError(f"-o '{output}' cannot be written: there is no folder {output.parent}")
    if output.suffix != ".jsonl":
        log, where = output / VALIDATION, where or output / MEASURED_TRACE
    real.check()
    bench = real.bench(real.hardware or real.calibrated(log, told))
    listed, warnings = _run(bench, real.points, log, where, told)
    if len(real.strategies) < len(asked.strategies):
        warnings.append("SSD was left out: its draft needs a device of its own (--draft-device)")
    taken = ", ".join(name.replace("_", " ") for name in asked.as_calibrated)
    if (others := _others(listed) or 0.0) > _TAKEN:
        warnings.append(
            f"other programs took {others:.0%} of the cores: measured rounds waited for them, predicted ones do not; "
            "end them, and run again with another -o"
        )
    return Validated(f"{bench.title}{f' ({taken}: as calibrated)' if taken else ''}", listed, warnings)


def _others(points: Sequence[Sequence[RoundComparison]]) -> float | None:
    """The share of the cores that other programs took meanwhile; None where nobody knows."""
    shares = [each.others for comparisons in points for each in comparisons if each.others is not None]
    return float(np.mean(shares)) if shares else None


def _run(
    bench: RoundsBench, points: Sequence[GridPoint], log: Path, where: Path | None, told: ProgressFactory
) -> tuple[list[list[RoundComparison]], list[str]]:
    from calibration.machine.ranks import RankError
    from calibration.validation.bench import check_grid, run_grid

    check_grid(bench, points)
    log.parent.mkdir(parents=True, exist_ok=True)
    if log.name == VALIDATION:
        _write_config(log.with_name(CONFIG), bench.options(points[0]))
    warnings = ["ranks share a device; predictions, for which each has its own, do not hold"] if bench.shared else []
    try:
        lock = log.with_name(f".{log.name}.lock")
        with locked(lock, log, "validation"), told("validate", "grid points") as progress:
            listed = list(run_grid(bench, points, log, progress, where))
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"{log} keeps each grid point that is done; run again to resume") from None
    except RankError as error:
        raise InputError(f"{error}; what was measured is kept in {log}, run again to resume") from None
    if where is not None and not where.exists():
        warnings.append("no trace: its point was measured by an earlier run; use another -o")
    return listed, warnings


def _write_config(path: Path, options: dict[str, object]) -> None:
    """Write the first grid point's scenario for the report; a sweep's own is left alone."""
    import tomli_w

    if is_written(path):
        return
    names = names_in_folder(path.parent, (options.get(name) for name in files()))
    keep(path.parent, names)
    config = {"schema": 1, "verb": "validate", "options": renamed(options, names)}
    write_whole(path, tomli_w.dumps(config))
