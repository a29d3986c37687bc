"""A sweep's run folder: parts written as they come, each whole or not at all, and joined when all are there."""

from __future__ import annotations

import json
import shutil
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property, partial
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import tomli_w
from numpy.typing import NDArray

from ssdsim import __version__
from ssdsim.base.arrow import not_null, numbers
from ssdsim.base.checks import Array, is_text
from ssdsim.base.errors import InputError
from ssdsim.base.files import write_whole
from ssdsim.base.parquet import read_table, write_table, write_tables
from ssdsim.base.record import Record
from ssdsim.question.options import files
from ssdsim.runs.layout import CONFIG, HOW, PARTS, RESULTS, locked_run
from ssdsim.runs.named_files import file_of, keep, names_in_folder, renamed


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
        return np.flatnonzero(~not_null(self["error"]))

    def numbers(self, name: str, rows: NDArray[np.intp]) -> Array:
        """Some rows of a column of numbers, NaN where it has none."""
        found: Array = numbers(self[name])[rows]
        return found

    def counts(self, name: str, rows: NDArray[np.intp]) -> dict[Any, int]:
        """Counts of each value in some rows of a column; rows are in order."""
        counted: Counter[Any] = Counter()
        start = 0
        for chunk in self[name].chunks:
            values, first, last = chunk.to_pylist(), *np.searchsorted(rows, (start, start + len(chunk)))
            counted.update(values[row - start] for row in rows[first:last].tolist())
            start += len(chunk)
        return counted

    def records(self, rows: NDArray[np.intp]) -> list[dict[str, Any]]:
        """Some rows as records, read column by column."""
        columns = (self[name] for name in self.schema.names)
        values = ([column[row].as_py() for row in rows.tolist()] for column in columns)
        return [dict(zip(self.schema.names, row, strict=True)) for row in zip(*values, strict=True)]

    def table(self) -> pa.Table:
        """All rows and columns, read column by column."""
        return pa.table({name: self[name] for name in self.schema.names})


def joined(schemas: Sequence[pa.Schema]) -> pa.Schema:
    """One schema, with the warnings of all parts."""
    lines = {line for schema in schemas for line in warnings_of(schema)}
    return schemas[0].with_metadata({b"warnings": json.dumps(sorted(lines)).encode()})


def warnings_of(schema: pa.Schema) -> list[str]:
    """Warnings that a part's schema keeps."""
    document: list[str] = json.loads((schema.metadata or {}).get(b"warnings", b"[]"))
    return document


class SweepPart(Protocol):
    """The points ``start`` to ``stop - 1`` of a sweep."""

    @property
    def number(self) -> int: ...
    @property
    def start(self) -> int: ...
    @property
    def stop(self) -> int: ...


class SweepPlan(Protocol):
    """What a sweep works out."""

    @property
    def options(self) -> Mapping[str, Any]: ...
    @property
    def grid(self) -> Mapping[str, Sequence[Any]]: ...
    @property
    def how(self) -> Mapping[str, Any]:
        """Everything but options and grid."""
        ...

    def named(self) -> Sequence[Any]:
        """Values of the options that may name files."""
        ...

    def parts(self) -> Sequence[SweepPart]:
        """All points, cut in the same way whenever the same plan is made."""
        ...

    def is_of(self, results: SweepResults) -> bool:
        """Say whether these may be the results."""
        ...


@contextmanager
def opened(path: Path, plan: SweepPlan) -> Iterator[SweepFolder]:
    """Open the folder for ``plan``, for one process at a time."""
    with ExitStack() as stack:
        try:
            stack.enter_context(locked_run(path, "sweep"))
            folder = SweepFolder(path, plan)
        except OSError as error:
            raise InputError(f"{path}: cannot be used as a run folder ({error.strerror})") from None
        yield folder


