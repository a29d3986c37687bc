"""Import what nccl-tests and rccl-tests print: their text tables, CSV and JSON.

Quirks of the formats:

* text: a ``#`` before headers, ranks (``# Rank 3 ...``) and summaries. A row has size (bytes), count, type, redop and
  root, then time (us), algbw, busbw and #wrong out of place, and again in place. ``#wrong`` may be ``N/A``. Newer
  versions name the test (``# Collective test starting: all_reduce_perf``); with older ones the caller must.
* JSON and CSV of rccl-tests (``-Z``): a record a row with ``name``, ``ranks``, ``size`` (bytes), ``inPlace`` and
  ``time`` (us).
* JSON of nccl-tests: ``results`` with ``size`` and ``out_of_place`` and ``in_place``, each with ``time`` (us);
  ``config`` may name the test and the ranks.

Out-of-place times are taken where there are both; a row whose result was wrong is left out. ``size`` is the full
tensor, for all-gather the gathered one. ``sendrecv`` is a message to the next rank.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from calibration.fit import FEWEST_ROWS, fit_collective, fit_link
from ssdsim.documents import parse_csv, parse_json, read_text
from ssdsim.errors import InputError, nearest, told
from ssdsim.hardware.profile import HardwareProfile, Provenance
from ssdsim.transformer.operations import CollectiveKind

OPERATIONS = ("all_reduce", "all_gather", "sendrecv")
_RANK = re.compile(r"#\s+Rank\s+(\d+)")
_STARTING = re.compile(r"Collective test starting:\s*(\w+?)_perf")
_COLUMNS_BEFORE_TIME = 5
_MOST_RANKS = 1_000_000


@dataclass(frozen=True)
class Timings:
    """Times of one operation over one number of ranks: bytes and seconds of each row."""

    operation: str
    ranks: int
    rows: tuple[tuple[float, float], ...]


def read_nccl_tests(path: Path, operation: str | None = None, ranks: int | None = None) -> list[Timings]:
    """The timings in a file of any of the formats; ``operation`` and ``ranks`` where the file does not say.

    Raises
    ------
    InputError : unreadable, no rows, or an operation or number of ranks that neither says.
    """
    text = read_text(path, "output of nccl-tests")
    stripped = text.lstrip()
    if stripped.startswith(("[", "{")):
        records: Iterable[Mapping[str, Any]] = _json_records(path, stripped)
    elif "inPlace" in stripped.splitlines()[0] if stripped else False:
        records = parse_csv(stripped, path)
    else:
        return [_text_timings(path, text, operation, ranks)]
    return _record_timings(path, records, operation, ranks)


def _text_timings(path: Path, text: str, operation: str | None, ranks: int | None) -> Timings:
    named = _STARTING.search(text)
    found_ranks = {int(match[1]) for match in _RANK.finditer(text)}
    rows = [row for line in text.splitlines() if (row := _text_row(line)) is not None]
    return _checked(path, named[1] if named else operation, len(found_ranks) or ranks, rows)


def _text_row(line: str) -> tuple[float, float] | None:
    """Bytes and out-of-place seconds of a row of the table; None for any other line, or where the result was wrong."""
    cells = line.split()
    if len(cells) < _COLUMNS_BEFORE_TIME + 4 or not cells[0].isdecimal() or not cells[1].isdecimal():
        return None
    size, time_us = _as_number(cells[0]), _as_number(cells[_COLUMNS_BEFORE_TIME])
    wrong = cells[_COLUMNS_BEFORE_TIME + 3]
    return (size, time_us * 1e-6) if size and time_us and wrong in ("0", "N/A") else None


def _json_records(path: Path, text: str) -> list[Mapping[str, Any]]:
    document = parse_json(text, path)
    if isinstance(document, list):
        return [_object(path, f"record {n}", record) for n, record in enumerate(document, 1)]
    config = _object(path, "config", document.get("config", {}))
    common = {"name": config.get("test") or document.get("test"), "ranks": config.get("ranks") or config.get("nranks")}
    results = document.get("results", [])
    if not isinstance(results, list):
        raise InputError(f"{path}: results must be a list, got {told(results)}")
    records: list[Mapping[str, Any]] = []
    for number, result in enumerate(results, 1):
        row = _object(path, f"result {number}", result)
        timed = _object(path, f"result {number}, out_of_place", row.get("out_of_place", {}))
        if "size" in row and "time" in timed:
            records.append({**common, "size": row["size"], "time": timed["time"], "wrong": timed.get("nwrong", 0)})
    return records


def _object(path: Path, where: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise InputError(f"{path}: {where} must be an object, got {told(value)}")
    return value


def _record_timings(
    path: Path, records: Iterable[Mapping[str, Any]], operation: str | None, ranks: int | None
) -> list[Timings]:
    groups: dict[tuple[str | None, int | None], list[tuple[float, float]]] = {}
    for number, record in enumerate(records, 1):
        if str(record.get("inPlace") or 0) not in ("0", "0.0", "False"):
            continue
        if str(record.get("wrong", 0)).strip('"') not in ("0", "N/A", "-1"):
            continue
        size, time_us, count = (_number(path, number, record, name) for name in ("size", "time", "ranks"))
        if size is None or time_us is None:
            raise InputError(f"{path}: record {number}: lacks its {'size' if size is None else 'time'}")
        name = _operation_name(record.get("name")) or operation
        groups.setdefault((name, int(count) if count else ranks), []).append((size, time_us * 1e-6))
    return [_checked(path, *key, rows) for key, rows in groups.items()] or [_checked(path, operation, ranks, [])]


def _number(path: Path, number: int, record: Mapping[str, Any], name: str) -> float | None:
    """A number of a record, which CSV has as text; None where the record has none."""
    value = record.get(name)
    if value is None or value == "":
        return None
    found = _as_number(value)
    if found is None:
        raise InputError(f"{path}: record {number}: {name} must be a number of at least 0, got {told(value)}")
    return found


def _as_number(value: Any) -> float | None:
    """A finite number of at least 0 from a number or its text; None otherwise."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if 0.0 <= number < float("inf") else None


