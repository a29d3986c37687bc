"""Parquet files are read without threads of Arrow's that hold buffers of Python's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ssdsim.base.parquet import read_table, write_table


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
