"""Traces that are tables: Azure's, BurstGPT's, Vidur's, and the plain form that anything can be brought to."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ssdsim.base.checks import Array
from ssdsim.base.errors import InputError
from ssdsim.base.record import Record
from ssdsim.readers.request_logs.log import RequestLog

if TYPE_CHECKING:
    import pandas as pd


class _Form(Record):
    """Columns of a trace: of arrivals, which must be there where they are ``timed``, of prompts and of answers."""

    name: str
    arrivals: str
    inputs: str
    outputs: str
    timed: bool = False

    @property
    def needed(self) -> frozenset[str]:
        return frozenset({self.inputs, self.outputs, *([self.arrivals] if self.timed else [])})


_AZURE = _Form("Azure", "TIMESTAMP", "ContextTokens", "GeneratedTokens", timed=True)
_FORMS = (
    _AZURE,
    _Form("BurstGPT", "Timestamp", "Request tokens", "Response tokens", timed=True),
    _Form("Vidur", "arrived_at", "num_prefill_tokens", "num_decode_tokens"),
    _Form("plain", "arrival_s", "input_tokens", "output_tokens"),
)


def read_table(path: Path) -> RequestLog:
    """A CSV file whose header is known."""
    import pandas as pd

    try:
        frame = pd.read_csv(path, dtype=str, keep_default_na=False, skipinitialspace=True)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from None
    except (pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not a CSV file ({error})") from None
    columns = {str(name).strip(): frame[name] for name in frame.columns}
    for form in _FORMS:
        if form.needed <= columns.keys():
            at = form.arrivals
            times = _arrivals(columns[at], at, str(path)) if at in columns else None
            inputs, outputs = (_numbers(columns[name], name, str(path)) for name in (form.inputs, form.outputs))
            return RequestLog(form.name, times, inputs, outputs)
    known = "; ".join(f"{form.name}: {', '.join(sorted(form.needed))}" for form in _FORMS)
    raise InputError(f"{path}: no known columns ({', '.join(columns)}). Known: {known}")


def _arrivals(column: pd.Series[str], name: str, where: str) -> Array:
    """Seconds of each request; of dates since the first of them."""
    import pandas as pd

    if name != _AZURE.arrivals:
        return _numbers(column, name, where)
    try:
        times = pd.to_datetime(column, format="ISO8601", utc=True)
    except ValueError as error:
        raise InputError(f"{where}: {name}: {error}") from None
    return np.asarray((times - times.min()).dt.total_seconds(), dtype=np.float64)


def _numbers(column: pd.Series[str], name: str, where: str) -> Array:
    """A column of numbers; an empty cell is NaN."""
    import pandas as pd

    numbers = pd.to_numeric(column, errors="coerce").to_numpy(float)
    wrong = np.flatnonzero(np.isnan(numbers) & (column.str.strip() != "").to_numpy())
    if wrong.size:
        line = int(wrong[0])
        raise InputError(f"{where} line {line + 2}: {name} must be a number, got '{column.iloc[line]}'")
    return numbers
