"""``ssdsim fit``: cards from measurements of one's own, and what ``--hold`` says of them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from calibration.cli.first_screens import print_fit
from calibration.cli.row_options import FILLED, by_column, row_options
from ssdsim.base.kinds import Percent
from ssdsim.base.plain import picked
from ssdsim.base.record import Record
from ssdsim.cli.console import console, echo, print_labelled
from ssdsim.cli.options import CommandGroup, explain_option, json_option, output_option, quiet_option
from ssdsim.cli.output import echo_json
from ssdsim.cli.param_types import OfKind, OutputFile
from ssdsim.cli.progress import progress_bar
from ssdsim.cli.runtimes import share, shown
from ssdsim.cli.tables import TextTable
from ssdsim.hardware.runtime_catalog import DEFAULT, find_runtime, runtime_names, save_runtime
from ssdsim.tokens.acceptance import rate_of, rates_of_survival

if TYPE_CHECKING:
    from collections.abc import Sequence

    from calibration.runtimes.fit import RuntimeFit
    from calibration.validation.measured import Checked, HoldOut
    from ssdsim.advise.candidates import Chosen
    from ssdsim.readers.row import Row

_LIKE = "vllm"  # where it is bundled


_LOOKAHEADS = tuple(range(1, 9))


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
@explain_option
@json_option
def runtime(
    files: tuple[Path, ...],
    hold: float | None,
    within: float,
    output: Path,
    quiet: bool,
    explain: bool,
    as_json: bool,
    **given: Any,
) -> int:
    """Fit what your engine adds to a hardware profile to its own benchmarks: CSV rows, or results of
    vllm bench serve, sglang.bench_serving, trtllm-bench, aiperf, guidellm, llama-bench, or bench.py of the SSD engine.

    With --hold it ends with what to run on this engine, and with 1 where what was put aside is not predicted --within.
    """
    from calibration.runtimes.fit import fit_runtime
    from calibration.validation.measured import predict_aside
    from ssdsim.readers.priced_row import assumed_drafter
    from ssdsim.readers.result_files import rows_of_files

    every = rows_of_files(files, by_column(given))
    for told, count in Counter(told for row in every for told in assumed_drafter(row)).items():
        echo(f"{count} rows do not say what drafted; taken: {told} (--drafter, or the column, says it)", stderr=True)
    held = _put_aside(every, hold, within) if hold is not None else None
    rows = every if held is None else list(held.fitted)
    base = find_runtime(given["like"] or (_LIKE if _LIKE in runtime_names() else DEFAULT))
    fields, name = given["fields"], given["name"] or output.stem
    chosen = tuple(field.strip() for field in fields.split(",")) if fields is not None else None
    engines = {row.engine for row in rows if row.engine}
    engine = engines.pop() if len(engines) == 1 else ""
    with progress_bar("fit", "", quiet):
        fit = fit_runtime(rows, base, name, engine, chosen, _source(files))
        checked = predict_aside(held, fit.card) if held is not None else []
    refusal = refused(checked, within, output) if held is not None else None
    if refusal is None:
        save_runtime(fit.card, output)
    if as_json:
        echo_json(_json(fit, output, rows) | (hold_out_json(held, checked) if held is not None else {}))
        return int(refusal is not None)
    decided = _decided(every, output) if held is not None and refusal is None else None
    if refusal is None:
        aside = None if held is None else (error_of(checked), len(checked), held.noise)
        print_fit(fit, rows, output, aside, "" if decided is None else decided.sentence, _most_told(fit, rows, False))
    if explain:
        _print(fit, base.name, rows)
        echo(_most_told(fit, rows, True))
    if held is not None and (explain or refusal is not None):
        print_hold_out(held, checked)
    if refusal is not None:
        echo(refusal, stderr=True)
        return 1
    if decided is not None and explain:
        _print_decision(decided)
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
    """The ``ssdsim predict`` command for the fitted card, with the settings that all rows share."""
    same = {name: {getattr(row, name) for row in rows} for name in ("hardware", "model", "tp")}
    flags = {"hardware": "--hardware", "model": "--target", "tp": "--tp"}
    asked = [f"{flags[name]} {values.pop()}" for name, values in same.items() if len(values) == 1]
    return " ".join(["ssdsim predict", *asked, f"--engine {output}"])


def _print(fit: RuntimeFit, base: str, rows: Sequence[Row]) -> None:
    from calibration.runtimes.fit import MASKS, SPECULATING

    out = console()
    out.print(f"{fit.card.name}: {len(rows)} rows, started from {base}", style="bold")
    out.print(_fields_table(fit))
    out.print(_series_table(fit))
    for name in sorted({*SPECULATING, *MASKS} & fit.paid_by.keys()):
        told = ", ".join(f"{count} of {run}" for run, count in fit.paid_by[name].items())
        echo(f"{name} is told by {told or 'no row: where a draft is not late, it hides behind the verification'}.")
    if fit.at_bound:
        echo(f"Ended where they can go no farther: {', '.join(fit.at_bound)}.")
    if fit.unpaid:
        echo(f"No row pays {', '.join(fit.unpaid)}: they stay as in {base}.")
    if fit.alike:
        pairs = ", ".join(f"{one} and {other}" for one, other in fit.alike)
        echo(f"The rows cannot tell apart: {pairs}; rows at other batches, contexts or degrees would.")
    left = f", {share(fit.left_out_error)} of series left out" if fit.left_out_error is not None else ""
    if fit.card.cache_dtype is not None:
        echo(f"Beside quantised weights its cache is taken to be {fit.card.cache_dtype} where rows do not say.")
    echo(f"Mean error {share(fit.error)} in fit{left}.")


def _most_told(fit: RuntimeFit, rows: Sequence[Row], whole: bool) -> str:
    """The row that would tell most, as it would be asked for; ``whole`` with what it would tell."""
    from calibration.runtimes.next_row import next_row

    following = next_row(rows, fit.card, fit.posterior)
    if following is None:
        return ""
    row = following.row
    drafted = f" --k {row.k}" if row.k else ""
    where = f"--tp {row.tp} --b {row.batch} --context {row.context}{drafted}"
    if not whole:
        return f"by one more row at {where}"
    steps = f"steps of {row.model} on {row.hardware}"
    return (
        f"One row more would tell most at {where}: the numbers leave {share(following.without)} of {steps} open, "
        f"and would {share(following.with_it)}."
    )


def _fields_table(fit: RuntimeFit) -> TextTable:
    numbers = ("value", "95 % from", "to")
    table = TextTable(("number",), numbers, ("told by the rows",), joined=("to",), pad_edge=True)
    for field, value, low, high in _fitted(fit):
        told = "yes" if field in fit.identified else "little: drawn to the start"
        table.add_row(field, shown(field, value), shown(field, low), shown(field, high), told)
    return table


def _series_table(fit: RuntimeFit) -> TextTable:
    from calibration.runtimes.fit import by_series

    table = TextTable(("series",), ("rows", "error in fit", "left out"), pad_edge=True)
    for series, count, error, left_out in by_series(fit):
        table.add_row(series, str(count), share(error), share(None if math.isnan(left_out) else left_out))
    return table


def _fitted(fit: RuntimeFit) -> Iterator[tuple[str, float, float, float]]:
    """Each field with its value and its interval."""
    for field, low, high in zip(fit.fields, fit.low, fit.high, strict=True):
        yield field, float(fit.card.numbers[field]), float(low), float(high)


def _json(fit: RuntimeFit, output: Path, rows: Sequence[Row]) -> dict[str, object]:
    from calibration.runtimes.fit import by_series
    from calibration.runtimes.next_row import next_row

    more = next_row(rows, fit.card, fit.posterior)
    asked = {} if more is None else picked(more.row, "model", "hardware", "tp", "batch", "context", "k")
    fields = (dict(zip(("field", "value", "low", "high"), each, strict=True)) for each in _fitted(fit))
    series = (dict(zip(("series", "rows", "error", "left_out_error"), each, strict=True)) for each in by_series(fit))
    return {
        "schema": 1,
        "runtime": output,
        "name": fit.card.name,
        "fields": [{**each, "told": each["field"] in fit.identified} for each in fields],
        "series": list(series),
        **picked(fit, "alike", "at_bound", "paid_by", "unpaid", "error", "left_out_error"),
        "next_row": None if more is None else {**asked, "open_without": more.without, "open_with": more.with_it},
    }


def error_of(checked: Sequence[Checked]) -> float:
    """Mean absolute error of the settings that were put aside."""
    return float(np.mean([abs(one.error) for one in checked]))


def hold_out_json(held: HoldOut, checked: Sequence[Checked]) -> dict[str, Any]:
    """The settings that were put aside, and the numbers over all of them."""
    return {
        "held": [one.shown() for one in checked],
        "held_error": error_of(checked),
        "held_coverage": float(np.mean([one.holds for one in checked])),
        "noise": held.noise,
    }


def print_hold_out(held: HoldOut, checked: Sequence[Checked]) -> None:
    """A row a setting, and the sentence that counts."""
    numbers = ("in", "measured", "predicted", "95 % from", "to", "error")
    table = TextTable(("put aside",), numbers, ("held",), joined=("to",), names=2, pad_edge=True)
    for one in checked:
        row = one.row
        name = f"{row.model} batch {row.batch}" + (f", {row.draft or row.drafter} K {row.k}" if row.k else "")
        values = (f"{value:.4g}" for value in (row.value, one.predicted, one.low, one.high))
        table.add_row(name, f"{row.input_tokens:.0f}", *values, f"{one.error:+.1%}", "yes" if one.holds else "no")
    console().print(table)
    inside = sum(one.holds for one in checked)
    echo(
        f"Your engine's noise is {held.noise:.1%}, this fit's error {error_of(checked):.1%} on {len(checked)} settings "
        f"that it did not see; {inside} of {len(checked)} are inside the 95 % interval."
    )


def refused(checked: Sequence[Checked], within: float, output: Path) -> str | None:
    """The reason why the card is not kept; None where it is."""
    error = error_of(checked)
    if error <= within:
        return None
    worst = max(checked, key=lambda one: abs(one.error)).row
    drafts = f" and K {worst.k}" if worst.k is not None else ""
    return (
        f"the error on what was put aside, {error:.1%}, is more than --within {within:.0%}: {output} is not written. "
        f"Measure more near batch {worst.batch}{drafts}, which is missed most, or fit other numbers (--fields)"
    )


class Decided(Record):
    """The best of AR and SD on an engine: a sentence, what was compared, a row a batch, the acceptance."""

    sentence: str
    what: str = ""
    cells: tuple[tuple[str, ...], ...] = ()
    accepted: str = ""


def _decided(rows: Sequence[Row], card: Path) -> Decided | None:
    """The best of AR and SD on this engine at each batch that was measured, with what these rows accepted."""
    from ssdsim.advise.candidates import candidates

    drafting = [row for row in rows if row.k is not None and row.rounds]
    if not drafting:
        return Decided("AR is all that these rows can decide: none counts rounds of speculation")
    row, alpha, share = _accepted(drafting)
    options: dict[str, Any] = {
        "strategies": ("ar", "sd"),
        "target": row.model,
        "hardware": row.hardware,
        "tp": row.tp,
        "engine": str(card),
        "dtype": row.dtype,
        "kv_dtype": row.kv_dtype,
        "drafter": row.drafter or ("model" if row.draft else None),
        "draft": row.draft,
        "sd_draft": "colocated",
        "alpha": alpha,
        "found": share if share < 1.0 else None,
        "b": sorted({each.batch for each in rows}),
        "context": [row.context],
        "k": list(range(1, len(alpha) + 1)) if isinstance(alpha, list) else list(_LOOKAHEADS),
    }
    possible = candidates(**{name: value for name, value in options.items() if value is not None})
    for (batch, _), why in possible.impossible.items():
        echo(f"Nothing for batch {batch}: {why}", stderr=True)
    if not possible.cells:
        return None
    alone = {each.b: each.rate.median for each in possible.best(("ar",))}
    cells = tuple(_cells(each, alone.get(each.b)) for each in possible.best())
    what = f"{row.model} with {row.draft or row.drafter}, context {row.context}, TP {row.tp}"
    said = "by position" if isinstance(alpha, list) else f"{alpha:.2f}"
    runs = "; ".join(_told(*each) for each in groupby(cells, key=itemgetter(1, 2)))
    return Decided(f"{runs} in flight", what, cells, said)


def _told(run: tuple[str, str], cells: Iterable[tuple[str, ...]]) -> str:
    """``SD, K 3: 1.6x at 1-64``, of batches that run alike."""
    batches, gains = zip(*((cell[0], cell[4]) for cell in cells), strict=True)
    what = run[0] if run[1] == "-" else f"{run[0]}, K {run[1]}"
    first, last = (f"{of[0]}-{of[-1]}" if of[0] != of[-1] else of[0] for of in (gains, batches))
    return f"{what}: {first} at {last}"


def _print_decision(decided: Decided) -> None:
    if not decided.cells:
        echo(decided.sentence)
        return
    table = TextTable(pad_edge=True)
    for column in ("batch", "run", "K", "tok/s", "vs AR"):
        table.add_column(column, words=column == "run")
    for cells in decided.cells:
        table.add_row(*cells)
    out = console()
    out.print(f"On this engine: {decided.what}", style="bold")
    out.print(table)
    print_labelled(
        out, "Tokens   ", f"acceptance {decided.accepted}, as these rows had it (forced, where it was)", "dim"
    )


def _cells(chosen: Chosen, alone: float | None) -> tuple[str, ...]:
    run, k = ("SD", str(chosen.lookahead)) if chosen.lookahead else ("AR", "-")
    gain = "-" if alone is None else f"{chosen.rate.median / alone:.2f}x"
    return str(chosen.b), run, k, f"{chosen.rate.median:.0f}", gain


def _accepted(rows: Sequence[Row]) -> tuple[Row, float | list[float], float]:
    """Acceptance of the rows of the longest lookahead: one of them, rates by position (or one), how often it drafts."""
    longest = max(row.k or 0 for row in rows)
    own = [row for row in rows if row.k == longest]
    weights = np.array([row.rounds or 0.0 for row in own])
    share = float(np.average([row.found if row.found is not None else 1.0 for row in own], weights=weights))
    by_place = [row.accepted_by_position for row in own]
    if all(each is not None and len(each) == longest for each in by_place):
        reached = np.append(1.0, np.average(np.array(by_place, dtype=float), axis=0, weights=weights))
        return own[0], rates_of_survival(reached).tolist(), share
    length = float(np.average([row.acceptance_length or 1.0 for row in own], weights=weights))
    return own[0], rate_of(1.0 + (length - 1.0) / share, float(longest)), share
