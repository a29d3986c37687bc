"""Parquet files that are written whole, and checked when they are read: a flipped bit is no number, and no column."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ssdsim.base.errors import InputError
from ssdsim.base.files import replaced

_SHAPE = b"ssdsim.shape"
"""Metadata with the rows, names and types, which no checksum of a page covers."""
_ROWS_AT_ONCE = 1 << 18  # of a file that is written of many tables: 50 MB in a sweep


def write_table(table: pa.Table, path: Path, **how: Any) -> None:
    """Whole or not at all, with a checksum of each page; ``how`` is as :func:`pyarrow.parquet.write_table` takes it."""
    shaped = table.replace_schema_metadata(_metadata(table.schema, table.num_rows))
    with replaced(path) as partial:
        pq.write_table(shaped, partial, write_page_checksum=True, **how)


def write_tables(tables: Iterable[pa.Table], schema: pa.Schema, rows: int, path: Path) -> None:
    """:func:`write_table` of what ``tables`` are together, few of which are in memory at a time."""
    shaped = schema.with_metadata(_metadata(schema, rows))
    with replaced(path) as partial, pq.ParquetWriter(partial, shaped, write_page_checksum=True) as file:
        held: list[pa.Table] = []
        for table in tables:
            held.append(table)
            if sum(each.num_rows for each in held) >= _ROWS_AT_ONCE:
                file.write_table(pa.concat_tables(held))
                held = []
        if held:
            file.write_table(pa.concat_tables(held))


def _metadata(schema: pa.Schema, rows: int) -> dict[bytes, bytes]:
    """The metadata of a file of so many rows."""
    return {**(schema.metadata or {}), _SHAPE: _shape(schema, rows)}


def _shape(schema: pa.Schema, rows: int) -> bytes:
    said = "; ".join([f"{rows} rows", *(f"{field.name} {field.type}" for field in schema)])
    return said.replace("<item: ", "<element: ").encode()  # as Parquet calls the values of a list


def read_table(path: Path, columns: Sequence[str] | None = None) -> pa.Table:
    """The table in a file, or some of its columns."""
    try:
        # pyarrow's own file, since it takes some names for those of other file systems; no file of Python's and no
        # threads: one that frees a buffer of Python's while Python ends aborts the program
        with pa.OSFile(str(path)) as file, pq.ParquetFile(file, page_checksum_verification=True) as opened:
            table, schema = opened.read(columns, use_threads=False), opened.schema_arrow
    except (OSError, ValueError, pa.ArrowException) as error:
        raise InputError(f"{path}: not a Parquet file that can be read ({error})") from None
    metadata = dict(schema.metadata or {})
    shape = _shape(schema, table.num_rows)
    if metadata.pop(_SHAPE, shape) != shape:
        raise InputError(f"{path}: not a Parquet file that can be read (rows or columns are others than were written)")
    return table.replace_schema_metadata(metadata)
