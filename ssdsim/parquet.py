"""Parquet files that are written whole, and whose pages are checked when they are read: a flipped bit is no number."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ssdsim.errors import InputError
from ssdsim.files import replaced


def write_table(table: pa.Table, path: Path, **how: Any) -> None:
    """Whole or not at all, with a checksum of each page; ``how`` is as :func:`pyarrow.parquet.write_table` takes it."""
    with replaced(path) as partial:
        pq.write_table(table, partial, write_page_checksum=True, **how)


def read_table(path: Path) -> pa.Table:
    """The table in a file.

    Raises
    ------
    InputError : no Parquet file, or one that is damaged.
    """
    try:
        # an open file, since pyarrow takes some names for those of other file systems
        with path.open("rb") as file, pq.ParquetFile(file, page_checksum_verification=True) as opened:
            return opened.read()
    except (OSError, ValueError, pa.ArrowException) as error:
        raise InputError(f"{path}: not a Parquet file that can be read ({error})") from None
