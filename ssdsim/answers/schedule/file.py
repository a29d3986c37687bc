"""A schedule and the files that hold it: JSON or CSV."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError, field_validator

from ssdsim import strategies
from ssdsim.errors import InputError
from ssdsim.records import Card

Setting = int | float | str | tuple[int, ...]

_PREFIX = "settings."


class Cell(Card):
    """What to do with ``b`` sequences of ``context`` cached tokens.

    ``settings`` are those that deploying the strategy takes: ``k`` of SD; of SSD also ``budget`` (cached outcomes a
    sequence), ``backup`` and, unless the hit rate was given, ``fan_outs`` (guesses by accepted length, K + 1 of them,
    after a speculation by the primary) and ``fan_outs_after_miss`` (with a fast backup). ``low`` and ``high`` bound
    ``tokens_per_second``, which is of the whole batch, at 95 % from the timings' errors. Where nothing fits,
    ``strategy`` is None and ``reason`` says why.
    """

    b: int = Field(ge=1)
    context: int = Field(ge=1)
    strategy: str | None
    settings: dict[str, Setting] = Field(default_factory=dict)
    gpus: int | None = Field(default=None, ge=1)
    tokens_per_second: float | None = None
    low: float | None = None
    high: float | None = None
    reason: str | None = None

    @field_validator("strategy")
    @classmethod
    def _known(cls, name: str | None) -> str | None:
        return None if name is None else strategies.ALL.named(name).name


class Schedule(Card):
    """The best strategy for every batch and context of a placement. ``assumptions`` are the options that shaped it."""

    schema_: Literal[2] = Field(default=2, alias="schema")
    assumptions: dict[str, Any]
    provenance: tuple[dict[str, str], ...]
    cells: tuple[Cell, ...]

    def to_json(self) -> str:
        """One object, schema 2, with a line a cell."""
        head = json.dumps(self.model_dump(mode="json", by_alias=True, exclude={"cells"}), indent=1)
        cells = ",\n".join(f"  {json.dumps(cell.model_dump(mode='json'))}" for cell in self.cells)
        return head.removesuffix("\n}") + f',\n "cells": [\n{cells}\n ]\n}}\n'

    def to_csv(self) -> str:
        """A row a cell under one comment line that holds the rest as JSON.

        Every setting has a column of its own, ``settings.k`` and so on; a list is JSON.
        """
        text = io.StringIO()
        head = self.model_dump(mode="json", by_alias=True, exclude={"cells"})
        text.write(f"# {json.dumps(head)}\n")
        settings = dict.fromkeys(name for cell in self.cells for name in cell.settings)
        before = ("b", "context", "strategy")
        after = [name for name in Cell.model_fields if name not in (*before, "settings")]
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow((*before, *(_PREFIX + name for name in settings), *after))
        for cell in self.cells:
            own = (_json_or_word(cell.settings.get(name)) for name in settings)
            writer.writerow((*_fields(cell, before), *own, *_fields(cell, after)))
        return text.getvalue()

    @staticmethod
    def parse(text: str, name: str = "schedule") -> Schedule:
        """A schedule from its JSON or its CSV, of schema 2 or 1.

        Raises
        ------
        InputError : neither of them; the message says where.
        """
        try:
            data = _from_csv(text) if text.startswith("#") else json.loads(text)
            return Schedule.model_validate(_of_schema_2(data))
        except ValidationError as error:
            problem = error.errors(include_url=False)[0]
            key = ".".join(map(str, problem["loc"])) or "schedule"
            raise InputError(f"{name}: {key}: {problem['msg'].removeprefix('Value error, ')}") from None
        except ValueError as error:
            raise InputError(f"{name}: not a schedule, or cut short ({error})") from None

    @staticmethod
    def load(path: str | Path) -> Schedule:
        """The schedule in a file, JSON or CSV; InputError where it is not one."""
        try:
            return Schedule.parse(Path(path).read_text(encoding="utf-8"), str(path))
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{path}: not a readable schedule ({error})") from None


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
    except ValueError:
        return text


def _from_csv(text: str) -> dict[str, Any]:
    first, _, table = text.partition("\n")
    head = json.loads(first.removeprefix("#"))
    cells = []
    for row in csv.DictReader(io.StringIO(table)):
        filled = {name: value for name, value in row.items() if value}
        cell: dict[str, Any] = {name: filled.get(name) for name in row if not str(name).startswith(_PREFIX)}
        own = {name: value for name, value in filled.items() if str(name).startswith(_PREFIX)}
        if own:
            cell["settings"] = {name.removeprefix(_PREFIX): _from_json_or_word(value) for name, value in own.items()}
        cells.append(cell)
    return {**head, "cells": cells}


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
    settings = {new: _number(cell[name]) for name, new in old.items() if cell.get(name) not in (None, 0, "0")}
    return {**{name: value for name, value in cell.items() if name not in old}, "settings": settings}


def _number(value: Any) -> Any:
    """A value of schema 1, whose CSV has blanks between the numbers of a list."""
    if not isinstance(value, str):
        return value
    return [int(number) for number in value.split()] if " " in value else _from_json_or_word(value)
