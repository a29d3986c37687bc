"""Read text, JSON, TOML and CSV that others wrote, and make records of it: a mistake is one line that says where."""

from __future__ import annotations

import csv
import io
import json
import re
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import Any

import msgspec
from msgspec import ValidationError

from ssdsim.base.conversion import Read, complaint, converted
from ssdsim.base.errors import InputError


def check_regular(path: Path, what: str) -> None:
    """Raise :class:`InputError` at what is there and no file: a device never ends, and a pipe may never begin."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):  # what is not there is for the reader to say
        return
    if not (S_ISREG(mode) or S_ISDIR(mode)):
        raise InputError(f"{path}: not a readable {what} (it is a device or a pipe)")


_GZIP = b"\x1f\x8b"
_MOST_UNPACKED = 100_000_000  # letters: a small file may unpack to any size


def read_text(path: Path, what: str) -> str:
    """The text of a file, which is UTF-8 with or without a byte order mark, as it is or packed by gzip."""
    check_regular(path, what)
    try:
        with path.open("rb") as file:
            is_packed = file.read(len(_GZIP)) == _GZIP
        return _unpacked(path) if is_packed else path.read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:  # bytes that are not UTF-8, or a NUL in the path, are ValueErrors
        raise InputError(f"{path}: not a readable {what} ({error})") from None


def _unpacked(path: Path) -> str:
    import gzip  # here, with zlib: few files are packed
    import zlib

    try:
        with gzip.open(path, "rt", encoding="utf-8-sig") as file:
            text = file.read(_MOST_UNPACKED + 1)
    except (EOFError, zlib.error) as error:
        raise ValueError(error) from None
    if len(text) > _MOST_UNPACKED:
        raise ValueError(f"unpacked it has over {_MOST_UNPACKED // 10**6} MB of text: unpack it first, and give that")
    return text


_CODES = re.compile(r"\x1b\[[0-9;?]*[@-~]")


def without_codes(text: str) -> str:
    """What a program printed, without its colours and other codes for a terminal."""
    return _CODES.sub("", text)


def read_printed(path: Path, what: str) -> str:
    """The text of a file that a program may have printed, :func:`without_codes`."""
    return without_codes(read_text(path, what))


def parse_json(text: str, where: object) -> Any:
    """The value that a JSON text stands for; ``where`` begins the complaint."""
    try:
        value = json.loads(text)
        if "\\ud" in text.lower():  # half of a pair of escapes is no character, and cannot be printed
            json.dumps(value, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise InputError(f"{where}: {place}: not JSON, or cut short ({error.msg})") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: not JSON that can be read ({error})") from None
    return value


def surviving_records(path: Path) -> list[Any]:
    """The values of a file of JSON lines, without lines that a kill cut short; none if there is no file."""
    text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    records = []
    for line in text.splitlines():
        with suppress(InputError):
            records.append(parse_json(line, path))
    return records


_NUMBER = r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?"
_BEGINS_JSON = re.compile(
    rf"(?:data:\s*)?(?:[{{\[]\s*(?:$|[\"{{}}\[\]])|\[\s*(?:{_NUMBER}|true|false|null)\s*(?:,|\]?\s*$))"
)
"""What the first line begins with. ``[2026-01-05 10:00:01]`` and ``[0] Rank`` are no lists."""


def is_json(text: str) -> bool:
    """Tell whether a text means to be JSON, whole or cut short, by what it begins with."""
    return _BEGINS_JSON.match(text.lstrip().partition("\n")[0]) is not None


def parse_records(text: str, where: object) -> list[Any]:
    """One value, the items of a list, or a value a line (as a stream has them: ``data: {...}``, until ``[DONE]``)."""
    lines = [line.removeprefix("data:").strip() for line in text.splitlines()]
    lines = [line for line in lines if line not in ("", "[DONE]")]
    try:
        parsed = parse_json(text, where)
    except InputError:
        if len(lines) < 2 and not text.lstrip().startswith("data:"):
            raise
        return [_parsed_line(line, f"{where}: result {number}") for number, line in enumerate(lines, 1)]
    if parsed == []:
        raise InputError(f"{where}: no result in it")
    return parsed if isinstance(parsed, list) else [parsed]


def _parsed_line(line: str, where: str) -> Any:
    """:func:`parse_json` of one line of many, by a faster and slightly stricter reader."""
    try:
        return msgspec.json.decode(line)
    except msgspec.DecodeError:
        return parse_json(line, where)


def read_json(path: Path, what: str) -> Any:
    """The value in a JSON file; InputError as of :func:`read_text` and :func:`parse_json`."""
    return parse_json(read_text(path, what), path)


def read_toml(path: Path, what: str) -> dict[str, Any]:
    """The table in a TOML file."""
    text = read_text(path, what)
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # a TOMLDecodeError, or a number of thousands of digits
        raise InputError(f"{path}: not a readable {what} ({error})") from None


def parse_csv(text: str, where: object) -> list[dict[str, str]]:
    """The rows of CSV by the titles in its first line; a cell that a row lacks is empty, those too many are dropped."""
    reader = csv.reader(io.StringIO(text, newline=""))
    try:
        titles = next(reader, [])
        return [dict.fromkeys(titles, "") | dict(zip(titles, row, strict=False)) for row in reader if row]
    except csv.Error as error:
        raise InputError(f"{where}: line {reader.line_num}: not CSV ({error})") from None


def as_record(kind: type[Read], data: Any, where: object, what: str, *, written: bool = False) -> Read:
    """``data`` as a card or a type of numbers, text, lists and objects, which is called ``what``.

    Its numbers may be text where they are ``written``, as cells of a table are.
    """
    try:
        return converted(kind, data, written=written)
    except ValidationError:
        raise InputError(f"{where}: {complaint(kind, data, what, written)}") from None


def as_records(
    kind: type[Read], each: Mapping[int, Any], where: object, what: str, *, written: bool = False
) -> list[Read]:
    """:func:`as_record` of each numbered record; one call for all, because there may be millions."""
    try:
        return converted(list[kind], list(each.values()), written=written)  # type: ignore[valid-type]
    except ValidationError:
        for number, data in each.items():
            as_record(kind, data, f"{where} record {number}", what, written=written)
        raise


def within(record: object, *keys: str) -> Any:
    """The value under nested ``keys``; None if one of them is missing."""
    for key in keys:
        record = record.get(key) if isinstance(record, Mapping) else None
    return record
