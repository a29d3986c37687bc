"""``ssdsim validate rows``: the printed comparison with rows that whole engines ran."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from calibration.cli.row_options import FILLED, by_column, row_options
from calibration.validation.measured import (
    Checked,
    Likelier,
    RowsSummary,
    ValidatedRows,
    runtimes_of,
    validate_rows,
)
from ssdsim import strategies
from ssdsim.base.errors import InputError
from ssdsim.base.files import write_whole
from ssdsim.base.kinds import Name, Percent
from ssdsim.base.kinds_of_lists import Several
from ssdsim.cli.console import console, echo
from ssdsim.cli.options import Verb, common_options, output_option
from ssdsim.cli.output import echo_json
from ssdsim.cli.param_types import OfKind, Output
from ssdsim.cli.tables import TextTable
from ssdsim.runs.layout import CONFIG, MEASURED, is_written

_UNITS = {"step_ms": "ms a step", "tpot_ms": "ms a token", "latency_s": "s", "tokens_per_s": "tok/s"}
_CONFIG = 'schema = 1\nverb = "validate"\n'


@click.command("rows", cls=Verb, example="ssdsim validate rows rows.csv --engine vllm")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--engine",
    "--runtime",
    "engine",
    type=OfKind(Several(Name())),
    help="the engine's card, several with a comma, or each: that of each row's engine "
    "[default: the one that predict takes]",
)
@row_options(*FILLED)
@click.option("--max-error", type=OfKind(Percent()), help="exit 1 beyond it, of the mean")
@output_option("-o", "--output", type=Output(path_type=Path), help="a run folder for ssdsim report")
@common_options
def command(
    files: tuple[Path, ...],
    engine: list[str] | None,
    max_error: float | None,
    output: Path | None,
    as_json: bool,
    seed: int,
    quiet: bool,
    **given: Any,
) -> None:
    """Compare an engine's own benchmarks (CSV, or its result files) with predictions; runs nothing."""
    if output is not None and output.suffix in (".json", ".jsonl"):
        raise InputError(f"-o '{output}' must be a folder for ssdsim report, such as {output.stem}")
    validated_rows = validate_rows(files, engine=engine, seed=seed, **by_column(given))
    if output is not None:
        _keep(output, validated_rows)
    if as_json:
        echo_json(validated_rows.as_json())
    else:
        _print(validated_rows)
        _hint([*validated_rows.caches, *validated_rows.formats])
    sys.exit(0 if max_error is None or all(each.error <= max_error for each in validated_rows.overall) else 1)


def _keep(folder: Path, validated_rows: ValidatedRows) -> None:
    """Keep what ``ssdsim report`` shows; a run that lies in the folder keeps its config."""
    folder.mkdir(parents=True, exist_ok=True)
    if not is_written(folder / CONFIG):
        write_whole(folder / CONFIG, _CONFIG)
    write_whole(folder / MEASURED, json.dumps(validated_rows.as_json(), indent=1, allow_nan=False) + "\n")


def _print(validated_rows: ValidatedRows) -> None:
    out, checked = console(), validated_rows.checked
    rows = len({id(one.row) for one in checked})
    with_each = "each of the runtimes" if validated_rows.several else "the runtime"
    ran = Counter(one.row.run for one in {id(one.row): one for one in checked}.values())
    runs = ", ".join(f"{count} of {strategies.ALL.named(name).title}" for name, count in ran.items())
    echo(f"{rows} measured rows ({runs}); predicted with {with_each} {', '.join(runtimes_of(checked))}")
    out.print(_rows_table(checked))
    taken = Counter((" and ".join(one.weights), one.cache) for one in {id(one.row): one for one in checked}.values())
    echo(f"Taken: {'; '.join(f'weights in {own}, cache in {kv} ({count})' for (own, kv), count in taken.items())}.")
    out.print(_summaries_table(validated_rows.summaries))
    for one in validated_rows.overall:
        of = f"{one.value}: m" if validated_rows.several else "M"
        echo(
            f"{of}ean absolute error {one.error:.1%}, bias {one.bias:+.1%} (above 0: predicted too slow); "
            f"{one.coverage:.0%} of the 95 % intervals hold the measured value."
        )
    for told, count in Counter(one.assumed for one in checked if one.assumed).items():
        echo(f"{count} rows do not say all that they ran with; taken: {', '.join(told)}.")
    others = Counter(one.row.engine for one in checked if one.row.engine not in ("", one.card.engine, one.card.name))
    if others and not validated_rows.several:
        whose = ", ".join(f"{engine} ({count})" for engine, count in others.items())
        echo(f"Run by another engine than the card's: {whose}. --engine each takes each row's, fit runtime makes one.")
    for row in validated_rows.skipped:
        echo(f"skipped {row}", stderr=True)


_DOUBTS = {"kv_dtype": "no row says the cache's dtype", "dtype": "a word for two formats"}


def _hint(found: Sequence[Likelier]) -> None:
    for one in found:
        echo(
            f"{one.series}: {_DOUBTS[one.column]}; with {one.value} the mean error of {one.runtime} would be"
            f" {one.error:.1%} instead of {one.error_as_taken:.1%}. Where the engine has that, say {one.column} in the"
            " rows."
        )


def _rows_table(checked: Sequence[Checked]) -> TextTable:
    several = len({*runtimes_of(checked)}) > 1
    named = ("runtime",) if several else ()
    words, numbers = (*named, "model", "hardware"), ("TP", "batch", "K", "measured", "predicted", "95 % from", "to")
    how: dict[str, Any] = {"names": 4 + len(named), "first": ("error",), "pad_edge": True}
    table = TextTable(words, numbers, ("unit",), joined=("to",), **how)
    table.add_column("error")
    table.add_column("held", words=True)
    for one in checked:
        row = one.row
        card = (one.card.name,) if several else ()
        setting = (*card, row.model, row.hardware, str(row.tp), str(row.batch), str(row.k or "-"))
        values = (f"{value:.4g}" for value in (row.value, one.predicted, one.low, one.high))
        held = "yes" if one.holds else "no"
        table.add_row(*setting, *values, _UNITS[row.metric], f"{one.error:+.1%}", held)
    return table


def _summaries_table(summaries: Sequence[RowsSummary]) -> TextTable:
    table = TextTable(("by", ""), ("rows", "mean error", "bias", "intervals that hold"), names=2, pad_edge=True)
    for one in summaries:
        errors = (f"{one.error:.1%}", f"{one.bias:+.1%}", f"{one.coverage:.0%}")
        table.add_row(one.axis or "all", one.value, str(one.rows), *errors)
    return table
