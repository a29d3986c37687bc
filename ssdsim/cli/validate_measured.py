"""``ssdsim validate --measured``: the printed comparison with rows that whole engines ran."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ssdsim.base.errors import InputError
from ssdsim.base.files import write_whole
from ssdsim.cli.console import console, echo
from ssdsim.cli.measured_files import rows_of
from ssdsim.cli.options import echo_json
from ssdsim.cli.tables import Table
from ssdsim.runs.layout import CONFIG, MEASURED
from ssdsim.runtimes.catalog import find_runtime
from ssdsim.validation.measured import (
    Checked,
    Chosen,
    LikelierCache,
    Skipped,
    Summary,
    always,
    as_document,
    check_what_can_be,
    likelier_caches,
    of_engine,
    of_hardware,
    runtimes_of,
    summarise,
)

_UNITS = {"step_ms": "ms a step", "tpot_ms": "ms a token", "latency_s": "s", "tokens_per_s": "tok/s"}
OF_ENGINE = "engine"
"""The word for the card that is called as the engine of a row."""

_CONFIG = 'schema = 1\nverb = "validate"\n'


def check_measured(
    files: Sequence[Path],
    given: Mapping[str, Any],
    runtimes: Sequence[str],
    max_error: float | None,
    folder: Path | None,
    seed: int,
    as_json: bool,
) -> bool:
    """Compare, print and keep; whether each runtime's mean absolute error is within ``max_error``."""
    if folder is not None and folder.suffix in (".json", ".jsonl"):
        raise InputError(f"-o '{folder}' must be a folder for ssdsim report, such as {folder.stem}")
    checked, skipped = check_what_can_be(rows_of(files, given), _chosen(runtimes), seed)
    summaries = summarise(checked)
    caches = likelier_caches(checked)
    document = as_document(checked, summaries, caches, skipped)
    if folder is not None:
        _keep(folder, document)
    if as_json:
        echo_json(document)
    else:
        _print(checked, summaries, skipped, each=len(runtimes) > 1)
        _hint(caches)
    return max_error is None or all(one.error <= max_error for one in _overall(summaries, each=len(runtimes) > 1))


def _chosen(runtimes: Sequence[str]) -> list[Chosen]:
    if not runtimes:
        return [of_hardware]
    return [of_engine if name == OF_ENGINE else always(find_runtime(name)) for name in runtimes]


def _overall(summaries: Sequence[Summary], each: bool) -> list[Summary]:
    """That of all rows, or of ``each`` of several runtimes."""
    return [one for one in summaries if one.axis == "runtime"] if each else [summaries[0]]


def _keep(folder: Path, document: Mapping[str, Any]) -> None:
    """What ``ssdsim report`` shows; a run that lies in the folder keeps its config."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / CONFIG).exists():
        (folder / CONFIG).write_text(_CONFIG, encoding="utf-8")
    write_whole(folder / MEASURED, json.dumps(document, indent=1, allow_nan=False) + "\n")


def _print(checked: Sequence[Checked], summaries: Sequence[Summary], skipped: Sequence[Skipped], each: bool) -> None:
    out = console()
    rows = len({id(one.row) for one in checked})
    with_each = "each of the runtimes" if each else "the runtime"
    echo(f"{rows} measured rows; predicted with {with_each} {', '.join(runtimes_of(checked))}")
    out.print(_rows_table(checked))
    out.print(_summaries_table(summaries))
    for one in _overall(summaries, each):
        of = f"{one.value}: m" if each else "M"
        echo(
            f"{of}ean absolute error {one.error:.1%}, bias {one.bias:+.1%} (above 0: predicted too slow); "
            f"{one.coverage:.0%} of the 95 % intervals hold the measured value."
        )
    for row in skipped:
        echo(f"skipped {row}", stderr=True)


def _hint(caches: Sequence[LikelierCache]) -> None:
    for one in caches:
        echo(
            f"{one.series}: no row says the cache's dtype; with {one.kv_dtype} the mean error of {one.runtime} would be"
            f" {one.error:.1%} instead of {one.error_as_taken:.1%}. Where the engine keeps that, say kv_dtype in the"
            " rows."
        )


def _rows_table(checked: Sequence[Checked]) -> Table:
    several = len({*runtimes_of(checked)}) > 1
    named = ("runtime",) if several else ()
    table = Table(names=4 + len(named), first=("error",), pad_edge=True)
    words = (*named, "model", "hardware", "unit", "held")
    for column in (*named, "model", "hardware", "TP", "batch", "K", "measured", "predicted", "95 % from", "to"):
        table.add_column(column, words=column in words, joined=column == "to")
    for column in ("unit", "error", "held"):
        table.add_column(column, words=column in words)
    for one in checked:
        row = one.row
        card = (one.card.name,) if several else ()
        setting = (*card, row.model, row.hardware, str(row.tp), str(row.batch), str(row.k or "-"))
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
