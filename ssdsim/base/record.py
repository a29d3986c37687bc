"""Records that code makes and nobody changes. Those that come from a file are :class:`ssdsim.base.records.Card`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any, TypeVar, dataclass_transform, overload

T = TypeVar("T")


@overload
def record(cls: type[T], /) -> type[T]: ...
@overload
def record(*, kw_only: bool = False, slots: bool = False) -> Callable[[type[T]], type[T]]: ...
@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def record(cls: Any = None, /, *, kw_only: bool = False, slots: bool = False) -> Any:
    """A dataclass as ``dataclass(frozen=True)`` makes it, with its equality, its hash and its text.

    Only type checkers refuse a change of a field. To refuse it while a program runs, the standard library compiles six
    methods a class, which was a fifth of the start of a short answer, and makes each record in four times the time.
    """

    def made(cls: type[T]) -> type[T]:
        of_fields = dataclass(eq=False, repr=False, kw_only=kw_only, slots=slots)(cls)
        for name, method in _methods(of_fields).items():
            if name not in cls.__dict__:
                setattr(of_fields, name, method)
        return of_fields

    return made if cls is None else made(cls)


def _values(names: list[str]) -> Callable[[Any], tuple[Any, ...]]:
    if len(names) > 1:
        return attrgetter(*names)
    return lambda self: tuple(getattr(self, name) for name in names)  # attrgetter of one gives no tuple


def _methods(cls: Any) -> dict[str, Callable[..., Any]]:
    compared = [each for each in fields(cls) if each.compare]
    values = _values([each.name for each in compared])
    of_hash = _values([each.name for each in compared if each.hash is not False])

    def equals(self: Any, other: object) -> Any:
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    def hashed(self: Any) -> int:
        return hash(of_hash(self))

    def shown(self: Any) -> str:
        said = ", ".join(f"{each.name}={getattr(self, each.name)!r}" for each in fields(self) if each.repr)
        return f"{type(self).__qualname__}({said})"

    return {"__eq__": equals, "__hash__": hashed, "__repr__": shown}
