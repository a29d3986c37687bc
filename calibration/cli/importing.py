"""``ssdsim import``: other tools' measurements and engines' logs -> a hardware profile, or a pair of models."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from calibration.cli.import_acceptance import command as acceptance
from ssdsim.base.errors import InputError
from ssdsim.cli.help_page import output_option
from ssdsim.cli.options import CommandGroup
from ssdsim.cli.progress import shown
from ssdsim.cli.values import OutputFile, completing
from ssdsim.cli.warning_lines import print_warnings
from ssdsim.hardware.catalog import find_hardware, hardware_names
from ssdsim.hardware.runtime_catalog import SUFFIX, save_runtime

if TYPE_CHECKING:
    from calibration.timings.decoding_speeds import DecodingSpeed
    from ssdsim.hardware.profile import HardwareProfile

_OUTPUT = output_option("-o", "--output", type=OutputFile(), required=True)
_OPERATIONS = ["all_reduce", "all_gather", "sendrecv"]
_COMMIT = click.option("--commit", default="", help="of the source repository, for the provenance")


@click.group("import", cls=CommandGroup)
def command() -> None:
    """Fit a hardware profile to another tool's measurements, or keep what an engine logged of its speculation."""


command.add_command(acceptance)


@command.command("aiconfigurator", example="ssdsim import aiconfigurator h100_sxm --link send_recv.csv -o h100.json")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--name", help="of the profile [default: the output's name]")
@click.option("--link", "link_csv", type=click.Path(path_type=Path), help="Vidur's send_recv.csv of the same machine")
@click.option("--link-commit", default="", help="of Vidur's repository")
@click.option("--ar", multiple=True, help="an engine's speed CARD:TP:TOKENS_PER_S, at least twice: fits a runtime")
@click.option("--ar-context", type=click.IntRange(1), default=512, show_default=True)
@click.option("--ar-source", default="", help="where the speeds were published")
@_COMMIT
@_OUTPUT
def aiconfigurator(
    folder: Path, name: str | None, ar: tuple[str, ...], ar_context: int, ar_source: str, output: Path, **found: Any
) -> None:
    """A folder of aiconfigurator's tables (GEMM, decode attention, all-reduce, NCCL) and its system.yaml."""
    from calibration.importers.aiconfigurator import import_aiconfigurator
    from calibration.timings.decoding_speeds import fit_decoding_speeds

    speeds = [_speed(text, ar_context) for text in ar]
    with shown("import", "", quiet=False):
        profile = import_aiconfigurator(folder, name or output.stem, **found)
        runtime = fit_decoding_speeds(profile, speeds, ar_source, output.stem) if speeds else None
    if runtime is not None:
        save_runtime(runtime, output.with_suffix(SUFFIX))
    _save(profile, output)


def _speed(text: str, context: int) -> DecodingSpeed:
    from calibration.timings.decoding_speeds import DecodingSpeed

    try:
        card, tp, rate = text.split(":")
        return DecodingSpeed(card, int(tp), context, float(rate))
    except ValueError:
        raise InputError(f"--ar '{text}' is not CARD:TP:TOKENS_PER_S such as llama-3.1-70b:4:54.7") from None


@command.command("deepbench", example="ssdsim import deepbench DeepBench/results -o old.json")
@click.argument("table", type=click.Path(path_type=Path))
@click.option("--name", help="of the profile [default: the output's name]")
@_COMMIT
@_OUTPUT
def deepbench(table: Path, name: str | None, commit: str, output: Path) -> None:
    """DeepBench's V100 workbook (.xlsx) or its GEMMs as CSV; the rest of the V100 from its datasheet."""
    from calibration.importers.deepbench import import_deepbench

    with shown("import", "", quiet=False):
        profile = import_deepbench(table, name=name or output.stem, commit=commit)
    _save(profile, output)


@command.command("v100", example="ssdsim import v100 deepbench.csv timings -o v100.json")
@click.argument("deepbench", type=click.Path(path_type=Path))
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--name", help="of the profile [default: the output's name]")
@click.option("--memory", type=click.Choice(["16", "32"]), default="32", show_default=True, help="GiB of the card")
@_COMMIT
@_OUTPUT
def v100(deepbench: Path, folder: Path, name: str | None, memory: str, commit: str, output: Path) -> None:
    """DeepBench's GEMMs and a folder of public V100 measurements: links, all-reduces, streaming, launches."""
    from calibration.importers.v100 import import_v100

    with shown("import", "", quiet=False):
        profile = import_v100(deepbench, folder, name or output.stem, int(memory), commit)
    _save(profile, output)


_BASE = click.option(
    "--base",
    default="h100-sxm",
    show_default=True,
    shell_complete=completing(hardware_names),
    help="profile whose other timings are kept",
)


@command.command("vidur", example="ssdsim import vidur --mlp mlp.csv -o mine.json")
@click.option("--mlp", type=click.Path(path_type=Path), help="layer operations: GEMMs and element-wise kernels")
@click.option("--all-reduce", type=click.Path(path_type=Path), help="all_reduce.csv")
@click.option("--send-recv", type=click.Path(path_type=Path), help="send_recv.csv")
@_BASE
@_COMMIT
@_OUTPUT
def vidur(
    mlp: Path | None, all_reduce: Path | None, send_recv: Path | None, base: str, commit: str, output: Path
) -> None:
    """Vidur's CSVs of one machine, on top of a profile of the same device."""
    from calibration.importers.vidur import (
        DTYPE,
        import_all_reduce,
        import_elementwise,
        import_gemms,
        import_link,
        provenance,
    )

    if not (mlp or all_reduce or send_recv):
        raise InputError("nothing to import: give --mlp, --all-reduce or --send-recv")
    profile = find_hardware(base)
    update: dict[str, object] = {"name": output.stem, "sources": {**profile.sources, "vidur": provenance(commit)}}
    # the fastest link that datasheets of NVLink devices name; it only settles whether sizes are bytes or elements
    peak = 450e9
    if mlp:
        with shown("import", "", quiet=False):
            update["gemm"] = {**profile.gemm, DTYPE: import_gemms(mlp)}
            update["elementwise"] = import_elementwise(mlp)
    if all_reduce:
        collective_models = import_all_reduce(all_reduce, peak)
        update["collectives"] = {**profile.collectives, "all_reduce": collective_models}
    if send_recv:
        update["link"] = import_link(send_recv, peak)
    _save(profile.model_copy(update=update), output)


@command.command("nccl-tests", example="ssdsim import nccl-tests all_reduce.txt -o mine.json")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--operation", type=click.Choice(_OPERATIONS), help="where a file does not say; which, of several")
@click.option("--ranks", type=click.IntRange(2), help="where a file does not say; which, of several")
@_BASE
@_OUTPUT
def nccl_tests(files: tuple[Path, ...], operation: str | None, ranks: int | None, base: str, output: Path) -> None:
    """Text, CSV or JSON of nccl-tests and rccl-tests, of any version and launcher, on top of a profile."""
    from calibration.importers.nccl_tests import read_nccl_tests, unlike, with_nccl_tests

    with shown("import", "", quiet=False):
        timings = [timed for file in files for timed in read_nccl_tests(file, operation, ranks)]
    under = find_hardware(base)
    profile = with_nccl_tests(under, timings, "nccl-tests")  # which refuses before anything is said
    for timed in timings:
        click.echo(f"{timed.where}: {timed.description}", err=True)
    print_warnings([*(remark for timed in timings for remark in timed.remarks), *unlike(under, timings)], quiet=False)
    _save(profile.model_copy(update={"name": output.stem}), output)


@command.command("csv", example="ssdsim import csv timings.csv -o mine.json")
@click.argument("file", type=click.Path(path_type=Path))
@_BASE
@_OUTPUT
def plain_csv(file: Path, base: str, output: Path) -> None:
    """A plain CSV (op, dtype, seconds, m, n, k, ...), on top of a profile."""
    from calibration.importers.plain_csv import with_plain_csv

    with shown("import", "", quiet=False):
        profile = with_plain_csv(find_hardware(base), file, "csv")
    _save(profile.model_copy(update={"name": output.stem}), output)


def _save(profile: HardwareProfile, output: Path) -> None:
    from ssdsim.cli.hardware import keep_profile

    keep_profile(profile, output)
