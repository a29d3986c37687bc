"""``ssdsim report``."""

from __future__ import annotations

from pathlib import Path

import click

from ssdsim.base.errors import InputError
from ssdsim.base.plain import picked
from ssdsim.cli.console import echo
from ssdsim.cli.options import Verb, common_options, output_option
from ssdsim.cli.output import echo_json, print_out
from ssdsim.cli.param_types import OutputFile
from ssdsim.cli.progress import progress_bar
from ssdsim.runs.layout import REPORT


@click.command("report", cls=Verb, example="ssdsim report run -o page.html")
@click.argument("run_folder", type=click.Path(path_type=Path))
@output_option("-o", "--output", type=OutputFile(), help="[default: report.html in the run folder]")
@click.option("--figure", metavar="NAME", help="One figure alone, as SVG, PDF or PNG by the name of --output.")
@click.option(
    "--columns", type=click.Choice(["1", "2"]), help="Width of --figure: 85 or 178 mm  [default: 1, wide figures 2]"
)
@common_options
def command(
    run_folder: Path,
    output: Path | None,
    figure: str | None,
    columns: str | None,
    as_json: bool,
    seed: int,
    quiet: bool,
) -> None:
    """Show a run folder as one self-contained page: open it in any browser, on a phone, offline, or print it.

    What the folder does not hold but follows from its config.toml is computed. --figure writes one of its figures for a
    paper; a wrong name lists those that there are.
    """
    if figure is not None:
        _picture(run_folder, figure, output or run_folder / f"{figure}.svg", columns, as_json, seed)
    elif columns is not None:
        raise InputError("--columns has no effect without --figure")
    else:
        _page(run_folder, output or run_folder / REPORT, as_json, seed, quiet)


def _picture(run_folder: Path, name: str, path: Path, columns: str | None, as_json: bool, seed: int) -> None:
    from ssdsim.reports.build import figure
    from ssdsim.reports.figure import kind_of, save_picture

    kind_of(path)  # before any work
    plot = figure(run_folder, name, seed)
    save_picture(plot.plot, path, int(columns) if columns else plot.columns)
    if as_json:
        echo_json({"schema": 1, "report": path, "figures": [picked(plot, "key", "title")]})
        return
    echo(plot.title)
    print_out(f"{path}: {path.stat().st_size / 1e3:.0f} kB")


def _page(run_folder: Path, path: Path, as_json: bool, seed: int, quiet: bool) -> None:
    from ssdsim.reports.build import report

    if path.suffix.lower() not in ("", ".html", ".htm"):
        raise InputError(f"{path}: a report is a page (.html); one figure of it is written by --figure NAME")
    with progress_bar("report", "", quiet):
        made = report(run_folder, seed)
    made.save(path)
    if as_json:
        echo_json(
            {
                "schema": 1,
                "report": path,
                "verdict": {"sentence": made.sentence},
                "figures": [picked(figure, "key", "title") for figure in made.figures],
                **picked(made, "unfinished", "left_out"),
            }
        )
        return
    if made.unfinished:
        echo(made.unfinished)
    echo(made.sentence)
    print_out(f"{path}: {len(made.figures)} figures, {path.stat().st_size / 1e6:.1f} MB")
    if not quiet:
        for item in made.left_out:
            echo(f"not shown: {item.what} ({item.why})", stderr=True)
