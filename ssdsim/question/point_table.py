"""Options of many points in columns, and steps that run once for all points with the same values of what they read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from ssdsim.base.errors import InputError
from ssdsim.base.record import Record, replace
from ssdsim.base.settings import Entry, Settings, TrackedSettings

T = TypeVar("T")
S = TypeVar("S")
Rows = NDArray[np.intp]
_MOST_KEYS = 2**62


class Column(Record, Generic[T]):
    """A column over points: some values, and for each point the index of its value."""

    values: Sequence[T]
    index: Rows

    @classmethod
    def of(cls, each: Iterable[T], key: Callable[[T], Any] = repr) -> Column[T]:
        """A column of one value a point. Values of one ``key`` are stored once: 1 is not 1.0, nor a list a tuple."""
        numbers: dict[Any, int] = {}
        values: list[T] = []
        index = []
        for value in each:
            number = numbers.setdefault(key(value), len(values))
            if number == len(values):
                values.append(value)
            index.append(number)
        return cls(values, np.array(index, dtype=np.intp))

    def at(self, point: int) -> T:
        value: T = self.values[self.index[point]]
        return value

    def of_each(self) -> list[T]:
        """Each point's value."""
        return [self.values[number] for number in self.index.tolist()]

    def take(self, points: Rows) -> Column[T]:
        return Column(self.values, self.index[points])

    def then(self, other: Column[T]) -> Column[T]:
        """The column of these points, and then of others."""
        return Column([*self.values, *other.values], np.concatenate([self.index, len(self.values) + other.index]))

    def map(self, of: Callable[[T], S]) -> Column[S]:
        return Column(list(map(of, self.values)), self.index)

    def used(self) -> Column[T]:
        """The column without values that no point has."""
        used, index = np.unique(self.index, return_inverse=True)
        return Column([self.values[number] for number in used], index)

    @cached_property
    def distinct(self) -> Column[T]:
        """The column with equal values stored once."""
        once = Column.of(self.values)
        return Column(once.values, once.index[self.index]) if len(once.values) < len(self.values) else self

    @cached_property
    def is_constant(self) -> bool:
        return len(self.values) < 2 or bool((self.index == self.index[:1]).all())


def groups(columns: Iterable[Column[Any]], size: int) -> tuple[Rows, Rows]:
    """Group points with the same values in all columns: the first point of each group, and the group of each point."""
    key, most = np.zeros(size, dtype=np.int64), 1
    for column in columns:
        if column.is_constant:
            continue
        if most >= _MOST_KEYS // len(column.values):
            key = np.unique(key, return_inverse=True)[1]
            most = int(key.max()) + 1
        key, most = key * len(column.values) + column.index, most * len(column.values)
    if most == 1:
        return np.zeros(min(1, size), dtype=np.intp), key
    _, first, group = np.unique(key, return_index=True, return_inverse=True)
    return first, group


class Result(Record, Generic[T]):
    """The result of a step, the options that it read, and what it settled."""

    value: T
    reads: frozenset[str]
    writes: Mapping[str, Entry]


def result_of(run: Callable[..., T], settings: Settings, *arguments: Any) -> Result[T]:
    """Run a step, and note what it reads and settles; ``settings`` stay as they are."""
    tracked = TrackedSettings(settings)
    value = run(tracked, *arguments)
    return Result(value, frozenset(tracked.reads), tracked.writes)


