"""Kinds of values that an option takes: each says in words what a value must be, and checks one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

from ssdsim.base.checks import text
from ssdsim.base.errors import InputError, nearest, told


class Kind(Protocol):
    """What one value of an option may be."""

    @property
    def must(self) -> str:
        """What a value must be or do, after the word ``must``."""

    @property
    def depth(self) -> int:
        """How deep the lists are that make up one value; deeper ones are several values, the axis of a grid."""

    def checked(self, said: str, value: Any) -> Any:
        """``value`` as it is used; InputError, calling it ``said``, where it is not of this kind."""


@dataclass(frozen=True)
class Whole:
    """A whole number. ``most`` is above any machine and any model, below what no computer could work out."""

    least: int = 1
    most: int = 1_000_000
    depth = 0

    @property
    def must(self) -> str:
        return f"be a whole number of at least {self.least} and at most {self.most:,}"

    def checked(self, said: str, value: Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or value < self.least:
            raise InputError(f"{said} must be a whole number of at least {self.least}, got {told(value)}")
        if value > self.most:
            raise InputError(f"{said} must be at most {self.most:,}, got {told(value)}")
        return value


@dataclass(frozen=True)
class Number:
    """A number from 0 on; a share or a probability with ``most`` 1."""

    most: float = 1e9
    depth = 0

    @property
    def must(self) -> str:
        return f"lie in [0, {self.most:g}]" if self.most == 1.0 else f"be at least 0 and at most {self.most:,.12g}"

    def checked(self, said: str, value: Any) -> float:
        if not isinstance(value, int | float) or not 0.0 <= value <= self.most:  # which NaN never does
            raise InputError(f"{said} must {self.must}, got {told(value)}")
        return value


SHARE = Number(most=1.0)


@dataclass(frozen=True)
class OneOf:
    """A word of these; ``also`` are pairs of another spelling and the word that it means."""

    words: tuple[str, ...]
    also: tuple[tuple[str, str], ...] = ()
    depth = 0

    @property
    def must(self) -> str:
        return f"be one of {', '.join(self.words)}"

    def checked(self, said: str, value: Any) -> str:
        word = self.meant(value) if isinstance(value, str) else None
        if word not in self.words:
            raise InputError(f"{said} must {self.must}, got {told(value)}{nearest(value, self.words)}")
        return word

    def meant(self, spelling: str) -> str:
        """The word that a spelling means, or itself."""
        return spelling if spelling in self.words else dict(self.also).get(spelling.lower(), spelling)


@dataclass(frozen=True)
class Flag:
    """Yes or no; on the command line a word that stands alone."""

    must = "be true or false"
    depth = 0

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
class Member:
    """The name of one of several registered things."""

    of: Registered
    depth = 0

    @property
    def must(self) -> str:
        return f"be one of {', '.join(self.of.names)}"

    def checked(self, said: str, value: Any) -> str:
        _named(said, self.of, value)
        return str(value)


@dataclass(frozen=True)
class Names:
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
class Name:
    """The name of a bundled card or profile, or, with ``files``, a file's path; ``full`` is what a short one means."""

    files: bool = True
    full: Callable[[str], str] = str
    must = "be a name or a path"
    depth = 0

    def checked(self, said: str, value: Any) -> str:
        return self.full(text(said, value))


@dataclass(frozen=True)
class NumberOrWord:
    """A number, or a word in its place."""

    number: Whole | Number
    word: str
    depth = 0

    @property
    def must(self) -> str:
        return f"{self.number.must}, or be '{self.word}'"

    def checked(self, said: str, value: Any) -> Any:
        if isinstance(value, int | float):
            return self.number.checked(said, value)
        if value != self.word:
            raise InputError(f"{said} must {self.must}, got {told(value)}")
        return value


@dataclass(frozen=True)
class OneOrByPosition:
    """A number for all positions of a speculation, or a list with one for each. In a grid a list is several values."""

    number: Number
    depth = 0

    @property
    def must(self) -> str:
        return f"{self.number.must}, alone or in a list by position"

    def checked(self, said: str, value: Any) -> Any:
        for number in value if isinstance(value, list | tuple) else [value]:
            self.number.checked(said, number)
        return value


@dataclass(frozen=True)
class ListOf:
    """A list of numbers."""

    number: Whole | Number
    depth = 1

    @property
    def must(self) -> str:
        return f"be a list, each of which must {self.number.must}"

    def checked(self, said: str, value: Any) -> Any:
        for number in _list(said, value):
            self.number.checked(said, number)
        return value


@dataclass(frozen=True)
class HitRates:
    """Fan-outs with their measured hit rates. That rates lie in [0, 1] and never fall the curve itself checks."""

    most: float = 1_000_000

    must = "be pairs of a fan-out and its hit rate"
    depth = 2

    def checked(self, said: str, value: Any) -> Any:
        for pair in _list(said, value):
            if not isinstance(pair, list | tuple) or len(pair) != 2:
                raise InputError(f"{said} must {self.must}, got {told(pair)}")
            for number in pair:
                Number(self.most).checked(said, number)
        return value


@dataclass(frozen=True)
class PassTimes:
    """Rows of a pass with the time that it takes: rows rise, times never fall."""

    must = "be pairs of rows and a time, with rising rows and times that never fall"
    depth = 2

    def checked(self, said: str, value: Any) -> Any:
        pairs = [tuple(pair) if isinstance(pair, list | tuple) else () for pair in _list(said, value)]
        numbers = all(len(pair) == 2 and all(isinstance(each, int | float) for each in pair) for pair in pairs)
        if not numbers or any(not 0.0 <= each <= 1e9 for pair in pairs for each in pair):
            raise InputError(f"{said} must {self.must}, got {told(value)}")
        if any(after[0] <= before[0] or after[1] < before[1] for before, after in pairwise(pairs)):
            raise InputError(f"{said} must {self.must}, got {told(value)}")
        return value


@dataclass(frozen=True)
class Ranges:
    """Names of numbers with the two ends of where each may lie: ``{"alpha": (0.75, 0.85)}``, or triples."""

    must = "be names with two ends each, such as alpha=0.75:0.85"
    depth = 2

    def checked(self, said: str, value: Any) -> tuple[tuple[str, float, float], ...]:
        if isinstance(value, Mapping):
            value = [(name, *(ends if isinstance(ends, list | tuple) else ())) for name, ends in value.items()]
        for triple in _list(said, value):
            whole = isinstance(triple, list | tuple) and len(triple) == 3 and isinstance(triple[0], str)
            if not whole or not all(isinstance(end, int | float) for end in triple[1:]):
                raise InputError(f"{said} must {self.must}, got {told(triple)}")
        return tuple((str(name), float(low), float(high)) for name, low, high in value)


def _list(said: str, value: Any) -> list[Any] | tuple[Any, ...]:
    if not isinstance(value, list | tuple) or not value:
        raise InputError(f"{said} must be a list, got {told(value)}")
    return value
