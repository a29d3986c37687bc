"""Files of measurements, told by what is in them: CSV rows, or an engine's own result file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ssdsim.base.documents import parse_records, read_text
from ssdsim.base.errors import InputError, nearest
from ssdsim.readers import aiperf, guidellm, llama_bench, sglang_bench, trtllm_bench, vllm_bench
from ssdsim.readers.row import COLUMNS, Row, read_rows

FORMATS = (
    vllm_bench.FORMAT,
    sglang_bench.FORMAT,
    trtllm_bench.FORMAT,
    aiperf.FORMAT,
    guidellm.FORMAT,
    llama_bench.FORMAT,
    llama_bench.BATCHED,
)
"""Engines' files, asked in this order whether a record is theirs."""


def read_measured(path: str | Path, **given: Any) -> list[Row]:
    """The rows of a file: CSV, or JSON of an engine's benchmark (one object, a list of them, or one a line).

    ``given`` are values of columns for what the file does not say (``hardware``, ``tp``, ``batch``, ...); it overrides
    nothing that the file says. None counts as not given.
    """
    for name in given:
        if name not in COLUMNS:
            raise InputError(f"unknown column '{name}'{nearest(name, COLUMNS)} Allowed: {', '.join(COLUMNS)}")
    filled = {name: value for name, value in given.items() if value is not None}
    path = Path(path)
    text = read_text(path, "file of measurements")
    if not text.lstrip().startswith(("{", "[")):
        return read_rows(path, filled)
    records = parse_records(text, path)
    several = len(records) > 1
    rows = [
        row
        for number, record in enumerate(records, 1)
        for row in _rows(record, filled, f"{path}: result {number}" if several else str(path))
    ]
    if not rows:
        raise InputError(f"{path}: no test in it that generated tokens")
    return rows


def _rows(record: Any, given: Mapping[str, Any], where: str) -> Sequence[Row]:
    if isinstance(record, Mapping):
        for form in FORMATS:
            if form.knows(record):
                return form.rows_of(record, given, where)
    known = ", ".join(form.name for form in FORMATS)
    raise InputError(f"{where}: no result that is known here (those of {known}, or a CSV file of rows)")


def rows_of_files(files: Iterable[str | Path], given: Mapping[str, Any]) -> list[Row]:
    """All rows of the files; raises as :func:`read_measured`."""
    return [row for file in files for row in read_measured(file, **given)]
