"""The index at the end of a Parquet file: how many rows there are, and what each column holds of them.

pyarrow tells the same, but a damaged index ends the program there: its errors pass no Python.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ssdsim.base.files import while_unchanged
from ssdsim.base.record import Record

_MAGIC, _TAIL = b"PAR1", 8
_BOOLEANS, _BYTE, _WHOLES, _DOUBLE, _BINARY, _LISTS, _STRUCT = (1, 2), 3, (4, 5, 6), 7, 8, (9, 10), 12
_BITS = 64  # of the largest number
_BYTES = {0: 1 / 8, 1: 4, 4: 4, 6: 4}
"""In memory, of a value of a type where it is not 8: a flag, an int32, a float; of a text beside its letters."""
_TEXTS = (6, 7)


class ColumnChunk(Record):
    """A part of a column, by the name of the column or of what it is inside of; ``unpacked_bytes`` of its pages."""

    column: str
    of_text: bool
    values_bytes: float
    unpacked_bytes: int

    @property
    def memory_bytes(self) -> float:
        """At least; a text that comes again lies once in its pages."""
        return max(0.0, self.values_bytes, self.unpacked_bytes)


@while_unchanged
def parquet_index(path: Path) -> tuple[int, tuple[ColumnChunk, ...]]:
    """The rows of a file, and its parts of columns; ValueError where its end is no index."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _TAIL))
        tail = file.read(_TAIL)
        length = int.from_bytes(tail[:4], "little")
        if tail[4:] != _MAGIC or length > size - _TAIL:
            raise ValueError("it does not end as a Parquet file does")
        file.seek(size - _TAIL - length)
        data = file.read(length)
    try:
        said = _Compact(data).struct()
        chunks = [chunk[3] for group in said[4] for chunk in group[1]]
        return int(said[3]), tuple(map(_chunk, chunks))
    except (IndexError, KeyError, TypeError, AttributeError, UnicodeDecodeError, RecursionError):
        raise ValueError("its index is damaged") from None


def _chunk(said: dict[int, Any]) -> ColumnChunk:
    """Of Parquet's ``ColumnMetaData``: type 1, path 3, values 5, unpacked bytes 6."""
    return ColumnChunk(said[3][0].decode(), said[1] in _TEXTS, said[5] * _BYTES.get(said[1], 8), said[6])


class _Compact:
    """What Thrift's compact protocol says: a structure by the numbers of its fields."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def struct(self) -> dict[int, Any]:
        fields, number = dict[int, Any](), 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._whole()
            kind = head & 15
            fields[number] = kind == _BOOLEANS[0] if kind in _BOOLEANS else self._value(kind)
        return fields

    def _value(self, kind: int) -> Any:
        if kind in _WHOLES:
            return self._whole()
        if kind == _BINARY:
            return self._taken(self._varint())
        if kind in _LISTS:
            head = self._byte()
            count = head >> 4 if head >> 4 < 15 else self._varint()
            return [self._value(head & 15) for _ in range(count)]
        if kind == _STRUCT:
            return self.struct()
        if kind == _DOUBLE:
            return self._taken(8)
        if kind == _BYTE or kind in _BOOLEANS:
            return self._byte()
        raise KeyError(kind)

    def _byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1]

    def _taken(self, count: int) -> bytes:
        self._at += count
        if self._at > len(self._data):
            raise IndexError(self._at)
        return self._data[self._at - count : self._at]

    def _varint(self) -> int:
        number = 0
        for shift in range(0, _BITS, 7):
            byte = self._byte()
            number |= (byte & 127) << shift
            if byte < 128:
                return number
        raise IndexError(number)

    def _whole(self) -> int:
        number = self._varint()
        return (number >> 1) ^ -(number & 1)
