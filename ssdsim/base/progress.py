"""Listeners that hear how far long work is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar

Progress = Callable[[float, int], None]
"""Hears how much is done, of how much; of how much may be a guess."""

_hears_share: ContextVar[Callable[[float], None] | None] = ContextVar("hears_share", default=None)


def tell_share(done: float) -> None:
    """Tell whoever listens what share is done of the piece that this process works at."""
    heard = _hears_share.get()
    if heard is not None:
        heard(done)


def unheard(_share: float) -> None:
    """Hear nothing of the share that is done."""


@contextmanager
def hearing_shares(heard: Callable[[float], None]) -> Iterator[None]:
    """``heard`` hears what is told of one piece of work."""
    token = _hears_share.set(heard)
    try:
        yield
    finally:
        _hears_share.reset(token)


ProgressFactory = Callable[[str, str], AbstractContextManager[Progress]]
"""Who hears of a verb while it works, from its name and what it counts."""


@contextmanager
def nobody(verb: str, what: str) -> Iterator[Progress]:
    """Hear nothing."""
    yield lambda done, total: None
