"""Kinds of values that an option takes: each says in words what a value must be, reads one and checks one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import isfinite
from pathlib import Path
from typing import Any, Protocol

from ssdsim.base.checks import text
from ssdsim.base.errors import InputError, nearest, told

MOST_VALUES = 10_000  # of a range: more is a slip of the step


class Kind:
    """A kind of value that an option takes.

    ``depth`` is how deep the lists are that make up one value; deeper ones are several values, the axis of a grid.
    ``form`` is how a person types one, ``words`` are all that may be typed, where these are few. ``unless`` completes
    the complaint of a text that is none, ``'x' is ...``, where :meth:`parse` does not.
    """

    depth: int = 0
    words: tuple[str, ...] = ()

    @property
    def must(self) -> str:
        """What a value must be or do, after the word ``must``."""
        raise NotImplementedError

    @property
    def form(self) -> str:
        return "text"

    @property
    def unless(self) -> str:
        return ""

    def parse(self, text: str) -> Any:
        """The value that a text says; ValueError where it says none. Whether it is in range :meth:`checked` tells."""
        return text

    def checked(self, said: str, value: Any) -> Any:
        """``value`` as it is used; InputError, calling it ``said``, where it is not of this kind."""
        raise NotImplementedError


@dataclass(frozen=True)
class Whole(Kind):
    """A whole number. ``most`` is above any machine and any model, below what no computer could work out."""

    least: int = 1
    most: int = 1_000_000
    form = "integer"
    unless = "not a whole number such as 8 or 8k, which is 8192."

    @property
    def must(self) -> str:
        return f"be a whole number of at least {self.least} and at most {self.most:,}"

    def parse(self, text: str) -> int:
        """A ``k`` is 1024, as lengths of contexts are told."""
        return int(text[:-1]) * 1024 if text[-1:] in ("k", "K") else int(text)

    def checked(self, said: str, value: Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or value < self.least:
            raise InputError(f"{said} must be a whole number of at least {self.least}, got {told(value)}")
        if value > self.most:
            raise InputError(f"{said} must be at most {self.most:,}, got {told(value)}")
        return value


@dataclass(frozen=True)
class Number(Kind):
    """A number from 0 on; a share or a probability with ``most`` 1, which ``80%`` says too."""

    most: float = 1e9
    least: float = 0.0
    form = "float"
    unless = "not a valid float."

    @property
    def must(self) -> str:
        if self.most <= 1.0:
            return f"lie in [{self.least:g}, {self.most:g}]"
        return f"be at least {self.least:g}" + (f" and at most {self.most:,.12g}" if isfinite(self.most) else "")

    def parse(self, text: str) -> float:
        return _share(text) if self.most <= 1.0 else float(text)

    def checked(self, said: str, value: Any) -> float:
        if not isinstance(value, int | float) or not self.least <= value <= self.most:  # which NaN never does
            raise InputError(f"{said} must {self.must}, got {told(value)}")
        return value


SHARE = Number(most=1.0)


@dataclass(frozen=True)
class Percent(Number):
    """A share of at least 0, also as ``10%``."""

    form = "share"
    unless = "not a share of at least 0 such as 0.1 or 10%"

    def parse(self, text: str) -> float:
        share = _share(text)
        if not share >= 0.0:
            raise ValueError
        return share


@dataclass(frozen=True)
class Between(Number):
    """A number, or the range in which it lies: ``0.8`` or ``0.75:0.85``."""

    form = "n|low:high"
    unless = "not a number, or a range such as 0.75:0.85"

    def parse(self, text: str) -> Any:
        return super().parse(text) if ":" not in text else _range(text)


@dataclass(frozen=True)
class OneOf(Kind):
    """A word of these; ``also`` are pairs of another spelling and the word that it means."""

    words: tuple[str, ...]
    also: tuple[tuple[str, str], ...] = ()

    @property
    def form(self) -> str:
        return f"[{'|'.join(self.words)}]"

    @property
    def must(self) -> str:
        return f"be one of {', '.join(self.words)}"

    def parse(self, text: str) -> str:
        if (word := self.meant(text)) not in self.words:
            raise ValueError(f"not one of {', '.join(map(repr, self.words))}{nearest(text, self.words)}")
        return word

    def checked(self, said: str, value: Any) -> str:
        word = self.meant(value) if isinstance(value, str) else None
        if word not in self.words:
            raise InputError(f"{said} must {self.must}, got {told(value)}{nearest(value, self.words)}")
        return word

    def meant(self, spelling: str) -> str:
        """The word that a spelling means, or itself."""
        return spelling if spelling in self.words else dict(self.also).get(spelling.lower(), spelling)


@dataclass(frozen=True)
class Flag(Kind):
    """Yes or no; on the command line a word that stands alone."""

    must = "be true or false"

    def checked(self, said: str, value: Any) -> bool:
        if not isinstance(value, bool):
            raise InputError(f"{said} must {self.must}, got {told(value)}")
        return value


class Registered(Protocol):
    """Things that have names: strategies, drafters."""

    @property
    def names(self) -> tuple[str, ...]: ...

    def named(self, name: str) -> Any:
        """The thing; InputError where there is none of that name."""


def _named(said: str, of: Registered, name: Any) -> None:
    """Raise :class:`InputError` that says which option names what is not registered."""
    try:
        of.named(name)
    except InputError as error:
        raise InputError(f"{said}: {error}") from None


@dataclass(frozen=True)
class Member(Kind):
    """The name of one of several registered things."""

    of: Registered

    @property
    def must(self) -> str:
        return f"be one of {', '.join(self.of.names)}"

    def checked(self, said: str, value: Any) -> str:
        _named(said, self.of, value)
        return str(value)


@dataclass(frozen=True)
class Names(Kind):
    """Names of registered things: a list, or text with commas between them."""

    of: Registered
    depth = 1

    @property
    def must(self) -> str:
        return f"name some of {', '.join(self.of.names)}, each once"

    def checked(self, said: str, value: Any) -> tuple[str, ...]:
        names = tuple(value.split(",")) if isinstance(value, str) else tuple(_list(said, value))
        for name in names:
            _named(said, self.of, name)
        if len(set(names)) < len(names):
            raise InputError(f"{said} must {self.must}, got {','.join(names)}")
        return names


@dataclass(frozen=True)
class Name(Kind):
    """The name of a bundled card or profile, or, with ``files``, a file's path; ``full`` is what a short one means."""

    files: bool = True
    full: Callable[[str], str] = str
    must = "be a name or a path"

    def checked(self, said: str, value: Any) -> str:
        return self.full(text(said, value))


