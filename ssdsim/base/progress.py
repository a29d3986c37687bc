"""Listeners that hear how far long work is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

Progress = Callable[[int, int], None]
"""Hears how much is done, of how much; of how much may be a guess."""

Told = Callable[[str, str], AbstractContextManager[Progress]]
"""Who hears of a verb while it works, from its name and what it counts."""


@contextmanager
def nobody(verb: str, what: str) -> Iterator[Progress]:
    """Hear nothing."""
    yield lambda done, total: None
