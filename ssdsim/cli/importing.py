"""``ssdsim import``: fit a hardware profile to another tool's measurements."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ssdsim.errors import InputError

if TYPE_CHECKING:
    from calibration.fixed_costs import DecodingSpeed
    from ssdsim.hardware import HardwareProfile

_OUTPUT = click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), required=True)
_COMMIT = click.option("--commit", default="", help="of the source repository, for the provenance")


@click.group("import")
def command() -> None:
    """Fit a hardware profile to another tool's measurements."""


@command.command("aiconfigurator")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--name", help="of the profile [default: the output's name]")
@click.option("--link", type=click.Path(path_type=Path), help="Vidur's send_recv.csv of the same machine")
@click.option("--link-commit", default="", help="of Vidur's repository")
@click.option("--ar", multiple=True, help="an engine's speed CARD:TP:TOKENS_PER_S, at least twice: fits fixed costs")
@click.option("--ar-context", type=click.IntRange(1), default=512, show_default=True)
@click.option("--ar-source", default="", help="where the speeds were published")
@_COMMIT
@_OUTPUT
def aiconfigurator(
    folder: Path,
    name: str | None,
    link: Path | None,
    link_commit: str,
    ar: tuple[str, ...],
    ar_context: int,
    ar_source: str,
    commit: str,
    output: Path,
) -> None:
    """A folder of aiconfigurator's tables (GEMM, decode attention, all-reduce, NCCL) and its system.yaml."""
    from calibration.fixed_costs import fit_fixed_costs
    from calibration.importers.aiconfigurator import import_aiconfigurator

    speeds = [_speed(text, ar_context) for text in ar]
    profile = import_aiconfigurator(folder, name or output.stem, link_csv=link, commit=commit, link_commit=link_commit)
    if speeds:
        profile = profile.with_fixed(fit_fixed_costs(profile, speeds, ar_source))
    _save(profile, output)


def _speed(text: str, context: int) -> DecodingSpeed:
    from calibration.fixed_costs import DecodingSpeed

    try:
        card, tp, rate = text.split(":")
        return DecodingSpeed(card, int(tp), context, float(rate))
    except ValueError:
        raise InputError(f"--ar '{text}' is not CARD:TP:TOKENS_PER_S such as llama-3.1-70b:4:54.7") from None


@command.command("deepbench")
@click.argument("table", type=click.Path(path_type=Path))
@click.option("--name", help="of the profile [default: the output's name]")
@_COMMIT
@_OUTPUT
def deepbench(table: Path, name: str | None, commit: str, output: Path) -> None:
    """DeepBench's V100 workbook (.xlsx) or its GEMMs as CSV; the rest of the V100 from its datasheet."""
    from calibration.importers.deepbench import import_deepbench

    _save(import_deepbench(table, name=name or output.stem, commit=commit), output)


def _save(profile: HardwareProfile, output: Path) -> None:
    from ssdsim.cli.hardware import print_profile

    profile.save(output)
    print_profile(profile)
    click.echo(f"written to {output}", err=True)
