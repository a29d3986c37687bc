"""The one exception that a user's mistake raises: a single line saying what, where and what is allowed."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class InputError(ValueError):
    """Bad input. The message is one line; the command line prints it and exits with code 2."""


def nearest(name: object, allowed: Iterable[str]) -> str:
    """``"; did you mean 'x'?"`` for the allowed name closest to ``name``, or an empty string."""
    close = difflib.get_close_matches(str(name).lower(), list(allowed), n=1, cutoff=0.5)
    return f"; did you mean '{close[0]}'?" if close else ""
