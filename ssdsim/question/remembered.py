"""A step of configuring that is run once for all points that it reads alike."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any, Generic, TypeVar

import numpy as np

from ssdsim.base.errors import InputError
from ssdsim.base.record import Record
from ssdsim.base.settings import Settings, TrackedSettings
from ssdsim.question.columns import Columns, Entry, Rows

T = TypeVar("T")


class Written(Record):
    """Settings that a step wrote, with where that came from."""

    writes: Mapping[str, Any]
    sources: Mapping[str, str]


class Made(Written, Generic[T]):
    """A result; ``reads`` are the options that it rests on."""

    result: T
    reads: frozenset[str]


class Found(Record, Generic[T]):
    """Results of a step for some points, or why it could not, and the number of what it made of each of them."""

    made: list[Made[T] | InputError]
    of: Rows

    def errors(self) -> Iterable[tuple[int, InputError]]:
        """Places among the points where there is none, and why."""
        for number, made in enumerate(self.made):
            if isinstance(made, InputError):
                yield from ((int(place), made) for place in np.flatnonzero(self.of == number))


_Read = tuple[tuple[str, ...], tuple[str, ...]]
"""Options that a step read, and those whose origin it asked."""


class Remembered(Generic[T]):
    """``run(settings, *arguments)``, remembered by what it reads of the settings, and by the arguments.

    A step that has read the same values and origins reads the same option next. So one that read certain options, with
    certain values, made what it makes of all settings with these: no list of a step's inputs can be wrong, because
    there is none.
    """

    def __init__(self, run: Callable[..., T]) -> None:
        self._run = run
        self._known: dict[_Read, dict[Any, Made[T] | InputError]] = {}
        self._reads: dict[tuple[str, ...], frozenset[str]] = {}

    def each(
        self, columns: Columns, rows: Rows, arguments: Sequence[tuple[Any, ...]] = ((),), of: Rows | None = None
    ) -> Found[T]:
        """Run the step at the points ``rows``; it writes into none of them (:func:`settle_all` does).

        ``of[i]`` numbers the arguments at ``rows[i]``, which are told apart by being other objects and live as long as
        this does.
        """
        of = np.zeros(len(rows), dtype=np.intp) if of is None else of
        made, numbers = list[Made[T] | InputError](), dict[int, int]()
        full = np.full(len(rows), -1, dtype=np.intp)
        left = np.arange(len(rows))
        known, new = list(self._known), list[_Read]()  # ways in which it was read before, and in which it is now
        while left.size:
            if not known and not new:
                new.append(self._new(columns.settings(rows[left[0]]), arguments[of[left[0]]])[0])
            runs = not known
            way = (known or new).pop(0)
            first, group = columns.groups((*way[0], *way[1]), rows[left], of[left])
            codes = np.full(len(first), -1, dtype=np.intp)
            places = left[first]
            keys = _keys(columns, rows[places], [arguments[number] for number in of[places].tolist()], way)
            for number, (place, key) in enumerate(zip(places.tolist(), keys, strict=True)):
                one, read = self._known[way].get(key), way
                if one is None and runs:
                    read, one = self._new(columns.settings(rows[place]), arguments[of[place]])
                if one is None:
                    continue
                if read == way:
                    codes[number] = numbers.setdefault(id(one), len(made))
                    if codes[number] == len(made):
                        made.append(one)
                elif read not in new:  # it looked at something else, too, by which those alike so far differ
                    new.append(read)
            full[left] = codes[group]
            left = left[codes[group] < 0]
        return Found(made, full)

    def __len__(self) -> int:
        """Number of results that it remembers."""
        return sum(map(len, self._known.values()))

    def forget_newest(self, count: int) -> None:
        """Forget as many results, if there are, that were made last."""
        for known in reversed(self._known.values()):
            forgotten = min(count, len(known))
            for _ in range(forgotten):
                known.popitem()
            count -= forgotten

    def _new(self, settings: Settings, arguments: tuple[Any, ...]) -> tuple[_Read, Made[T] | InputError]:
        watched = TrackedSettings(settings)
        made: Made[T] | InputError
        try:
            result = self._run(watched, *arguments)
            reads = self._reads.setdefault(tuple(watched.reads), frozenset(watched.reads))  # thousands read the same
            made = Made(watched.writes, watched.sources, result, reads)
        except InputError as error:
            made = error
        way = tuple(watched.reads), tuple(watched.origins)
        self._known.setdefault(way, {})[_key(settings, way, arguments)] = made
        return way, made


def _key(settings: Settings, way: _Read, arguments: tuple[Any, ...]) -> Any:
    """Key of a point: what a step that reads so knows of it."""
    names, asked = way
    values = settings.several(names)
    return _hashable((*map(id, arguments), *values, *map(settings.source, asked)))


def _keys(columns: Columns, rows: Rows, arguments: Sequence[tuple[Any, ...]], way: _Read) -> Iterator[Any]:
    """:func:`_key` of many points, made column by column."""
    names, asked = way
    ids = zip(*(map(id, each) for each in arguments), strict=True)
    values = (columns.values(name, rows) for name in names)
    key = [*ids, *values, *(columns.sources(name, rows) for name in asked)]
    return map(_hashable, zip(*key, strict=True) if key else repeat((), len(rows)))


def settle_all(columns: Columns, rows: Rows, written: Sequence[Written | InputError], of: Rows) -> None:
    """Write at each point ``rows[i]`` what ``written[of[i]]`` says."""
    names = dict.fromkeys(name for each in written if isinstance(each, Written) for name in each.writes)
    for name in names:
        codes, entries = np.full(len(written), -1, dtype=np.intp), list[Entry]()
        for number, each in enumerate(written):
            if isinstance(each, Written) and name in each.writes:
                codes[number] = len(entries)
                entries.append((each.writes[name], each.sources[name]))
        own = codes[of]
        columns.settle(name, rows[own >= 0], entries, own[own >= 0])


def _hashable(value: Any) -> Any:
    """Lists as tuples, at any depth."""
    try:
        hash(value)
    except TypeError:
        return tuple(map(_hashable, value))
    return value
