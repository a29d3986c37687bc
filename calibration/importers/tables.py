"""Tables of other tools as files hold them, with columns of numbers that are numbers."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from ssdsim.base.errors import InputError, nearest, short_repr

SHORTEST_S = 1e-12  # what is shorter than any clock can tell was not measured
_LARGEST = 1e18  # of any number in a table: beyond it a double does not count


def read_table(path: Path, what: str, needed: Iterable[str]) -> pd.DataFrame:
    """The Parquet file or CSV, with at least the columns ``needed``."""
    try:
        table = pd.read_parquet(path.absolute()) if path.suffix == ".parquet" else pd.read_csv(path, low_memory=False)
    except (OSError, ValueError, pa.ArrowException) as error:  # pandas' own complaints are ValueErrors
        raise InputError(f"{path}: not a readable {what} ({error})") from None
    has = list(map(str, table.columns))
    for column in needed:
        if column not in has:
            raise InputError(f"{path}: no column {column}{nearest(column, has)} It has {', '.join(has[:20])}")
    return table.reset_index(drop=True)


def with_numbers(
    table: pd.DataFrame, path: Path, columns: Iterable[str], *, whole: bool = False, least: float = 0.0
) -> pd.DataFrame:
    """``table`` with these columns as floats; an empty cell is NaN."""
    numbers = {name: _numbers(table[name]) for name in columns}
    for name, column in numbers.items():
        given = table[name].notna().to_numpy()
        possible = (column >= least) & (column <= _LARGEST) & (~whole | (column == np.round(column)))
        wrong = np.flatnonzero(given & ~possible)
        if wrong.size:
            kind = f"a {'whole ' if whole else ''}number from {least:g} to {_LARGEST:g}"
            cell = table[name].iloc[wrong[0]]
            got = short_repr(cell.tolist() if isinstance(cell, np.generic | np.ndarray) else cell)  # as bare Python
            raise InputError(f"{path}: row {wrong[0] + 1}: {name} must be {kind}, got {got}")
    return table.assign(**numbers)


def _numbers(column: pd.Series) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """The numbers of a column, NaN where a cell is none."""
    if not pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column):
        column = pd.to_numeric(column.map(str), errors="coerce")  # astype(str) decodes bytes
    return np.asarray(column.to_numpy(dtype=float, na_value=np.nan), dtype=float)
