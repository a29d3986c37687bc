"""``ssdsim export``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ssdsim.advise.candidates import CELLS, choices, fixed_options
from ssdsim.advise.export.export import FORMATS, export
from ssdsim.base.files import write_whole
from ssdsim.base.option import spelled
from ssdsim.base.plain import picked
from ssdsim.cli.console import echo, print_each, print_warnings
from ssdsim.cli.options import Verb, chosen_options, common_options, output_option, rare_option
from ssdsim.cli.output import echo_json, print_out
from ssdsim.cli.param_types import OfKind, OutputFile
from ssdsim.cli.progress import progress_bar
from ssdsim.serving.batching import OfKTable


def _tabled() -> dict[str, Any]:
    """The values tried where a user says nothing, by option."""
    return {**CELLS, **choices()}


class _Export(Verb):
    """The verb whose help ends with what is tried by default."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        shown = "; ".join(f"{spelled(name)} {','.join(map(str, values))}" for name, values in _tabled().items())
        self.epilog = f"Without them: {shown}."
        super().format_epilog(ctx, formatter)


@click.command("export", cls=_Export, example="ssdsim export --format vllm-serve -b 1,16,64 -o serve.sh")
@click.option("--format", "format_", type=click.Choice(FORMATS), default="json", show_default=True)
@output_option("-o", "--output", type=OutputFile(), help="a file [default: stdout]")
@rare_option(
    "--k-table", type=OfKind(OfKTable()), help="SD's K by this table or policy, in place of the best: json, csv"
)
@chosen_options(_tabled, several=True, defaults=False)
@chosen_options(lambda: ("strategies", *fixed_options()))
@common_options
def command(format_: str, output: Path | None, as_json: bool, seed: int, quiet: bool, **options: Any) -> int:
    """Write which strategy is best at which batch and context, and with which settings: K, fan-out, backup.

    json and csv hold the whole schedule; vllm is the object of --speculative-config; vllm-serve, sglang, trtllm and
    llama-cpp are the command line of a server, ssd command lines of the SSD engine's bench.py. --b, --context, --k and
    --f take lists and ranges: 1,2,4 or 1:8. What an engine cannot do is said on stderr, and the nearest that it can is
    exported. Exits with 1 if nothing fits.
    """
    with progress_bar("export", "", quiet):
        exported = export(format_, seed=seed, **options)
    if output is not None and exported.text:
        write_whole(output, exported.text)
    if as_json:
        said = picked(exported, "text", "refusal", "notes", "inputs", "warnings")
        echo_json({"schema": 1, "format": format_, **said})
    elif output is None:
        print_out(exported.text.removesuffix("\n"))
    if not quiet and not as_json:
        print_each("note: ", exported.notes, "cyan")
        print_warnings(exported.warnings, quiet)
    if not quiet:
        echo("note: export is now ssdsim recommend --paste ENGINE", stderr=True)
    if exported.refusal is not None and not as_json:
        echo(exported.refusal, stderr=True)
    return int(exported.refusal is not None)
