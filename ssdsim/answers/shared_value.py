"""A value that pieces of work share, on its way to other processes."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, TypeVar
from uuid import uuid4

_MOST_KEPT = 16

T = TypeVar("T")
Work = Sequence[tuple[Any, ...]]
"""The arguments of each piece, of which the first is what pieces share: a process keeps it, with all that it learns."""


class Shared:
    """A value on its way to other processes, where whoever has got it before goes on with that copy."""

    def __init__(self, value: Any, key: str | None = None) -> None:
        self.value = value
        self._key = key or uuid4().hex

    @cached_property
    def _data(self) -> bytes:
        import cloudpickle  # strategies that were registered in __main__ travel, too

        data: bytes = cloudpickle.dumps(self.value)
        return data

    def __reduce__(self) -> tuple[Callable[..., Shared], tuple[str, bytes]]:
        return _received, (self._key, self._data)


_KEPT: dict[str, Shared] = {}


def _received(key: str, data: bytes) -> Shared:
    if key not in _KEPT:
        if len(_KEPT) >= _MOST_KEPT:
            _KEPT.clear()
        _KEPT[key] = Shared(pickle.loads(data), key)
    return _KEPT[key]


def with_shared(work: Work) -> list[tuple[Any, ...]]:
    """Copy pieces so that their first arguments travel once."""
    shared = {id(first): Shared(first) for first, *_ in work}
    return [(shared[id(first)], *rest) for first, *rest in work]


def run_with(run: Callable[..., T], shared: Shared, *arguments: Any) -> T:
    return run(shared.value, *arguments)