@dataclass(frozen=True)
class Text(Kind):
    """Words that are understood elsewhere."""

    must = "be text"

    def checked(self, said: str, value: Any) -> str:
        return text(said, value)


@dataclass(frozen=True)
class File(Kind):
    """The path of a file."""

    form = "path"
    must = "be the path of a file"

    def parse(self, text: str) -> Path:
        return Path(text)

    def checked(self, said: str, value: Any) -> Path:
        return Path(text(said, value))


@dataclass(frozen=True)
class NumberOrWord(Kind):
    """A number, or a word in its place."""

    number: Whole | Number
    word: str

    @property
    def form(self) -> str:
        return f"n|{self.word}"

    @property
    def unless(self) -> str:
        return f"neither a {'whole number' if isinstance(self.number, Whole) else 'number'} nor '{self.word}'"

    @property
    def must(self) -> str:
        return f"{self.number.must}, or be '{self.word}'"

    def parse(self, text: str) -> Any:
        return text if text == self.word else self.number.parse(text)

    def checked(self, said: str, value: Any) -> Any:
        if isinstance(value, int | float):
            return self.number.checked(said, value)
        if value != self.word:
            raise InputError(f"{said} must {self.must}, got {told(value)}")
        return value


@dataclass(frozen=True)
class OneOrByPosition(Kind):
    """A number for all positions of a speculation, or a list with one for each. In a grid a list is several values.

    As text it may be the range in which the number lies, too.
    """

    number: Number
    form = "rate[,rate...]|low:high"
    unless = "not a rate, a range such as 0.75:0.85 or a list of rates such as 0.9,0.85,0.8"

    @property
    def must(self) -> str:
        return f"{self.number.must}, alone or in a list by position"

    def parse(self, text: str) -> Any:
        if ":" in text:
            return _range(text)
        rates = [self.number.parse(part) for part in text.split(",")]
        return rates[0] if len(rates) == 1 else rates

    def checked(self, said: str, value: Any) -> Any:
        for number in value if isinstance(value, list | tuple) else [value]:
            self.number.checked(said, number)
        return value


@dataclass(frozen=True)
class ListOf(Kind):
    """A list of numbers."""

    number: Whole | Number
    depth = 1

    @property
    def form(self) -> str:
        return "n[,n...]" if isinstance(self.number, Whole) else "number[,number...]"

    @property
    def unless(self) -> str:
        such_as = "whole numbers such as 4,3,2,1" if isinstance(self.number, Whole) else "numbers such as 0.6,0.2,0.1"
        return f"not a list of {such_as}"

    @property
    def must(self) -> str:
        return f"be a list, each of which must {self.number.must}"

    def parse(self, text: str) -> list[Any]:
        return [self.number.parse(part) for part in text.split(",")]

    def checked(self, said: str, value: Any) -> Any:
        for number in _list(said, value):
            self.number.checked(said, number)
        return value


@dataclass(frozen=True)
class HitRates(Kind):
    """Fan-outs with their measured hit rates. That rates lie in [0, 1] and never fall the curve itself checks."""

    most: float = 1_000_000

    form = "f:h[,f:h...]"
    unless = "not a list of fan-outs and hit rates such as 1:0.6,2:0.7,4:0.8"
    must = "be pairs of a fan-out and its hit rate"
    depth = 2

    def parse(self, text: str) -> list[tuple[float, ...]]:
        return _pairs(text)

    def checked(self, said: str, value: Any) -> Any:
        for pair in _list(said, value):
            if not isinstance(pair, list | tuple) or len(pair) != 2:
                raise InputError(f"{said} must {self.must}, got {told(pair)}")
            for number in pair:
                Number(self.most).checked(said, number)
        return value


