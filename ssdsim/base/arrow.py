"""Columns of Arrow from numpy's and back.

Arrow's own ways load pandas, or its functions of compute, which take longer than a thousand points.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ssdsim.base.checks import Array


def floats(values: Array) -> pa.Array:
    """An Arrow column of numbers; NaN becomes null."""
    return _column(pa.float64(), ~np.isnan(values), np.ascontiguousarray(values, dtype=np.float64))


def integers(values: NDArray[np.integer]) -> pa.Array:
    return _column(pa.int64(), np.ones(len(values), dtype=bool), values.astype(np.int64))


def words(values: Sequence[str | None]) -> pa.Array:
    """An Arrow column of strings; None becomes null."""
    encoded = [(value or "").encode() for value in values]
    ends = np.cumsum([0, *map(len, encoded)], dtype=np.int32)
    present = np.array([value is not None for value in values], dtype=bool)
    return _column(pa.string(), present, ends, b"".join(encoded))


def _column(kind: pa.DataType, present: NDArray[np.bool_], *buffers: NDArray[np.generic] | bytes) -> pa.Array:
    bits = np.packbits(present, bitorder="little")
    return pa.Array.from_buffers(kind, len(present), [pa.py_buffer(each) for each in (bits, *buffers)])


def numbers(column: pa.ChunkedArray) -> Array:
    """An Arrow column as numbers; null becomes NaN."""
    return np.concatenate([np.zeros(0), *map(_numbers, column.chunks)], dtype=np.float64)


def not_null(column: pa.ChunkedArray) -> NDArray[np.bool_]:
    """Mask of the rows of a column that have a value."""
    return np.concatenate([np.zeros(0, dtype=bool), *map(_valid_mask, column.chunks)])


def _numbers(chunk: pa.Array) -> NDArray[np.generic]:
    if chunk.null_count == len(chunk):
        return np.full(len(chunk), np.nan)
    bare = pa.Array.from_buffers(chunk.type, len(chunk), [None, chunk.buffers()[1]], offset=chunk.offset)
    values = np.from_dlpack(bare)
    return np.where(_valid_mask(chunk), values, np.nan) if chunk.null_count else values


def _valid_mask(chunk: pa.Array) -> NDArray[np.bool_]:
    if not chunk.null_count:
        return np.ones(len(chunk), dtype=bool)
    if chunk.null_count == len(chunk):  # a column of the null type has no bits
        return np.zeros(len(chunk), dtype=bool)
    bits = np.unpackbits(np.frombuffer(chunk.buffers()[0], dtype=np.uint8), bitorder="little")
    return bits[chunk.offset : chunk.offset + len(chunk)].astype(bool)
