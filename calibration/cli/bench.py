"""``ssdsim bench``: a running server, measured as its users load it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from calibration.cli.first_screens import print_bench
from calibration.cli.row_options import by_column, row_options
from ssdsim.base.errors import InputError
from ssdsim.base.plain import plain
from ssdsim.base.record import replace
from ssdsim.cli.console import console, echo, print_each
from ssdsim.cli.options import Verb, explain_option, json_option, output_option, quiet_option, rare_option
from ssdsim.cli.output import echo_json
from ssdsim.cli.param_types import PORT, SECONDS, SEED, WHOLES, Finite, OutputFile
from ssdsim.cli.progress import progress_bar
from ssdsim.cli.tables import TextTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from calibration.bench.load import LoadPoint
    from calibration.bench.plan import PlannedServer
    from calibration.bench.run import BenchJob, BenchResult
    from calibration.bench.server import Server
    from ssdsim.readers.row import Repeated

_COLUMNS = ("hardware", "model", "tp", "dtype", "kv_dtype", "k", "acceptance_length", "draft", "drafter")
_PASSED_ON = ("requests", "repeats", "seed", "timeout")
"""Options that a script gives to each call of the verb as they are."""


@click.command("bench", cls=Verb, example="ssdsim bench http://127.0.0.1:8000 --concurrency 1,8,64 -o rows.csv")
@click.argument("url", required=False)
@output_option(
    "-o", "--output", type=OutputFile(), required=True, help="rows (CSV); points that it has are not repeated"
)
@click.option("--concurrency", type=WHOLES, default="1,2,4,8", show_default=True, help="requests in flight; a list")
@click.option("--input-len", type=WHOLES, default="256", show_default=True, help="tokens of prompts; a list")
@click.option("--output-len", type=WHOLES, default="128", show_default=True, help="tokens of answers; a list")
@click.option("--requests", type=click.IntRange(1), default=3, show_default=True, help="measured, of each in flight")
@click.option("--repeats", type=click.IntRange(1), default=3, show_default=True, help="of every point")
@click.option("--prompts", type=click.Path(path_type=Path), help="your own (JSON lines, Parquet) [default: made up]")
@click.option("--temperature", type=Finite(0.0, 100.0), default=0.0, show_default=True)
@row_options(*_COLUMNS)
@rare_option("--served", help="the model, of a server that has several")
@click.option("--pair", type=OutputFile(), help="also write acceptance as a pair (JSON)")
@rare_option("--api-key", metavar="VARIABLE", help="environment variable that holds the server's key")
@rare_option("--timeout", type=Finite(0.1, 1e7), default=120.0, show_default=True, help="seconds for a token or a page")
@rare_option("--wait", type=SECONDS, default=0.0, show_default=True, help="seconds for it to start")
@rare_option("--seed", type=SEED, default=0, show_default=True, help="of prompts and of the order of points")
@click.option(
    "--plan", metavar="ENGINE", help="a script of servers that tell a card's numbers apart, in place of a URL"
)
@click.option("--launch", is_flag=True, help="start the plan's servers here, measure them, and end them")
@rare_option("--degrees", type=WHOLES, help="of a plan: tensor-parallel degrees [default: --tp]")
@rare_option("--lookaheads", type=WHOLES, default="2,5", show_default=True, help="of a plan: K")
@rare_option("--accept", type=Finite(0.0, 1.0), default=0.8, show_default=True, help="of a plan: forced rate")
@rare_option("--port", type=PORT, default=8000, show_default=True, help="of a plan's servers")
@quiet_option
@explain_option
@json_option
def command(
    url: str | None,
    output: Path,
    pair: Path | None,
    api_key: str | None,
    plan: str | None,
    launch: bool,
    quiet: bool,
    explain: bool,
    as_json: bool,
    **asked: Any,
) -> None:
    """Measure a running server (vLLM, SGLang, TensorRT-LLM, llama.cpp) and write rows for fit runtime and validate.

    A closed loop of streamed requests of fixed lengths: each point --repeats times, all in an order drawn by chance.
    It never has more requests in flight than the largest --concurrency. Ctrl-C keeps what is measured; the same
    command goes on. --plan prints the servers that tell most, of which a forced share is accepted where the engine has
    that; with --launch they are run.
    """
    from calibration.bench.run import BenchJob
    from ssdsim.readers.row import repeated

    if (url is None) == (plan is None):
        raise InputError("give the server's URL, such as http://127.0.0.1:8000, or --plan ENGINE")
    if launch and plan is None:
        raise InputError("--launch needs --plan ENGINE")
    work = BenchJob(
        url=url or f"http://127.0.0.1:{asked['port']}",
        points=_points(asked, asked["concurrency"], asked["input_len"]),
        row_columns={name: value for name, value in by_column(asked).items() if value is not None},
        temperature=asked["temperature"],
        served=asked["served"],
        prompts=asked["prompts"],
        timeout_s=asked["timeout"],
        wait_s=asked["wait"],
        seed=asked["seed"],
        key=_key(api_key),
    )
    if plan is None:
        measured = _measured(work, output, quiet)
    else:
        servers = _servers(plan, work, asked, quiet)
        if not launch:
            _print_script(plan, servers, work, output, asked, as_json)
            return
        measured = _launched(plan, servers, work, output, asked, quiet)
    if pair is not None:
        from calibration.bench.rows import pair_of

        pair_of(measured.rows, work.temperature, output.name, date.today().isoformat()).save(pair)
    settings = repeated(measured.rows)
    if as_json:
        shown_rows = [setting_json(each) for each in settings]
        echo_json({"schema": 1, "rows": output, "measured": measured.new, "settings": shown_rows})
        return
    print_bench(settings, output)
    if explain:
        print_settings(settings)
    if not quiet:
        print_each("warning: ", measured.warnings, "yellow")
        echo(f"{measured.new} new rows of {len(measured.rows)} in {output}", stderr=True)


def _points(asked: dict[str, Any], concurrencies: Sequence[int], inputs: Sequence[int]) -> list[LoadPoint]:
    from calibration.bench.load import shuffled

    if (shortest := min(asked["output_len"])) < 2:
        raise InputError(f"--output-len must be at least 2, got {shortest}")
    return shuffled(concurrencies, inputs, asked["output_len"], asked["requests"], asked["repeats"], asked["seed"])


def _measured(work: BenchJob, output: Path, quiet: bool) -> BenchResult:
    from calibration.bench.run import measure

    with progress_bar("bench", "points", quiet, kept=f"{output} has what is measured; run again to resume") as progress:
        return measure(work, output, (lambda *_: None) if quiet else say_what_comes, progress)


def _key(variable: str | None) -> str | None:
    """The key, which is in the environment alone; what was given may be the key itself, and is not shown."""
    if variable is None:
        return None
    key = os.environ.get(variable)
    if not key:
        raise InputError("--api-key takes the name of an environment variable that holds the key; none is called so")
    return key


# a plan


def _servers(engine: str, work: BenchJob, asked: dict[str, Any], quiet: bool) -> list[PlannedServer]:
    from calibration.bench.plan import planned, setting_of

    notes: list[str] = []
    target = setting_of(work.row_columns, asked["accept"], notes)
    degrees = asked["degrees"] or [work.row_columns.get("tp", 1)]
    loads = asked["concurrency"], asked["input_len"]
    servers = planned(engine, target, degrees, asked["lookaheads"], *loads, work.row_columns, notes)
    print_each("note: ", () if quiet else notes, "cyan")
    return servers


def _print_script(
    engine: str,
    servers: Sequence[PlannedServer],
    work: BenchJob,
    output: Path,
    asked: dict[str, Any],
    as_json: bool,
) -> None:
    from calibration.bench.plan import plan_json, script

    options = ["-o", str(output), "--output-len", ",".join(map(str, asked["output_len"]))]
    options += [word for name in _PASSED_ON for word in (f"--{name}", str(asked[name]))]
    options += ["--temperature", f"{work.temperature:g}"] + (["--prompts", str(work.prompts)] if work.prompts else [])
    made = engine, servers, asked["port"], options
    echo_json(plan_json(*made)) if as_json else click.echo(script(*made), nl=False)


def _launched(
    engine: str, servers: Sequence[PlannedServer], work: BenchJob, output: Path, asked: dict[str, Any], quiet: bool
) -> BenchResult:
    """The plan's servers, one after the other; each is ended before the next one starts."""
    from calibration.bench.engines import launched, start_of
    from calibration.bench.plan import STARTS_S

    new, measured = 0, None
    for number, served in enumerate(servers, 1):
        start, log = start_of(engine, served.setting, asked["port"]), output.with_name(f"server-{number}.log")
        points = _points(asked, served.concurrencies, served.input_lengths)
        if not quiet:
            echo(f"{number} of {len(servers)}: {served.title} ({log})", stderr=True)
        with launched(start, log) as alive:
            own = replace(
                work, points=points, row_columns=served.row_columns, wait_s=work.wait_s or STARTS_S, alive=alive
            )
            measured = _measured(own, output, quiet)
        new += measured.new
    assert measured is not None
    measured.new = new
    return measured


