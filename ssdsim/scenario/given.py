"""What is given at many points, checked: each value once, and once what a combination of options means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ssdsim.base.errors import InputError
from ssdsim.base.option import spelled
from ssdsim.base.settings import GIVEN
from ssdsim.scenario.columns import Columns, Rows, told_apart
from ssdsim.scenario.options import (
    ALL,
    as_python,
    check_combination,
    check_names,
    decisive,
    defaults,
    with_ranges,
)


def checked(given: Mapping[str, Any]) -> dict[str, Any]:
    """The values of what is given; None is not given.

    Raises
    ------
    InputError : an unknown name, a value out of its range, or an option that means nothing in this combination.
    """
    columns, errors = of_points([given])
    if errors[0] is not None:
        raise errors[0]
    return columns.given(0)


def of_points(points: Sequence[Mapping[str, Any]]) -> tuple[Columns, list[InputError | None]]:
    """What is given at each of the points in columns, and what is wrong there, as of :func:`checked`."""
    errors: list[InputError | None] = [None] * len(points)
    options: dict[str, _Values] = {}
    for row, point in enumerate(points):
        try:
            check_names(point)
            given = with_ranges({name: value for name, value in point.items() if value is not None})
        except InputError as error:
            errors[row] = error
            continue
        for name, value in given.items():
            options.setdefault(name, _Values()).add(row, as_python(value))
    raw, columns = (Columns(len(points), defaults()) for _ in range(2))
    wrong: dict[int, InputError] = {}
    for name, each in options.items():
        rows, codes = each.at
        raw.settle(name, rows, [(value, GIVEN) for value in each.values], codes)
        found = [_value(name, value) for value in each.values]
        columns.settle(name, rows, [(value, GIVEN) for value in found], codes)
        if any(isinstance(value, InputError) for value in found):
            for row, code in zip(rows.tolist(), codes.tolist(), strict=True):
                if isinstance(one := found[code], InputError):
                    wrong.setdefault(row, one)
    for row, mistake in {**wrong, **_combinations(raw, errors)}.items():
        errors[row] = errors[row] or mistake
    return columns, errors


@dataclass
class _Values:
    """Distinct values of an option, and whose they are."""

    values: list[Any] = field(default_factory=list)
    _numbers: dict[Any, int] = field(default_factory=dict)
    _rows: list[int] = field(default_factory=list)
    _codes: list[int] = field(default_factory=list)

    def add(self, row: int, value: Any) -> None:
        number = self._numbers.setdefault(told_apart(value), len(self.values))
        if number == len(self.values):
            self.values.append(value)
        self._rows.append(row)
        self._codes.append(number)

    @property
    def at(self) -> tuple[Rows, Rows]:
        """Points that have it, and the number of each one's value."""
        return np.array(self._rows, dtype=np.intp), np.array(self._codes, dtype=np.intp)


def _value(name: str, value: Any) -> Any:
    """The value as it is used, or what is wrong with it."""
    try:
        if isinstance(value, list | tuple) and None in value:
            raise InputError(f"{spelled(name)} must not have None in its list")
        return ALL[name].checked(value)
    except InputError as error:
        return error


def possible(errors: Sequence[InputError | None]) -> Rows:
    """Points that nothing is wrong with."""
    return np.array([row for row, error in enumerate(errors) if error is None], dtype=np.intp)


def _combinations(columns: Columns, errors: Sequence[InputError | None]) -> dict[int, InputError]:
    """Points at which an option changes nothing: a mistake, not a preference."""
    rows = possible(errors)
    if not rows.size:
        return {}
    first, group = columns.groups(decisive(), rows, columns.whose_options(rows))
    wrong: dict[int, InputError] = {}
    for number, row in enumerate(rows[first].tolist()):
        try:
            check_combination(columns.given(row))
        except InputError as error:
            wrong |= dict.fromkeys(rows[group == number].tolist(), error)
    return wrong
