"""Every choice at every batch and context, priced."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from ssdsim import strategies
from ssdsim.base.checks import few_enough, listed
from ssdsim.base.errors import InputError
from ssdsim.base.option import Group, spelled
from ssdsim.base.record import Record
from ssdsim.hardware.catalog import find_hardware, find_transformer
from ssdsim.question.drafting import draft_by_options
from ssdsim.question.options import ALL, DEFAULTS, members, refuse_others, varied_by
from ssdsim.question.question import Question, effective
from ssdsim.strategies.protocols.axes import SearchAxis

if TYPE_CHECKING:
    import pandas as pd


MOST_CHOICES = 1_000_000  # over all cells: a tenth of a millisecond and a kilobyte each
CELLS: Mapping[str, Sequence[Any]] = {"b": (1, 2, 4, 8, 16, 32, 64), "context": (1024,)}
"""Axes of a schedule's cells, with their default values."""


def choices() -> dict[str, Sequence[Any]]:
    """Options that a schedule searches, of all strategies, with the values that it tries."""
    return {axis.table_option: axis.tabled for strategy in strategies.ALL for axis in _tabled(strategy.name)}


def fixed_options() -> tuple[str, ...]:
    """Options that a schedule does not search."""
    turned = {*CELLS, *choices(), *varied_by("schedule"), *members(Group.GIVEN_DURATIONS), "subject"}
    return tuple(name for name in DEFAULTS if name not in turned)


def _tabled(strategy: str) -> list[SearchAxis]:
    return [axis for axis in strategies.ALL.named(strategy).searched if axis.tabled]


class Candidates(Record):
    """Every choice of ``strategies`` at every batch and context, with its tokens/s.

    ``table`` has the columns ``b``, ``context``, ``strategy``, one for each of :func:`choices` (None if the strategy
    has no such option), ``gpus``, ``tokens_per_second``, ``point`` (the number of its options in ``points``) and
    ``choice`` (equal choices have equal numbers, simple ones small numbers). ``impossible`` says of some cells why
    nothing fits there.
    """

    strategies: Sequence[str]
    options: Mapping[str, Any]
    table: pd.DataFrame
    points: Sequence[Mapping[str, Any]]
    impossible: Mapping[tuple[int, int], str]
    warnings: Sequence[str]

    def best(self, names: Sequence[str] | None = None, by: Sequence[str] = ("b", "context")) -> pd.DataFrame:
        """The best choice of the strategies ``names`` (by default all), a row a cell: the table's columns and ``loss``.

        Cells that agree in ``by`` share one choice: that of the highest geometric mean of tokens/s over them, among
        those possible in all. ``loss`` is the share of tokens/s that this costs a cell against its own best choice.
        """
        allowed = self.table[self.table["strategy"].isin(self.strategies if names is None else names)]
        own = allowed.groupby(["b", "context"])["tokens_per_second"].transform("max")
        allowed = allowed.assign(loss=1.0 - allowed["tokens_per_second"] / own, group=0)
        chosen = [self._shared(group) for _, group in allowed.groupby(list(by) or ["group"], sort=False)]
        rows = allowed.loc[[index for indices in chosen for index in indices]]
        return rows.sort_values(["context", "b"], ignore_index=True).drop(columns="group")

    @staticmethod
    def _shared(group: pd.DataFrame) -> list[Any]:
        """Rows of the best choice over all cells of ``group``; of equals the simplest, which comes first."""
        cells = len(group[["b", "context"]].drop_duplicates())
        logs = np.log(group["tokens_per_second"]).groupby(group["choice"]).agg(["mean", "count"])
        best = logs.loc[logs["count"] == cells, "mean"].idxmax()
        return list(group.index[group["choice"] == best])


