"""``ssdsim validate``."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np
from click.core import ParameterSource

from ssdsim.base.checks import whole
from ssdsim.base.errors import InputError
from ssdsim.base.kinds import ListOf, Name, Percent, Several, Whole
from ssdsim.cli.calibrate import alone_under_torchrun
from ssdsim.cli.console import console, echo
from ssdsim.cli.measured_files import PARAMETERS, by_column, row_options
from ssdsim.cli.options import Verb, chosen_options, common_options, echo_json
from ssdsim.cli.progress import shown
from ssdsim.cli.tables import Table
from ssdsim.cli.values import OfKind, OutputFile
from ssdsim.engine.trace import Trace
from ssdsim.runs.lock import locked
from ssdsim.scenario.options import files
from ssdsim.scenario.shared.site import SD_DRAFT_PLACES
from ssdsim.transformer.operations import DTYPES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ssdsim.validation.comparison import Comparison
    from ssdsim.validation.grid import GridPoint

_OUTPUT = "validation"
_CALIBRATION_MINUTES = 5.0
_COMMON = ("hardware", "max_error", "as_json", "seed", "quiet")
_OF_PAPER = ("paper", *_COMMON)  # options that --paper takes
_OF_ROWS = ("tp", "batch", "kv_dtype", "k", "tree_nodes", "tree_beam", "acceptance_length", "drafter")
_ONLY_MEASURED = ("measured", "files", "runtime", *(PARAMETERS.get(name, name) for name in _OF_ROWS))
_ONLY_PAIR = ("pair", "prompts", "requests", "max_new_tokens", "f", "visits")
_OF_PAIR = (
    *_ONLY_PAIR,
    *("target", "draft", "target_device", "draft_device", "dtype", "strategies", "k", "repeats", "output"),
    *("max_error", "as_json", "quiet"),
)
_OF_MEASURED = (*_ONLY_MEASURED, "target", "dtype", "draft", "output", *_COMMON)


@click.command("validate", cls=Verb)
@click.argument("files", nargs=-1, type=click.Path(path_type=Path))
@click.option(
    "--measured",
    type=click.Path(path_type=Path),
    help="an engine's own benchmarks (CSV, or its result file; more may follow) to predict; runs nothing",
)
@click.option(
    "--runtime",
    type=OfKind(Several(Name())),
    help="with --measured: the engine's card, several with a comma, or engine: that of each row's engine "
    "[default: the one that predict takes]",
)
@row_options(*_OF_ROWS)
@click.option(
    "--pair",
    type=click.Path(path_type=Path),
    help="a measured pair.json, whose models run greedily on --prompts, one request at a time",
)
@click.option("--prompts", type=click.Path(path_type=Path), help="with --pair: prompts that it was not measured on")
@click.option("--requests", type=click.IntRange(1), default=16, show_default=True, help="with --pair: answered")
@click.option("--max-new-tokens", type=click.IntRange(1), default=64, show_default=True, help="with --pair: an answer")
@click.option("--f", type=click.IntRange(1), help="with --pair: bonus tokens guessed for each outcome [default: 3]")
@click.option(
    "--visits",
    type=click.IntRange(8),
    default=60,
    show_default=True,
    help="with --pair: rounds whose steps are timed right before and right after each run; fewer for large models",
)
@click.option(
    "--paper",
    help="published results to replay: kumar2026; of drafters eagle2024, magicdec2024, medusa2024, tensorrt-llm-r1, "
    "vllm-eagle; of trees sequoia; or a card's path; runs nothing",
)
@click.option("--hardware", help="a profile measured here [default: calibrate now; with --paper: h100-sxm]")
@click.option(
    "--draft-hardware", help="profile of the draft's device, where it is of another kind [default: --hardware]"
)
@click.option(
    "--max-error",
    type=OfKind(Percent()),
    help="exit 1 beyond it; with --measured, of the mean [with --paper: 0.05, or the rows' own]",
)
@click.option("--target", "--model", default="transformer-shaped-1536x4", show_default=True, help="the target's card")
@click.option("--draft", default="transformer-shaped-768x2", show_default=True, help="the draft's card")
@click.option("--target-device", default="cpu:0", show_default=True, help="cpu:0, cuda:0 or cuda:0-3")
@click.option(
    "--draft-device", help="the draft's own device [default: the one after the target's; none where there is no other]"
)
@click.option(
    "--ep",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="groups of the target's ranks that hold different experts",
)
@click.option(
    "--targets",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="that share the draft and the target's ranks evenly: SD's, with --sd-draft separate, one after the other",
)
@click.option("--context", type=click.IntRange(1), default=256, show_default=True)
@click.option("--dtype", type=click.Choice(DTYPES), help="[default: the profile's]")
@chosen_options(lambda: ["strategies"])
@click.option("--grid", type=click.Choice(["short", "single", "full"]), default="short", show_default=True)
@click.option(
    "--sd-draft",
    type=click.Choice(SD_DRAFT_PLACES),
    help="SD's draft on the target's devices, or on its own as in SSD, at every point [default: some points each]",
)
@click.option(
    "--fl",
    type=OfKind(ListOf(Whole())),
    help="K+1 fan-outs for every point, which set its K and, by predict's hit curve, its p_hit [default: the grid's]",
)
@click.option("--rounds", type=click.IntRange(1), default=12, show_default=True, help="of each strategy and repeat")
@click.option("--repeats", type=click.IntRange(2), default=5, show_default=True)
@click.option(
    "--trace",
    type=OutputFile(),
    help="rounds of the first point in one file: measured, and simulated ones of the strategy asked about",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help=f"a run folder for ssdsim report, or a .jsonl file; resumed [default: {_OUTPUT}]",
)
@common_options
def command(
    files: tuple[Path, ...],
    measured: Path | None,
    runtime: list[str] | None,
    pair: Path | None,
    paper: str | None,
    hardware: str | None,
    max_error: float | None,
    as_json: bool,
    seed: int,
    quiet: bool,
    **options: object,
) -> None:
    """Compare predictions with measured results: a paper's, an engine's, or strategies run here for real.

    Predictions come from microbenchmarks alone; no round enters a fit.
    """
    if paper is not None:
        _refuse_others("paper", _OF_PAPER, "which runs nothing")
        from ssdsim.cli.validate_paper import replay_paper

        within = replay_paper(paper, hardware, max_error, as_json)
        sys.exit(0 if within else 1)
    whole("--seed", seed, 0)
    if measured is not None:
        _refuse_others("measured", _OF_MEASURED, "which runs nothing")
        from ssdsim.cli.validate_measured import check_measured

        folder = options["output"]
        assert folder is None or isinstance(folder, Path)
        given = _given(hardware, options)
        within = check_measured((measured, *files), given, runtime or (), max_error, folder, seed, as_json)
        sys.exit(0 if within else 1)
    if pair is not None:
        _refuse_others("pair", _OF_PAIR, "which runs the pair's models")
        from ssdsim.cli.validate_pair import check_pair

        alone_under_torchrun()
        named = {name: options[name] if _is_given(name) else None for name in ("target", "draft")}
        folder = Path(str(options["output"] or _OUTPUT))
        sys.exit(0 if check_pair(pair, folder, {**options, **named}, max_error, as_json, quiet) else 1)
    _refuse_without("measured", _ONLY_MEASURED)
    _refuse_without("pair", _ONLY_PAIR)
    alone_under_torchrun()
    if find_spec("torch") is None:
        raise InputError("validate needs torch: pip install 'ssdsim[torch]'")
    output = Path(str(options["output"] or _OUTPUT))
    if output.suffix == ".jsonl":
        if not output.parent.is_dir():
            raise InputError(f"-o '{output}' cannot be written: there is no folder {output.parent}")
        log = output
    else:
        output.mkdir(parents=True, exist_ok=True)
        log, options["trace"] = output / "validation.jsonl", options["trace"] or output / "measured_trace.json"
    points = _grid(options)
    names = _strategies(options, points)  # both refuse what is wrong before a calibration
    if hardware is None:
        hardware = str(_calibrate(log, points, seed, quiet, **options | {"strategies": names}))
    compared = _run(hardware, log, names, points, seed, quiet, **options)
    errors = np.abs([c.error for comparisons in compared for c in comparisons])
    if as_json:
        rows = [{**vars(c), "error": c.error} for comparisons in compared for c in comparisons]
        figures = {"median_error": float(np.median(errors)), "worst_error": float(errors.max())}
        echo_json({"schema": 2, "comparisons": rows, **figures})
    else:
        console().print(_table(compared))
        echo(f"median error {np.median(errors):.1%}, worst {errors.max():.1%}{_signs(compared)}")
    sys.exit(1 if max_error is not None and errors.max() > max_error else 0)


def _refuse_others(mode: str, taken: Sequence[str], says: str) -> None:
    """Raise :class:`InputError` for an option that a use of the verb does not read."""
    for name in click.get_current_context().params:
        if _is_given(name) and name not in taken:
            raise InputError(f"{_called(name)} has no effect with --{mode}, {says}")


def _refuse_without(mode: str, names: Sequence[str]) -> None:
    for name in names:
        if _is_given(name):
            raise InputError(f"{_called(name)} has no effect without --{mode}")


def _is_given(name: str) -> bool:
    return click.get_current_context().get_parameter_source(name) is not ParameterSource.DEFAULT


def _called(name: str) -> str:
    return {"files": "a file", "b": "--batch"}.get(name, f"--{name.replace('_', '-')}")


def _given(hardware: str | None, options: Mapping[str, Any]) -> dict[str, Any]:
    """What the files of measured rows may not say; a default of another use of an option says nothing."""
    return {"hardware": hardware} | by_column({name: value for name, value in options.items() if _is_given(name)})


def _calibrate(log: Path, points: Sequence[GridPoint], seed: int, quiet: bool, **options: object) -> Path:
    """Time this machine for the grid's passes; the profile lies beside the measurements and is resumed as they are.

    Where rounds were measured beside it already it is done: they are predicted with what it was then.
    """
    from ssdsim.cli.calibrate import calibrate

    ranks, draft = _devices(options)
    target = ranks[: len(ranks) // _targets(options)]
    devices = [*target, *draft[:1]]
    if len(target) > 1 and not draft:
        raise InputError("several GPUs of a target and none of a draft need --hardware, from ssdsim calibrate")
    if len({name.split(":")[0] for name in devices}) > 1:
        raise InputError("devices of two kinds need --hardware and --draft-hardware, each from ssdsim calibrate")
    output = log.with_name(f"{log.stem}-profile.json")
    if log.exists() and output.exists():
        return output
    done = calibrate(
        output,
        devices,
        target=str(options["target"]),
        draft=str(options["draft"]),
        b=max(point.b for point in points),
        k=max(point.k for point in points),
        budget=max(point.branches for point in points),
        context=int(str(options["context"])),
        dtype=str(options["dtype"]) if options["dtype"] else None,
        strategies=options["strategies"],
        minutes=_CALIBRATION_MINUTES,
        seed=seed,
        quiet=quiet,
    )
    if done.interrupted:
        raise click.Abort
    return output


def _targets(options: Mapping[str, Any]) -> int:
    """How many share the target's ranks."""
    targets, ranks = int(options["targets"]), len(_devices(options)[0])
    if ranks % targets:
        raise InputError(
            f"--targets {targets} cannot share {ranks} target ranks evenly: --target-device cpu:0-1 has two"
        )
    return targets


