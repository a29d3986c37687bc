"""``ssdsim validate --measured``: the printed comparison with rows that whole engines ran."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ssdsim.cli.console import console, echo
from ssdsim.cli.measured_files import rows_of
from ssdsim.cli.options import echo_json
from ssdsim.cli.tables import Table
from ssdsim.errors import InputError
from ssdsim.files import write_whole
from ssdsim.runs.layout import CONFIG, MEASURED
from ssdsim.runtimes.catalog import find_runtime
from ssdsim.validation.measured import (
    Checked,
    LikelierCache,
    Summary,
    as_document,
    check_rows,
    likelier_caches,
    runtimes_of,
    summarise,
)

_UNITS = {"step_ms": "ms a step", "tpot_ms": "ms a token", "latency_s": "s", "tokens_per_s": "tok/s"}
_CONFIG = 'schema = 1\nverb = "validate"\n'


def check_measured(
    files: Sequence[Path],
    given: Mapping[str, Any],
    runtime: str | None,
    max_error: float | None,
    folder: Path | None,
    seed: int,
    as_json: bool,
) -> bool:
    """Compare, print and keep; whether the mean absolute error is within ``max_error``."""
    if folder is not None and folder.suffix in (".json", ".jsonl"):
        raise InputError(f"-o '{folder}' must be a folder for ssdsim report, such as {folder.stem}")
    card = find_runtime(runtime) if runtime is not None else None
    checked = check_rows(rows_of(files, given), card, seed)
    summaries = summarise(checked)
    caches = likelier_caches(checked)
    document = as_document(checked, summaries, caches)
    if folder is not None:
        _keep(folder, document)
    if as_json:
        echo_json(document)
    else:
        _print(checked, summaries)
        _hint(caches)
    return max_error is None or summaries[0].error <= max_error


def _keep(folder: Path, document: Mapping[str, Any]) -> None:
    """What ``ssdsim report`` shows; a run that lies in the folder keeps its config."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / CONFIG).exists():
        (folder / CONFIG).write_text(_CONFIG, encoding="utf-8")
    write_whole(folder / MEASURED, json.dumps(document, indent=1, allow_nan=False) + "\n")


def _print(checked: Sequence[Checked], summaries: Sequence[Summary]) -> None:
    out = console()
    echo(f"{len(checked)} measured rows; predicted with the runtime {', '.join(runtimes_of(checked))}")
    out.print(_rows_table(checked))
    out.print(_summaries_table(summaries))
    every = summaries[0]
    echo(
        f"Mean absolute error {every.error:.1%}, bias {every.bias:+.1%} (above 0: predicted too slow); "
        f"{every.coverage:.0%} of the 95 % intervals hold the measured value."
    )


def _hint(caches: Sequence[LikelierCache]) -> None:
    for one in caches:
        echo(
            f"{one.series}: no row says the cache's dtype; with {one.kv_dtype} the mean error would be {one.error:.1%} "
            f"instead of {one.error_as_taken:.1%}. Where the engine keeps that, say kv_dtype in the rows."
        )


def _rows_table(checked: Sequence[Checked]) -> Table:
    table = Table(names=4, first=("error",), pad_edge=True)
    words = ("model", "hardware", "unit", "held")
    for column in ("model", "hardware", "TP", "batch", "K", "measured", "predicted", "95 % from", "to"):
        table.add_column(column, words=column in words, joined=column == "to")
    for column in ("unit", "error", "held"):
        table.add_column(column, words=column in words)
    for one in checked:
        row = one.row
        setting = (row.model, row.hardware, str(row.tp), str(row.batch), str(row.k or "-"))
        values = (f"{value:.4g}" for value in (row.value, one.predicted, one.low, one.high))
        held = "yes" if one.holds else "no"
        table.add_row(*setting, *values, _UNITS[row.metric], f"{one.error:+.1%}", held)
    return table


def _summaries_table(summaries: Sequence[Summary]) -> Table:
    table = Table(names=2, pad_edge=True)
    for column in ("by", "", "rows", "mean error", "bias", "intervals that hold"):
        table.add_column(column, words=column in ("by", ""))
    for one in summaries:
        errors = (f"{one.error:.1%}", f"{one.bias:+.1%}", f"{one.coverage:.0%}")
        table.add_row(one.axis or "all", one.value, str(one.rows), *errors)
    return table
