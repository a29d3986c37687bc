"""``ssdsim explore``."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import Any

import click

from ssdsim.answers.workers import Workers
from ssdsim.cli.console import echo
from ssdsim.cli.options import Verb, common_options, given_of_grid, grid_options, output_option, record_options
from ssdsim.cli.output import echo_json, print_out
from ssdsim.cli.param_types import OutputFile
from ssdsim.cli.progress import progress_bar


@click.command("explore", cls=Verb, example="ssdsim explore --b 1,8,64 -o page.html --open")
@grid_options
@output_option("-o", "--output", type=OutputFile(), default=Path("explore.html"), show_default=True, help="the page")
@output_option("--open", "opened", is_flag=True, help="show it in the browser")
@record_options(Workers)
@common_options
def command(output: Path, opened: bool, as_json: bool, seed: int, quiet: bool, **options: Any) -> None:
    """Make one offline page whose sliders move the prediction: no server, nothing loaded, every number ssdsim's.

    Batch, K, acceptance, hits, fan-out, backup and context have sliders, which start at the values that are given.
    A list (--b 1,8,64, --hardware h100-sxm,b200-sxm) says which stops there are; two profiles or two runtimes stand
    side by side. Rates are interpolated between points of a grid, and the page says how far off that is.
    """
    from ssdsim.reports.explorer.build import explore

    with progress_bar("explore", "parts", quiet) as progress:
        page = explore(seed=seed, progress=progress, **given_of_grid(options))
    page.save(output)
    if opened:
        webbrowser.open(output.absolute().as_uri())
    if as_json:
        echo_json(
            {
                "schema": 1,
                "page": output,
                "verdict": {"sentence": page.sentence},
                "points": page.points,
                "errors": page.errors,
            }
        )
        return
    echo(page.sentence)
    print_out(f"{output}: {page.points:,} points, {output.stat().st_size / 1e6:.1f} MB")
