"""``ssdsim fit``: cards from measurements of one's own."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from calibration.cli.held import held_json, print_decision, print_held, refused
from ssdsim.base.kinds import Percent
from ssdsim.base.plain import picked
from ssdsim.cli import progress
from ssdsim.cli.console import console, echo
from ssdsim.cli.help_page import output_option
from ssdsim.cli.measured_files import FILLED, by_column, row_options
from ssdsim.cli.options import CommandGroup, echo_json, json_option, quiet_option
from ssdsim.cli.runtimes import share, shown
from ssdsim.cli.tables import Table
from ssdsim.cli.values import OfKind, OutputFile
from ssdsim.hardware.runtime_catalog import DEFAULT, find_runtime, runtime_names, save_runtime

if TYPE_CHECKING:
    from collections.abc import Sequence

    from calibration.runtimes.fit import Fit
    from calibration.validation.measured import HoldOut
    from ssdsim.readers.row import Row

_LIKE = "vllm"  # where it is bundled


@click.group("fit", cls=CommandGroup)
def command() -> None:
    """Fit a card to measurements of your own."""


@command.command("runtime", example="ssdsim fit runtime rows.csv --hardware h100-sxm -o mine.toml")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@row_options(*FILLED)
@click.option("--like", help=f"runtime to start from: a bundled card or a .toml [default: {_LIKE}, or {DEFAULT}]")
@click.option("--fields", help="numbers to fit, such as gemm,per_step_s [default: those that the rows pay]")
@click.option("--name", help="of the runtime [default: the output's name]")
@click.option("--hold", type=OfKind(Percent()), help="share of the settings to put aside first, and to predict: 0.3")
@click.option(
    "--within", type=OfKind(Percent()), default="10%", show_default=True, help="of --hold: error that is asked for"
)
@output_option("-o", "--output", type=OutputFile(), required=True)
@quiet_option
@json_option
def runtime(
    files: tuple[Path, ...], hold: float | None, within: float, output: Path, quiet: bool, as_json: bool, **given: Any
) -> int:
    """Fit what your engine adds to a hardware profile to its own benchmarks: CSV rows, or results of
    vllm bench serve, sglang.bench_serving, trtllm-bench, aiperf, guidellm or llama-bench.

    With --hold it ends with what to run on this engine, and with 1 where what was put aside is not predicted --within.
    """
    from calibration.runtimes.fit import fit_runtime
    from calibration.validation.measured import predict_aside
    from ssdsim.readers.result_files import rows_of_files

    every = rows_of_files(files, by_column(given))
    held = _put_aside(every, hold, within) if hold is not None else None
    rows = every if held is None else list(held.fitted)
    base = find_runtime(given["like"] or (_LIKE if _LIKE in runtime_names() else DEFAULT))
    fields, name = given["fields"], given["name"] or output.stem
    chosen = tuple(field.strip() for field in fields.split(",")) if fields is not None else None
    engines = {row.engine for row in rows if row.engine}
    engine = engines.pop() if len(engines) == 1 else ""
    with progress.shown("fit", "", quiet):
        fit = fit_runtime(rows, base, name, engine, chosen, _source(files))
        checked = predict_aside(held, fit.card) if held is not None else []
    refusal = refused(checked, within, output) if held is not None else None
    if refusal is None:
        save_runtime(fit.card, output)
    if as_json:
        echo_json(_json(fit, output, rows) | (held_json(held, checked) if held is not None else {}))
        return int(refusal is not None)
    _print(fit, base.name, rows)
    _print_next(fit, rows)
    if held is not None:
        print_held(held, checked)
    if refusal is not None:
        echo(refusal, stderr=True)
        return 1
    if held is not None:
        print_decision(every, output)
    if not quiet:
        echo(f"written to {output}; next: {_next(rows, output)}", stderr=True)
    return 0


def _put_aside(rows: Sequence[Row], share: float, within: float) -> HoldOut:
    from calibration.validation.measured import check_noise, put_aside

    held = put_aside(rows, share)
    check_noise(held, within)
    return held


def _source(files: Sequence[Path]) -> str:
    """The origin of the card's numbers, as the card says it."""
    named = ", ".join(file.name for file in files[:3])
    return f"the user's own: {named}" + (f" and {len(files) - 3} more" if len(files) > 3 else "")