def _operation_name(name: Any) -> str | None:
    """``AllReduce`` or ``all_reduce_perf`` -> ``all_reduce``."""
    if not name:
        return None
    snake = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", str(name)).lower().removesuffix("_perf")
    return "sendrecv" if snake in ("send_recv", "sendrecv") else snake


def _checked(path: Path, operation: str | None, ranks: int | None, rows: list[tuple[float, float]]) -> Timings:
    if not rows:
        raise InputError(f"{path}: no rows of nccl-tests or rccl-tests there")
    if operation is None:
        raise InputError(f"{path}: does not name its test; say --operation {', '.join(OPERATIONS)}")
    if operation not in OPERATIONS:
        allowed = ", ".join(OPERATIONS)
        raise InputError(
            f"{path}: operation {told(operation)} is not priced{nearest(operation, OPERATIONS)} Allowed: {allowed}"
        )
    if not ranks:
        raise InputError(f"{path}: does not say how many ranks ran; say --ranks")
    if not 1 < ranks <= _MOST_RANKS:
        raise InputError(f"{path}: {ranks} ranks; a collective is of 2 to {_MOST_RANKS}")
    positive = [row for row in rows if row[0] > 0 and row[1] > 0]
    return Timings(operation, ranks, tuple(positive))


def with_nccl_tests(profile: HardwareProfile, timings: Iterable[Timings], source: str) -> HardwareProfile:
    """``profile`` with its collectives and link replaced by these timings (medians of repeated sizes).

    Raises
    ------
    InputError : too few sizes for a fit.
    """
    collectives = {kind: dict(by_ranks) for kind, by_ranks in profile.collectives.items()}
    link = profile.link
    for timed in timings:
        sizes, seconds = _medians(timed.rows)
        if len(sizes) < FEWEST_ROWS:
            raise InputError(f"{timed.operation}: {len(sizes)} sizes; a fit needs at least {FEWEST_ROWS}")
        if timed.operation == "sendrecv":
            link = fit_link(sizes, seconds, source)
        else:
            model = fit_collective(sizes, seconds, source)
            collectives.setdefault(cast(CollectiveKind, timed.operation), {})[timed.ranks] = model
    provenance = Provenance(kind="imported", source=source, note="out of place; eager unless the run used graphs")
    sources = {**profile.sources, source: provenance}
    return profile.model_copy(update={"collectives": collectives, "link": link, "sources": sources})


def _medians(rows: Iterable[tuple[float, float]]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    by_size: dict[float, list[float]] = {}
    for size, seconds in rows:
        by_size.setdefault(size, []).append(seconds)
    sizes = sorted(by_size)
    return np.array(sizes), np.array([np.median(by_size[size]) for size in sizes])
