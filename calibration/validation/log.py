"""A validation's log: a JSON-lines file, a grid point a line, that a later run of the same bench goes on with."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import ValidationError, convert

from calibration.validation.comparison import Comparison
from calibration.validation.grid import GridPoint
from ssdsim import strategies
from ssdsim.base.documents import surviving_records
from ssdsim.base.errors import InputError
from ssdsim.base.files import append_record, write_records
from ssdsim.base.plain import plain
from ssdsim.base.record import Record

_SCHEMA = 3  # 3 says which strategies ran, and on which devices


class _Entry(Record):
    """A grid point's comparisons, one a strategy."""

    key: str
    comparisons: tuple[Comparison, ...]

    def __post_init__(self) -> None:
        unknown = [one.strategy for one in self.comparisons if one.strategy not in strategies.ALL.names]
        if unknown or not self.comparisons:
            raise ValueError(f"comparisons must be of some of {', '.join(strategies.ALL.names)}")


def append(log: Path, point: GridPoint, comparisons: Sequence[Comparison]) -> None:
    """Write a grid point's comparisons for good."""
    append_record(log, {"key": point.key, "comparisons": plain(comparisons)})


def read_or_start(log: Path, bench: Mapping[str, Any], profiles: str) -> dict[str, list[Comparison]]:
    """Grid points that an earlier run left, by their keys; ``profiles`` is a digest of the profiles' content."""
    header = {"schema": _SCHEMA, "bench": json.loads(json.dumps(dict(bench))), "profiles": profiles}
    if not log.exists() or not log.stat().st_size:  # a kill can leave an empty one
        write_records(log, [header])
        return {}
    records = surviving_records(log)
    if not records or records[0] != header:
        raise InputError(f"{log}: measured with another setting or profile; remove it or use another -o")
    entries = [_entry(record, f"{log}: entry {n}") for n, record in enumerate(records[1:], 1)]
    write_records(log, records)  # what a kill tore goes for good
    return {entry.key: list(entry.comparisons) for entry in entries}


def _entry(record: Any, where: str) -> _Entry:
    try:
        return convert(record, _Entry)
    except ValidationError as error:
        raise InputError(f"{where}: {error}") from None
