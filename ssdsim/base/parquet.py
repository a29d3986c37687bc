"""Parquet files that are written whole, and checked when they are read: a flipped bit is no number, and no column.

A small file may unpack to any size: values that repeat take nothing of it. So its own index is read before its data.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ssdsim.base.errors import InputError
from ssdsim.base.files import replaced
from ssdsim.base.parquet_index import parquet_index

_SHAPE = b"ssdsim.shape"
"""Metadata with the rows, names and types, which no checksum of a page covers."""
_ROWS_AT_ONCE = 1 << 18  # of a file that is written of many tables: 50 MB in a sweep
_MOST_BYTES = 1 << 30  # in memory, of what is read at once


def write_table(table: pa.Table, path: Path, **how: Any) -> None:
    """Whole or not at all, with a checksum of each page; ``how`` is as :func:`pyarrow.parquet.write_table` takes it."""
    shaped = table.replace_schema_metadata(_metadata(table.schema, table.num_rows))
    with replaced(path) as partial:
        pq.write_table(shaped, partial.absolute(), write_page_checksum=True, **how)


def write_tables(tables: Iterable[pa.Table], schema: pa.Schema, rows: int, path: Path) -> None:
    """:func:`write_table` of what ``tables`` are together, few of which are in memory at a time."""
    shaped = schema.with_metadata(_metadata(schema, rows))
    with replaced(path) as partial, pq.ParquetWriter(partial.absolute(), shaped, write_page_checksum=True) as file:
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


def read_table(path: Path, columns: Sequence[str] | None = None, most_rows: int | None = None) -> pa.Table:
    """The table in a file, or some of its columns; InputError where it has more rows, or more bytes in memory."""
    try:
        # pyarrow's own file, since it takes some names for those of other file systems; no file of Python's and no
        # threads: one that frees a buffer of Python's while Python ends aborts the program
        with pa.OSFile(str(path)) as file, pq.ParquetFile(file, page_checksum_verification=True) as opened:
            table, schema = _read(opened, path, columns, most_rows), opened.schema_arrow
    except (OSError, ValueError, pa.ArrowException) as error:
        raise InputError(f"{path}: not a Parquet file that can be read ({error})") from None
    metadata = dict(schema.metadata or {})
    shape = _shape(schema, table.num_rows)
    if metadata.pop(_SHAPE, shape) != shape:
        raise InputError(f"{path}: not a Parquet file that can be read (rows or columns are others than were written)")
    return table.replace_schema_metadata(metadata)


def _read(opened: pq.ParquetFile, path: Path, columns: Sequence[str] | None, most_rows: int | None) -> pa.Table:
    """The table, whose size the index tells but for texts that come again."""
    count, chunks = parquet_index(path)
    if most_rows is not None and count > most_rows:
        raise ValueError(f"{count:,} rows, of which at most {most_rows:,} are read")
    asked = [each for each in chunks if columns is None or each.column in columns]
    _check_size(sum(each.memory_bytes for each in asked))
    longest = max((each.unpacked_bytes for each in asked if each.of_text), default=0)  # no text is longer
    if longest <= 0:
        return opened.read(columns, use_threads=False)
    held: list[pa.RecordBatch] = []
    size = 0
    rows = max(1, min(_ROWS_AT_ONCE, _MOST_BYTES // longest))
    for batch in opened.iter_batches(rows, columns=columns, use_threads=False):
        size += batch.nbytes
        _check_size(size)
        held.append(batch)
    return pa.Table.from_batches(held) if held else opened.read(columns, use_threads=False)


def _check_size(size: float) -> None:
    if size > _MOST_BYTES:
        raise ValueError(f"unpacked it takes over {_MOST_BYTES >> 30} GiB of memory, which is the most that is read")
