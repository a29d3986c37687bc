"""Settings of many points side by side: of each option a few values with where they came from, and whose they are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ssdsim.base.record import Record
from ssdsim.base.settings import Settings

Rows = NDArray[np.intp]
Entry = tuple[Any, str]
"""A value, and where it came from."""

_MOST_KEYS = 2**62


class _Column(Record):
    """Distinct entries, the first of which is that nobody said anything, and the number of each point's."""

    entries: list[Entry | None]
    codes: Rows

    @cached_property
    def alike(self) -> bool:
        """Say whether all points have the same entry."""
        return bool((self.codes == self.codes[0]).all()) if self.codes.size else True


class Columns:
    """The columns of ``size`` points, with what :class:`ssdsim.base.settings.Settings` hold of each of them."""

    def __init__(self, size: int, defaults: Mapping[str, Any]) -> None:
        self.size = size
        self._defaults = defaults
        self._columns: dict[str, _Column] = {}

    def copy(self) -> Columns:
        """A copy, to settle what others do not."""
        columns = Columns(self.size, self._defaults)
        columns._columns = dict(self._columns)
        return columns

    def settings(self, row: int) -> Settings:
        """The settings of a point."""
        values, sources = {}, {}
        for name, column in self._columns.items():
            entry = column.entries[column.codes[row]]
            if entry is not None:
                values[name], sources[name] = entry
        return Settings(values, sources, self._defaults)

    def given(self, row: int) -> dict[str, Any]:
        """The values that are no defaults of a point."""
        entries = {name: column.entries[column.codes[row]] for name, column in self._columns.items()}
        return {name: entry[0] for name, entry in entries.items() if entry is not None}

    def whose_options(self, rows: Rows) -> Rows:
        """A number of each point, the same for those that have values of the same options."""
        key = np.zeros(len(rows), dtype=np.int64)
        for column in self._columns.values():
            has = column.codes[rows] > 0
            if not has.all():
                key = np.unique(2 * key + has, return_inverse=True)[1]
        return key

    def values(self, name: str, rows: Rows) -> list[Any]:
        """An option's value at each of the points."""
        return self._of_each(name, rows, 0, self._defaults.get(name))

    def sources(self, name: str, rows: Rows) -> list[str]:
        """The origin of an option's value at each of the points, as :meth:`Settings.source` says it."""
        return self._of_each(name, rows, 1, Settings({}, {}, self._defaults).source(name))

    def _of_each(self, name: str, rows: Rows, part: int, nothing: Any) -> list[Any]:
        """A part of the option's entry at each of the points, ``nothing`` where nobody said anything."""
        column = self._columns.get(name)
        if column is None or not rows.size:
            return [nothing] * len(rows)
        if column.alike:
            entry = column.entries[column.codes[0]]
            return [nothing if entry is None else entry[part]] * len(rows)
        known = [nothing if entry is None else entry[part] for entry in column.entries]
        return [known[code] for code in column.codes[rows].tolist()]

    def settle(self, name: str, rows: Rows, entries: Sequence[Entry], of: Rows) -> None:
        """Give an option ``entries[of[i]]`` at the point ``rows[i]``."""
        before = self._columns.get(name) or _Column([None], np.zeros(self.size, dtype=np.intp))
        known = {None if entry is None else _key(entry): code for code, entry in enumerate(before.entries)}
        all_entries, codes = list(before.entries), []
        for entry in entries:
            key = _key(entry)
            if key not in known:
                known[key] = len(all_entries)
                all_entries.append(entry)
            codes.append(known[key])
        settled = before.codes.copy()
        settled[rows] = np.array(codes, dtype=np.intp)[of]
        self._columns[name] = _Column(all_entries, settled)

    def groups(self, names: Iterable[str], rows: Rows, besides: Rows) -> tuple[Rows, Rows]:
        """Points that are alike in the options ``names`` and in ``besides``: a place in ``rows`` of each group, and
        the group of each.
        """
        if len(rows) == 1:
            return np.zeros(1, dtype=np.intp), np.zeros(1, dtype=np.intp)
        key, most = besides.astype(np.int64), int(besides.max()) + 1
        for name in dict.fromkeys(names):
            column = self._columns.get(name)
            if column is None or column.alike:
                continue
            if most >= _MOST_KEYS // len(column.entries):
                key = np.unique(key, return_inverse=True)[1]
                most = int(key.max()) + 1
            key, most = key * len(column.entries) + column.codes[rows], most * len(column.entries)
        _, first, group = np.unique(key, return_index=True, return_inverse=True)
        return first, group


def _key(entry: Entry) -> Any:
    """The key that tells entries apart: 1 is not 1.0, nor True, and a list is not a tuple."""
    return told_apart(entry[0]), entry[1]


def told_apart(value: Any) -> Any:
    """A value with its type, at any depth, to be looked up by; what cannot be (no option takes it) is but itself."""
    if isinstance(value, list | tuple):
        return type(value), tuple(map(told_apart, value))
    try:
        hash(value)
    except TypeError:
        return type(value), id(value)
    return type(value), value
