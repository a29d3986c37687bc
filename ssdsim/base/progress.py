"""Progress of long work: who reports it, and who listens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar

Progress = Callable[[float, int], None]
"""Hears how much is done, of how much; of how much may be a guess."""

_hears_share: ContextVar[Callable[[float], None] | None] = ContextVar("hears_share", default=None)


def tell_share(done: float) -> None:
    """Report the share done of this process's piece of work."""
    heard = _hears_share.get()
    if heard is not None:
        heard(done)


def unheard(_share: float) -> None:
    """The default listener: ignore the share done."""


@contextmanager
def hearing_shares(heard: Callable[[float], None]) -> Iterator[None]:
    """Call ``heard`` with the share done of one piece of work."""
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
