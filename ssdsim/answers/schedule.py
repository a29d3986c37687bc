"""Which strategy at which batch and context: AR, SD with its K, or SSD with its K, fan-out and fallback."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from pydantic import Field

from ssdsim.answers.predict import provenance
from ssdsim.checks import few_enough, listed
from ssdsim.documents import as_record, parse_csv, parse_json, read_text
from ssdsim.errors import InputError, told
from ssdsim.hardware.catalog import find_hardware, find_transformer
from ssdsim.records import FROM_LIST, Card
from ssdsim.scenario.configuration import configure, effective
from ssdsim.scenario.options import DEFAULTS, option, refuse_others

if TYPE_CHECKING:
    import pandas as pd

BATCHES = (1, 2, 4, 8, 16, 32, 64)
CONTEXTS = (1024,)
LOOKAHEADS = tuple(range(1, 13))
FAN_OUTS = (1, 2, 3, 5, 8, 13, 21, "window")
"""Guesses a position, each about 1.6 times the one before; ``window``: as many as the draft finishes in time."""

NOT_HERE = ("strategy", "sd_k", "fl", "flm", "budget", "backup", "t_sd", "t_p", "t_b", "spread")
OPTIONS = tuple(name for name in DEFAULTS if name not in (*NOT_HERE, "b", "context", "k", "f"))
COLUMNS = ("b", "context", "strategy", "k", "f", "fallback", "budget", "gpus", "tokens_per_second", "point", "choice")
DRAWS = 1000
MOST_CHOICES = 1_000_000  # of batch, context, K and fan-out: a tenth of a millisecond and a kilobyte each

Strategy = Literal["ar", "sd", "ssd"]
STRATEGIES: tuple[Strategy, ...] = ("ar", "sd", "ssd")


class Cell(Card):
    """What to do with ``b`` sequences of ``context`` cached tokens.

    ``k`` is 0 for AR. Only SSD has a ``fallback``, a ``budget`` of cached outcomes a sequence, and, unless the hit rate
    was given, ``fan_outs`` (guesses by accepted length, K + 1 of them, after a speculation by the primary) and
    ``fan_outs_after_miss`` (with a fast fallback). ``low`` and ``high`` bound ``tokens_per_second``, which is of the
    whole batch, at 95 % from the timings' errors. Where nothing fits, ``strategy`` is None and ``reason`` says why.
    """

    b: int = Field(ge=1)
    context: int = Field(ge=1)
    strategy: Strategy | None
    k: int = Field(default=0, ge=0)
    budget: int | None = Field(default=None, ge=1)
    fan_outs: Annotated[tuple[int, ...], FROM_LIST] | None = None
    fan_outs_after_miss: Annotated[tuple[int, ...], FROM_LIST] | None = None
    fallback: Literal["jit", "fast"] | None = None
    gpus: int | None = Field(default=None, ge=1)
    tokens_per_second: float | None = None
    low: float | None = None
    high: float | None = None
    reason: str | None = None


class Schedule(Card):
    """The best strategy for every batch and context of a placement. ``assumptions`` are the options that shaped it."""

    schema_: Literal[1] = Field(default=1, alias="schema")
    assumptions: dict[str, Any]
    provenance: Annotated[tuple[dict[str, str], ...], FROM_LIST]
    cells: Annotated[tuple[Cell, ...], FROM_LIST]

    def to_json(self) -> str:
        """One object, schema 1, with a line a cell."""
        head = json.dumps(self.model_dump(mode="json", by_alias=True, exclude={"cells"}), indent=1)
        cells = ",\n".join(f"  {json.dumps(cell.model_dump(mode='json'))}" for cell in self.cells)
        return head.removesuffix("\n}") + f',\n "cells": [\n{cells}\n ]\n}}\n'

    def to_csv(self) -> str:
        """A row a cell under one comment line that holds the rest as JSON; lists are separated by spaces."""
        text = io.StringIO()
        head = self.model_dump(mode="json", by_alias=True, exclude={"cells"})
        text.write(f"# {json.dumps(head)}\n")
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(Cell.model_fields)
        for cell in self.cells:
            writer.writerow(_csv_field(getattr(cell, name)) for name in Cell.model_fields)
        return text.getvalue()

    @staticmethod
    def parse(text: str, name: str = "schedule") -> Schedule:
        """A schedule from its JSON or its CSV.

        Raises
        ------
        InputError : neither of them; the message says where.
        """
        data = _from_csv(text, name) if text.startswith("#") else parse_json(text, name)
        return as_record(Schedule, data, name, "schedule")

    @staticmethod
    def load(path: str | Path) -> Schedule:
        """The schedule in a file, JSON or CSV; InputError where it is not one."""
        return Schedule.parse(read_text(Path(path), "schedule"), str(path))


def _csv_field(value: Any) -> Any:
    if isinstance(value, tuple):
        return " ".join(map(str, value))
    return "" if value is None else repr(value) if isinstance(value, float) else value


def _from_csv(text: str, where: str) -> dict[str, Any]:
    first, _, table = text.partition("\n")
    head = parse_json(first.removeprefix("#"), where)
    if not isinstance(head, dict):
        raise InputError(f"{where}: the first line must hold an object, got {told(head)}")
    rows = enumerate(parse_csv(table, where))
    cells = [{name: _cell_value(f"{where}: cells.{n}.{name}", name, row[name]) for name in row} for n, row in rows]
    return {**head, "cells": cells}


_READ_AS: Mapping[str, Callable[[str], Any]] = {
    **dict.fromkeys(("b", "context", "k", "budget", "gpus"), int),
    **dict.fromkeys(("tokens_per_second", "low", "high"), float),
    **dict.fromkeys(("fan_outs", "fan_outs_after_miss"), lambda text: [int(number) for number in text.split()]),
}


def _cell_value(where: str, name: str, text: str) -> Any:
    """What a field of CSV stands for; one that is not of numbers stands for its text."""
    try:
        return _READ_AS.get(name, str)(text) if text else None
    except ValueError:
        raise InputError(f"{where}: {told(text)} is not a number") from None


@dataclass(frozen=True)
class Candidates:
    """Every choice at every batch and context, with its tokens/s.

    ``table`` has the columns :data:`COLUMNS`: equal choices have equal numbers ``choice``, and ``point`` is the number
    in ``points`` of the options that were evaluated. ``impossible`` says why nothing fits in the cells that it lists.
    """

    options: Mapping[str, Any]
    table: pd.DataFrame
    points: Sequence[Mapping[str, Any]]
    impossible: Mapping[tuple[int, int], str]
    warnings: Sequence[str]

    def best(self, strategies: Sequence[Strategy] = STRATEGIES, by: Sequence[str] = ("b", "context")) -> pd.DataFrame:
        """The best of ``strategies``, a row a cell with the table's columns and ``loss``.

        Cells that agree in ``by`` share one choice: that of the highest geometric mean of tokens/s over them, among
        those possible in all. ``loss`` is the share of tokens/s that this costs a cell against its own best choice.
        """
        allowed = self.table[self.table["strategy"].isin(strategies)]
        own = allowed.groupby(["b", "context"])["tokens_per_second"].transform("max")
        allowed = allowed.assign(loss=1.0 - allowed["tokens_per_second"] / own, group=0)
        keys = list(by) or ["group"]
        chosen = [self._shared(group) for _, group in allowed.groupby(keys, sort=False)]
        found = allowed.loc[[index for indices in chosen for index in indices]]
        return found.sort_values(["context", "b"], ignore_index=True)[[*COLUMNS, "loss"]]

    @staticmethod
    def _shared(group: pd.DataFrame) -> list[Any]:
        """Rows of the choice that is best over all cells of ``group``; of equals the simplest, which comes first."""
        cells = len(group[["b", "context"]].drop_duplicates())
        logs = np.log(group["tokens_per_second"]).groupby(group["choice"], sort=False).agg(["mean", "count"])
        best = logs.loc[logs["count"] == cells, "mean"].idxmax()
        return list(group.index[group["choice"] == best])


def candidates(**options: Any) -> Candidates:
    """Evaluate every choice: AR; SD over K; SSD over K and fan-out, each with the better fallback.

    Parameters
    ----------
    options : ``b``, ``context``, ``k`` and ``f``, each a value or a list (by default :data:`BATCHES`,
        :data:`CONTEXTS`, :data:`LOOKAHEADS`, :data:`FAN_OUTS`), and the scenario's :data:`OPTIONS`. With ``p_hit``
        the hit rate is given, and the fan-out has nothing to choose.

    Raises
    ------
    InputError : an option that has no part here or means nothing in this combination.
    """
    import pandas as pd

    from ssdsim.answers.grid import evaluate

    axes, fixed = _axes_and_fixed(options)
    points: list[dict[str, Any]] = []
    # each strategy is held against the devices and the memory that it uses itself
    for b, context in product(axes["b"], axes["context"]):
        at = {**fixed, "b": b, "context": context}
        points.append({**at, "k": min(axes["k"]), "budget": 1, "strategy": "ar"})
        for k in axes["k"]:
            points.append({**at, "k": k, "budget": 1, "strategy": "sd"})
            ssd = {**at, "k": k, "sd_draft": "separate", "strategy": "ssd"}
            points.extend({**ssd, **guesses} for guesses in axes["f"])
    frame = evaluate(points)
    rows = [
        row
        for number, (point, found) in enumerate(zip(points, frame.to_dict("records"), strict=True))
        if found["error"] is None
        for row in [_row(number, point, found)]
    ]
    table = pd.DataFrame(rows, columns=[*COLUMNS[:-1]])
    table = table.sort_values("k", kind="stable").drop_duplicates(["b", "context", "strategy", "k", "f"])
    table["choice"] = table.groupby(["strategy", "k", "f"], sort=False, dropna=False).ngroup()
    table = table.sort_values("choice", kind="stable", ignore_index=True)
    possible = set(zip(table["b"], table["context"], strict=True))
    cells = [(point["b"], point["context"]) for point in points]
    reasons = dict(zip(reversed(cells), reversed(frame["error"].to_list()), strict=True))  # the first of each cell
    impossible = {cell: reason for cell, reason in reasons.items() if cell not in possible}
    return Candidates(fixed, table, points, impossible, frame.attrs["warnings"])


def _row(number: int, point: Mapping[str, Any], found: Mapping[Any, Any]) -> dict[str, Any]:
    """An evaluated point as a row of :data:`COLUMNS`."""
    strategy = point["strategy"]
    row: dict[str, Any] = {"b": point["b"], "context": point["context"], "strategy": strategy, "k": 0, "f": ""}
    row |= {"gpus": int(found[f"{strategy}_gpus"]), "tokens_per_second": found[f"{strategy}_tokens_per_second"]}
    if strategy != "ar":
        row["k"] = point["k"]
    if strategy == "ssd":
        row |= {"f": str(point.get("f", "")), "fallback": found["backup"], "budget": int(found["budget"])}
    return row | {"point": number}


def _axes_and_fixed(options: Mapping[str, Any]) -> tuple[dict[str, list[Any]], dict[str, Any]]:
    """What varies, each as a list (``f`` as options), and what does not; mistakes in either are errors."""
    given = {name: value for name, value in options.items() if value is not None}
    defaults: dict[str, Sequence[Any]] = {"b": BATCHES, "context": CONTEXTS, "k": LOOKAHEADS, "f": FAN_OUTS}
    refuse_others("a schedule", given, (*defaults, *OPTIONS))
    fixed = {name: value for name, value in given.items() if name in OPTIONS}
    axes = {name: listed(option(name), given.get(name, default)) for name, default in defaults.items()}
    guesses: list[dict[str, Any]] = [{"f": f} for f in axes["f"]] if "p_hit" not in fixed or "f" in given else [{}]
    # a name or a value that is wrong is wrong in every cell: not something that does not fit
    for role in ("target", "draft"):
        find_transformer(fixed.get(role, DEFAULTS[role]))
    for role in ("hardware", "draft_hardware"):
        find_hardware(fixed.get(role, DEFAULTS["hardware"]))
    few_enough("choices", (axes["b"], axes["context"], axes["k"], guesses), MOST_CHOICES)
    for b, context, k, f in product(axes["b"], axes["context"], axes["k"], guesses):
        effective({**fixed, **f, "b": b, "context": context, "k": k})
    return {**axes, "f": guesses}, fixed


def schedule(*, seed: int = 0, **options: Any) -> Schedule:
    """The best of AR, SD over K, and SSD over K, fan-out and fallback, by tokens/s, for every batch and context.

    ``options`` are those of :func:`candidates`; ``seed`` is of the draws behind the intervals.

    >>> from ssdsim import schedule
    >>> [(c.b, c.strategy, c.k, c.fallback) for c in schedule(b=[1, 64], k=[2, 6], f=3).cells]
    [(1, 'ssd', 6, 'jit'), (64, 'sd', 6, None)]
    """
    return of_candidates(candidates(**options), seed)


def of_candidates(found: Candidates, seed: int = 0) -> Schedule:
    """:func:`schedule` of choices that are already evaluated."""
    from ssdsim.answers.grid import evaluate

    best = found.best().to_dict("records")
    bounds = evaluate([found.points[row["point"]] for row in best], draws=DRAWS, seed=seed).to_dict("records")
    cells = {
        (row["b"], row["context"]): _cell(row, b, found.points[row["point"]])
        for row, b in zip(best, bounds, strict=True)
    }
    for (b, context), reason in found.impossible.items():
        cells[b, context] = Cell(b=b, context=context, strategy=None, reason=reason)
    ordered = sorted(cells.items(), key=lambda item: (item[0][1], item[0][0]))
    assumptions, origins = _origins(found)
    return Schedule(schema=1, assumptions=assumptions, provenance=origins, cells=tuple(cell for _, cell in ordered))


def _origins(found: Candidates) -> tuple[dict[str, Any], tuple[dict[str, str], ...]]:
    """The options that shaped the candidates, and where their timings came from."""
    if found.table.empty:
        return dict(found.options), ()
    configuration = configure(**{**found.points[found.table["point"].iloc[0]], "backup": "fast"})
    own = {"draft_hardware": configuration.values["draft_hardware"], "sd_draft": DEFAULTS["sd_draft"]}
    values = {
        name: own.get(name, configuration.values[name])
        for name in OPTIONS
        if name in configuration.values and configuration.sources[name] in ("given", "default", "same as hardware")
    }
    return {**values, **found.options}, tuple(provenance(configuration))


def _cell(row: Mapping[Any, Any], bounds: Mapping[Any, Any], point: Mapping[str, Any]) -> Cell:
    strategy = row["strategy"]
    common = {name: row[name] for name in ("b", "context", "strategy", "k", "gpus", "tokens_per_second")}
    common |= {"low": bounds[f"{strategy}_low"], "high": bounds[f"{strategy}_high"]}
    if strategy != "ssd":
        return Cell(**common)
    values = configure(**point).values
    return Cell(
        **common,
        budget=int(row["budget"]),
        fan_outs=values.get("fan_outs"),
        fan_outs_after_miss=values.get("fan_outs_after_miss"),
        fallback=row["fallback"],
    )
