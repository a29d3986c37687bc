"""``ssdsim report``."""

from __future__ import annotations

from pathlib import Path

import click

from ssdsim.base.plain import picked
from ssdsim.cli.console import echo
from ssdsim.cli.help_page import output_option
from ssdsim.cli.options import Verb, common_options, echo_json
from ssdsim.cli.output import print_out
from ssdsim.cli.progress import shown
from ssdsim.cli.values import OutputFile
from ssdsim.runs.layout import REPORT


@click.command("report", cls=Verb, example="ssdsim report run -o page.html")
@click.argument("run_folder", type=click.Path(path_type=Path))
@output_option("-o", "--output", type=OutputFile(), help="[default: report.html in the run folder]")
@common_options
def command(run_folder: Path, output: Path | None, as_json: bool, seed: int, quiet: bool) -> None:
    """Show a run folder as one self-contained page: open it in any browser, on a phone, offline, or print it.

    What the folder does not hold but follows from its config.toml is computed.
    """
    from ssdsim.reports.build import report

    with shown("report", "", quiet):
        made = report(run_folder, seed)
    path = run_folder / REPORT if output is None else output
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
