"""What a user's mistake raises: a single line saying what, where and what is allowed."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Self

_WORD, _SHOWN = 300, 60  # characters of a word, and of the ends of a longer one
_SHORT = reprlib.Repr()
_SHORT.maxother = _SHORT.maxstring = 60


class InputError(ValueError):
    """Bad input. The message is one line, whatever it quotes; the command line prints it and exits with code 2."""

    def __init__(self, message: str) -> None:
        super().__init__(one_line(message))


Ways = Sequence[tuple[str, int]]
"""What would have room, each with the GPUs of a target there."""


class Shortage(str):
    """Why a strategy has no room: it lacks devices, memory or context. It ends with ``ways`` to have it."""

    lacks: str
    who: str
    ways: Ways

    def __new__(cls, lacks: str, who: str = "", ways: Ways = ()) -> Self:
        *others, last = [way for way, _ in ways] or [""]
        listed = " or ".join(filter(None, (", ".join(others), last)))
        made = super().__new__(cls, f"{lacks}; there is room{who} with {listed}" if listed else lacks)
        made.lacks, made.who, made.ways = lacks, who, ways
        return made

    def within(self, gpus: int) -> Shortage:
        """With those of its ways that take so many GPUs a target at most."""
        return Shortage(self.lacks, self.who, [(way, needed) for way, needed in self.ways if needed <= gpus])


class CannotRun(InputError):
    """A strategy cannot run as it was asked to; another one may."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class DoesNotFit(CannotRun):
    """A strategy has no room at a site; another one may."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason if isinstance(reason, Shortage) else Shortage(reason))


def heading(why: str) -> str:
    """The words in front of the reason why a strategy cannot run."""
    return "No room" if isinstance(why, Shortage) else "Cannot run"


def why_refused(subject: str, reasons: Mapping[str, str]) -> str:
    """Reason why a strategy cannot run: the subject's, else the first one. ``reasons`` is not empty."""
    return reasons.get(subject) or next(iter(reasons.values()))


def one_line(message: str) -> str:
    """A message on one line, of which words as long as no name is are cut: they quote what somebody gave."""
    return " ".join(word if len(word) <= _WORD else f"{word[:_SHOWN]}...{word[-_SHOWN:]}" for word in message.split())


def nearest(name: object, allowed: Iterable[str]) -> str:
    """``"; did you mean 'x'?"`` for the allowed name closest to ``name``, or a full stop."""
    close = closest(name, allowed)
    return f"; did you mean '{close}'?" if close else "."


def closest(name: object, allowed: Iterable[str], least: float = 0.5) -> str | None:
    """The allowed name that is most similar to ``name``; None if none is similar enough."""
    import difflib  # here, because only a mistake needs it

    return next(iter(difflib.get_close_matches(str(name).lower(), list(allowed), n=1, cutoff=least)), None)


def short_repr(value: Any) -> str:
    """A value that was given, on one short line."""
    try:
        return " ".join(_SHORT.repr(value).split())
    except ValueError:  # of thousands of digits, which Python does not write
        return "a number of thousands of digits"


@contextmanager
def as_utf_8(what: object) -> Iterator[None]:
    """Raise :class:`InputError` for bytes of an argument that are no characters, where they would be written."""
    try:
        yield
    except UnicodeEncodeError as error:
        said = short_repr(error.object[max(0, error.start - 20) : error.end + 20])
        raise InputError(f"{what}: {said} is no text in UTF-8, and cannot be written") from None
