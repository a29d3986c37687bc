"""Kinds of lists that an option takes: names, numbers, pairs, and the values of a grid's axis."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from ssdsim.base.errors import InputError, short_repr
from ssdsim.base.kinds import Kind, Member, Number, NumberOrWord, OneOf, OneOrByPosition, Registered, Whole, ends
from ssdsim.base.record import Record

MOST_VALUES = 10_000  # of a range: more is a slip of the step
EVERY = "all"
"""Stands for every name that there is."""


class Names(Kind, Record):
    """Names of registered things: a list, or text with commas between them; :data:`EVERY` for all of them."""

    of: Registered
    depth = 1

    @property
    def requirement(self) -> str:
        return f"name some of {', '.join(self.of.names)}, each once, or be {EVERY}"

    def checked(self, said: str, value: Any) -> tuple[str, ...]:
        names = tuple(value.split(",")) if isinstance(value, str) else tuple(_list(said, value))
        if names == (EVERY,):
            return self.of.names
        for name in names:
            Member(self.of).checked(said, name)
        if len(set(names)) < len(names):
            raise InputError(f"{said} must {self.requirement}, got {','.join(names)}")
        return names


class ListOf(Kind, Record):
    """A list of numbers."""

    number: Whole | Number
    depth = 1

    @property
    def metavar(self) -> str:
        return "n[,n...]" if isinstance(self.number, Whole) else "number[,number...]"

    @property
    def parse_error(self) -> str:
        such_as = "whole numbers such as 4,3,2,1" if isinstance(self.number, Whole) else "numbers such as 0.6,0.2,0.1"
        return f"not a list of {such_as}"

    @property
    def requirement(self) -> str:
        return f"be a list, each of which must {self.number.requirement}"

    def parse(self, text: str) -> list[Any]:
        return [self.number.parse(part) for part in text.split(",")]

    def checked(self, said: str, value: Any) -> Any:
        for number in _list(said, value):
            self.number.checked(said, number)
        return value


class HitRates(Kind, Record):
    """Fan-outs with their measured hit rates. That rates lie in [0, 1] and never fall the curve itself checks."""

    most: float = 1_000_000

    metavar = "f:h[,f:h...]"
    parse_error = "not a list of fan-outs and hit rates such as 1:0.6,2:0.7,4:0.8"
    requirement = "be pairs of a fan-out and its hit rate"
    depth = 2

    def parse(self, text: str) -> list[tuple[float, ...]]:
        return _pairs(text)

    def checked(self, said: str, value: Any) -> Any:
        for pair in _list(said, value):
            if not isinstance(pair, list | tuple) or len(pair) != 2:
                raise InputError(f"{said} must {self.requirement}, got {short_repr(pair)}")
            for number in pair:
                Number(self.most).checked(said, number)
        return value


class PassTimes(Kind, Record):
    """Rows of a pass with the time that it takes: rows rise, times never fall."""

    metavar = "rows:time[,...]"
    parse_error = "not a list of rows and times such as 16:1,64:1.1,128:2"
    requirement = "be pairs of rows and a time, with rising rows and times that never fall"
    depth = 2

    def parse(self, text: str) -> list[tuple[float, ...]]:
        return _pairs(text)

    def checked(self, said: str, value: Any) -> Any:
        pairs = [tuple(pair) if isinstance(pair, list | tuple) else () for pair in _list(said, value)]
        numbers = all(len(pair) == 2 and all(isinstance(each, int | float) for each in pair) for pair in pairs)
        in_bounds = numbers and all(0.0 <= each <= 1e9 for pair in pairs for each in pair)
        if not in_bounds or any(after[0] <= before[0] or after[1] < before[1] for before, after in pairwise(pairs)):
            raise InputError(f"{said} must {self.requirement}, got {short_repr(value)}")
        return value


class Ranges(Kind, Record):
    """Names of numbers with the two ends of where each may lie: ``{"alpha": (0.75, 0.85)}``, or triples."""

    metavar = "input=low:high[,...]"
    parse_error = "no input with its range such as alpha=0.75:0.85"
    requirement = "be names with two ends each, such as alpha=0.75:0.85"
    depth = 2

    def parse(self, text: str) -> tuple[tuple[str, float, float], ...]:
        named = [part.partition("=") for part in text.split(",")]
        return tuple((name.replace("-", "_"), *ends(both)) for name, _, both in named)

    def checked(self, said: str, value: Any) -> tuple[tuple[str, float, float], ...]:
        if isinstance(value, Mapping):
            value = [(name, *(ends if isinstance(ends, list | tuple) else ())) for name, ends in value.items()]
        for triple in _list(said, value):
            whole = isinstance(triple, list | tuple) and len(triple) == 3 and isinstance(triple[0], str)
            if not whole or not all(isinstance(end, int | float) for end in triple[1:]):
                raise InputError(f"{said} must {self.requirement}, got {short_repr(triple)}")
        return tuple((str(name), float(low), float(high)) for name, low, high in value)


class Lists(Kind, Record):
    """Values that are lists themselves, with a slash between them: ``4,3,2,1/3,3,2,2``."""

    each: Kind

    @property
    def metavar(self) -> str:
        return f"{self.each.metavar}[/...]"

    @property
    def parse_error(self) -> str:
        return self.each.parse_error

    def parse(self, text: str) -> list[Any]:
        return [self.each.parse(part) for part in text.split("/")]


class Several(Kind, Record):
    """Values of a kind in a list, an inclusive range or both: ``1,2,4``, ``1:8``, ``0.5:1:0.1``, ``1,2,4:16:4``.

    A range is of numbers; words may stand beside them.
    """

    of: Kind

    @property
    def metavar(self) -> str:
        return "name[,name...]" if self._number is None else "n[,n...]|first:last[:step]"

    @property
    def _number(self) -> Whole | Number | None:
        number = self.of.number if isinstance(self.of, NumberOrWord | OneOrByPosition) else self.of
        return number if isinstance(number, Whole | Number) else None

    def parse(self, text: str) -> list[Any]:
        try:
            return [value for part in text.split(",") for value in self._part(part)]
        except (ValueError, OverflowError) as error:
            such_as = "a,b" if self._number is None else "1,2,4 or 1:8 or 0:1:0.1"
            raise ValueError(f"not a list or range such as {such_as}: {error}") from None

    def checked(self, said: str, value: Any) -> tuple[Any, ...]:
        values = value if isinstance(value, list | tuple) else [value]
        if not values:
            raise InputError(f"{said} is an empty list: at least one value is needed")
        return tuple(self.of.checked(said, each) for each in values)

    def _part(self, part: str) -> list[Any]:
        if not part:
            raise ValueError("an empty name")
        if self._number is not None and ":" in part:
            return _steps(part, self._number)
        try:
            return [self.of.parse(part)]
        except ValueError as error:
            if isinstance(self.of, OneOf):
                raise ValueError(f"'{part}' is {error}") from None
            if self._number is not None and (ends := _WITH_A_DASH.fullmatch(part)):
                raise ValueError(f"'{part}' is not a number; a range is {ends[1]}:{ends[2]}") from None
            raise


_WITH_A_DASH = re.compile(r"([\d.]+)-([\d.]+)")


def _steps(part: str, of: Whole | Number) -> list[Any]:
    """``first:last`` or ``first:last:step``, both ends included."""
    kind: Any = int if isinstance(of, Whole) else float
    first, last, *steps = (of.parse(number) for number in part.split(":"))
    if len(steps) > 1:
        raise ValueError(f"'{part}' has more than first:last:step")
    step = steps[0] if steps else kind(1)
    if step <= 0 or last < first:
        raise ValueError(f"'{part}' does not rise from first to last by a positive step")
    count = int((last - first) / step + 1e-9) + 1
    if not steps and first + (count - 1) * step < last - 1e-9:
        such_as = f"{part}:{(last - first) / 4:.3g}"
        said = f"'{part}' does not reach {last:g} by steps of 1: give a step ({such_as})"
        raise ValueError(f"{said}; --ranges says where a rate lies")
    if count > MOST_VALUES:
        raise ValueError(f"'{part}' has {count} values")
    return [kind(round(first + i * step, 12)) for i in range(count)]


def _pairs(text: str) -> list[tuple[float, ...]]:
    return [ends(pair) for pair in text.split(",")]


def _list(said: str, value: Any) -> list[Any] | tuple[Any, ...]:
    if not isinstance(value, list | tuple) or not value:
        raise InputError(f"{said} must be a list, got {short_repr(value)}")
    return value
