"""Base of the readers of engines' own result files: a file's kind, and the checked numbers of its records."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ssdsim.base.errors import InputError, short_repr
from ssdsim.base.record import Record
from ssdsim.readers.facts import Facts, RunSpeed

_LEAST, _MOST = 1e-12, 1e12

JsonObject = Mapping[str, Any]
Run = tuple[Facts, RunSpeed]


def _none(text: str, where: str) -> Sequence[JsonObject]:
    return ()


class Format(Record):
    """One engine's result file: ``knows`` tells its records, ``runs_of`` are the runs of one (and where it is).

    A record may be several benchmarks, or none of decoding. ``told_in`` makes records of what the engine prints or
    writes as a table, none of another text.
    """

    name: str
    knows: Callable[[JsonObject], bool]
    runs_of: Callable[[JsonObject, str], Iterable[Run]]
    told_in: Callable[[str, str], Sequence[JsonObject]] = _none


def has(*keys: str) -> Callable[[JsonObject], bool]:
    """Tell records by the keys that all of them have."""
    return lambda record: set(keys) <= record.keys()


def number(record: JsonObject, key: str, where: str) -> float:
    """A positive number, of a size that a benchmark may have."""
    value = record.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not _LEAST <= value <= _MOST:
        raise InputError(f"{where}: {key} must be a number above 0, got {short_repr(value)}")
    return float(value)


def text(record: JsonObject, key: str, where: str) -> str | None:
    """A text; None where there is none, or nothing in it."""
    value = record.get(key)
    if not isinstance(value, str | None):
        raise InputError(f"{where}: {key} must be text, got {short_repr(value)}")
    return value or None


def as_number(text: str) -> Any:
    """The number that a text is; else the text."""
    try:
        return int(text) if text.lstrip("-").isdecimal() else float(text)
    except ValueError:
        return text


def part_of(record: JsonObject, key: str, where: str) -> JsonObject:
    """The object under ``key``."""
    value = record.get(key)
    if not isinstance(value, Mapping):
        raise InputError(f"{where}: {key} must be an object, got {short_repr(value)}")
    return value


def mean_tokens(record: JsonObject, where: str) -> tuple[float, float]:
    """Input and output tokens of a request, from totals over the completed ones."""
    requests = number(record, "completed", where)
    inputs, outputs = (number(record, f"total_{which}_tokens", where) for which in ("input", "output"))
    return inputs / requests, max(1.0, outputs / requests)


def in_flight(record: JsonObject, where: str) -> dict[str, Any]:
    """The facts of concurrency: ``max_concurrency``, of which there are no more than requests.

    Where requests came at a rate, or without a bound, the mean number of them follows from how long they took.
    """
    rate, most = record.get("request_rate"), record.get("max_concurrency")
    paced = isinstance(rate, int) or (isinstance(rate, float) and math.isfinite(rate))
    if most is not None and not paced:
        return {"batch": int(min(number(record, "max_concurrency", where), number(record, "completed", where)))}
    why = f"requests came at {rate}/s" if paced else "it has no max_concurrency"
    mean = _mean_in_flight(record, where)
    return {"arrivals": why, "counted": False, "batch": None if mean is None else max(1, round(mean))}


def _mean_in_flight(record: JsonObject, where: str) -> float | None:
    """The mean by Little's law: requests a second, times the seconds of one; None where a benchmark says not both."""
    if not all(record.get(name) for name in ("completed", "duration", "mean_ttft_ms", "mean_tpot_ms")):
        return None
    gaps = mean_tokens(record, where)[1] - 1.0
    seconds = 1e-3 * (number(record, "mean_ttft_ms", where) + gaps * number(record, "mean_tpot_ms", where))
    return number(record, "completed", where) / number(record, "duration", where) * seconds


def served(record: JsonObject, where: str) -> RunSpeed:
    """What a server's client timed: the mean time per output token at its concurrency."""
    return RunSpeed("tpot_ms", number(record, "mean_tpot_ms", where), *mean_tokens(record, where))
