"""Kinds of single values that an option takes: each says in words what a value must be, reads one and checks one."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, isfinite
from pathlib import Path
from typing import Any, Protocol

from ssdsim.base.checks import text
from ssdsim.base.errors import InputError, nearest, short_repr
from ssdsim.base.record import Record

_LARGEST = 1e15  # finite number of an option that may be infinite, too
_COLDEST = 1e-3  # temperature above 0
_LEAST_PERCENT = 2.0  # of a share: what is just above 1 is no percentage


class Kind:
    """A kind of value that an option takes.

    ``depth`` is how deep the lists are that make up one value; deeper ones are several values, the axis of a grid.
    ``metavar`` is how a person types one, ``words`` are all that may be typed, where these are few. ``parse_error``
    completes the complaint of a text that is none, ``'x' is ...``, where :meth:`parse` does not.
    """

    depth: int = 0
    words: tuple[str, ...] = ()

    @property
    def requirement(self) -> str:
        """What a value must be, after the word ``must``."""
        raise NotImplementedError

    @property
    def metavar(self) -> str:
        return "text"

    @property
    def parse_error(self) -> str:
        return ""

    def parse(self, text: str) -> Any:
        """The value of a text; ValueError if it has none. :meth:`checked` checks its range."""
        return text

    def checked(self, said: str, value: Any) -> Any:
        """``value`` converted to this kind; InputError, which calls it ``said``, if it is of another."""
        raise NotImplementedError


class Whole(Kind, Record):
    """A whole number. ``most`` is above any machine and any model, below what no computer could work out."""

    least: int = 1
    most: int = 1_000_000
    metavar = "integer"
    parse_error = "not a whole number such as 8 or 8k, which is 8192"

    @property
    def requirement(self) -> str:
        return f"be a whole number of at least {self.least} and at most {self.most:,}"

    def parse(self, text: str) -> int:
        """The number; a ``k`` is 1024, as lengths of contexts are told."""
        digits, each = (text[:-1], 1024) if text[-1:] in ("k", "K") else (text, 1)
        try:
            return int(digits) * each
        except ValueError:
            raise ValueError(f"'{text}' is not a whole number") from None

    def checked(self, said: str, value: Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or value < self.least:
            raise InputError(f"{said} must be a whole number of at least {self.least}, got {short_repr(value)}")
        if value > self.most:
            raise InputError(f"{said} must be at most {self.most:,}, got {short_repr(value)}")
        return value


class Number(Kind, Record):
    """A number from 0 on; a share or a probability with ``most`` 1, which ``80%`` says too."""

    most: float = 1e9
    least: float = 0.0
    metavar = "float"
    parse_error = "not a number such as 0.5"

    @property
    def requirement(self) -> str:
        if self.most <= 1.0:
            return f"lie in [{self.least:g}, {self.most:g}]"
        most = f"{self.most:,.12g}" if isfinite(self.most) else f"{_LARGEST:g}, or inf"
        return f"be at least {self.least:g} and at most {most}"

    def parse(self, text: str) -> float:
        if self.most == inf and text.lower().removeprefix("+") in ("inf", "infinity"):
            return inf
        return _share(text) if self.most <= 1.0 else _number(text)

    def checked(self, said: str, value: Any) -> float:
        known = isinstance(value, int | float) and self.least <= value <= self.most  # which NaN never is
        if not known or _LARGEST < value < inf:
            percent = self.most == 1.0 and isinstance(value, int | float) and _LEAST_PERCENT <= value <= 100.0
            hint = f"; {value:g} % is {value / 100.0:g}" if percent else ""
            raise InputError(f"{said} must {self.requirement}, got {short_repr(value)}{hint}")
        number: float = value
        return number


SHARE = Number(most=1.0)


class Temperature(Number):
    """A temperature of sampling: 0 is greedy, and one so near to 0 that no double divides by it is none."""

    most: float = 100.0

    @property
    def requirement(self) -> str:
        return f"be 0, or at least {_COLDEST:g} and at most {self.most:g}"

    def checked(self, said: str, value: Any) -> float:
        number = super().checked(said, value)
        if 0.0 < number < _COLDEST:
            raise InputError(f"{said} must {self.requirement}, got {short_repr(number)}")
        return number


class Percent(Number):
    """A share of at least 0, also as ``10%``."""

    metavar = "share"
    parse_error = "not a share of at least 0 such as 0.1 or 10%"

    def parse(self, text: str) -> float:
        share = _share(text)
        if not share >= 0.0:
            raise ValueError
        return share


class Between(Number):
    """A number, or the range in which it lies: ``0.8`` or ``0.75:0.85``."""

    metavar = "n|low:high"
    parse_error = "not a number, or a range such as 0.75:0.85"

    def parse(self, text: str) -> Any:
        return super().parse(text) if ":" not in text else _range(text)


class OneOf(Kind, Record):
    """A word of these; ``also`` are pairs of another spelling and the word that it means."""

    words: tuple[str, ...]
    also: tuple[tuple[str, str], ...] = ()

    @property
    def metavar(self) -> str:
        return f"[{'|'.join(self.words)}]"

    @property
    def requirement(self) -> str:
        return f"be one of {', '.join(self.words)}"

    def parse(self, text: str) -> str:
        if (word := self.meant(text)) not in self.words:
            raise ValueError(f"not one of {', '.join(map(repr, self.words))}{nearest(text, self.words)}")
        return word

    def checked(self, said: str, value: Any) -> str:
        word = self.meant(value) if isinstance(value, str) else None
        if word not in self.words:
            raise InputError(f"{said} must {self.requirement}, got {short_repr(value)}{nearest(value, self.words)}")
        return word

    def meant(self, spelling: str) -> str:
        """The word that a spelling means, or itself."""
        return spelling if spelling in self.words else dict(self.also).get(spelling.lower(), spelling)


class Flag(Kind, Record):
    """Yes or no; on the command line a word that stands alone."""

    requirement = "be true or false"

    def checked(self, said: str, value: Any) -> bool:
        if not isinstance(value, bool):
            raise InputError(f"{said} must {self.requirement}, got {short_repr(value)}")
        return value


class Registered(Protocol):
    """Things that have names: strategies, drafters."""

    @property
    def names(self) -> tuple[str, ...]: ...

    def named(self, name: str) -> Any:
        """The thing; InputError where there is none of that name."""


class Member(Kind, Record):
    """The name of one of several registered things."""

    of: Registered

    @property
    def requirement(self) -> str:
        return f"be one of {', '.join(self.of.names)}"

    def checked(self, said: str, value: Any) -> str:
        try:
            self.of.named(value)
        except InputError as error:
            raise InputError(f"{said}: {error}") from None
        return str(value)


class Name(Kind, Record):
    """The name of a bundled card or profile, or, with ``files``, a file's path; ``full`` is what a short one means.

    ``meant`` says that to a person (None: as ``full``); of a name that means itself it is the name.
    """

    files: bool = True
    full: Callable[[str], str] = str
    meant: Callable[[str], str] | None = None
    requirement = "be a name or a path"

    def checked(self, said: str, value: Any) -> str:
        return self.full(text(said, value))


class Text(Kind, Record):
    """Words that are understood elsewhere."""

    requirement = "be text"

    def checked(self, said: str, value: Any) -> str:
        return text(said, value)


class File(Kind, Record):
    """The path of a file."""

    metavar = "path"
    requirement = "be the path of a file"

    def parse(self, text: str) -> Path:
        return Path(text)

    def checked(self, said: str, value: Any) -> Path:
        return Path(text(said, value))


class NumberOrWord(Kind, Record):
    """A number, or a word in its place."""

    number: Whole | Number
    word: str

    @property
    def metavar(self) -> str:
        return f"n|{self.word}"

    @property
    def parse_error(self) -> str:
        return f"neither a {'whole number' if isinstance(self.number, Whole) else 'number'} nor '{self.word}'"

    @property
    def requirement(self) -> str:
        return f"{self.number.requirement}, or be '{self.word}'"

    def parse(self, text: str) -> Any:
        return text if text == self.word else self.number.parse(text)

    def checked(self, said: str, value: Any) -> Any:
        if isinstance(value, int | float):
            return self.number.checked(said, value)
        if value != self.word:
            raise InputError(f"{said} must {self.requirement}, got {short_repr(value)}")
        return value


class OneOrByPosition(Kind, Record):
    """A number for all positions of a speculation, or a list with one for each. In a grid a list is several values.

    As text it may be the range in which the number lies, too.
    """

    number: Number
    metavar = "rate[,rate...]|low:high"
    parse_error = "not a rate, a range such as 0.75:0.85 or a list of rates such as 0.9,0.85,0.8"

    @property
    def requirement(self) -> str:
        return f"{self.number.requirement}, alone or in a list by position"

    def parse(self, text: str) -> Any:
        if ":" in text:
            return _range(text)
        rates = [self.number.parse(part) for part in text.split(",")]
        return rates[0] if len(rates) == 1 else rates

    def checked(self, said: str, value: Any) -> Any:
        for number in value if isinstance(value, list | tuple) else [value]:
            self.number.checked(said, number)
        return value


def _share(text: str) -> float:
    """The share that ``0.8`` or ``80%`` says."""
    return _number(text[:-1]) / 100.0 if text.endswith("%") else _number(text)


def _number(text: str) -> float:
    """A float; ValueError in the words that a person reads where it is none."""
    try:
        number = float(text)
    except ValueError:
        raise ValueError(f"'{text}' is not a number") from None
    if not isfinite(number):
        raise ValueError(f"'{text}' is not a finite number")
    return number


def _range(text: str) -> str:
    """A range as text, normalised; ValueError unless it has two numbers."""
    low, high = ends(text)
    return f"{low!r}:{high!r}"


def ends(text: str) -> tuple[float, float]:
    """The two numbers that stand on both sides of a colon."""
    low, high = map(_share, text.split(":"))
    return low, high
