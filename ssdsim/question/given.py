"""The options given at many points, checked: each value once, and once what a combination of options means."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from ssdsim.base.errors import InputError
from ssdsim.base.option import spelled
from ssdsim.base.record import Record, field
from ssdsim.base.settings import GIVEN
from ssdsim.question.columns import Columns, Rows, told_apart
from ssdsim.question.options import (
    ALL,
    as_python,
    check_combination,
    check_names,
    decisive,
    defaults,
    ranged,
    with_ranges,
)


class GridPart(Record):
    """Some of a grid's points in a row: ``options``, and a value of each list of ``grid``, the last varying fastest."""

    options: Mapping[str, Any]
    grid: Mapping[str, Sequence[Any]]
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start

    def __iter__(self) -> Iterator[dict[str, Any]]:
        numbers = {name: self.numbers(name).tolist() for name in self.grid}
        for at in range(len(self)):
            yield {**self.options, **{name: values[numbers[name][at]] for name, values in self.grid.items()}}

    def numbers(self, name: str) -> Rows:
        """The number of each point's value in a list, which is found without counting the points before it."""
        lengths = {each: len(values) for each, values in self.grid.items()}
        behind = list(self.grid)[list(self.grid).index(name) + 1 :]
        return np.arange(self.start, self.stop) // prod(lengths[each] for each in behind) % lengths[name]

    @property
    def means_what_it_says(self) -> bool:
        """Say whether each value is of its own option alone: not where one is not given, or a range of another."""
        values = [(name, value) for name, of in self._lists() for value in of]
        return not any(
            value is None or name == "ranges" or (isinstance(value, str) and name in ranged()) for name, value in values
        )

    def values(self) -> dict[str, tuple[list[Any], Rows, Rows]]:
        """The values of each option, all points, and the number of each one's value."""
        everywhere = np.arange(len(self))
        once = np.zeros(len(self), dtype=np.intp)
        return {
            name: (list(map(as_python, of)), everywhere, self.numbers(name) if name in self.grid else once)
            for name, of in self._lists()
        }

    def _lists(self) -> Iterator[tuple[str, Sequence[Any]]]:
        yield from ((name, [value]) for name, value in self.options.items())
        yield from self.grid.items()


Asked = Sequence[Mapping[str, Any]] | GridPart


def checked(given: Mapping[str, Any]) -> dict[str, Any]:
    """The values of what is given; None is not given."""
    columns, errors = of_points([given])
    if errors[0] is not None:
        raise errors[0]
    return columns.given(0)


def of_points(points: Asked) -> tuple[Columns, list[InputError | None]]:
    """The options given at each of the points in columns, and what is wrong there, as of :func:`checked`."""
    errors: list[InputError | None] = [None] * len(points)
    raw, columns = (Columns(len(points), defaults()) for _ in range(2))
    wrong: dict[int, InputError] = {}
    for name, (values, rows, codes) in _by_option(points, errors).items():
        raw.settle(name, rows, [(value, GIVEN) for value in values], codes)
        found = [_value(name, value) for value in values]
        columns.settle(name, rows, [(value, GIVEN) for value in found], codes)
        if any(isinstance(value, InputError) for value in found):
            for row, code in zip(rows.tolist(), codes.tolist(), strict=True):
                if isinstance(one := found[code], InputError):
                    wrong.setdefault(row, one)
    for row, mistake in {**wrong, **_combinations(raw, errors)}.items():
        errors[row] = errors[row] or mistake
    return columns, errors


def _by_option(points: Asked, errors: list[InputError | None]) -> dict[str, tuple[list[Any], Rows, Rows]]:
    """The different values of each option, the points that have one, and the number of each one's value.

    ``errors`` take why a point has none.
    """
    if isinstance(points, GridPart) and points.means_what_it_says:
        check_names([*points.options, *points.grid])
        return points.values()
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
    return {name: (each.values, *each.at) for name, each in options.items()}


class _Values(Record, eq=False):
    """Different values of an option, and whose they are."""

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
