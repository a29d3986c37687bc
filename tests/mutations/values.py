"""Odd values, and values, documents, texts and tables that are changed a little: what a user gets wrong, and worse."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, MutableMapping, MutableSequence, Sequence
from random import Random
from typing import Any

NUMBERS: tuple[Any, ...] = (
    *(0, -1, 1, 2, 3, 7, 2.5, 0.5, -0.5, 0.0, -0.0, 1e-9, 1e9, 1e-320, 1e308, -1e308),
    *(float("nan"), float("inf"), float("-inf"), 2**31, 2**53 + 1, 2**63, 10**20, -(10**20), 10**400),
)
ODD: tuple[Any, ...] = (
    *NUMBERS,
    *(
        None,
        True,
        False,
        "",
        "x",
        "3",
        "0.5",
        "nan",
        "Infinity",
        "True",
        "né\u0000\n",
        "\x1b[2J\x9bm",
        "\ud83d",
        "[/x]",
        "x" * 5000,
    ),
    *([], [1], [1, 2, 3], ["a"], [None], [[1, 2], [3]], {}, {"a": 1}, {"": {}}, [{}]),
)
TEXTS: tuple[str, ...] = (
    *(
        "",
        " ",
        "x",
        "0",
        "1",
        "-1",
        "2",
        "3",
        "+4",
        "0.5",
        "-0.5",
        "1.5",
        "1e3",
        "nan",
        "inf",
        "-inf",
        "1e400",
        "1e-320",
    ),
    *(
        "99999999999999999999",
        "-99999999999999999999",
        "1" + "0" * 5000,
        "0x10",
        "1_0",
        "٣",
        "1e308",
        "1,2",
        "1,2,",
        ",",
    ),
    *("1:3", "3:1", "1:1000000000000", "1:9:0", "1:3:1e-300", "0:1:0.1", ":", "1:2:3:4", "nan:inf", "1:inf", "1:0.5"),
    *(
        "1:0.5,2:0.7",
        "2:0.7,1:0.5",
        "1:2:3,4",
        "4,3,2,1",
        "4,3/2,1",
        "0,0,0,0",
        "window",
        "profile",
        "auto",
        "fast",
    ),
    *("jit", "ssd", "10%", "-5%", "%", "true", "None", "null", "[1]", "{}", "'", '"', "--", "-", "~", "~nobody/x", "."),
    *(
        "..",
        "[/x]",
        "[bold",
        "1000",
        "1000000",
        "1e6",
        "1e-300",
        "64",
        "absent",
        "absent/x.json",
        "x.toml",
        "config.json",
        "x" * 300,
        "a\nb",
        "a\x1b[2Jb",
        "é",
        "\udcff",
        "日本",
    ),
    *(
        "llama-3.1-8b",
        "llama-3.2-1b",
        "h100-sxm",
        "v100-sxm2-32gb",
        "transformer-shaped-64x2",
        "transformer-shaped-0x0",
    ),
    *(
        "transformer-shaped-9x1",
        "transformer-shaped-99999999999999999999x99999999999999999999",
        "meta-llama/Llama-3.1-8B",
    ),
    *(
        "1,2,...,8",
        "1,...,8",
        "1,2,...,99999999999999999999",
        "1,1,...,8",
        "cuda:0-99999999999",
        "cpu:0-5",
        "0-4",
        "4-0",
    ),
    *("tcp://", "tcp://:1", "float16", "int8", "uniform", "optimal", "separate", "kumar2026", "llama-3.1-8b:1:50"),
    *("llama-3.1-8b:3:50", "llama-3.1-8b:1:0", "llama-3.1-8b:1:nan", "x:y:z", "all_reduce", "sendrecv", "bfloat16"),
)


def odd(rng: Random) -> Any:
    """Any odd value, numbers twice as often."""
    return copy.deepcopy(rng.choice(ODD if rng.random() < 0.5 else NUMBERS))


def changed_value(value: Any, rng: Random) -> Any:
    """An odd value in the place of ``value``, or one made of it."""
    made: list[Callable[[], Any]] = [lambda: odd(rng), lambda: odd(rng), lambda: [value], lambda: {"value": value}]
    made += [lambda: str(value), lambda: [value, value]]
    if isinstance(value, int | float):
        made += [lambda: -value]
    if isinstance(value, int | float) and abs(value) < 1e300:  # an int may lie beyond all doubles
        made += [lambda: value * 10.0 ** rng.randint(-300, 300), lambda: value + rng.choice((1, -1, 0.5))]
    if isinstance(value, str):
        made += [lambda: value[:-1], lambda: value + "x", lambda: value.upper(), lambda: [*value]]
    return rng.choice(made)()


Place = tuple[Any, Any]  # a mapping or a list, and a key or an index of it


def _places(document: Any) -> list[Place]:
    """Everything inside a document that can be changed."""
    places: list[Place] = []
    keys: Sequence[Any] = ()
    if isinstance(document, MutableMapping):
        keys = list(document)
    elif isinstance(document, MutableSequence):
        keys = range(len(document))
    for key in keys:
        places += [(document, key), *_places(document[key])]
    return places


def likely_value(value: Any, rng: Random) -> Any:
    """Another value of the same kind, which a first check lets pass: what another tool could have written there."""
    if isinstance(value, bool) or not isinstance(value, int | float | list) or value == []:
        return value
    if isinstance(value, list):
        at = rng.randrange(len(value))
        return rng.choice(([*value, value[at]], value[:at] + value[at + 1 :], value[::-1]))
    if isinstance(value, int):
        return rng.choice((value + 1, max(0, value - 1), 2 * value, value // 2, 1, 0, 1000 * value))
    return rng.choice((value * rng.uniform(0.5, 1.5), min(value, 1.0) ** 2, 1e-3 * value, 10.0 * value, 0.0, 1.0, 0.5))


def changed_document(document: Any, rng: Random) -> Any:
    """A copy of a document of mappings and lists with one to three changes; shallow places as often as deep ones.

    Some are as they were. Half of the others stay what their reader expects: they have another value of the same kind
    in some places.
    """
    document = copy.deepcopy(document)
    if rng.random() < 0.15:
        return document
    if rng.random() < 0.5:
        return _likely(document, rng)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        places = _places(document)
        if rng.random() < 0.5:
            places = [(inside, key) for inside, key in places if inside is document]
        if not places:
            return odd(rng)
        _change_at(*rng.choice(places), rng)
    return document


def _likely(document: Any, rng: Random) -> Any:
    places = [place for place in _places(document) if _likely_to_differ(place[0][place[1]])]
    for inside, key in rng.sample(places, min(len(places), rng.choice((0, 0, 1, 1, 2, 4)))):
        inside[key] = likely_value(inside[key], rng)
    return document


def _likely_to_differ(value: Any) -> bool:
    return isinstance(value, int | float | list) and not isinstance(value, bool)


def _change_at(inside: Any, key: Any, rng: Random) -> None:
    match rng.randrange(6):
        case 0:
            del inside[key]
        case 1 if isinstance(inside, MutableMapping):
            inside[rng.choice((f"{key}x", str(key)[:-1], str(odd(rng))))] = inside.pop(key)
        case 2 if isinstance(inside, MutableMapping):
            inside[rng.choice(("", "x", "schema", "name"))] = odd(rng)
        case 2:
            inside.append(odd(rng))
        case _:
            inside[key] = changed_value(inside[key], rng)


def as_json(document: Any) -> str:
    """JSON of anything; NaN and Infinity as Python writes them, keys as text."""
    return json.dumps(document, default=str, skipkeys=True)


def changed_bytes(content: bytes, rng: Random) -> bytes:
    """A file that was cut, torn, saved in another encoding, or is another file altogether."""
    at = rng.randrange(len(content) + 1)
    others = (b"", b"\n", b"null", b"[]", b"{}", b"3", b'"x"', b"[" * 100_000, b"1" * 5000, b"\x00" * 20, b"a,b\n1,2\n")
    made: list[Callable[[], bytes]] = [
        lambda: content[:at],
        lambda: content[at:],
        lambda: content[:at] + rng.randbytes(rng.randint(1, 8)) + content[at:],
        lambda: content[:at] + rng.choice(b'\xff\x00"{}[],:\n=#-.0').to_bytes() + content[at + 1 :],
        lambda: b"\xef\xbb\xbf" + content,
        lambda: content.decode(errors="replace").encode("utf-16"),
        lambda: content.replace(b"\n", b"\r\n"),
        lambda: content + content,
        lambda: rng.choice(others),
    ]
    return rng.choice(made)()


CELLS = (
    "",
    "nan",
    "inf",
    "-inf",
    "-1",
    "0",
    "1e400",
    "1e308",
    "1e-320",
    "1e20",
    "abc",
    "True",
    '"',
    "1,2",
    "x" * 50,
    "é",
)


def changed_table(text: str, rng: Random) -> str:
    """CSV with changed cells, columns, rows or titles; half of the tables keep numbers where they have some."""
    rows = [line.split(",") for line in text.splitlines()]
    if rng.random() < 0.6:
        return _likely_table(rows, rng)
    for _ in range(rng.choice((1, 1, 2, 3))):
        if not rows or not rows[0]:
            return ",".join(rng.choice(CELLS) for _ in range(3))
        column = rng.randrange(len(rows[0]))
        match rng.randrange(9):
            case 0:
                rows = [row[:column] + row[column + 1 :] for row in rows]
            case 1:
                rows[0][column] += "x"
            case 2:
                rows = rows[: rng.choice((0, 1, 2, 4, 9, 12))]
            case 3:
                value = rng.choice(CELLS)
                rows[1:] = [[*row[:column], value, *row[column + 1 :]] for row in rows[1:]]
            case 4:
                rows.insert(rng.randrange(len(rows)), [rng.choice(CELLS) for _ in range(rng.randrange(30))])
            case 5:
                factor = 10.0 ** rng.randint(-300, 300)
                rows[1:] = [
                    row[:column] + [_times(cell, factor) for cell in row[column : column + 1]] + row[column + 1 :]
                    for row in rows[1:]
                ]
            case _:
                for _ in range(rng.choice((1, 1, 3, 20))):
                    row = rng.choice(rows)
                    if row:
                        row[rng.randrange(len(row))] = rng.choice(CELLS)
    return "\n".join(map(",".join, rows)) + "\n"


def _likely_table(rows: list[list[str]], rng: Random) -> str:
    for _ in range(rng.choice((0, 0, 1, 2, 4))):
        row = rng.choice(rows[1:])
        at = rng.randrange(len(row))
        row[at] = _likely_cell(row[at], rng)
    if rng.random() < 0.2:
        rows.insert(rng.randrange(1, len(rows) + 1), list(rng.choice(rows[1:])))
    return "\n".join(map(",".join, rows)) + "\n"


def _likely_cell(cell: str, rng: Random) -> str:
    for number in (int, float):
        try:
            return str(likely_value(number(cell), rng))
        except ValueError:
            pass
    return cell


def _times(cell: str, factor: float) -> str:
    try:
        return repr(float(cell) * factor)
    except ValueError:
        return cell


_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_NUMBERS_IN_TEXT = ("0", "1", "-1", "2.5", "1.2.3", "nan", "inf", "1e400", "1e-320", "9" * 30, "100000000", "x", "")


def changed_log(text: str, rng: Random) -> bytes:
    """Lines of which some numbers are others, some are gone, doubled, in another order, or joined to the next."""
    if rng.random() < 0.1:
        return changed_bytes(text.encode(), rng)
    likely, lines = rng.random() < 0.5, text.splitlines()
    for _ in range(rng.choice((0, 1, 1, 2, 8)) if likely else rng.choice((1, 1, 2, 8))):
        at = rng.randrange(len(lines))
        match rng.randrange(8):
            case 0:
                lines.insert(rng.randrange(len(lines) + 1), lines[at])
            case 1 if len(lines) > 1:
                del lines[at]
            case 2:
                lines[at] = lines[at][: rng.randrange(len(lines[at]) + 1)]
            case 3 if at + 1 < len(lines):
                lines[at : at + 2] = [lines[at] + lines[at + 1]]
            case _:
                lines[at] = _with_another_number(lines[at], likely, rng)
    return "\n".join(lines).encode()


def _with_another_number(line: str, likely: bool, rng: Random) -> str:
    listed = list(_NUMBER.finditer(line))
    if not listed:
        return line
    one = rng.choice(listed)
    other = _likely_cell(one[0], rng) if likely else rng.choice(_NUMBERS_IN_TEXT)
    return f"{line[: one.start()]}{other}{line[one.end() :]}"
