"""What the readers share: numbers under one of several names, objects at any depth, lines of Prometheus text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ssdsim.errors import InputError, told

Record = Mapping[str, Any]

_DEEPEST = 8
_MOST = 10**15
_SAMPLE = re.compile(r"^([a-zA-Z_:][\w:]*)(?:\{(.*)\})?\s+([^\s]+)(?:\s+-?\d+)?\s*$")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


def count(record: Record, names: Sequence[str], where: str) -> int | None:
    """A whole number from 0 on under the first of the names that the record has; None where it has none.

    Raises
    ------
    InputError : it is something else.
    """
    found = _from_zero(record, names, where, "whole number")
    return None if found is None else int(found)


def number(record: Record, names: Sequence[str], where: str) -> float | None:
    """A number from 0 on under the first of the names that the record has; None where it has none.

    Raises
    ------
    InputError : it is something else.
    """
    found = _from_zero(record, names, where, "number")
    return None if found is None else float(found)


def _from_zero(
    record: Record, names: Sequence[str], where: str, kind: Literal["number", "whole number"]
) -> float | None:
    value = first(record, names)
    if value is None:
        return None
    numeric = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= _MOST
    if not numeric or (kind == "whole number" and value != int(value)):
        raise InputError(f"{where}: {_said(record, names)} must be a {kind} of at least 0, got {told(value)}")
    return float(value)


def counts_by_index(record: Record, names: Sequence[str], where: str) -> list[int] | None:
    """A list of counts, or a mapping of indices (as text) to counts; None where there is none, or an empty one.

    Raises
    ------
    InputError : an index or a count is no whole number.
    """
    value = first(record, names)
    if value is None or value == [] or value == {}:
        return None
    said = f"{where}: {_said(record, names)}"
    if isinstance(value, Mapping):
        indices = [int(index) if str(index).isdecimal() else -1 for index in value]
        if min(indices) < 0 or max(indices) > 10_000:
            raise InputError(f"{said} must count rounds by accepted tokens, got {told(value)}")
        listed: list[Any] = [0] * (max(indices) + 1)
        for index, counted in zip(indices, value.values(), strict=True):
            listed[index] = counted
        value = listed
    if not isinstance(value, list | tuple):
        raise InputError(f"{said} must be a list, got {told(value)}")
    found = []
    for each in value:
        each = int(each) if isinstance(each, float) and each.is_integer() else each
        if isinstance(each, bool) or not isinstance(each, int) or not 0 <= each <= _MOST:
            raise InputError(f"{said} must be whole numbers of at least 0, got {told(each)}")
        found.append(each)
    return found


def first(record: Record, names: Sequence[str]) -> Any:
    """The first value that is there and not null; a block of statistics stands for its ``value`` or ``avg``."""
    for name in names:
        value = record.get(name)
        if isinstance(value, Mapping) and ({"value", "unit"} <= value.keys() or {"avg", "unit"} <= value.keys()):
            value = value.get("value", value.get("avg"))
        if value is not None:
            return value
    return None


def text_in(value: object) -> str | None:
    """The value itself where it is text, and says something."""
    return value if isinstance(value, str) and value else None


def _said(record: Record, names: Sequence[str]) -> str:
    return next((name for name in names if record.get(name) is not None), names[0])


def found_with(value: Any, names: Sequence[str], depth: int = 0) -> Iterator[Record]:
    """Every object that has one of these keys, at any depth; what lies in such an object is not looked at."""
    if depth > _DEEPEST:
        return
    if isinstance(value, Mapping):
        if any(name in value for name in names):
            yield value
            return
        for each in value.values():
            yield from found_with(each, names, depth + 1)
    elif isinstance(value, list):
        for each in value:
            yield from found_with(each, names, depth + 1)


@dataclass(frozen=True)
class Sample:
    """A line of Prometheus text."""

    name: str
    labels: Mapping[str, str]
    value: float


def prometheus(text: str) -> list[Sample]:
    """The samples of Prometheus' text format; comments, and lines that are none, are left out."""
    samples = []
    for line in text.splitlines():
        match = _SAMPLE.match(line.strip())
        if match is None or line.lstrip().startswith("#"):
            continue
        try:
            value = float(match[3])
        except ValueError:
            continue
        samples.append(Sample(match[1], dict(_LABEL.findall(match[2] or "")), value))
    return samples
