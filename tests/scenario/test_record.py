"""A record is what ``dataclass(frozen=True)`` makes, but for what refuses a change while a program runs."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
import pytest

from ssdsim.base.record import record


def shape_of(made: Callable[[type], type]) -> Any:
    """The same class by either decorator."""

    class Shape:
        rows: int
        columns: int = 2
        name: str = field(default="", compare=False)
        parts: tuple[int, ...] = field(default_factory=tuple, repr=False)

    return made(Shape)


@record
class Line:
    length: int

    @cached_property
    def doubled(self) -> int:
        return 2 * self.length


@record(slots=True)
class Slotted:
    length: int
    width: int = 1


@record(kw_only=True)
class Named(Line):
    name: str = "line"


@record
class Nothing:
    pass


def test_a_record_is_written_compared_and_hashed_as_a_frozen_dataclass() -> None:
    ours, theirs = shape_of(record), shape_of(dataclass(frozen=True))
    assert inspect.signature(ours) == inspect.signature(theirs)
    assert [each.name for each in fields(ours)] == [each.name for each in fields(theirs)]
    assert repr(ours(1, parts=(3,))) == repr(theirs(1, parts=(3,)))
    for kind in (ours, theirs):
        assert kind(1, name="a") == kind(1, name="b")
        assert hash(kind(1, name="a")) == hash(kind(1, name="b"))
        assert kind(1) != kind(2)
        assert kind(1) != (1, 2, "", ())
        assert replace(kind(1), rows=4) == kind(4)
    assert ours(1) != theirs(1)


def test_a_record_of_one_field_or_none_is_compared_as_one_of_many() -> None:
    assert {Line(1): "a"}[Line(1)] == "a"
    assert Line(1) != Line(2)
    assert Line(1) != Named(length=1)
    assert Nothing() == Nothing()
    assert len({Nothing(), Nothing()}) == 1


def test_records_inherit_and_travel_between_processes() -> None:
    for each in (Line(3), Named(length=3, name="n"), Slotted(2)):
        assert pickle.loads(pickle.dumps(each)) == each
    assert Named(length=3, name="n").doubled == 6
    assert not hasattr(Slotted(1), "__dict__")


def test_arrays_are_compared_as_the_standard_library_compares_them() -> None:
    with pytest.raises(ValueError, match="ambiguous"):
        assert Line(np.ones(2)) == Line(np.ones(2))  # type: ignore[arg-type]


def test_a_method_of_its_own_stays() -> None:
    @record
    class Told:
        text: str

        def __repr__(self) -> str:
            return self.text

    assert repr(Told("so")) == "so"


def test_a_field_that_is_not_hashed_is_compared_all_the_same() -> None:
    @record
    class Place:
        name: str
        options: dict[str, int] = field(hash=False)

    assert hash(Place("a", {"k": 1})) == hash(Place("a", {"k": 2}))
    assert Place("a", {"k": 1}) != Place("a", {"k": 2})


@record
class Counted(Line):
    parts: list[int] = field(default_factory=list, kw_only=True)
    seen: dict[int, int] = field(default_factory=dict, init=False)
    times: int = field(default=3, init=False)
    area: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "area", self.length * self.times)


def test_what_no_argument_gives_is_made_for_each_record() -> None:
    one, other = Counted(2), Counted(2, parts=[1])
    one.parts.append(5)
    one.seen[1] = 1
    assert (other.parts, other.seen, other.times, other.area) == ([1], {}, 3, 6)
    with pytest.raises(TypeError, match=r"Line.__init__\(\) missing 1 required positional argument: 'length'"):
        Line()  # type: ignore[call-arg]