def say_what_comes(work: BenchJob, server: Server, points: Sequence[LoadPoint]) -> None:
    """Say what will be asked for, before it is."""
    requests, outputs, inputs = work.asked_tokens(points)
    prompts = "your prompts" if work.prompts else f"about {inputs:,} tokens of prompts"
    who = " ".join(filter(None, (server.engine or "a server", server.version)))
    echo(
        f"{who}, {server.served}: {len(points)} points in at most {requests:,} requests for {outputs:,} tokens, with "
        f"{prompts}; never more than {work.most} at once",
        stderr=True,
    )


def print_settings(settings: Sequence[Repeated]) -> None:
    """A row a setting: its mean over repeats, how far they lie apart, and what else was seen."""
    from ssdsim.readers.row import noise_of

    out = console()
    numbers = ("batch", "in", "out", "repeats", "TPOT ms", "95 % from", "to", "noise")
    seen = ("TTFT ms", "ITL ms", "tok/s", "tokens", "undrafted")
    table = TextTable(("model", "drafts"), (*numbers, *seen), joined=("to",), names=3, pad_edge=True)
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
    shares = [own.found for own in each.rows if own.found is not None]
    undrafted = f"{1.0 - sum(shares) / len(shares):.0%}" if shares else "-"
    speeds = (f"{each.mean:.4g}", low, high, "-" if noise is None else f"{noise:.1%}")
    beside = (mean("ttft_ms", 1), mean("itl_ms", 2), mean("output_tokens_per_s", 1), mean("acceptance_length", 2))
    return [row.model, drafts, str(row.batch), *lengths, *speeds, *beside, undrafted]


def setting_json(each: Repeated) -> dict[str, Any]:
    """The setting, with the mean of its repeats."""
    low, high = each.bounds or (None, None)
    return {
        **{name: value for name, value in plain(each.rows[0]).items() if name not in ("value", "repeat")},
        "repeats": len(each.rows),
        "mean": each.mean,
        "low": low,
        "high": high,
        "noise": each.noise,
    }
