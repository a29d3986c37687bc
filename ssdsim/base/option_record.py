"""Records whose fields are options: their checks, and the flags of the command line, follow from the fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar

from msgspec.structs import force_setattr

from ssdsim.base.kinds import Kind
from ssdsim.base.option import ALWAYS, Option, Section
from ssdsim.base.record import Record, field

R = TypeVar("R", bound="OptionRecord")


class _OptionDefault(Record):
    """What an option's field is filled with where nobody gives it; ``said`` is what its option says of itself."""

    default: Any
    said: Mapping[str, Any]

    def __call__(self) -> Any:
        return self.default


def option_field(kind: Kind, about: str, default: Any = None, **more: Any) -> Any:
    """A field that is an option; ``more`` is what :class:`ssdsim.base.option.Option` says beside."""
    return field(default_factory=_OptionDefault(default, {"kind": kind, "about": about, "default": default, **more}))


class OptionRecord(Record):
    """A record that checks each field that is an option, None being one that is not given; ``section`` and
    ``prominence`` are those of its options in help.
    """

    section: ClassVar[Section] = Section.START
    prominence: ClassVar[int] = ALWAYS

    def __post_init__(self) -> None:
        for name, option in options_of(type(self)).items():
            if (value := getattr(self, name)) is not None:
                force_setattr(self, name, option.checked(value))


def options_of(record: type[OptionRecord]) -> Mapping[str, Option]:
    """Options by the names of the fields, which are theirs but where a field says another ``name``."""
    own = {"section": record.section, "prominence": record.prominence}
    defaults = record.__struct_defaults__
    made_by = [getattr(default, "factory", None) for default in defaults]
    last = zip(record.__struct_fields__[-len(defaults) :], made_by, strict=False)
    return {name: Option(**{"name": name, **own, **by.said}) for name, by in last if isinstance(by, _OptionDefault)}


def option_names(record: type[OptionRecord]) -> Mapping[str, str]:
    """The name by which each field is given: an option's is its own."""
    options = options_of(record)
    return {name: options[name].name if name in options else name for name in record.__struct_fields__}


def pop_record(record: type[R], given: dict[str, Any]) -> R:
    """The record of what is ``given`` of it, which is taken out of there; None is not given."""
    values = {name: given.pop(option, None) for name, option in option_names(record).items()}
    return record(**{name: value for name, value in values.items() if value is not None})
