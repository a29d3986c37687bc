"""Parquet files are read in bounds, and without threads of Arrow's that hold buffers of Python's."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssdsim.base import parquet
from ssdsim.base.errors import InputError
from ssdsim.base.parquet import read_table, write_table
from ssdsim.base.parquet_index import parquet_index
from tests.refusals import refused


def test_no_thread_is_left_that_frees_what_is_pythons(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such a thread aborted the program where it was still at it as Python ended, once in two hundred sweeps."""
    write_table(pa.table({"a": [1, 2]}), tmp_path / "t.parquet")
    opened: list[Any] = []
    threads: list[bool] = []

    class Watched(pq.ParquetFile):  # type: ignore[misc]
        def __init__(self, source: Any, **how: Any) -> None:
            opened.append(source)
            super().__init__(source, **how)

        def read(self, columns: Any = None, use_threads: bool = True, **how: Any) -> Any:
            threads.append(use_threads)
            return super().read(columns, use_threads=use_threads, **how)

    monkeypatch.setattr(pq, "ParquetFile", Watched)
    assert read_table(tmp_path / "t.parquet").num_rows == 2
    assert threads == [False]
    assert isinstance(opened[0], pa.OSFile)


MANY = 400_000
BOMBS: dict[str, Any] = {
    "numbers": pa.repeat(1.5, MANY),
    "texts": pa.repeat("x" * 1_000, MANY // 100),
    "bytes of one length": pa.repeat(b"x" * 1_000, MANY // 100).cast(pa.binary(1_000)),
    "lists": pa.ListArray.from_arrays(pa.array(range(0, MANY + 1, 4)), pa.repeat("ab", MANY)),
}


@pytest.mark.parametrize("kind", BOMBS)
def test_what_unpacks_to_more_than_is_read_is_one_line(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Values that repeat take nothing of a file: 4 MB became 12 GB in memory."""
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"a": BOMBS[kind]}), path)
    assert path.stat().st_size < 100_000
    monkeypatch.setattr(parquet, "_MOST_BYTES", 1 << 21)
    pool, usual = pa.proxy_memory_pool(pa.default_memory_pool()), pa.default_memory_pool()
    pa.set_memory_pool(pool)
    try:
        with refused("t.parquet", "memory"):
            read_table(path)
    finally:
        pa.set_memory_pool(usual)
    assert 0 < pool.max_memory() < 4 << 21
    monkeypatch.undo()
    assert read_table(path)["a"].equals(pa.chunked_array([BOMBS[kind]]))


def test_numbers_are_refused_before_they_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pq.write_table(pa.table({"a": pa.repeat(1, MANY), "b": [None] * MANY}), tmp_path / "t.parquet")
    monkeypatch.setattr(pq.ParquetFile, "read", lambda *_, **__: pytest.fail("was read"))
    with refused("t.parquet", "400,000", "1,000"):
        read_table(tmp_path / "t.parquet", most_rows=1_000)
    monkeypatch.setattr(parquet, "_MOST_BYTES", 1 << 20)
    with refused("t.parquet", "memory"):
        read_table(tmp_path / "t.parquet")


def test_the_index_is_as_pyarrow_tells_it(tmp_path: Path) -> None:
    columns = {"a": pa.repeat(1.5, 9), "b": pa.repeat(True, 9), "c": ["x"] * 9, "d": [["é"] * n for n in range(9)]}
    pq.write_table(pa.table({**columns, "e": [{"f": 1}] * 9}), tmp_path / "t.parquet", row_group_size=4)
    rows, chunks = parquet_index(tmp_path / "t.parquet")
    told = pq.read_metadata(tmp_path / "t.parquet")
    expected = [told.row_group(group).column(place) for group in range(3) for place in range(told.num_columns)]
    assert rows == 9
    assert [each.unpacked_bytes for each in chunks] == [each.total_uncompressed_size for each in expected]
    assert [each.of_text for each in chunks] == [each.physical_type == "BYTE_ARRAY" for each in expected]
    widths = (8, 1 / 8, 4, 4, 8)
    assert [each.values_bytes for each in chunks] == [
        width * each.num_values for width, each in zip(widths * 3, expected, strict=True)
    ]
    assert [each.column for each in chunks] == ["a", "b", "c", "d", "e"] * 3


@given(data=st.data())
def test_a_damaged_index_is_one_or_a_value_error(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Pyarrow's own metadata aborted the program there."""
    path = tmp_path_factory.getbasetemp() / "damaged.parquet"
    pq.write_table(pa.table({"a": [1, 2], "b": ["x", "y"], "c": [[1.5], []]}), path)
    content = bytearray(path.read_bytes())
    start = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(start, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(content)
    with suppress(InputError):
        read_table(path)


def test_a_column_that_is_not_asked_for_has_any_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pq.write_table(pa.table({"a": [1, 2], "b": ["x", "y" * (1 << 21)]}), tmp_path / "t.parquet")
    monkeypatch.setattr(parquet, "_MOST_BYTES", 1 << 20)
    assert read_table(tmp_path / "t.parquet", ["a"]).to_pydict() == {"a": [1, 2]}
    with refused("t.parquet", "memory"):
        read_table(tmp_path / "t.parquet", ["b"])


@given(rows=st.lists(st.tuples(st.text(max_size=9), st.none() | st.floats(allow_nan=False), st.lists(st.text()))))
def test_a_table_in_bounds_is_what_was_written(rows: Any, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.getbasetemp() / "t.parquet"
    types = {"a": pa.string(), "b": pa.float64(), "c": pa.list_(pa.string())}
    table = pa.table([[row[at] for row in rows] for at in range(3)], schema=pa.schema(types.items()))
    pq.write_table(table, path)
    assert read_table(path).equals(table)
    assert read_table(path, ["c", "a"]).column_names == ["c", "a"]


def test_a_folder_may_be_called_as_a_file_system_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``-o llama-3.1-8b:1:50`` was taken for an address."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s3:mine").mkdir()
    write_table(pa.table({"a": [1]}), Path("s3:mine/t.parquet"))
    assert read_table(Path("s3:mine/t.parquet")).num_rows == 1
