"""A record is compared, hashed and shown by its fields, and refuses a change of them."""

from __future__ import annotations

import pickle
from copy import copy
from functools import cached_property
from inspect import signature

import numpy as np
import pytest

from calibration.timings.answer import Calibration
from ssdsim.base.record import Record, field, replace


class Line(Record):
    length: int

    @cached_property
    def doubled(self) -> int:
        return 2 * self.length


class Named(Line, kw_only=True):
    name: str = "line"
    parts: list[int] = field(default_factory=list)


class Nothing(Record):
    pass


def test_a_record_refuses_a_change() -> None:
    line = Line(1)
    with pytest.raises(AttributeError, match="immutable type: 'Line'"):
        line.length = 2  # type: ignore[misc]
    with pytest.raises(AttributeError, match="immutable type: 'Line'"):
        line.width = 2  # type: ignore[attr-defined]
    assert replace(line, length=2) == Line(2)
    assert line == Line(1)


def test_a_record_is_shown_compared_and_hashed_by_its_fields() -> None:
    assert repr(Named(1, parts=[2])) == "Named(length=1, name='line', parts=[2])"
    assert {Line(1): "a"}[Line(1)] == "a"
    assert Line(1) != Line(2)
    assert Line(1) != Named(length=1)
    assert len({Nothing(), Nothing()}) == 1
    with pytest.raises(TypeError, match="unhashable"):
        hash(Named(1))


class Even(Record):
    number: int

    def __post_init__(self) -> None:
        if self.number % 2:
            raise ValueError("odd")


def test_a_copy_with_other_fields_is_checked_as_a_new_record_is() -> None:
    for made in (lambda: Even(1), lambda: replace(Even(2), number=3)):
        with pytest.raises(ValueError, match="odd"):
            made()


def test_a_signature_has_types_as_they_are_written() -> None:
    """Msgspec evaluated them, so that `help` failed where one is imported for type checkers alone."""
    assert str(signature(Named)) == "(length: 'int', *, name: 'str' = 'line', parts: 'list[int]' = <factory>)"
    assert "checks: 'Sequence[PassCheck]'" in str(signature(Calibration))


def test_what_no_argument_gives_is_made_for_each_record() -> None:
    one, other = Named(2), Named(2)
    one.parts.append(5)
    assert other.parts == []
    with pytest.raises(TypeError, match="Missing required argument 'length'"):
        Line()  # type: ignore[call-arg]


def test_records_travel_between_processes_without_what_they_worked_out() -> None:
    line = Named(3, name="n")
    assert line.doubled == 6
    for made in (pickle.loads(pickle.dumps(line)), copy(line), replace(line)):
        assert made == line
        assert not vars(made)


def test_arrays_are_not_compared_in_one_word() -> None:
    with pytest.raises(ValueError, match="ambiguous"):
        assert Line(np.ones(2)) == Line(np.ones(2))  # type: ignore[arg-type]


def test_a_method_of_its_own_stays() -> None:
    class Text(Record):
        text: str

        def __repr__(self) -> str:
            return self.text

    assert repr(Text("so")) == "so"
