"""Options of a scenario: kind, default, help and conflicts of each; and records whose fields are options."""

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

Searcher = Literal["recommend", "schedule", "plan"]
"""An answer that varies options by itself."""


class Group(Enum):
    """Groups of options, so that another option can exclude all of them and an answer can treat them alike."""

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
"""The prominence of options that every first page of help shows."""


class Excludes(Record):
    """A conflict: none of ``others`` may be given with this option. ``{it}`` in the ``message`` is the one that was.

    The conflict holds only if this option equals ``when``, or has one of its types, and all of ``given_with`` are
    given. ``spared``: in a grid that varies this option, points at which it holds go without ``others``.
    """

    others: tuple[str | Group, ...]
    message: str
    when: str | tuple[type, ...] | None = None
    given_with: tuple[str, ...] = ()
    spared: bool = False

    def holds(self, name: str, given: Mapping[str, Any]) -> bool:
        """Tell whether the conflict holds among the ``given`` options; ``name`` is this option's."""
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

    ``default`` None: the value is derived from other options, as ``default_note`` says, or unused. ``spellings`` are
    flags of the command line besides ``--name``. ``varied_by`` are the answers that search the option and so do not
    accept it. ``axis`` is the title of a report's axis, with the unit in brackets; a ``doubling`` option has a
    logarithmic axis. ``symbol`` is its name in formulas, if it has another one there. ``plausible`` is the range of
    values of real pairs, for a default that nobody measured. Help lists it below ``section``, or else below its
    strategy or drafter. The first page of help shows the options of the greatest ``prominence``, and never those of 0.
    ``example`` is a value for help, if the default shows none. ``unsaid`` is a word that leaves the value to the
    answer, as if nobody gave it; ``default`` is then the value of answers that do not choose, and ``default_note`` says
    what others do.
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
    unsaid: str = ""

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
        """The line of help: the description and the default."""
        shown = self.default_note if self.default is None or self.unsaid else self.default
        shown = ",".join(shown) if isinstance(shown, tuple) else shown
        return self.help_text(f"default: {shown}" if shown != "" and shown is not False else "")

    def help_text(self, also: str = "") -> str:
        """The description, then the note ``also`` and an example in brackets."""
        notes = "; ".join(each for each in (also, f"such as {self.example}" if self.example else "") if each)
        return f"{self.about} [{notes}]" if notes else self.about

    def checked(self, value: Any) -> Any:
        """``value`` converted to the option's kind; InputError if it is of another kind or out of range."""
        return self.kind.checked(self.spelling, value)


choice = partial(Option, groups=(Group.CHOICE,))
"""What a person can choose."""

searched_choice = partial(choice, varied_by=("recommend", "schedule"))
"""A choice that ``recommend`` and ``schedule`` search."""

machine_choice = partial(choice, section=Section.MACHINE, groups=(Group.HARDWARE, Group.CHOICE))
"""A choice of devices, or of what runs on them."""


def number(value: Any) -> str:
    """A value of an option as a person writes it."""
    return f"{value:g}" if isinstance(value, float) else str(value)


def spelled(name: str) -> str:
    """The command-line spelling of an option's name."""
    return "--" + name.replace("_", "-")


def in_python(options: Iterable[Option]) -> dict[str, str]:
    """The names of options by all their spellings, as Python has them: ``batch_size`` is ``b``."""
    return {flag.lstrip("-").replace("-", "_"): option.name for option in options for flag in option.flags}


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
    """The default factory of an option's field; ``attributes`` are those of the option."""

    default: Any
    attributes: Mapping[str, Any]

    def __call__(self) -> Any:
        return self.default


def option_field(kind: Kind, about: str, default: Any = None, **more: Any) -> Any:
    """A field that is an option; ``more`` are further attributes of :class:`ssdsim.base.option.Option`."""
    return field(default_factory=_OptionDefault(default, {"kind": kind, "about": about, "default": default, **more}))


class OptionRecord(Record):
    """A record that checks its option fields when it is made; None means not given.

    ``section`` and ``prominence`` apply to all its options in help.
    """

    section: ClassVar[Section] = Section.START
    prominence: ClassVar[int] = ALWAYS

    def __post_init__(self) -> None:
        for name, option in options_of(type(self)).items():
            if (value := getattr(self, name)) is not None:
                force_setattr(self, name, option.checked(value))


def options_of(record: type[OptionRecord]) -> Mapping[str, Option]:
    """The options by field; an option is called as its field unless it has a ``name`` of its own."""
    own = {"section": record.section, "prominence": record.prominence}
    defaults = record.__struct_defaults__
    made_by = [getattr(default, "factory", None) for default in defaults]
    last = zip(record.__struct_fields__[-len(defaults) :], made_by, strict=False)
    return {
        name: Option(**{"name": name, **own, **by.attributes}) for name, by in last if isinstance(by, _OptionDefault)
    }


def option_names(record: type[OptionRecord]) -> Mapping[str, str]:
    """The option name of each field; a field that is no option keeps its own name."""
    options = options_of(record)
    return {name: options[name].name if name in options else name for name in record.__struct_fields__}


def pop_record(record: type[R], given: dict[str, Any]) -> R:
    """Pop this record's options from ``given`` and build it; None means not given."""
    values = {name: given.pop(option, None) for name, option in option_names(record).items()}
    return record(**{name: value for name, value in values.items() if value is not None})
