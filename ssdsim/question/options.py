"""All options of a scenario in one table, and the checks of those that are given together."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import cache
from typing import Any

from ssdsim import strategies
from ssdsim.base.errors import InputError, closest
from ssdsim.base.kinds import Name, Number, OneOrByPosition
from ssdsim.base.option import Excludes, Group, Needs, Option, Searcher, by_name, in_python, spelled
from ssdsim.question.comparison_options import ACCEPTANCE, RANGES, WHOM
from ssdsim.question.site_options import DURATIONS, SITE
from ssdsim.strategies import drafters

_FIRST: tuple[Option, ...] = (*WHOM, *ACCEPTANCE)
_THEN: tuple[Option, ...] = (*RANGES, *SITE, *DURATIONS)
SHARED = (*_FIRST, *_THEN)
"""Options that are no strategy's or drafter's own."""

ALL: dict[str, Option] = {}
"""Options by name, in the order of --help and of the axes of a grid (the last varies fastest): those that help lists
in a section, owners' among them, then those that it lists below their owners."""

DEFAULTS: dict[str, Any] = {}
_exclusions: list[tuple[str, Excludes, tuple[str, ...]]] = []
_needs: list[tuple[str, Needs]] = []


def _read_records() -> None:
    """Rebuild the tables after a strategy or a drafter was registered or forgotten."""
    own = [option for owner in (*strategies.ALL, *drafters.ALL) for option in owner.options]
    options = by_name(_FIRST, [option for option in own if option.section is not None], _THEN, own)
    ALL.clear()
    ALL.update(options)
    DEFAULTS.clear()
    DEFAULTS.update({name: option.default for name, option in ALL.items()})
    for table in (members, ranged, decisive, spellings, _owners):
        table.cache_clear()
    _exclusions[:] = [(name, each, names_of(each.others)) for name, option in ALL.items() for each in option.excludes]
    _needs[:] = [(name, option.needs) for name, option in ALL.items() if option.needs is not None]


@cache
def members(group: Group) -> tuple[str, ...]:
    """The names of a group."""
    return tuple(name for name, option in ALL.items() if group in option.groups)


@cache
def ranged() -> tuple[str, ...]:
    """Rates of acceptance and of hits, of which a range may be given: plain numbers."""
    return tuple(name for name in members(Group.ACCEPTANCE) if isinstance(ALL[name].kind, Number | OneOrByPosition))


@cache
def decisive() -> tuple[str, ...]:
    """Options that exclude others by their value, not by being given."""
    return tuple(dict.fromkeys(name for name, exclusion, _ in _exclusions if exclusion.when is not None))


@cache
def spellings() -> Mapping[str, str]:
    """The names of options by all their spellings in Python."""
    return in_python(ALL.values())


@cache
def _owners() -> Mapping[str, list[Any]]:
    """The strategies and drafters that own an option, by the option's name."""
    found: dict[str, list[Any]] = {}
    for owner in (*strategies.ALL, *drafters.ALL):
        for option in owner.options:
            found.setdefault(option.name, []).append(owner)
    return found


def varied_by(searcher: Searcher) -> tuple[str, ...]:
    """Options that an answer varies by itself."""
    return tuple(name for name, option in ALL.items() if searcher in option.varied_by)


def names_of(others: Iterable[str | Group]) -> tuple[str, ...]:
    """Names, and groups as the names of their members; KeyError at one that no option has."""
    named = (members(other) if isinstance(other, Group) else (ALL[other].name,) for other in others)
    return tuple(name for names in named for name in names)


for registry in (strategies.ALL, drafters.ALL):
    registry.watchers.append(_read_records)
_read_records()


def files() -> tuple[str, ...]:
    """Options whose value may name a file."""
    return tuple(name for name, option in ALL.items() if isinstance(option.kind, Name) and option.kind.files)


def owners(name: str) -> tuple[str, tuple[str, ...]] | None:
    """Who owns an option: ``strategies`` or ``drafter``, and their names; None of a shared option."""
    if ALL[name].section is not None:
        return None
    for chooser, registry in (("strategies", strategies.ALL), ("drafter", drafters.ALL)):
        if names := tuple(owner.name for owner in _owners().get(name, ()) if owner in registry):
            return chooser, names
    return None


def heading(option: Option) -> str:
    """The heading that help lists an option below: its section, or the titles of who has it."""
    if option.section is not None:
        return option.section.value
    return f"Options of {', '.join(each.title for each in _owners().get(option.name, ()))}"


def refuse_others(verb: str, given: Iterable[str], allowed: Collection[str]) -> None:
    """Raise :class:`InputError` for a name that ``verb`` does not take."""
    for name in given:
        if name not in allowed:
            raise unknown(f"{verb} has no option '{name}'", name, allowed)


def check_names(given: Iterable[str]) -> None:
    """Raise :class:`InputError` at an option that does not exist, naming the nearest one."""
    for name in given:
        if name not in ALL:
            raise unknown(f"unknown option '{name}'", name, ALL)


