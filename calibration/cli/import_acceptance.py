"""``ssdsim import acceptance``: what an engine logged of its speculation -> a pair."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from ssdsim.base.errors import InputError
from ssdsim.cli.console import console, print_each, print_labelled
from ssdsim.cli.help_page import output_option
from ssdsim.cli.options import Verb, echo_json, json_option, quiet_option
from ssdsim.cli.progress import shown
from ssdsim.cli.tables import Table
from ssdsim.cli.values import OutputFile
from ssdsim.readers.acceptance.counts import ImportOptions
from ssdsim.readers.acceptance.read import PairLabels, import_acceptance
from ssdsim.tokens.pair_file import Findings, Pair

_ASKED, _NAMED = ("k", "model", "sampled", "since_start", "adaptive"), ("target", "draft", "temperature")


@click.command("acceptance", cls=Verb, example="ssdsim import acceptance vllm.log --k 3 -o pair.json")
@click.argument("engine")
@click.argument("files", nargs=-1, type=click.Path(path_type=Path))
@output_option("-o", "--output", type=OutputFile(), required=True, help="the pair (JSON)")
@click.option("--target", help="the target's id or card, where no file says it")
@click.option("--draft", help="the draft's id or card, where no file says it")
@click.option("--temperature", type=click.FloatRange(0.0, 100.0), help="of the sampling; engines do not log it")
@click.option("--k", type=click.IntRange(1, 1000), help="tokens drafted a round: where no file says it, or to cut to")
@click.option("--set", "named", multiple=True, metavar="NAME=FILE[,FILE]", help="files of a set of requests")
@click.option("--served", "model", help="the served model whose counters to read, where there are several")
@click.option("--since-start", is_flag=True, help="one snapshot of counters is enough: the server did nothing else")
@click.option("--sampled", is_flag=True, help="windows of the last seconds (gauges, log lines) cover the work")
@click.option("--adaptive", is_flag=True, help="rounds drafted different numbers of tokens: keep no rate by position")
@json_option
@quiet_option
def command(
    engine: str, files: tuple[Path, ...], output: Path, named: tuple[str, ...], as_json: bool, quiet: bool, **said: Any
) -> None:
    """Import what an ENGINE (vllm, sglang, aiperf, ssd, trtllm, llama-cpp, transformers) logged of its speculation.

    Several FILES are several sets of requests, each called by its file's name; snapshots of counters are one set.
    """
    asked, models = ImportOptions(*(said[each] for each in _ASKED)), PairLabels(*(said[each] for each in _NAMED))
    with shown("import", "", quiet):
        pair = import_acceptance(engine, files, _named_sets(named), asked, models, date.today().isoformat())
    pair.save(output)
    if as_json:
        echo_json(pair)
        return
    print_pair(pair, console(), quiet)
    click.echo(f"written to {output}", err=True)


def _named_sets(named: Iterable[str]) -> dict[str, list[Path]]:
    sets: dict[str, list[Path]] = {}
    for each in named:
        name, equals, files = each.partition("=")
        if not name or not equals or not files:
            raise InputError(f"--set '{each}' is not NAME=FILE such as code=code.jsonl")
        if name in sets:
            raise InputError(f"--set {name} is there twice")
        sets[name] = [Path(file) for file in files.split(",")]
    return sets


def print_pair(pair: Pair, out: Console, quiet: bool) -> None:
    """Acceptance and lengths, of all requests and of each set, and what must be said of them."""
    whole = pair.by_temperature[0]
    temperature = "not said" if whole.temperature is None else f"{whole.temperature:g}"
    models = f"{pair.target.id or 'a target'} + {pair.draft.id or 'a draft'}"
    out.print(f"{models}, {pair.how}, temperature {temperature}", style="bold")
    out.print(_table({"all": whole, **whole.sets}))
    if whole.cache is not None and whole.cache.p_hit is not None:
        print_labelled(out, "Hits     ", f"{whole.cache.p_hit:.2f} of the outcomes were cached", "dim")
    if quiet:
        return
    for note in pair.provenance.notes:
        print_labelled(out, "Note     ", note, "dim")
    print_each("warning: ", pair.provenance.warnings, "yellow")


def _table(sets: dict[str, Findings]) -> Table:
    numbers = ("requests", "rounds", "undrafted", "K", "tokens", "of requests", "alpha", "95 %")
    table = Table(("",), numbers, ("alpha by position",), first=("alpha", "95 %", "tokens"))
    for name, findings in sets.items():
        table.add_row(name, *_row(findings))
    return table


def _row(findings: Findings) -> list[str]:
    length, alpha = findings.length, findings.alpha
    bounded = alpha.low is not None and alpha.high is not None
    return [
        _shown(findings.count),
        _shown(length.rounds),
        _shown(length.undrafted),
        _shown(length.k),
        _shown(length.pooled, 2),
        _shown(length.mean_of_requests, 2),
        _shown(alpha.mean, 3),
        f"{alpha.low:.3f}-{alpha.high:.3f}" if bounded else "",
        " ".join("?" if rate is None else f"{rate:.2f}" for rate in findings.alpha_k or ()),
    ]


def _shown(value: float | None, digits: int = 0) -> str:
    return "" if value is None else f"{value:.{digits}f}"
