"""A schedule and the files that hold it: JSON or CSV."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta, field
from msgspec.structs import force_setattr

from ssdsim import strategies
from ssdsim.base.card import Card, Finite
from ssdsim.base.conversion import FieldError
from ssdsim.base.display import Display, Displayable
from ssdsim.base.documents import as_record, parse_csv, parse_json, read_text
from ssdsim.base.errors import InputError, short_repr

Setting = int | float | str | tuple[int, ...]

_PREFIX = "settings."


class Cell(Card):
    """Cell of a schedule: what to do with ``b`` sequences of ``context`` cached tokens.

    ``settings`` are those that deploying the strategy takes: ``k`` of SD; of SSD also ``budget`` (cached outcomes a
    sequence), ``backup`` and, unless the hit rate was given, ``fan_outs`` (guesses by accepted length, K + 1 of them,
    after a speculation by the primary) and ``fan_outs_after_miss`` (with a fast backup). ``low`` and ``high`` bound
    ``tokens_per_second``, which is of the whole batch, at 95 % from all that is not known. Where nothing fits,
    ``strategy`` is None and ``reason`` says why.
    """

    b: Annotated[int, Meta(ge=1)]
    context: Annotated[int, Meta(ge=1)]
    strategy: str | None
    settings: dict[str, Setting] = field(default_factory=dict)
    gpus: Annotated[int, Meta(ge=1)] | None = None
    tokens_per_second: Finite | None = None
    low: Finite | None = None
    high: Finite | None = None
    reason: str | None = None

    def __post_init__(self) -> None:
        if self.strategy is not None:
            try:
                force_setattr(self, "strategy", strategies.ALL.named(self.strategy).name)
            except InputError as error:
                raise FieldError("strategy", str(error)) from None


class Schedule(Displayable, Card):
    """The best strategy for every batch and context of a placement. ``assumptions`` are the options that shaped it.

    ``inputs`` are what its tokens rest on, each with its standing.
    """

    schema_: Literal[2] = field(default=2, name="schema")
    assumptions: dict[str, Any]
    provenance: tuple[dict[str, str], ...]
    inputs: tuple[dict[str, Any], ...] = ()
    cells: tuple[Cell, ...]

    @property
    def display(self) -> Display:
        by_policy = "k_table" in self.assumptions
        header = ("batch", "context", "runs" if by_policy else "best", "settings", "tokens/s", "95 %")
        title = "SD with the K of a policy" if by_policy else "The best strategy by tokens/s"
        return Display(title, header, [_row(cell) for cell in self.cells])

    def to_json(self) -> str:
        """One object, schema 2, with a line a cell."""
        head = json.dumps(self._head(), indent=1)
        cells = ",\n".join(f"  {json.dumps(cell.as_dict())}" for cell in self.cells)
        return head.removesuffix("\n}") + f',\n "cells": [\n{cells}\n ]\n}}\n'

    def _head(self) -> dict[str, Any]:
        """All but the cells."""
        return {name: value for name, value in self.as_dict().items() if name != "cells"}

    def to_csv(self) -> str:
        """A row a cell under one comment line that holds the rest as JSON.

        Every setting has a column of its own, ``settings.k`` and so on; a list is JSON.
        """
        text = io.StringIO()
        text.write(f"# {json.dumps(self._head())}\n")
        settings = dict.fromkeys(name for cell in self.cells for name in cell.settings)
        before = ("b", "context", "strategy")
        after = [name for name in Cell.__struct_fields__ if name not in (*before, "settings")]
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow((*before, *(_PREFIX + name for name in settings), *after))
        for cell in self.cells:
            own = (_json_or_word(cell.settings.get(name)) for name in settings)
            writer.writerow((*_fields(cell, before), *own, *_fields(cell, after)))
        return text.getvalue()

    @staticmethod
    def parse(text: str, name: str = "schedule") -> Schedule:
        """A schedule from its JSON or its CSV, of schema 2 or 1."""
        data = _from_csv(text, name) if text.startswith("#") else parse_json(text, name)
        return as_record(Schedule, _of_schema_2(data), name, "schedule")

    @staticmethod
    def load(path: str | Path) -> Schedule:
        """The schedule in a file, JSON or CSV; InputError where it is not one."""
        return Schedule.parse(read_text(Path(path), "schedule"), str(path))


def _fields(cell: Cell, names: Sequence[str]) -> list[Any]:
    values = [getattr(cell, name) for name in names]
    return ["" if value is None else repr(value) if isinstance(value, float) else value for value in values]


def _json_or_word(value: Setting | None) -> str:
    """A word as it is, where it cannot be taken for something else."""
    if value is None:
        return ""
    if isinstance(value, str) and value and _from_json_or_word(value) == value:
        return value
    return json.dumps(value)


def _from_json_or_word(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


_READ_AS: Mapping[str, Callable[[str], Any]] = {
    **dict.fromkeys(("b", "context", "gpus"), int),
    **dict.fromkeys(("tokens_per_second", "low", "high"), float),
    **dict.fromkeys(("k", "budget"), int),  # of schema 1, as is the rest
    **dict.fromkeys(("fan_outs", "fan_outs_after_miss"), lambda text: [int(number) for number in text.split()]),
}


def _from_csv(text: str, where: str) -> dict[str, Any]:
    first, _, table = text.partition("\n")
    head = parse_json(first.removeprefix("#"), where)
    if not isinstance(head, dict):
        raise InputError(f"{where}: the first line must hold an object, got {short_repr(head)}")
    cells = []
    for number, row in enumerate(parse_csv(table, where)):
        at = f"{where}: cells.{number}"
        cell = {name: _read(f"{at}.{name}", name, row[name]) for name in row if not name.startswith(_PREFIX)}
        own = {name: value for name, value in row.items() if value and name.startswith(_PREFIX)}
        if own:
            cell["settings"] = {name.removeprefix(_PREFIX): _from_json_or_word(value) for name, value in own.items()}
        cells.append(cell)
    return {**head, "cells": cells}


def _read(where: str, name: str, text: str) -> Any:
    """Read what a field of CSV stands for; one that is not of numbers stands for its text."""
    try:
        return _READ_AS.get(name, str)(text) if text else None
    except ValueError:
        raise InputError(f"{where}: {short_repr(text)} is not a number") from None


def _of_schema_2(data: Any) -> Any:
    """A file of schema 1, whose cells had a field for each setting of SD and SSD, as one of schema 2."""
    if not isinstance(data, Mapping) or data.get("schema") != 1 or not isinstance(data.get("cells"), list):
        return {**data, "schema": 2} if isinstance(data, Mapping) and data.get("schema") == 1 else data
    return {**data, "schema": 2, "cells": [_cell_of_schema_2(cell) for cell in data["cells"]]}


def _cell_of_schema_2(cell: Any) -> Any:
    if not isinstance(cell, Mapping):
        return cell
    old = {"k": "k", "budget": "budget", "fan_outs": "fan_outs", "fan_outs_after_miss": "fan_outs_after_miss"}
    old["fallback"] = "backup"
    settings = {new: cell[name] for name, new in old.items() if cell.get(name) not in (None, 0)}
    return {**{name: value for name, value in cell.items() if name not in old}, "settings": settings}


def _row(cell: Cell) -> tuple[str, ...]:
    batch, context = str(cell.b), str(cell.context)
    if cell.strategy is None or cell.tokens_per_second is None:
        return batch, context, "-", cell.reason or "", "", ""
    settings = ", ".join(f"{name} {value}" for name, value in cell.settings.items() if not isinstance(value, tuple))
    bounds = "" if cell.low is None else f"{cell.low:.4g}-{cell.high:.4g}"
    return batch, context, strategies.ALL.named(cell.strategy).title, settings, f"{cell.tokens_per_second:.1f}", bounds
