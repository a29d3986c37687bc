"""Traces that are tables: Azure's, BurstGPT's, Vidur's, and the plain form that anything can be brought to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ssdsim.base.checks import Array
from ssdsim.base.errors import InputError
from ssdsim.measured.request_logs.log import RequestLog

if TYPE_CHECKING:
    import pandas as pd

Columns = Mapping[str, "pd.Series[str]"]


def read_table(path: Path) -> RequestLog:
    """A CSV file whose header is known.

    Raises
    ------
    InputError : no such file, an unknown header, or a cell that is no number (no time).
    """
    import pandas as pd

    try:
        frame = pd.read_csv(path, dtype=str, keep_default_na=False, skipinitialspace=True)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from None
    except (pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not a CSV file ({error})") from None
    columns = {str(name).strip(): frame[name] for name in frame.columns}
    for form, needed, read in _FORMS:
        if needed <= columns.keys():
            return read(form, columns, str(path))
    known = "; ".join(f"{form}: {', '.join(sorted(needed))}" for form, needed, _ in _FORMS)
    raise InputError(f"{path}: no known columns ({', '.join(columns)}). Known: {known}")


def _azure(form: str, columns: Columns, where: str) -> RequestLog:
    import pandas as pd

    try:
        times = pd.to_datetime(columns["TIMESTAMP"], format="ISO8601", utc=True)
    except ValueError as error:
        raise InputError(f"{where}: TIMESTAMP: {error}") from None
    arrival_s = np.asarray((times - times.min()).dt.total_seconds(), dtype=np.float64)
    inputs, outputs = _numbers(columns, ("ContextTokens", "GeneratedTokens"), where)
    return RequestLog(form, arrival_s, inputs, outputs)


def _burst_gpt(form: str, columns: Columns, where: str) -> RequestLog:
    times, inputs, outputs = _numbers(columns, ("Timestamp", "Request tokens", "Response tokens"), where)
    return RequestLog(form, times, inputs, outputs)


def _vidur(form: str, columns: Columns, where: str) -> RequestLog:
    times = _numbers(columns, ("arrived_at",), where)[0] if "arrived_at" in columns else None
    inputs, outputs = _numbers(columns, ("num_prefill_tokens", "num_decode_tokens"), where)
    return RequestLog(form, times, inputs, outputs)


def _plain(form: str, columns: Columns, where: str) -> RequestLog:
    times = _numbers(columns, ("arrival_s",), where)[0] if "arrival_s" in columns else None
    inputs, outputs = _numbers(columns, ("input_tokens", "output_tokens"), where)
    return RequestLog(form, times, inputs, outputs)


def _numbers(columns: Columns, names: tuple[str, ...], where: str) -> list[Array]:
    """Columns of numbers; an empty cell is NaN."""
    import pandas as pd

    columns_of_numbers = []
    for name in names:
        column = columns[name]
        numbers = pd.to_numeric(column, errors="coerce").to_numpy(float)
        wrong = np.flatnonzero(np.isnan(numbers) & (column.str.strip() != "").to_numpy())
        if wrong.size:
            line = int(wrong[0])
            raise InputError(f"{where} line {line + 2}: {name} must be a number, got '{column.iloc[line]}'")
        columns_of_numbers.append(numbers)
    return columns_of_numbers


_FORMS: tuple[tuple[str, frozenset[str], Callable[[str, Columns, str], RequestLog]], ...] = (
    ("Azure", frozenset({"TIMESTAMP", "ContextTokens", "GeneratedTokens"}), _azure),
    ("BurstGPT", frozenset({"Timestamp", "Request tokens", "Response tokens"}), _burst_gpt),
    ("Vidur", frozenset({"num_prefill_tokens", "num_decode_tokens"}), _vidur),
    ("plain", frozenset({"input_tokens", "output_tokens"}), _plain),
)
