"""``ssdsim validate``: against strategies run here, published results, an engine's rows, a pair's models."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np
from msgspec.structs import asdict

from calibration.cli import validate_pair, validate_paper, validate_rows
from calibration.cli.calibrate import alone_under_torchrun
from calibration.validation.run import Real, validate
from ssdsim.base.kinds import Percent
from ssdsim.cli.console import console, echo, print_labelled
from ssdsim.cli.options import CommandGroup, Verb, common_options, output_option, record_options
from ssdsim.cli.output import echo_json
from ssdsim.cli.param_types import OfKind, Output, OutputFile
from ssdsim.cli.progress import progress_bar
from ssdsim.cli.tables import TextTable
from ssdsim.rounds.round import PART_TITLES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from calibration.validation.comparison import RoundComparison

_WAS = {"--measured": "rows", "--paper": "paper", "--pair": "pair"}
"""Options of former versions that are words today."""


class _Validate(CommandGroup):
    """The group in which a bare ``validate`` is ``validate run``; options of before 0.3 become words, which it says."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        flag, word = next(((arg, _WAS[arg.split("=")[0]]) for arg in args if arg.split("=")[0] in _WAS), ("", "run"))
        if flag and args[0] not in self.commands:
            name, _, value = flag.partition("=")
            at = args.index(flag)
            renamed = ["--model" if each == "--target" and word == "rows" else each for each in args[at + 1 :]]
            args = [word, *args[:at], *([value] if value else []), *renamed]
            echo(f"validate: {name} is now a word: ssdsim validate {word}", stderr=True)
        elif args[:1] not in ([name] for name in (*self.commands, "--help", "-h")):
            args = ["run", *args]
        return super().parse_args(ctx, args)


@click.group("validate", cls=_Validate)
def command() -> None:
    """Compare predictions with measured results: strategies run here for real, or a paper's, an engine's, a pair's.

    Predictions come from microbenchmarks alone; no round enters a fit. Without a word it is run.
    """


for each in (validate_paper, validate_rows, validate_pair):
    command.add_command(each.command)


@command.command(
    "run",
    cls=Verb,
    example="ssdsim validate run --grid single -o validation",
    has_no={"dcp": "validate run has no --dcp: real ranks do not share a cache"},
)
@record_options(Real)
@click.option("--max-error", type=OfKind(Percent()), help="exit 1 beyond it")
@output_option(
    "--trace",
    type=OutputFile(),
    help="rounds of the first point in one file: measured, and simulated ones of the strategy asked about",
)
@output_option(
    "-o",
    "--output",
    type=Output(path_type=Path),
    default="validation",
    show_default=True,
    help="a run folder for ssdsim report, or a .jsonl file; resumed",
)
@common_options
def run(max_error: float | None, trace: Path | None, output: Path, as_json: bool, quiet: bool, **options: Any) -> None:
    """Run strategies on this machine for real: one process a rank, real passes and messages.

    It calibrates first where no --hardware names a profile measured here.
    """
    alone_under_torchrun()
    given = {name: value for name, value in options.items() if value is not None}
    validated = validate(output, trace=trace, told=partial(progress_bar, quiet=quiet), **given)
    for warning in () if quiet else validated.warnings:
        echo(f"validate: {warning}", stderr=True)
    errors = validated.errors
    if as_json:
        rows = [{**asdict(c), "error": c.error} for comparisons in validated.points for c in comparisons]
        figures = {"median_error": float(np.median(errors)), "worst_error": float(errors.max())}
        echo_json({"schema": 2, "comparisons": rows, **figures})
    else:
        out = console()
        print_labelled(out, "", validated.ran, "bold")
        out.print(_table(validated.points))
        beside = "" if validated.others is None else f"; other programs took {validated.others:.0%} of the cores"
        echo(f"median error {np.median(errors):.1%}, worst {errors.max():.1%}{_signs(validated.points)}{beside}")
    sys.exit(1 if max_error is not None and errors.max() > max_error else 0)


def _table(compared: Sequence[Sequence[RoundComparison]]) -> TextTable:
    headers = ("b", "K", "F", "p_hit", "backup", "", "measured ms", "predicted ms", "error", "most off")
    table = TextTable((), headers, names=6, first=("error",), pad_edge=True)
    for comparisons in compared:
        for c in comparisons:
            p, half = c.point, (c.measured.high - c.measured.low) / 2.0
            measured = f"{1e3 * c.measured.value:.2f} ± {1e3 * half:.2f}"
            fan_out = str(p.f) if p.fl is None else ",".join(map(str, p.fl))
            p_hit = "by F" if p.p_hit is None else f"{p.p_hit:g}"
            setting = (str(p.b), str(p.k), fan_out, p_hit, p.backup, _what(c))
            table.add_row(
                *setting, measured, f"{1e3 * c.predicted_s:.2f}", f"{c.error:+.1%}", PART_TITLES.get(c.worst_part, "-")
            )
    return table


def _what(c: RoundComparison) -> str:
    """The strategy, and on how many devices: the target's and the draft's."""
    from ssdsim import strategies

    target, draft = c.devices
    return f"{strategies.ALL.named(c.strategy).title} on {target}{f'+{draft}' if draft else ''}"


def _signs(compared: Sequence[Sequence[RoundComparison]]) -> str:
    """The share of points at which the sign of the subject's lead is predicted right, where it was measured clearly."""
    from calibration.validation.comparison import speedups
    from ssdsim import strategies
    from ssdsim.question.engines import subject_among

    subject = subject_among([c.strategy for c in compared[0]], None)
    speeds = [one for comparisons in compared for one in speedups(comparisons) if one[0] == subject]
    if not speeds:
        return ""
    decided = [(measured, predicted) for *_, measured, predicted in speeds if measured.low > 1.0 or measured.high < 1.0]
    right = sum((predicted > 1.0) == (measured.value > 1.0) for measured, predicted in decided)
    above, below = (strategies.ALL.named(name).title for name in speeds[0][:2])
    return (
        f"; the sign of {above} against {below} is right at {right} of the {len(decided)} points where it was measured"
    )
