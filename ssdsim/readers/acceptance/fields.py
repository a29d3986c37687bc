"""Shared by readers of logs: numbers under one of several names, objects at any depth, lines of Prometheus text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from typing import Annotated, Any

from msgspec import Meta

from ssdsim.base.card import Card
from ssdsim.base.documents import as_record
from ssdsim.base.errors import InputError, short_repr
from ssdsim.base.record import Record

JsonObject = Mapping[str, Any]

MOST_TOKENS = 1000
"""That a round may draft: what a file says becomes the length of arrays."""
MOST_COUNTED = 10**15

_DEEPEST = 8
_SAMPLE = re.compile(r"^([a-zA-Z_:][\w:]*)(?:\{(.*)\})?\s+([^\s]+)(?:\s+-?\d+)?\s*$")
_LABEL = re.compile(r'\b(\w+)="((?:[^"\\]|\\.)*)"')


WrittenTokens = Annotated[int, Meta(ge=0, le=MOST_TOKENS)]
WrittenCount = Annotated[int, Meta(ge=0, le=MOST_COUNTED)]
WrittenAmount = Annotated[float, Meta(ge=0.0, le=MOST_COUNTED)]
Index = WrittenTokens
"""The key of an object, which JSON writes as text."""


class LogLine(Card):
    """The numbers of a line of text, as its groups have them."""


class Printed(LogLine):
    """Fields of a line about rounds: drafted and accepted tokens, tokens a round, and shares by position."""

    drafted: WrittenCount
    accepted: WrittenCount
    length: WrittenAmount | None = None
    shares: Annotated[tuple[WrittenAmount, ...], Meta(max_length=MOST_TOKENS)] = ()


def count(record: JsonObject, names: Sequence[str], where: str) -> int | None:
    """A whole number from 0 on under the first of the names that the record has; None where it has none."""
    count: int | None = _read(WrittenCount, record, names, where)
    return count


def number(record: JsonObject, names: Sequence[str], where: str) -> float | None:
    """A number from 0 on under the first of the names that the record has; None where it has none."""
    number: float | None = _read(WrittenAmount, record, names, where)
    return number


def tokens(record: JsonObject, names: Sequence[str], where: str) -> int | None:
    """The :func:`count` of a round's tokens: at most :data:`MOST_TOKENS`."""
    tokens: int | None = _read(WrittenTokens, record, names, where)
    return tokens


def tokens_by_round(record: JsonObject, names: Sequence[str], where: str) -> list[int]:
    """A list of tokens, a number a round; empty where there is none."""
    return _read(list[WrittenTokens], record, names, where) or []


def counts_by_index(record: JsonObject, names: Sequence[str], where: str) -> list[int] | None:
    """A list of counts by tokens, or a mapping of tokens (as text) to counts; None where there is none, or it is empty.

    Raises
    ------
    InputError : an index or a count is no whole number, or an index is above :data:`MOST_TOKENS`.
    """
    if not isinstance(first(record, names), Mapping):
        return _read(Annotated[list[WrittenCount], Meta(max_length=MOST_TOKENS + 1)], record, names, where) or None
    by_index = _read(dict[Index, WrittenCount], record, names, where)
    return [by_index.get(index, 0) for index in range(max(by_index) + 1)] if by_index else None


def _read(kind: Any, record: JsonObject, names: Sequence[str], where: str) -> Any:
    value = first(record, names)
    if value is None:
        return None
    name = next(name for name in names if record.get(name) is not None)
    if isinstance(value, list | dict):
        for key, each in value.items() if isinstance(value, dict) else enumerate(value):
            _check_number(each, f"{where}: {name}: {key}")
        return as_record(kind, value, f"{where}: {name}", "list", written=True)
    _check_number(value, f"{where}: {name}")
    return as_record(kind, value, where, name, written=True)


def _check_number(value: Any, where: str) -> None:
    if isinstance(value, bool | str):
        raise InputError(f"{where}: must be a number, got {short_repr(value)}")


def first(record: JsonObject, names: Sequence[str]) -> Any:
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


def found_with(value: Any, names: Sequence[str], depth: int = 0) -> Iterator[JsonObject]:
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


class Sample(Record):
    """A line of Prometheus text."""

    name: str
    labels: Mapping[str, str]
    value: float


def prometheus(text: str) -> list[Sample]:
    """The samples of Prometheus' text format; comments, other lines and numbers that are not finite are left out."""
    samples = []
    for line in text.splitlines():
        match = _SAMPLE.match(line.strip()) if line else None
        if match is None or line.lstrip().startswith("#"):
            continue
        try:
            value = float(match[3])
        except ValueError:
            continue
        if not isfinite(value):
            continue
        samples.append(Sample(match[1], dict(_LABEL.findall(match[2] or "")), value))
    return samples
