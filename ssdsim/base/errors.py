"""The one exception that a user's mistake raises: a single line saying what, where and what is allowed."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable
from typing import Any

_SHORT = reprlib.Repr()
_SHORT.maxother = _SHORT.maxstring = 60


class InputError(ValueError):
    """Bad input. The message is one line, whatever it quotes; the command line prints it and exits with code 2."""

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.split()))


def nearest(name: object, allowed: Iterable[str]) -> str:
    """``"; did you mean 'x'?"`` for the allowed name closest to ``name``, or a full stop."""
    import difflib  # here, because only a mistake needs it

    close = difflib.get_close_matches(str(name).lower(), list(allowed), n=1, cutoff=0.5)
    return f"; did you mean '{close[0]}'?" if close else "."


def told(value: Any) -> str:
    """What was given, on one short line."""
    return " ".join(_SHORT.repr(value).split())
