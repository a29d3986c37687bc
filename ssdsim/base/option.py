"""Options: what checks, command line, grids, reports and docs say of each; and records whose fields are options."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum, auto
from functools import cached_property, partial
from itertools import chain
from types import MappingProxyType
from typing import Any, ClassVar, Literal, TypeVar

from msgspec.structs import force_setattr

from ssdsim.base.kinds import Kind
from ssdsim.base.record import Record, field

Searcher = Literal["recommend", "schedule"]
"""An answer that varies options by itself."""


class Group(Enum):
    """Options that belong together: what another one makes meaningless, or an answer treats alike."""

    HARDWARE = auto()  # devices, and what is priced on them
    UNIT_FREE = auto()  # durations in units of T_v, in place of hardware
    GIVEN_DURATIONS = auto()  # not the profile's: nobody can be advised to deploy them
    CACHE_SHAPE = auto()  # from which hit rates follow
    POWER_LAW = auto()  # of hit rates over fan-outs
    BACKUP_QUALITY = auto()  # of a backup that is not the primary
    ACCEPTANCE = auto()  # how tokens are accepted and guesses hit
    HITS = auto()  # of these, how often guesses hit
    CHOICE = auto()  # what a person can choose; the rest is given by the workload


class Section(Enum):
    """The heading below which help lists an option, in the order of the headings."""

    START = "Start"
    REQUESTS = "Requests"
    BATCHING = "Batching"
    MODELS = "Models and drafter"
    MACHINE = "Machine"
    ACCEPTANCE = "Acceptance"
    HITS = "Cache hits"
    UNIT_FREE = "Unit-free times"
    OUTPUT = "Output"


ALWAYS = 10
"""The prominence of what a first page of help never leaves out."""


class Excludes(Record):
    """Options that must not be given with this one, and the ``message`` about ``{it}`` that is.

    It holds only if this one equals ``when``, or is of one of its types, and if all of ``given_with`` are given, too.
    """

    others: tuple[str | Group, ...]
    message: str
    when: str | tuple[type, ...] | None = None
    given_with: tuple[str, ...] = ()

    def holds(self, name: str, given: Mapping[str, Any]) -> bool:
        """Tell whether it excludes in this call, ``name`` being the option's own."""
        if name not in given or not all(other in given for other in self.given_with):
            return False
        if isinstance(self.when, tuple):
            return isinstance(given[name], self.when)
        return self.when is None or given[name] == self.when


class Needs(Record):
    """One of ``any_of`` must be given beside this one."""

    any_of: tuple[str, ...]
    why: str


class Option(Record, kw_only=True):
    """An option of a scenario.

    ``default`` None: it follows from others, as ``default_note`` says, or has no part. ``spellings`` are more flags of
    the command line, whose first is ``--name``. ``varied_by`` are the answers that search it, and so do not take it as
    given. ``axis`` is the title of a report's axis, its unit in brackets, where a report has one of it; ``doubling``
    values want a logarithmic one.
    ``symbol`` is what formulas call it, where that is not its name. ``plausible`` is where the values of real pairs
    lie, of an option whose default nobody measured. Help lists it below ``section``, or below the name of the strategy
    or drafter that has it; a first page has those of the greatest ``prominence``, none of 0. ``example`` is a value, of
    an option whose default shows none.
    """

    name: str
    kind: Kind
    about: str
    axis: str = ""
    default: Any = None
    default_note: str = ""
    spellings: tuple[str, ...] = ()
    symbol: str = ""
    doubling: bool = False
    varied_by: tuple[Searcher, ...] = ()
    groups: tuple[Group, ...] = ()
    excludes: tuple[Excludes, ...] = ()
    needs: Needs | None = None
    plausible: tuple[float, float] | None = None
    section: Section | None = None
    prominence: int = 0
    example: str = ""

    @cached_property
    def spelling(self) -> str:
        return spelled(self.name)

    @cached_property
    def flags(self) -> tuple[str, ...]:
        """Every spelling on the command line."""
        return (self.spelling, *self.spellings)

    @property
    def short(self) -> str:
        """The symbol, or else the name."""
        return self.symbol or self.name

    @property
    def help(self) -> str:
        """The line of help: what it is, and what it is where nobody says."""
        shown = self.default_note if self.default is None else self.default
        shown = ",".join(shown) if isinstance(shown, tuple) else shown
        return self.help_text(f"default: {shown}" if shown != "" and shown is not False else "")

    def help_text(self, also: str = "") -> str:
        """What it is, with an example and what is ``also`` said of it, in one line."""
        notes = "; ".join(each for each in (also, f"such as {self.example}" if self.example else "") if each)
        return f"{self.about} [{notes}]" if notes else self.about

    def checked(self, value: Any) -> Any:
        """``value`` as it is used; InputError where it is out of range, or of another kind."""
        return self.kind.checked(self.spelling, value)


choice = partial(Option, groups=(Group.CHOICE,))
"""What a person can choose."""

searched_choice = partial(choice, varied_by=("recommend", "schedule"))
"""A choice that the answers which advise one search."""

machine_choice = partial(choice, section=Section.MACHINE, groups=(Group.HARDWARE, Group.CHOICE))
"""A choice of devices, or of what runs on them."""


def number(value: Any) -> str:
    """A value of an option as a person writes it."""
    return f"{value:g}" if isinstance(value, float) else str(value)


def spelled(name: str) -> str:
    """The command-line spelling of an option's name."""
    return "--" + name.replace("_", "-")


def by_name(*tables: Iterable[Option]) -> Mapping[str, Option]:
    """The options of several owners in one table, in their order. Owners may share a record.

    Raises
    ------
    ValueError : two records of one name differ, or two options have a spelling in common.
    """
    options: dict[str, Option] = {}
    owners: dict[str, str] = {}
    for option in chain.from_iterable(tables):
        if options.setdefault(option.name, option) != option:
            raise ValueError(f"two different options are called {option.name}")
        for flag in option.flags:
            if owners.setdefault(flag, option.name) != option.name:
                raise ValueError(f"{flag} is a spelling of both {owners[flag]} and {option.name}")
    return MappingProxyType(options)


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