def unknown(said: str, name: object, allowed: Collection[str]) -> InputError:
    """The error about an option that is not ``allowed``; other spellings of the command line are known.

    >>> unknown("no option 'batch_size'", "batch_size", ("b", "k"))
    InputError('batch_size is spelled b here')
    >>> str(unknown("no option 'batch_sise'", "batch_sise", ("b", "k")))
    "no option 'batch_sise'; did you mean 'b'? Allowed: b, k"
    """
    names = {spelling: own for spelling, own in spellings().items() if own in allowed} | {own: own for own in allowed}
    asked = str(name).lstrip("-").replace("-", "_")
    if asked in names:
        return InputError(f"{name} is spelled {names[asked]} here")
    close = closest(asked, names)
    hint = f"; did you mean '{names[close]}'?" if close else "."
    return InputError(f"{said}{hint} Allowed: {', '.join(allowed)}")


def with_ranges(given: Mapping[str, Any]) -> dict[str, Any]:
    """``given``, where a rate said as ``0.75:0.85`` is its middle and a range; so is one that has but a range."""
    if "ranges" not in given and not any(isinstance(value, str) and name in ranged() for name, value in given.items()):
        return dict(given)
    values = dict(given)
    ranges = {} if values.get("ranges") is None else _by_name(ALL["ranges"].checked(values["ranges"]))
    for name in ranged():
        if isinstance(values.get(name), str):
            ranges[name] = _ends(name, values.pop(name))
    if not ranges:
        return values
    for name, (low, high) in ranges.items():
        if values.get(name) is None:
            values[name] = (low + high) / 2.0
        elif not (isinstance(values[name], int | float) and low <= values[name] <= high):
            raise InputError(f"--ranges {name}={low:g}:{high:g} must hold {spelled(name)}, which is {values[name]}")
    return {**values, "ranges": tuple((name, *ranges[name]) for name in ALL if name in ranges)}


def _by_name(triples: Iterable[tuple[str, float, float]]) -> dict[str, tuple[float, float]]:
    allowed, ends = ranged(), dict[str, tuple[float, float]]()
    for name, low, high in triples:
        if name not in allowed:
            raise unknown(f"--ranges: no such number '{name}'", name, allowed)
        ends[name] = _rising(f"--ranges {name}={low:g}:{high:g}", name, low, high)
    return ends


def _rising(said: str, name: str, low: float, high: float) -> tuple[float, float]:
    """The ends, checked; InputError, quoting what was ``said``, where one is no such number or they fall."""
    for end in (low, high):
        ALL[name].checked(end)
    if not low <= high:
        raise InputError(f"{said} must not fall: {high:g}:{low:g}")
    return low, high


def _ends(name: str, text: str) -> tuple[float, float]:
    """The ends of ``0.75:0.85``."""
    try:
        low, high = map(float, text.split(":"))
    except ValueError:
        raise InputError(
            f"{spelled(name)} must {ALL[name].kind.requirement}, or be a range such as 0.75:0.85, got '{text}'"
        ) from None
    return _rising(f"{spelled(name)} {text}", name, low, high)


def effective_options(options: Mapping[str, Any], chosen: Mapping[str, Any]) -> dict[str, Any]:
    """``options`` without those that have no effect beside the chosen ones."""
    both = {**options, **chosen}
    idle = {
        other
        for name in chosen
        for each in ALL[name].excludes
        if each.holds(name, both)
        for other in names_of(each.others)
    }
    return {name: value for name, value in options.items() if name not in idle}


def spared(axes: Collection[str]) -> list[tuple[str, Excludes, tuple[str, ...]]]:
    """What a grid over ``axes`` leaves out at some of its points: who excludes it, where, and its names."""
    return [(name, each, others) for name, each, others in _exclusions if each.spared and name in axes]


def without(options: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    """``options`` without some, nor their ranges."""
    kept = {name: value for name, value in options.items() if name not in (*names, "ranges")}
    ranges = tuple(each for each in ranges_in(options) if each[0] not in names)
    return {**kept, "ranges": ranges} if ranges else kept


def ranges_in(options: Mapping[str, Any]) -> tuple[tuple[str, float, float], ...]:
    """The ranges that are given, each of an option: its name, and between what it lies."""
    return tuple(ALL["ranges"].checked(options["ranges"])) if options.get("ranges") else ()


def changed(options: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """``options`` with other values: what has no effect beside these goes, and the ranges of the old ones."""
    made = {**effective_options(options, change), **change}
    if kept := tuple(each for each in made.pop("ranges", None) or () if each[0] not in change):
        made["ranges"] = kept
    return made


def as_python(value: Any) -> Any:
    """A NumPy number (as DataFrames hold) as a Python number; an array as a list."""
    return value.tolist() if type(value).__module__ == "numpy" and hasattr(value, "tolist") else value


def check_combination(given: Mapping[str, Any]) -> None:
    """Refuse an option that changes nothing in this call: it is a mistake, not a preference."""
    for name, exclusion, others in _exclusions:
        if name in given and exclusion.holds(name, given):
            for other in others:
                if other in given:
                    raise InputError(exclusion.message.format(it=spelled(other)))
    for name, needs in _needs:
        if name in given and not any(other in given for other in needs.any_of):
            raise InputError(f"{spelled(name)} needs {' or '.join(map(spelled, needs.any_of))} {needs.why}")
