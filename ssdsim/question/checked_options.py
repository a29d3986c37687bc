"""The options that are given, of a single point or of many, and their checks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, partial
from math import prod
from typing import Any

import numpy as np

from ssdsim.base.errors import InputError
from ssdsim.base.option import Excludes, spelled
from ssdsim.base.record import Record
from ssdsim.base.settings import GIVEN
from ssdsim.question.options import (
    ALL,
    DEFAULTS,
    as_python,
    check_combination,
    check_names,
    decisive,
    ranged,
    ranges_in,
    spared,
    with_ranges,
    without,
)
from ssdsim.question.point_table import Column, PointTable, Rows, groups


class GridPart(Record):
    """Consecutive points of a grid: ``options``, and a value of each list of ``grid``, the last varying fastest."""

    options: Mapping[str, Any]
    grid: Mapping[str, Sequence[Any]]
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start

    def __iter__(self) -> Iterator[dict[str, Any]]:
        numbers = {name: self.numbers(name).tolist() for name in self.grid}
        for at in range(len(self)):
            point = {**self.options, **{name: values[numbers[name][at]] for name, values in self.grid.items()}}
            for name, exclusion, others in self._spared:
                if exclusion.holds(name, point):
                    point = without(point, others)
            yield point

    @cached_property
    def _spared(self) -> list[tuple[str, Excludes, tuple[str, ...]]]:
        """Where a point goes without an option that is given of the grid, whose other points have it."""
        given = {*self.options, *self.grid, *(name for name, _, _ in ranges_in(self.options))}
        varied = [name for name, values in self.grid.items() if len(values) > 1]
        return [(name, each, others) for name, each, others in spared(varied) if not given.isdisjoint(others)]

    def numbers(self, name: str) -> Rows:
        """The number of each point's value in a list, which is found without counting the points before it."""
        lengths = {each: len(values) for each, values in self.grid.items()}
        behind = list(self.grid)[list(self.grid).index(name) + 1 :]
        return np.arange(self.start, self.stop) // prod(lengths[each] for each in behind) % lengths[name]

    @property
    def means_what_it_says(self) -> bool:
        """Whether each value sets its own option only: None sets none, and a range sets ``ranges``, too."""
        if self._spared:
            return False
        values = [(name, value) for name, of in self._lists() for value in of]
        return not any(
            _is_unsaid(name, value) or name == "ranges" or (isinstance(value, str) and name in ranged())
            for name, value in values
        )

    def columns(self) -> dict[str, Column[Any]]:
        """The values of each option, None where it is not given."""
        once = np.zeros(len(self), dtype=np.intp)
        return {
            name: Column(list(map(as_python, values)), self.numbers(name) if name in self.grid else once)
            for name, values in self._lists()
        }

    def _lists(self) -> Iterator[tuple[str, Sequence[Any]]]:
        yield from ((name, [value]) for name, value in self.options.items())
        yield from self.grid.items()


PointsLike = Sequence[Mapping[str, Any]] | GridPart


def checked(given: Mapping[str, Any]) -> dict[str, Any]:
    """The values of what is given; None is not given."""
    named = _named(given)
    values = {name: _checked(name, value) for name, value in named.items()}
    check_combination(named)
    return values


def _named(given: Mapping[str, Any]) -> dict[str, Any]:
    """The given options, names checked. A rate given as a range becomes the rate and an entry of ``ranges``."""
    check_names(given)
    said = {name: as_python(value) for name, value in given.items() if not _is_unsaid(name, value)}
    return with_ranges(said)


def _is_unsaid(name: str, value: Any) -> bool:
    """Say whether an option is as good as not given: by None, or by a word that leaves it to the answer."""
    return value is None or (isinstance(value, str) and value != "" and value == ALL[name].unsaid)


def without_unsaid(given: Mapping[str, Any]) -> dict[str, Any]:
    """What a search varies beyond what is given: options that say something, each a value or a list.

    Raises
    ------
    InputError : a list has a word that leaves the value to the answer, and more.
    """
    said = dict[str, Any]()
    for name, value in zip(given, map(as_python, given.values()), strict=True):
        values = value if isinstance(value, list | tuple) else [value]
        left = [isinstance(each, str) and name in ALL and _is_unsaid(name, each) for each in values]
        if any(left) and len(values) > 1:
            raise InputError(f"{spelled(name)}: {ALL[name].unsaid} leaves the value to the search, so it stands alone")
        if value is not None and not any(left):
            said[name] = value
    return said


def _checked(name: str, value: Any) -> Any:
    if isinstance(value, list | tuple) and None in value:
        raise InputError(f"{spelled(name)} must not have None in its list")
    return ALL[name].checked(value)


def checked_table(points: PointsLike) -> tuple[PointTable, list[InputError | None]]:
    """The checked options of the points without a mistake, and the mistakes of all points.

    Each value is checked once, and so is each combination of options.
    """
    errors: list[InputError | None] = [None] * len(points)
    given = _columns(points, errors)
    options = {}
    for name, column in given.items():
        found = column.map(partial(_value_or_mistake, name))
        for number, mistake in enumerate(found.values):
            if isinstance(mistake, InputError):
                for row in np.flatnonzero(found.index == number).tolist():
                    errors[row] = errors[row] or mistake
        options[name] = found.map(lambda value: None if value is None else (value, GIVEN))
    for row, mistake in _wrong_combinations(given, _possible(errors)).items():
        errors[row] = mistake
    table = PointTable(np.arange(len(points)), dict(DEFAULTS), options, {})
    return table if not any(errors) else table.take(_possible(errors)), errors


def _possible(errors: Sequence[InputError | None]) -> Rows:
    return np.array([row for row, error in enumerate(errors) if error is None], dtype=np.intp)


def _columns(points: PointsLike, errors: list[InputError | None]) -> dict[str, Column[Any]]:
    """The values of each option, None where it is not given; ``errors`` take why a point has none."""
    if isinstance(points, GridPart) and points.means_what_it_says:
        check_names([*points.options, *points.grid])
        return points.columns()
    given: list[Mapping[str, Any]] = []
    for row, point in enumerate(points):
        try:
            given.append(_named(point))
        except InputError as error:
            errors[row] = error
            given.append({})
    names = dict.fromkeys(name for each in given for name in each)
    return {name: Column.of([each.get(name) for each in given]) for name in names}


def _value_or_mistake(name: str, value: Any) -> Any:
    try:
        return None if value is None else _checked(name, value)
    except InputError as error:
        return error


def _wrong_combinations(given: Mapping[str, Column[Any]], rows: Rows) -> dict[int, InputError]:
    """Points at which an option changes nothing: a mistake, not a preference."""
    columns = {name: column.take(rows) for name, column in given.items()}
    alike = [columns[name] for name in decisive() if name in columns]
    alike += [_is_given(column) for column in columns.values() if any(value is None for value in column.values)]
    first, group = groups(alike, len(rows))
    wrong: dict[int, InputError] = {}
    for number, point in enumerate(first.tolist()):
        try:
            at_point = {name: column.at(point) for name, column in columns.items()}
            check_combination({name: value for name, value in at_point.items() if value is not None})
        except InputError as error:
            wrong |= dict.fromkeys(rows[group == number].tolist(), error)
    return wrong


def _is_given(column: Column[Any]) -> Column[bool]:
    given = np.array([value is not None for value in column.values])
    return Column((False, True), given[column.index].astype(np.intp))