def _next(rows: Sequence[Row], output: Path) -> str:
    """The prediction for what was measured, where it is one thing."""
    same = {name: {getattr(row, name) for row in rows} for name in ("hardware", "model", "tp")}
    flags = {"hardware": "--hardware", "model": "--target", "tp": "--tp"}
    asked = [f"{flags[name]} {values.pop()}" for name, values in same.items() if len(values) == 1]
    return " ".join(["ssdsim predict", *asked, f"--runtime {output}"])


def _print(fit: Fit, base: str, rows: Sequence[Row]) -> None:
    out = console()
    out.print(f"{fit.card.name}: {len(rows)} rows, started from {base}", style="bold")
    out.print(_fields_table(fit))
    out.print(_series_table(fit))
    if fit.unpaid:
        echo(f"No row pays {', '.join(fit.unpaid)}: they stay as in {base}.")
    if fit.alike:
        pairs = ", ".join(f"{one} and {other}" for one, other in fit.alike)
        echo(f"The rows cannot tell apart: {pairs}; rows at other batches, contexts or degrees would.")
    left = f", {share(fit.left_out_error)} of series left out" if fit.left_out_error is not None else ""
    if fit.card.cache_dtype is not None:
        echo(f"Beside quantised weights its cache is taken to be {fit.card.cache_dtype} where rows do not say.")
    echo(f"Mean error {share(fit.error)} in fit{left}.")


def _print_next(fit: Fit, rows: Sequence[Row]) -> None:
    """The row that would tell most, as it would be asked for."""
    from calibration.runtimes.next_row import next_row

    following = next_row(rows, fit.card, fit.open)
    if following is None:
        return
    row = following.row
    drafted = f" --k {row.k}" if row.k else ""
    where = f"--tp {row.tp} --b {row.batch} --context {row.context}{drafted}"
    steps = f"steps of {row.model} on {row.hardware}"
    echo(
        f"One row more would tell most at {where}: the numbers leave {share(following.without)} of {steps} open, "
        f"and would {share(following.with_it)}."
    )


def _fields_table(fit: Fit) -> Table:
    numbers = ("value", "95 % from", "to")
    table = Table(("number",), numbers, ("told by the rows",), joined=("to",), pad_edge=True)
    for field, value, low, high in _fitted(fit):
        told = "yes" if field in fit.told else "little: drawn to the start"
        table.add_row(field, shown(field, value), shown(field, low), shown(field, high), told)
    return table


def _series_table(fit: Fit) -> Table:
    from calibration.runtimes.fit import by_series

    table = Table(("series",), ("rows", "error in fit", "left out"), pad_edge=True)
    for series, count, error, left_out in by_series(fit):
        table.add_row(series, str(count), share(error), share(None if math.isnan(left_out) else left_out))
    return table


def _fitted(fit: Fit) -> Iterator[tuple[str, float, float, float]]:
    """Each field with its value and its interval."""
    for field, low, high in zip(fit.fields, fit.low, fit.high, strict=True):
        yield field, float(fit.card.numbers[field]), float(low), float(high)


def _json(fit: Fit, output: Path, rows: Sequence[Row]) -> dict[str, object]:
    from calibration.runtimes.fit import by_series
    from calibration.runtimes.next_row import next_row

    more = next_row(rows, fit.card, fit.open)
    asked = {} if more is None else picked(more.row, "model", "hardware", "tp", "batch", "context", "k")
    fields = (dict(zip(("field", "value", "low", "high"), each, strict=True)) for each in _fitted(fit))
    series = (dict(zip(("series", "rows", "error", "left_out_error"), each, strict=True)) for each in by_series(fit))
    return {
        "schema": 1,
        "runtime": output,
        "name": fit.card.name,
        "fields": [{**each, "told": each["field"] in fit.told} for each in fields],
        "series": list(series),
        **picked(fit, "alike", "unpaid", "error", "left_out_error"),
        "next_row": None if more is None else {**asked, "open_without": more.without, "open_with": more.with_it},
    }
