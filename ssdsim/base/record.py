"""Records that code makes and nobody changes. Those that come from a file are :class:`ssdsim.base.records.Card`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, Field, dataclass, field, fields
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
    The one that is compiled here, ``__init__``, takes a third of the time that it takes there.
    """

    def made(cls: type[T]) -> type[T]:
        of_fields = dataclass(init=False, eq=False, repr=False, kw_only=kw_only, slots=slots)(cls)
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

    return {"__init__": _initialiser(cls), "__eq__": equals, "__hash__": hashed, "__repr__": shown}


class _Factory:
    """The default of an argument of which each record gets its own."""

    def __repr__(self) -> str:
        return "<factory>"


def _initialiser(cls: Any) -> Callable[..., None]:
    """``__init__`` of a class whose fields are known."""
    named: dict[str, Any] = {"_factory": _Factory()}
    alone: list[str] = []
    by_name: list[str] = []
    steps: list[str] = []
    for each in fields(cls):
        argument, value = _argument(each, named)
        if each.init:
            (by_name if each.kw_only else alone).append(argument)
        if value:
            steps.append(f"self.{each.name} = {value}")
    if hasattr(cls, "__post_init__"):
        steps.append("self.__post_init__()")
    arguments = ", ".join(["self", *alone, *(["*", *by_name] if by_name else [])])
    exec(f"def __init__({arguments}): {'; '.join(steps or ['pass'])}", named)
    made: Callable[..., None] = named["__init__"]
    made.__qualname__, made.__module__ = f"{cls.__qualname__}.__init__", cls.__module__
    made.__annotations__ = {**{each.name: each.type for each in fields(cls) if each.init}, "return": None}
    return made


def _argument(each: Field[Any], named: dict[str, Any]) -> tuple[str, str]:
    """The argument and the value of a field; what these are made of is ``named``."""
    name, own = each.name, f"_own_{each.name}"
    if each.default_factory is not MISSING:
        named[own] = each.default_factory
        return f"{name}=_factory", f"{own}() if {name} is _factory else {name}" if each.init else f"{own}()"
    if each.default is not MISSING:
        named[own] = each.default
        return f"{name}={own}", name if each.init else own
    return name, name if each.init else ""
