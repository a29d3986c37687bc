"""Files of measured rows, told by what is in them: CSV rows, or the result of an engine's own benchmark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

from ssdsim.base.checks import text
from ssdsim.base.documents import is_json, parse_records, read_printed
from ssdsim.base.errors import InputError, short_repr
from ssdsim.readers import results
from ssdsim.readers.agreement import agree, contradiction, row_of
from ssdsim.readers.bench import Format, JsonObject
from ssdsim.readers.row import COLUMNS, Row, check_columns, read_rows
from ssdsim.readers.strangers import stranger


@cache
def formats() -> tuple[Format, ...]:
    """Engines' files: those of each module of :mod:`ssdsim.readers.results`, which name them ``FORMATS``."""
    names = sorted(module.name for module in iter_modules(results.__path__))
    modules = [import_module(f"{results.__name__}.{name}") for name in names]
    return tuple(form for module in modules for form in module.FORMATS)


def read_measured(path: str | Path, **given: Any) -> list[Row]:
    """The rows of a file: CSV, or an engine's benchmark: JSON (one object, a list, or one a line), or what it prints.

    ``given`` are values of columns for what the file does not say (``hardware``, ``tp``, ``batch``, ...); None counts
    as not given.

    Raises
    ------
    InputError : the file says something else than what is given, or not all that a row needs, or cannot be read.
    """
    check_columns(given)
    filled = {name: value for name, value in given.items() if value is not None}
    path = Path(path)
    said = read_printed(path, "file of measurements")
    records = _records(said, path)
    if not records:
        return _csv_rows(path, said, filled)
    rows = [row for record, where in records for row in _rows_of_record(record, filled, where)]
    if not rows:
        raise InputError(f"{path}: no test in it that generated tokens")
    return rows


def read_results(path: Path, wanted: Format) -> list[tuple[JsonObject, str]]:
    """The records of a file of one format, each with where it is; InputError where one is of another."""
    said = read_printed(path, "file of measurements")
    if not (records := _records(said, path)):
        raise InputError(f"{path}: {stranger(said) or f'nothing of {wanted.name} in it'}")
    for record, where in records:
        if not isinstance(record, Mapping) or not wanted.knows(record):
            raise InputError(f"{where}: {stranger(record) or f'no result of {wanted.name}'}")
    return records


def _records(said: str, path: Path) -> list[tuple[Any, str]]:
    """The records of an engine's file or of what it printed, each with where it is; none of another text."""
    records: Sequence[Any] = parse_records(said, path) if is_json(said) else _printed(said, str(path))
    several = len(records) > 1
    return [(each, f"{path}: result {number}" if several else str(path)) for number, each in enumerate(records, 1)]


def _printed(said: str, where: str) -> Sequence[Any]:
    """The records in what an engine prints, or writes as a table."""
    return next((records for form in formats() if (records := form.told_in(said, where))), ())


def _csv_rows(path: Path, content: str, given: Mapping[str, Any]) -> list[Row]:
    """Rows of CSV, of which none says something else than what is given."""
    titles = {name.strip().strip('"') for name in content.lstrip("\ufeff").partition("\n")[0].split(",")}
    if content.strip() and not titles & {*COLUMNS}:
        raise InputError(f"{path}: {stranger(content) or f'no rows in it: {_known()}'}")
    rows = read_rows(path, given)
    for number, row in enumerate(rows, 1):
        for name, value in given.items():
            said = getattr(row, name) if name in COLUMNS else dict(row.options).get(name)
            if said not in (None, "") and not agree(name, said, value):
                raise contradiction(name, said, value, f"{path}: row {number}")
    return rows


def _rows_of_record(record: Any, given: Mapping[str, Any], where: str) -> Iterator[Row]:
    form = next((form for form in formats() if isinstance(record, Mapping) and form.knows(record)), None)
    if form is None:
        raise InputError(f"{where}: {stranger(record) or f'no result that is known here ({_known()})'}")
    for facts, measured in form.runs_of(record, where):
        yield row_of(facts, measured, given, where)


def _known() -> str:
    return f"those of {', '.join(form.name for form in formats())}, or a CSV file of rows"


def rows_of_files(files: Iterable[str | Path], given: Mapping[str, Any]) -> list[Row]:
    """All rows of the files, or of one; raises as :func:`read_measured`."""
    listed = [files] if isinstance(files, str | Path) else files
    if not isinstance(listed, Iterable):
        raise InputError(f"files must be paths of rows or results, got {short_repr(files)}")
    return [row for file in listed for row in read_measured(text("a file", file), **given)]