class PointTable(Record):
    """Points in columns: their options, and what steps made of them.

    ``rows`` number the points among all that are asked. An option's column has None where it is not given.
    """

    rows: Rows
    defaults: Mapping[str, Any]
    options: Mapping[str, Column[Entry | None]]
    results: Mapping[str, Column[Result[Any]]]

    def __len__(self) -> int:
        return len(self.rows)

    def settings(self, point: int) -> Settings:
        """The settings of a point."""
        entries = {name: entry for name, column in self.options.items() if (entry := column.at(point)) is not None}
        values = {name: entry[0] for name, entry in entries.items()}
        return Settings(values, {name: entry[1] for name, entry in entries.items()}, self.defaults)

    def values(self, name: str) -> list[Any]:
        """An option's value at each point."""
        default = self.defaults.get(name)
        if name not in self.options:
            return [default] * len(self)
        return self.options[name].map(lambda entry: default if entry is None else entry[0]).of_each()

    def take(self, points: Rows) -> PointTable:
        """The points of these indices, which may repeat."""
        options = {name: column.take(points) for name, column in self.options.items()}
        results = {name: column.take(points) for name, column in self.results.items()}
        return PointTable(self.rows[points], self.defaults, options, results)

    def joined(self, other: PointTable) -> PointTable:
        """These points, and then those of another table of the same defaults."""
        if not len(self) or not len(other):
            return self if len(self) else other
        none = Column[Entry | None]([None], np.zeros(max(len(self), len(other)), dtype=np.intp))
        options = {
            name: self.options.get(name, none.take(np.arange(len(self)))).then(
                other.options.get(name, none.take(np.arange(len(other))))
            )
            for name in {**self.options, **other.options}
        }
        results = {name: column.then(other.results[name]) for name, column in self.results.items()}
        return PointTable(np.concatenate([self.rows, other.rows]), self.defaults, options, results)

    def settled(self, writes: Column[Mapping[str, Entry]]) -> PointTable:
        """The table with each point's settled options."""
        options = dict(self.options)
        for name in dict.fromkeys(name for each in writes.values for name in each):
            before = options.get(name) or Column[Entry | None]([None], np.zeros(len(self), dtype=np.intp))
            after = [each.get(name) for each in writes.values]
            is_written = np.array([entry is not None for entry in after])[writes.index]
            index = np.where(is_written, len(before.values) + writes.index, before.index)
            options[name] = Column([*before.values, *after], index).used().distinct
        return replace(self, options=options)

    def after(self, name: str, step: MemoizedStep[Any], *arguments: str) -> tuple[PointTable, dict[int, InputError]]:
        """Run a step: the table of the points at which it succeeds, and the errors of the others by their rows.

        The results are stored under ``name``, and what the step settled becomes options. ``arguments`` name the results
        that the step takes.
        """
        column: Column[Any] = step.each(self, *(self.results[each] for each in arguments))
        table, errors = self, dict[int, InputError]()
        if any(isinstance(each, InputError) for each in column.values):
            failed = np.array([isinstance(each, InputError) for each in column.values])[column.index]
            for point in np.flatnonzero(failed).tolist():
                errors.setdefault(int(self.rows[point]), column.at(point))
            table, column = self.take(np.flatnonzero(~failed)), column.take(np.flatnonzero(~failed)).used()
        settled = table.settled(column.map(lambda result: result.writes))
        return replace(settled, results={**settled.results, name: column}), errors


class MemoizedStep(Generic[T]):
    """``run(settings, *arguments)`` with a cache: the key is what it read of the settings, and which arguments it got.

    A step that has read the same values from the same sources reads the same option next. So a result holds for all
    settings with the values that the step read, and no list of a step's inputs can be wrong, because there is none.
    """

    def __init__(self, run: Callable[..., T]) -> None:
        self._run = run
        self._known: dict[tuple[str, ...], dict[Any, Result[T] | InputError]] = {}
        self._names: dict[str, None] = {}

    def each(self, table: PointTable, *arguments: Column[Result[Any]]) -> Column[Result[T] | InputError]:
        """The result or the error at each point; points that agree in every option ever read are looked up once."""
        while True:
            known = len(self._names)
            columns = [table.options[name] for name in self._names if name in table.options]
            first, group = groups([*arguments, *columns], len(table))
            results = []
            for point in first.tolist():
                results.append(self.at(table.settings(point), *(each.at(point).value for each in arguments)))
                if len(self._names) > known:  # a new option was read: points that differ in it were grouped together
                    break
            else:
                once = Column.of(results, id)
                return Column(once.values, once.index[group])

    def at(self, settings: Settings, *arguments: Any) -> Result[T] | InputError:
        """The result or the error; arguments are compared by identity."""
        for names, known in self._known.items():
            if (result := known.get(_key(settings, names, arguments))) is not None:
                return result
        return self._new(settings, arguments)

    def _new(self, settings: Settings, arguments: tuple[Any, ...]) -> Result[T] | InputError:
        tracked = TrackedSettings(settings)
        result: Result[T] | InputError
        try:
            result = Result(self._run(tracked, *arguments), frozenset(tracked.reads), tracked.writes)
        except InputError as error:
            result = error
        names = tuple({**tracked.reads, **tracked.sources_read})
        self._known.setdefault(names, {})[_key(settings, names, arguments)] = result
        self._names |= dict.fromkeys(names)
        return result

    def __len__(self) -> int:
        """Number of cached results."""
        return sum(map(len, self._known.values()))

    def forget_newest(self, count: int) -> None:
        """Drop the ``count`` newest results, or all if there are fewer."""
        for known in reversed(self._known.values()):
            forgotten = min(count, len(known))
            for _ in range(forgotten):
                known.popitem()
            count -= forgotten


def _key(settings: Settings, names: tuple[str, ...], arguments: tuple[Any, ...]) -> Any:
    return _hashable((*map(id, arguments), *settings.entries(names)))


def _hashable(value: Any) -> Any:
    """Lists as tuples, at any depth."""
    try:
        hash(value)
    except TypeError:
        return tuple(map(_hashable, value))
    return value
