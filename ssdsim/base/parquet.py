"""Parquet files that are written whole, and checked when they are read: a flipped bit is no number, and no column."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ssdsim.base.errors import InputError
from ssdsim.base.files import replaced

_SHAPE = b"ssdsim.shape"
"""Metadata with the rows, names and types, which no checksum of a page covers."""


def write_table(table: pa.Table, path: Path, **how: Any) -> None:
    """Whole or not at all, with a checksum of each page; ``how`` is as :func:`pyarrow.parquet.write_table` takes it."""
    shaped = table.replace_schema_metadata({**(table.schema.metadata or {}), _SHAPE: _shape(table)})
    with replaced(path) as partial:
        pq.write_table(shaped, partial, write_page_checksum=True, **how)


def _shape(table: pa.Table) -> bytes:
    said = "; ".join([f"{table.num_rows} rows", *(f"{field.name} {field.type}" for field in table.schema)])
    return said.replace("<item: ", "<element: ").encode()  # as Parquet calls the values of a list


def read_table(path: Path) -> pa.Table:
    """The table in a file.

    Raises
    ------
    InputError : no Parquet file, or one that is damaged.
    """
    try:
        # an open file, since pyarrow takes some names for those of other file systems
        with path.open("rb") as file, pq.ParquetFile(file, page_checksum_verification=True) as opened:
            table = opened.read()
            metadata = dict(table.schema.metadata or {})
    except (OSError, ValueError, pa.ArrowException) as error:
        raise InputError(f"{path}: not a Parquet file that can be read ({error})") from None
    if metadata.pop(_SHAPE, _shape(table)) != _shape(table):
        raise InputError(f"{path}: not a Parquet file that can be read (rows or columns are others than were written)")
    return table.replace_schema_metadata(metadata)