def _devices(options: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """The target's and the draft's."""
    from ssdsim.machine.devices import draft_devices, parse_devices

    target = parse_devices(options["target_device"])
    return target, draft_devices(options["draft_device"], target)


def _run(
    hardware: str,
    log: Path,
    names: tuple[str, ...],
    points: Sequence[GridPoint],
    seed: int,
    quiet: bool,
    **options: object,
) -> list[list[Comparison]]:
    from ssdsim.hardware.catalog import find_hardware
    from ssdsim.machine.ranks import RankError
    from ssdsim.validation.bench import Bench, check_profile, run_grid

    on_target, on_draft = map(tuple, _devices(options))
    profile = find_hardware(hardware)
    if len({name.split(":")[0] for name in (*on_target, *on_draft)}) > 1 and not options["draft_hardware"]:
        raise InputError("a draft on a device of another kind needs --draft-hardware, a profile of that device")
    check_profile(profile, on_target)
    check_profile(find_hardware(str(options["draft_hardware"] or hardware)), on_draft)
    bench = Bench(
        strategies=names,
        target_devices=on_target,
        draft_devices=on_draft,
        target=str(options["target"]),
        draft=str(options["draft"]),
        hardware=hardware,
        draft_hardware=str(options["draft_hardware"]) if options["draft_hardware"] else None,
        context=int(str(options["context"])),
        dtype=str(options["dtype"] or next(iter(profile.gemm))),
        rounds=int(str(options["rounds"])),
        repeats=int(str(options["repeats"])),
        seed=seed,
        ep=int(str(options["ep"])),
        targets=_targets(options),
    )
    if log.name == "validation.jsonl":
        _write_config(log.with_name("config.toml"), bench.options(points[0]))
    trace = Trace("ssdsim validate") if options["trace"] else None

    if bench.shared and not quiet:
        echo("validate: ranks share a device; predictions, for which each has its own, do not hold", stderr=True)
    try:
        lock = log.with_name(f".{log.name}.lock")
        with locked(lock, log, "validation"), shown("validate", "grid points", quiet) as progress:
            found = list(run_grid(bench, points, log, progress, trace))
    except RankError as error:
        raise InputError(f"{error}; what was measured is kept in {log}, run again to resume") from None
    if trace is not None and trace.tracks:
        trace.save(Path(str(options["trace"])))
    elif trace is not None and not Path(str(options["trace"])).exists() and not quiet:
        echo("validate: no trace: its point was measured by an earlier run; use another -o", stderr=True)
    return found


def _grid(options: Mapping[str, Any]) -> tuple[GridPoint, ...]:
    from ssdsim.validation.grid import grid_of

    return grid_of(options["grid"], options["sd_draft"], tuple(options["fl"]) if options["fl"] else None)


def _strategies(options: Mapping[str, Any], points: Sequence[GridPoint]) -> tuple[str, ...]:
    from ssdsim.scenario.asked import effective
    from ssdsim.validation.bench import check_runs

    names: tuple[str, ...] = effective({"strategies": options["strategies"]})["strategies"]
    check_runs(names, points, len(_devices(options)[0]), _targets(options))
    return names


def _write_config(path: Path, options: dict[str, object]) -> None:
    """What the first grid point's scenario is, for the report; a sweep's own is left alone."""
    import tomli_w

    from ssdsim.runs.named_files import keep, names_in_folder, renamed

    if path.exists():
        return
    names = names_in_folder(path.parent, (options.get(name) for name in files()))
    keep(path.parent, names)
    config = {"schema": 1, "verb": "validate", "options": renamed(options, names)}
    path.write_text(tomli_w.dumps(config), encoding="utf-8")


def _table(compared: Sequence[Sequence[Comparison]]) -> Table:
    table = Table(names=6, first=("error",), pad_edge=True)
    for column in ("b", "K", "F", "p_hit", "fallback", "", "measured ms", "predicted ms", "error", "most off"):
        table.add_column(column)
    for comparisons in compared:
        for c in comparisons:
            p, half = c.point, (c.measured.high - c.measured.low) / 2.0
            measured = f"{1e3 * c.measured.value:.2f} ± {1e3 * half:.2f}"
            fan_out = str(p.f) if p.fl is None else ",".join(map(str, p.fl))
            p_hit = "by F" if p.p_hit is None else f"{p.p_hit:g}"
            setting = (str(p.b), str(p.k), fan_out, p_hit, p.backup, _what(c))
            table.add_row(*setting, measured, f"{1e3 * c.predicted_s:.2f}", f"{c.error:+.1%}", c.worst_part)
    return table


def _what(c: Comparison) -> str:
    """The strategy, and on how many devices: the target's and the draft's."""
    from ssdsim import strategies

    target, draft = c.devices
    return f"{strategies.ALL.named(c.strategy).title} on {target}{f'+{draft}' if draft else ''}"


def _signs(compared: Sequence[Sequence[Comparison]]) -> str:
    """How often the subject is predicted faster or slower than its rival as it was measured, where that is clear."""
    from ssdsim import strategies
    from ssdsim.scenario.asked import subject_among
    from ssdsim.validation.comparison import speedups

    subject = subject_among([c.strategy for c in compared[0]], None)
    found = [one for comparisons in compared for one in speedups(comparisons) if one[0] == subject]
    if not found:
        return ""
    decided = [(measured, predicted) for *_, measured, predicted in found if measured.low > 1.0 or measured.high < 1.0]
    right = sum((predicted > 1.0) == (measured.value > 1.0) for measured, predicted in decided)
    above, below = (strategies.ALL.named(name).title for name in found[0][:2])
    return (
        f"; the sign of {above} against {below} is right at {right} of the {len(decided)} points where it was measured"
    )
