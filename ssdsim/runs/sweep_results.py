"""Rows of a sweep, of which whoever reads them has the columns in memory that he asks for."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ssdsim.base.arrow import given, numbers
from ssdsim.base.checks import Array
from ssdsim.base.record import Record


class SweepResults(Record):
    """Rows in the order of the grid; ``read`` gives the columns of some names, in memory or from a file."""

    schema: pa.Schema
    rows: int
    read: Callable[[Sequence[str]], pa.Table]

    @classmethod
    def of(cls, parts: Sequence[pa.Table]) -> SweepResults:
        """Results in memory, of their parts."""
        table = pa.concat_tables(parts)
        return cls(joined([part.schema for part in parts]), table.num_rows, table.select)

    def __len__(self) -> int:
        return self.rows

    @property
    def warnings(self) -> list[str]:
        """Warnings of timings behind the rows that were extrapolated."""
        return warnings_of(self.schema)

    def __getitem__(self, name: str) -> pa.ChunkedArray:
        return self.read([name])[name]

    @cached_property
    def possible(self) -> NDArray[np.intp]:
        """Rows whose points are possible."""
        return np.flatnonzero(~given(self["error"]))

    def numbers(self, name: str, rows: NDArray[np.intp]) -> Array:
        """Some rows of a column of numbers, NaN where it has none."""
        found: Array = numbers(self[name])[rows]
        return found

    def counts(self, name: str, rows: NDArray[np.intp]) -> dict[Any, int]:
        """How often each value is in some rows of a column, which are in order."""
        counted: Counter[Any] = Counter()
        start = 0
        for chunk in self[name].chunks:
            values, first, last = chunk.to_pylist(), *np.searchsorted(rows, (start, start + len(chunk)))
            counted.update(values[row - start] for row in rows[first:last].tolist())
            start += len(chunk)
        return counted

    def records(self, rows: NDArray[np.intp]) -> list[dict[str, Any]]:
        """All of some rows, read column by column."""
        columns = (self[name] for name in self.schema.names)
        values = ([column[row].as_py() for row in rows.tolist()] for column in columns)
        return [dict(zip(self.schema.names, row, strict=True)) for row in zip(*values, strict=True)]

    def table(self) -> pa.Table:
        """All rows and columns."""
        return self.read(self.schema.names)


def joined(schemas: Sequence[pa.Schema]) -> pa.Schema:
    """One schema; its warnings are those of any part."""
    lines = {line for schema in schemas for line in warnings_of(schema)}
    return schemas[0].with_metadata({b"warnings": json.dumps(sorted(lines)).encode()})


def warnings_of(schema: pa.Schema) -> list[str]:
    """Warnings that a part's schema keeps."""
    document: list[str] = json.loads((schema.metadata or {}).get(b"warnings", b"[]"))
    return document
