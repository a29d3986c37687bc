"""``ssdsim bench``: a running server, measured as its users load it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ssdsim.cli.console import console, echo, print_labelled
from ssdsim.cli.measured_files import by_column, row_options
from ssdsim.cli.options import echo_json, json_option, quiet_option
from ssdsim.cli.progress import shown
from ssdsim.cli.tables import Table
from ssdsim.cli.values import OutputFile, Values
from ssdsim.errors import InputError
from ssdsim.plain import plain

if TYPE_CHECKING:
    from ssdsim.bench.noise import Repeated
    from ssdsim.bench.points import Point
    from ssdsim.bench.run import Work
    from ssdsim.bench.server import Server

_COLUMNS = ("hardware", "model", "tp", "dtype", "kv_dtype", "k", "acceptance_length", "draft", "drafter")


@click.command("bench")
@click.argument("url")
@click.option(
    "-o", "--output", type=OutputFile(), required=True, help="rows (CSV); points that it has are not repeated"
)
@click.option(
    "--concurrency", type=Values(int), default="1,2,4,8", show_default=True, help="requests in flight; a list"
)
@click.option("--input-len", type=Values(int), default="256", show_default=True, help="tokens of prompts; a list")
@click.option("--output-len", type=Values(int), default="128", show_default=True, help="tokens of answers; a list")
@click.option("--requests", type=click.IntRange(1), default=3, show_default=True, help="measured, of each in flight")
@click.option("--repeats", type=click.IntRange(1), default=3, show_default=True, help="of every point")
@click.option("--prompts", type=click.Path(path_type=Path), help="your own (JSON lines, Parquet) [default: made up]")
@click.option("--temperature", type=click.FloatRange(0.0, 100.0), default=0.0, show_default=True)
@row_options(*_COLUMNS)
@click.option("--served", help="the model, of a server that has several")
@click.option("--pair", type=OutputFile(), help="also write acceptance as a pair (JSON)")
@click.option("--api-key", metavar="VARIABLE", help="environment variable that holds the server's key")
@click.option("--timeout", type=click.FloatRange(0.1), default=120.0, show_default=True, help="seconds without a token")
@click.option("--wait", type=click.FloatRange(0.0), default=0.0, show_default=True, help="seconds for it to start")
@click.option("--seed", type=int, default=0, show_default=True, help="of prompts and of the order of points")
@quiet_option
@json_option
def command(
    url: str,
    output: Path,
    concurrency: list[int],
    input_len: list[int],
    output_len: list[int],
    requests: int,
    repeats: int,
    prompts: Path | None,
    temperature: float,
    served: str | None,
    pair: Path | None,
    api_key: str | None,
    timeout: float,
    wait: float,
    seed: int,
    quiet: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Measure a running server (vLLM, SGLang, TensorRT-LLM, llama.cpp) and write rows for fit runtime and validate.

    A closed loop of streamed requests of fixed lengths: each point --repeats times, all in an order drawn by chance.
    It never has more requests in flight than the largest --concurrency. Ctrl-C keeps what is measured; the same
    command goes on.
    """
    from ssdsim.bench.noise import repeated
    from ssdsim.bench.points import shuffled
    from ssdsim.bench.run import Work, measure

    for name, values, least in (
        ("concurrency", concurrency, 1),
        ("input-len", input_len, 1),
        ("output-len", output_len, 2),
    ):
        if min(values) < least:
            raise InputError(f"--{name} must be at least {least}, got {min(values)}")
    work = Work(
        url=url,
        points=shuffled(concurrency, input_len, output_len, requests, repeats, seed),
        given={name: value for name, value in by_column(given).items() if value is not None},
        temperature=temperature,
        served=served,
        prompts=prompts,
        timeout_s=timeout,
        wait_s=wait,
        seed=seed,
        key=_key(api_key),
    )
    with shown("bench", "points", quiet) as progress:
        found = measure(work, output, lambda server, points: _say(work, server, points, quiet), progress)
    if pair is not None:
        from ssdsim.bench.pair import pair_of

        pair_of(found.rows, temperature, output.name, date.today().isoformat()).save(pair)
    settings = repeated(found.rows)
    if as_json:
        echo_json({"schema": 1, "rows": output, "measured": found.new, "settings": [_json(each) for each in settings]})
        return
    _print(settings, found.server, output)
    if not quiet:
        for warning in found.warnings:
            print_labelled(console(stderr=True), "warning: ", warning, "yellow")
        echo(f"{found.new} new rows of {len(found.rows)} in {output}", stderr=True)


def _key(variable: str | None) -> str | None:
    """The key in the environment, which is nowhere else: a variable's value, not the variable, is the secret."""
    if variable is None:
        return None
    key = os.environ.get(variable)
    if not key:
        raise InputError("--api-key takes the name of an environment variable that holds the key; none is called so")
    return key


def _say(work: Work, server: Server, points: Sequence[Point], quiet: bool) -> None:
    """What will be asked for, before it is."""
    if quiet:
        return
    requests, outputs, inputs = work.asked_tokens(points)
    prompts = "your prompts" if work.prompts else f"about {inputs:,} tokens of prompts"
    who = " ".join(filter(None, (server.engine or "a server", server.version)))
    echo(
        f"{who}, {server.served}: {len(points)} points in at most {requests:,} requests for {outputs:,} tokens, with "
        f"{prompts}; never more than {work.most} at once",
        stderr=True,
    )


def _print(settings: Sequence[Repeated], server: Server, output: Path) -> None:
    from ssdsim.bench.noise import noise_of

    out = console()
    table = Table(names=3, pad_edge=True)
    for column in ("model", "drafts", "batch", "in", "out", "repeats", "TPOT ms", "95 % from", "to", "noise"):
        table.add_column(column, words=column in ("model", "drafts"), joined=column == "to")
    for column in ("TTFT ms", "ITL ms", "tok/s", "tokens", "undrafted"):
        table.add_column(column)
    for each in settings:
        table.add_row(*_cells(each))
    out.print(table)
    noise = noise_of(settings)
    if noise is not None:
        echo(f"A repeat is off by {noise:.1%} (standard deviation): no fit to these rows can be trusted further.")


def _cells(each: Repeated) -> list[str]:
    row, bounds, noise = each.rows[0], each.bounds, each.noise

    def mean(name: str, digits: int) -> str:
        values = [value for own in each.rows if (value := getattr(own, name)) is not None]
        return f"{sum(values) / len(values):.{digits}f}" if values else "-"

    drafts = "-" if row.k is None else f"{row.draft or row.drafter} K {row.k}"
    lengths = (mean("input_tokens", 0), mean("output_tokens", 0), str(len(each.rows)))
    low, high = (f"{bound:.4g}" for bound in bounds) if bounds else ("-", "-")
    found = [own.found for own in each.rows if own.found is not None]
    undrafted = f"{1.0 - sum(found) / len(found):.0%}" if found else "-"
    speeds = (f"{each.mean:.4g}", low, high, "-" if noise is None else f"{noise:.1%}")
    beside = (mean("ttft_ms", 1), mean("itl_ms", 2), mean("output_tokens_per_s", 1), mean("acceptance_length", 2))
    return [row.model, drafts, str(row.batch), *lengths, *speeds, *beside, undrafted]


def _json(each: Repeated) -> dict[str, Any]:
    low, high = each.bounds or (None, None)
    return {
        **{name: value for name, value in plain(each.rows[0]).items() if name not in ("value", "repeat")},
        "repeats": len(each.rows),
        "mean": each.mean,
        "low": low,
        "high": high,
        "noise": each.noise,
    }