class SweepFolder:
    """``config.toml`` (options and grid), ``sweep.json`` (solver, seed), ``parts/`` while it runs, ``results.parquet``.

    ``files/`` holds copies of the files that the options name; config and results call them by their names there.
    """

    def __init__(self, path: Path, plan: SweepPlan) -> None:
        self.path = path
        whole_path = path.absolute()  # which pyarrow does not take for a URI, whatever the names in it
        self._parts, self._results = whole_path / PARTS, whole_path / RESULTS
        self._names = names_in_folder(path, plan.named())
        options, grid = renamed(plan.options, self._names), renamed(plan.grid, self._names)
        config = {"schema": 1, "verb": "sweep", "options": options, "grid": grid}
        kept = tomli_w.dumps(config)
        if not is_text(kept):
            raise InputError(f"{path / CONFIG}: the value of an option is no text in UTF-8, which no file can keep")
        # with another content a file means another sweep
        digests = {name: sha256(file_of(not_null).read_bytes()).hexdigest() for not_null, name in self._names.items()}
        how = {"schema": 2, **plan.how, "version": __version__, "files": dict(sorted(digests.items()))}
        self._claim(path / CONFIG, kept, tomllib.loads)
        self._claim(path / HOW, json.dumps(how, indent=1) + "\n", json.loads)
        keep(path, self._names)

    def _claim(self, file: Path, text: str, read: Callable[[str], dict[str, Any]]) -> None:
        if not file.exists():
            write_whole(file, text)
            return
        try:
            ours = read(text)
            there: Any = read(file.read_text(encoding="utf-8"))
        except (ValueError, RecursionError):
            there = None
        if not isinstance(there, dict):
            raise InputError(f"{file}: not readable; remove it or choose another folder")
        if there != ours:
            raise InputError(
                f"{self.path} holds another sweep ({', '.join(_differences(there, ours))} differ); "
                "choose another folder or remove it"
            )

    def has(self, part: SweepPart) -> bool:
        """Say whether the part is there and whole."""
        if self._results.exists():
            return True
        try:
            rows: int = pq.read_metadata(self._file(part)).num_rows
        except (OSError, pa.ArrowException):
            return False
        return rows == part.stop - part.start

    def add(self, part: SweepPart, table: pa.Table) -> None:
        for name in set(files()) & set(table.column_names):
            called = renamed({name: table[name].to_pylist()}, self._names)[name]
            table = table.set_column(table.column_names.index(name), name, pa.array(called))
        write_table(table, self._file(part))

    def join(self, plan: SweepPlan) -> SweepResults:
        """All rows in the order of the grid; writes ``results.parquet`` and drops the parts."""
        parts = plan.parts()
        if not self._results.exists():
            schema = joined([pq.read_schema(self._file(part)) for part in parts])
            write_tables((read_table(self._file(part)) for part in parts), schema, parts[-1].stop, self._results)
            results = self._read()
        else:
            results = self._existing_results(plan)
        shutil.rmtree(self._parts, ignore_errors=True)
        return results

    def _read(self) -> SweepResults:
        with pq.ParquetFile(self._results) as file:
            return SweepResults(file.schema_arrow, file.metadata.num_rows, partial(read_table, self._results))

    def _existing_results(self, plan: SweepPlan) -> SweepResults:
        """The results that were there, none of which is damaged."""
        try:
            read_table(self._results, [])
            results = self._read()
            for name in results.schema.names:
                results.read([name])
        except InputError as error:
            raise InputError(f"{error}; remove it to work it out again") from None
        if not plan.is_of(results):
            raise InputError(f"{self._results}: not the results of this sweep; remove it to work it out again")
        return results

    def _file(self, part: SweepPart) -> Path:
        return self._parts / f"{part.number:06}.parquet"


def _differences(there: Mapping[str, Any], ours: Mapping[str, Any]) -> list[str]:
    """Names of the values that differ; options and axes are named without their table."""
    differing = []
    for name in [*ours, *(name for name in there if name not in ours)]:
        one, other = there.get(name), ours.get(name)
        if isinstance(one, dict) and isinstance(other, dict):
            differing += [inner for inner in {**other, **one} if one.get(inner) != other.get(inner)]
        elif one != other:
            differing.append(name)
    return list(dict.fromkeys(differing))
