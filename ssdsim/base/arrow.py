"""Columns of Arrow from numpy's and back. Arrow's own ways load pandas, which takes longer than a thousand points."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ssdsim.base.checks import Array


def floats(values: Array) -> pa.Array:
    """Numbers, of which NaN are none."""
    return _column(pa.float64(), ~np.isnan(values), np.ascontiguousarray(values, dtype=np.float64))


def integers(values: NDArray[np.integer]) -> pa.Array:
    return _column(pa.int64(), np.ones(len(values), dtype=bool), values.astype(np.int64))


def words(values: Sequence[str | None]) -> pa.Array:
    """Words, of which None are none."""
    encoded = [(value or "").encode() for value in values]
    ends = np.cumsum([0, *map(len, encoded)], dtype=np.int32)
    given = np.array([value is not None for value in values], dtype=bool)
    return _column(pa.string(), given, ends, b"".join(encoded))


def _column(kind: pa.DataType, given: NDArray[np.bool_], *buffers: NDArray[np.generic] | bytes) -> pa.Array:
    bits = np.packbits(given, bitorder="little")
    return pa.Array.from_buffers(kind, len(given), [pa.py_buffer(each) for each in (bits, *buffers)])


_NAN = pa.Array.from_buffers(pa.float64(), 1, [None, pa.py_buffer(np.array([np.nan]))])[0]


def numbers(column: pa.ChunkedArray) -> Array:
    """A column of numbers, NaN where there is none."""
    chunks = [chunk.fill_null(_NAN) if chunk.null_count else chunk for chunk in column.chunks]
    return np.concatenate([np.from_dlpack(chunk) for chunk in chunks], dtype=np.float64)