def candidates(**options: Any) -> Candidates:
    """Evaluate every choice: each strategy over its tabled options, with the better of its alternatives.

    Parameters
    ----------
    options : ``strategies``; ``b`` and ``context``, each a value or a list (by default :data:`CELLS`); so also the
        options of :func:`choices`, such as ``k`` and ``f``; and the scenario's :func:`fixed_options`. With ``p_hit``
        the hit rate is given, and the fan-out has nothing to choose.

    Returns
    -------
    Candidates : every point with its tokens/s, and the reason for cells in which nothing fits.
    """
    import pandas as pd

    from ssdsim.answers.grid import evaluate

    given = {name: value for name, value in options.items() if value is not None}
    refuse_others("a schedule", given, ("strategies", *CELLS, *choices(), *fixed_options()))
    names = ALL["strategies"].checked(given.pop("strategies", strategies.default()))
    fixed = {name: value for name, value in given.items() if name in fixed_options()}
    chosen = list(_choices(names, given, fixed))
    axes = [_values(name, given, CELLS[name]) for name in CELLS]
    few_enough("choices", (*axes, chosen), MOST_CHOICES)
    cells = [dict(zip(CELLS, at, strict=True)) for at in product(*axes)]
    _check(names, fixed, cells, chosen)
    # each strategy is held against the devices and the memory that it uses itself
    points = [{**fixed, **cell, **settings, "strategies": (name,)} for cell in cells for name, settings in chosen]
    frame = evaluate(points)
    rows = [
        {**cell, "strategy": name, **dict.fromkeys(choices()), **settings, "choice": choice}
        for cell in cells
        for choice, (name, settings) in enumerate(chosen)
    ]
    table = pd.DataFrame(rows).astype(dict.fromkeys(choices(), object)).assign(point=range(len(points)))
    possible = frame["error"].isna()
    for column in ("gpus", "tokens_per_second"):
        table[column] = [each.get(f"{row['strategy']}_{column}") for each, row in _pairs(frame, rows)]
    table = table[possible].astype({"gpus": int, "tokens_per_second": float})
    at = [(row["b"], row["context"]) for row in rows]
    reasons = dict(zip(reversed(at), reversed(frame["error"].to_list()), strict=True))  # the first of each cell
    fits = set(zip(table["b"], table["context"], strict=True))
    impossible = {cell: reason for cell, reason in reasons.items() if cell not in fits}
    table = table.sort_values("choice", kind="stable", ignore_index=True)
    axes_stop = (axis.stops(fixed) for name in names for axis in _tabled(name) if axis.table_option not in given)
    warnings = dict.fromkeys([*filter(None, axes_stop), *frame.attrs["warnings"]])
    return Candidates(names, fixed, table, points, impossible, tuple(warnings))


def _pairs(frame: pd.DataFrame, rows: Sequence[Mapping[str, Any]]) -> Iterator[tuple[Any, Mapping[str, Any]]]:
    return zip(frame.to_dict("records"), rows, strict=True)


def _choices(
    names: Sequence[str], given: Mapping[str, Any], fixed: Mapping[str, Any]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each strategy with each combination of its tabled options."""
    axes = {name: _tabled(name) for name in names}
    turned = {axis.table_option for each in axes.values() for axis in each}
    for option in given:
        if option in choices() and option not in turned:
            raise InputError(f"{spelled(option)} has no effect with --strategies {','.join(names)}")
    for name, each in axes.items():
        left = [axis for axis in each if axis.table_option in given or not axis.is_idle(fixed)]
        values = [_known(axis, _values(axis.table_option, given, axis.tabled), given, fixed) for axis in left]
        few_enough(f"choices of {name}", values, MOST_CHOICES)
        for combination in product(*values):
            yield name, dict(zip((axis.table_option for axis in left), combination, strict=True))


def _known(axis: SearchAxis, values: list[Any], given: Mapping[str, Any], fixed: Mapping[str, Any]) -> list[Any]:
    """Keep the values that the models allow."""
    refused = {value: why for value in values if (why := axis.refuses(fixed, value)) is not None}
    if refused and axis.table_option in given:
        value, why = next(iter(refused.items()))
        raise InputError(f"{spelled(axis.table_option)} {value}: {why}")
    return [value for value in values if value not in refused]


def _values(name: str, given: Mapping[str, Any], default: Sequence[Any]) -> list[Any]:
    return listed(spelled(name), given.get(name, default))


def _check(
    names: Sequence[str],
    fixed: Mapping[str, Any],
    cells: Sequence[Mapping[str, Any]],
    chosen: Sequence[tuple[str, Mapping[str, Any]]],
) -> None:
    """Raise :class:`InputError` for a wrong name or value: it is wrong in every cell, unlike one that does not fit."""
    find_transformer(fixed.get("target", DEFAULTS["target"]))
    draft_by_options(fixed)
    for role in ("hardware", "draft_hardware"):
        find_hardware(fixed.get(role, DEFAULTS["hardware"]))
    Question.of({**fixed, **cells[0], **chosen[0][1], "strategies": names})
    for cell in cells:
        effective({**fixed, **cell, **chosen[0][1]})
    for _, settings in chosen:
        effective({**fixed, **cells[0], **settings})