@dataclass(frozen=True)
class PassTimes(Kind):
    """Rows of a pass with the time that it takes: rows rise, times never fall."""

    form = "rows:time[,...]"
    unless = "not a list of rows and times such as 16:1,64:1.1,128:2"
    must = "be pairs of rows and a time, with rising rows and times that never fall"
    depth = 2

    def parse(self, text: str) -> list[tuple[float, ...]]:
        return _pairs(text)

    def checked(self, said: str, value: Any) -> Any:
        pairs = [tuple(pair) if isinstance(pair, list | tuple) else () for pair in _list(said, value)]
        numbers = all(len(pair) == 2 and all(isinstance(each, int | float) for each in pair) for pair in pairs)
        if not numbers or any(not 0.0 <= each <= 1e9 for pair in pairs for each in pair):
            raise InputError(f"{said} must {self.must}, got {told(value)}")
        if any(after[0] <= before[0] or after[1] < before[1] for before, after in pairwise(pairs)):
            raise InputError(f"{said} must {self.must}, got {told(value)}")
        return value


@dataclass(frozen=True)
class Ranges(Kind):
    """Names of numbers with the two ends of where each may lie: ``{"alpha": (0.75, 0.85)}``, or triples."""

    form = "input=low:high[,...]"
    unless = "no input with its range such as alpha=0.75:0.85"
    must = "be names with two ends each, such as alpha=0.75:0.85"
    depth = 2

    def parse(self, text: str) -> tuple[tuple[str, float, float], ...]:
        named = [part.partition("=") for part in text.split(",")]
        return tuple((name.replace("-", "_"), *_ends(ends)) for name, _, ends in named)

    def checked(self, said: str, value: Any) -> tuple[tuple[str, float, float], ...]:
        if isinstance(value, Mapping):
            value = [(name, *(ends if isinstance(ends, list | tuple) else ())) for name, ends in value.items()]
        for triple in _list(said, value):
            whole = isinstance(triple, list | tuple) and len(triple) == 3 and isinstance(triple[0], str)
            if not whole or not all(isinstance(end, int | float) for end in triple[1:]):
                raise InputError(f"{said} must {self.must}, got {told(triple)}")
        return tuple((str(name), float(low), float(high)) for name, low, high in value)


@dataclass(frozen=True)
class Lists(Kind):
    """Values that are lists themselves, with a slash between them: ``4,3,2,1/3,3,2,2``."""

    each: Kind

    @property
    def form(self) -> str:
        return f"{self.each.form}[/...]"

    @property
    def unless(self) -> str:
        return self.each.unless

    def parse(self, text: str) -> list[Any]:
        return [self.each.parse(part) for part in text.split("/")]


@dataclass(frozen=True)
class Several(Kind):
    """Values of a kind in a list, an inclusive range or both: ``1,2,4``, ``1:8``, ``0.5:1:0.1``, ``1,2,4:16:4``.

    A range is of numbers; words may stand beside them.
    """

    of: Kind

    @property
    def form(self) -> str:
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
        return tuple(self.of.checked(said, each) for each in (value if isinstance(value, list | tuple) else [value]))

    def _part(self, part: str) -> list[Any]:
        if not part:
            raise ValueError("an empty name")
        if self._number is not None and ":" in part:
            return _steps(part, self._number)
        if not isinstance(self.of, OneOf):
            return [self.of.parse(part)]
        try:
            return [self.of.parse(part)]
        except ValueError as error:
            raise ValueError(f"'{part}' is {error}") from None


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
        raise ValueError(
            f"'{part}' does not reach {last:g} by steps of 1: give a step; --ranges says where a rate lies"
        )
    if count > MOST_VALUES:
        raise ValueError(f"'{part}' has {count} values")
    return [kind(round(first + i * step, 12)) for i in range(count)]


def _share(text: str) -> float:
    """Of ``0.8`` or ``80%``."""
    return float(text[:-1]) / 100.0 if text.endswith("%") else float(text)


def _range(text: str) -> str:
    """The text itself, which the option reads; ValueError where it has not two numbers."""
    low, high = _ends(text)
    return f"{low!r}:{high!r}"


def _ends(text: str) -> tuple[float, float]:
    low, high = map(_share, text.split(":"))
    return low, high


def _pairs(text: str) -> list[tuple[float, ...]]:
    return [_ends(pair) for pair in text.split(",")]


def _list(said: str, value: Any) -> list[Any] | tuple[Any, ...]:
    if not isinstance(value, list | tuple) or not value:
        raise InputError(f"{said} must be a list, got {told(value)}")
    return value
