"""A validation's log: a JSON-lines file, a grid point a line, that a later run of the same bench goes on with."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ssdsim.errors import InputError
from ssdsim.validation.comparison import Comparison
from ssdsim.validation.grid import GridPoint

_SCHEMA = 3  # 3 says which strategies ran, and on which devices


def append(log: Path, point: GridPoint, found: Sequence[Comparison]) -> None:
    """Write a grid point's comparisons for good."""
    with log.open("a") as file:
        file.write(json.dumps({"key": point.key, "comparisons": [one.to_json() for one in found]}) + "\n")
        file.flush()
        os.fsync(file.fileno())


def read_or_start(log: Path, bench: Mapping[str, Any], profiles: str) -> dict[str, list[Comparison]]:
    """Grid points that an earlier run left, by their keys; ``profiles`` is a digest of the profiles' content.

    Raises
    ------
    InputError : the log is of another bench or of other profiles.
    """
    header = {"schema": _SCHEMA, "bench": json.loads(json.dumps(dict(bench))), "profiles": profiles}
    if not log.exists() or not log.stat().st_size:  # a kill can leave an empty one
        log.write_text(json.dumps(header) + "\n")
        return {}
    records = []
    for line in log.read_text().splitlines():
        try:
            records.append(json.loads(line))
        except json.JSONDecodeError:
            continue  # torn by a kill
    if not records or records[0] != header:
        raise InputError(f"{log}: measured with another setting or profile; remove it or use another -o")
    whole = log.with_suffix(".partial")  # what a kill tore goes for good
    whole.write_text("".join(json.dumps(record) + "\n" for record in records))
    whole.replace(log)
    return {record["key"]: [Comparison.from_json(one) for one in record["comparisons"]] for record in records[1:]}
