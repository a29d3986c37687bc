"""Records whose fields are options: their checks, and the flags of the command line, follow from the fields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, fields
from typing import Any, ClassVar, TypeVar

from ssdsim.base.kinds import Kind
from ssdsim.base.option import ALWAYS, Option, Section
from ssdsim.base.record import record

R = TypeVar("R", bound="OptionRecord")


def asked(kind: Kind, about: str, default: Any = None, **more: Any) -> Any:
    """A field that is an option; ``more`` is what :class:`ssdsim.base.option.Option` says beside."""
    return field(default=default, metadata={"option": {"kind": kind, "about": about, **more}})


@record
class OptionRecord:
    """A record that checks each field that is an option, None being one that is not given; ``section`` and
    ``prominence`` are those of its options in help.

    Raises
    ------
    InputError : a value that is none of its option's.
    """

    section: ClassVar[Section] = Section.START
    prominence: ClassVar[int] = ALWAYS

    def __post_init__(self) -> None:
        for name, option in options_of(type(self)).items():
            if (value := getattr(self, name)) is not None:
                object.__setattr__(self, name, option.checked(value))


def options_of(record: type[OptionRecord]) -> Mapping[str, Option]:
    """Options by the names of the fields, which are theirs but where a field says another ``name``."""
    said = {each.name: (each.default, each.metadata["option"]) for each in fields(record) if "option" in each.metadata}
    own = {"section": record.section, "prominence": record.prominence}
    return {name: Option(**{"name": name, "default": default, **own, **more}) for name, (default, more) in said.items()}


def called(record: type[OptionRecord]) -> Mapping[str, str]:
    """The name by which each field is given: an option's is its own."""
    options = options_of(record)
    return {
        each.name: options[each.name].name if each.name in options else each.name
        for each in fields(record)
        if each.init
    }


def taken(record: type[R], given: dict[str, Any]) -> R:
    """The record of what is ``given`` of it, which is taken out of there; None is not given."""
    values = {name: given.pop(option, None) for name, option in called(record).items()}
    return record(**{name: value for name, value in values.items() if value is not None})
