"""The space of the page's sliders and switches: the axes of the grid, and the options that are fixed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import product
from math import prod
from types import MappingProxyType
from typing import Any

import numpy as np

from ssdsim import strategies
from ssdsim.answers.predict import check_constant
from ssdsim.answers.verdict import rivals
from ssdsim.base.errors import CannotRun, InputError
from ssdsim.base.option import Group, spelled
from ssdsim.base.record import Record, field, replace
from ssdsim.question.checked_options import GridPart, without_unsaid
from ssdsim.question.configuration import configure
from ssdsim.question.engines import Engine, strategies_by_options
from ssdsim.question.option_usage import check_owners
from ssdsim.question.options import ALL, DEFAULTS, check_names
from ssdsim.question.points import Points, Steps
from ssdsim.question.question import Question
from ssdsim.question.token_inputs import TokenInput
from ssdsim.strategies.protocols.axes import SAGUARO
from ssdsim.tokens.pair_choice import chosen_by
from ssdsim.tokens.saguaro import PLAIN, known_cs

STOPS: Mapping[str, tuple[Any, ...]] = {
    "b": (1, 2, 4, 8, 16, 32, 64),
    "k": (1, 2, 3, 4, 6, 7, 8, 12),
    "f": (3, 4, 8, 16),
    "backup": ("auto", "jit", "fast"),
    "context": (1024, 4096, 16384),
}
"""Of a page for which nobody says others: all are exact."""
OF_PAIR: Mapping[str, tuple[Any, ...]] = {
    **STOPS,
    "b": (1, 8, 64),
    "k": (2, 4, 6),
    "f": (3, 6),
}
"""Of a page of a measured pair: fewer, since every point has rounds of its own for each rate that may be off."""
RANGES: Mapping[str, tuple[float, float]] = {
    "alpha": (0.3, 0.95),
    "p_hit": (0.3, 1.0),
    "hit_c": (0.1, 0.9),
    "hit_r": (0.4, 0.9),
    "t_sd": (0.05, 0.6),
}
"""What is interpolated, and between which ends."""
_ONLY_GIVEN = ("p_hit", "t_sd")  # which take the place of others
_MOST_CONTINUOUS = 5
SEARCHED = ("k", "f", SAGUARO.option)  # of which each strategy has a best stop of its own
BEST = "best"
SIDES = ("hardware", "engine")  # of which two stand side by side


Range = tuple[float, float]
Ranges = Mapping[str, Range | None]


class GridAxis(Record):
    """An option's stops, or its ends (later its nodes) if it is interpolated, and where the page starts.

    Between nodes it is interpolated in the logarithm of a ``log`` axis.
    ``best`` is a word for whichever stop is the best for a strategy.
    """

    name: str
    values: tuple[Any, ...]
    start: Any
    continuous: bool = False
    best: str | None = None
    log: bool = False
    opens_best: bool = False

    @property
    def opens(self) -> Any:
        """Where the page opens: the start, or the word for the best stop."""
        return self.best if self.opens_best else self.start

    def scaled(self, value: float) -> float:
        """The coordinate of a value in which it is interpolated."""
        return math.log(value) if self.log else value

    @property
    def nodes(self) -> list[float]:
        """The coordinates of the values."""
        return [self.scaled(value) for value in self.values]

    @property
    def stops(self) -> tuple[Any, ...]:
        """What a control offers: the stops, and the word for the best of them."""
        return self.values if self.best is None else (*self.values, self.best)

    @property
    def title(self) -> str:
        return ALL[self.name].axis


class Space(Record):
    """The ``fixed`` options, an axis for each other one, the strategies, and the axes that each of them reads.

    ``doubts`` are inputs of acceptance and hits that lie in a range and have a slider: its value is the range's middle,
    until they are said to be measured. ``Ranges`` of an option say where some of them lie: None as nobody said it.
    """

    fixed: Mapping[str, Any]
    axes: tuple[GridAxis, ...]
    doubts: tuple[TokenInput, ...] = ()
    names: tuple[str, ...] = ()
    subject: str = ""
    unit_free: bool = False
    read: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def axis(self, name: str) -> GridAxis:
        return next(axis for axis in self.axes if axis.name == name)

    @property
    def start(self) -> dict[str, Any]:
        """Where the page starts, by axis: where that is a word for the best stop, the stop that is taken without it."""
        return {axis.name: axis.start for axis in self.axes}

    @property
    def rivals(self) -> tuple[str, ...]:
        return rivals(self.subject, self.names)

    @property
    def unsaid(self) -> dict[str, Range | None]:
        """The doubts as they are until somebody moves them."""
        return {each.name: each.within if each.standing == "given" else None for each in self.doubts}

    def options(self, at: Mapping[str, Any], within: Ranges = MappingProxyType({})) -> dict[str, Any]:
        """Options for :func:`ssdsim.configure`; doubts that are not ``within`` a range are known."""
        return self._options_at(at, within)

    def alone(self, name: str, at: Mapping[str, Any], within: Ranges = MappingProxyType({})) -> dict[str, Any]:
        """Options of one strategy at a place; axes that it does not name stand at their start."""
        return _of_one(name, self._options_at({**self.start, **at}, within))

    def grid(self, name: str, axes: Sequence[str], within: Ranges = MappingProxyType({})) -> GridPart:
        """:meth:`alone` at every point of some axes, the last of them fastest."""
        options = _of_one(name, self._options_at(self.start, within))
        values = {each: self.axis(each).values for each in axes}
        single = {option: value for option, value in options.items() if option not in values}
        return GridPart(single, values, 0, prod(map(len, values.values())))

    @property
    def known_ranges(self) -> list[Any]:
        """The ranges that no slider moves."""
        mine = {each.name for each in self.doubts}
        return [each for each in self.fixed.get("ranges") or () if each[0] not in mine]

    def _options_at(self, at: Mapping[str, Any], within: Ranges) -> dict[str, Any]:
        said = {name: value for name, value in at.items() if value is not None and within.get(name, ()) is not None}
        moved = [(name, *ends) for name, ends in within.items() if ends is not None and name in said]
        ranges = [*self.known_ranges, *moved]
        fixed = {name: value for name, value in self.fixed.items() if name != "ranges"}
        return {**fixed, **said, **({"ranges": ranges} if ranges else {})}

    def with_axes(self, axes: Iterable[GridAxis]) -> Space:
        """The space with these axes in place of those of the same names."""
        changed = {axis.name: axis for axis in axes}
        return replace(self, axes=tuple(changed.get(axis.name, axis) for axis in self.axes))

    def restricted(self, name: str, value: Any) -> Space:
        """The space with one stop of an axis."""
        return self.with_axes([replace(self.axis(name), values=(value,))])

    def points(self, axes: Iterable[str]) -> Iterator[dict[str, Any]]:
        """Values of these axes at every point, the last axis fastest."""
        names = list(axes)
        for values in product(*(self.axis(name).values for name in names)):
            yield dict(zip(names, values, strict=True))


def _of_one(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    return {**{option: value for option, value in options.items() if option != "subject"}, "strategies": (name,)}


def space_of(given: Mapping[str, Any], exact: bool = False, start: Mapping[str, Any] = MappingProxyType({})) -> Space:
    """The space of options, of which some are lists: stops, or the ends between which a rate is interpolated.

    An option that the page varies by itself has the stops of :data:`STOPS` if it is not given, and starts at its value
    if it is. ``exact``: only the lists vary, and nothing is interpolated. ``start``: values of lists at which the page
    opens.
    """
    check_names(given)
    said = {name: plain_value(value) for name, value in without_unsaid(given).items()}
    check_owners(said)
    lists = {name: value for name, value in said.items() if is_list_of(name, value)}
    axes = [_listed(name, values, exact) for name, values in lists.items()]
    axes = [replace(axis, start=start[axis.name]) if start.get(axis.name) in axis.values else axis for axis in axes]
    if not exact:
        varied = [name for name in (*STOPS, *RANGES) if name not in lists and _is_varied(name, said)]
        axes += [_varied(name, said.get(name), OF_PAIR if "pair" in said else STOPS) for name in varied]
        axes += _of_pair({**said, **{axis.name: axis.start for axis in axes if axis.name in lists}})
    fixed = {name: value for name, value in said.items() if name not in {axis.name for axis in axes}}
    given_starts = {axis.name: axis.start for axis in axes if axis.name in said}
    inputs = {each.name: each for each in configure(**{**fixed, **given_starts}).inputs}
    axes = [each for axis in axes if (each := _about(axis, inputs.get(axis.name)))]
    ordered = sorted(axes, key=lambda axis: list(ALL).index(axis.name))
    kept = ordered if exact else [_possible_stops(axis, fixed, given_starts) for axis in ordered]
    open_ = {axis.name for axis in kept if axis and axis.continuous} & {
        each.name for each in inputs.values() if each.is_open
    }
    space = Space(fixed, tuple(axis for axis in kept if axis), tuple(inputs[name] for name in inputs if name in open_))
    found = _with_strategies(space)
    read = {name for names in found.read.values() for name in names}
    for axis in found.axes:
        if axis.name in said and axis.name not in read:
            raise InputError(f"{spelled(axis.name)} has no effect with --strategies {','.join(found.names)}")
    continuous = [axis.name for axis in found.axes if axis.continuous]
    if len(continuous) > _MOST_CONTINUOUS:
        named = ", ".join(map(spelled, continuous))
        raise InputError(f"at most {_MOST_CONTINUOUS} options are interpolated, these are {len(continuous)}: {named}")
    kept_doubts = tuple(each for each in found.doubts if each.name in read)
    axes = [_with_best(axis, found, said, exact) for axis in found.axes if axis.name in read]
    return replace(found, axes=tuple(axes), doubts=kept_doubts)


def _with_strategies(space: Space) -> Space:
    """The space with the strategies, and the axes that each of them reads."""
    base = configure(**space.options(space.start))
    check_constant(base.settings["spread"])
    asked = strategies_by_options(space.fixed)
    names = tuple(name for name in strategies.ALL.names if name in asked)
    if len(names) < 2:
        raise InputError(f"the page compares strategies: --strategies names only {names[0]}")
    steps = Steps()
    corners = list(_corners(space))
    options = {name: _read([space.alone(name, at) for at in corners], name, steps) for name in names}
    read = {
        name: tuple(axis.name for axis in space.axes if Group.HARDWARE in ALL[axis.name].groups or axis.name in known)
        for name, known in options.items()
    }
    return replace(space, names=names, subject=base.subject, unit_free=base.site is None, read=read)


def side_axis(space: Space) -> str | None:
    """The axis whose stops stand side by side, if any."""
    return next((axis.name for axis in space.axes if axis.name in SIDES and len(axis.values) > 1), None)


def random_value(axis: GridAxis, rng: np.random.Generator) -> Any:
    """A random value of an axis."""
    if axis.continuous:
        return float(rng.uniform(axis.values[0], axis.values[-1]))
    return axis.values[int(rng.integers(len(axis.values)))]


def _corners(space: Space) -> Iterator[dict[str, Any]]:
    """The start, then each end of each axis and each word. A strategy may read more options where it drafts more."""
    yield {}
    for axis in space.axes:
        ends = axis.values if isinstance(axis.values[0], str) else (axis.values[0], axis.values[-1])
        yield from ({axis.name: end} for end in ends)


def _read(points: Sequence[Mapping[str, Any]], name: str, steps: Steps) -> frozenset[str]:
    """Options that a strategy reads at some of the points at which it has room."""
    return frozenset[str]().union(*(scenario.reads for scenario in Points(points, steps).scenarios(name)))


def _with_best(axis: GridAxis, space: Space, said: Mapping[str, Any], exact: bool) -> GridAxis:
    """The axis with a word for its best stop, where each strategy has a best one of its own.

    The word takes the place of ``auto`` of the fallbacks, the better of the others, if only one strategy reads it.
    """
    readers = [name for name, axes in space.read.items() if axis.name in axes]
    if axis.name == "backup" and set(axis.values) == {"auto", "jit", "fast"} and len(readers) == 1:
        return replace(axis, values=tuple(value for value in axis.values if value != "auto"), best="auto")
    given = {name for name, value in said.items() if not is_list_of(name, value)}
    searched = axis.name in SEARCHED and len(axis.values) > 1 and not space.unit_free and "p_hit" not in said
    return replace(axis, best=BEST, opens_best=not exact and axis.name not in given) if searched else axis


def _about(axis: GridAxis, each: TokenInput | None) -> GridAxis | None:
    """The axis of a rate with its start at what is known of it, and its range on it; None if that is no one number."""
    if not axis.continuous or each is None or (each.standing == "given" and each.within is None):
        return axis
    if not isinstance(each.value, int | float):
        return None
    ends = (*axis.values, each.value, *(each.within or ()))
    return replace(
        axis, values=(min(ends), max(ends)), start=float(each.value), log=axis.log and _is_log(axis.name, min(ends))
    )


def _possible_stops(axis: GridAxis, fixed: Mapping[str, Any], given: Mapping[str, Any]) -> GridAxis | None:
    """The axis with the stops that are possible beside what is given; None if none is."""
    beside = {**fixed, **given}
    if axis.name in given:
        for value in axis.values if _is_listed(axis) else (axis.start,):
            _check({**beside, axis.name: value})
    possible = [value for value in axis.values if _is_possible({**beside, axis.name: value})]
    if axis.continuous:
        return axis if len(possible) == len(axis.values) else None
    start = axis.start if axis.start in possible else next(iter(possible), None)
    return replace(axis, values=tuple(possible), start=start) if possible else None


def _is_listed(axis: GridAxis) -> bool:
    return axis.name not in STOPS and axis.name not in RANGES


def plain_value(value: Any) -> Any:
    """Arrays, tuples and ranges as lists."""
    if hasattr(value, "tolist"):
        return value.tolist()
    return list(value) if isinstance(value, tuple | range) else value


def is_list_of(name: str, value: Any) -> bool:
    """Say whether the value is a list of values of an option: the stops of an axis."""
    return isinstance(value, list) and bool(value) and isinstance(value[0], list) == (ALL[name].kind.depth > 0)


def _is_varied(name: str, said: Mapping[str, Any]) -> bool:
    """Say whether the page varies an option: numbers and words, not rates by position or measured ones."""
    if name not in said:
        measured = name in RANGES and "pair" in said
        return name not in _ONLY_GIVEN and not measured and not (name == "f" and "p_hit" in said)
    return isinstance(said[name], int | float) if name in RANGES else said[name] != "window"


def _listed(name: str, values: Sequence[Any], exact: bool) -> GridAxis:
    values = [ALL[name].checked(each) for each in values]
    middle, default = values[len(values) // 2], DEFAULTS.get(name)
    start = default if default in values else middle
    if name in RANGES and len(values) > 1 and not exact:
        return GridAxis(name, (min(values), max(values)), start, continuous=True, log=_is_log(name, min(values)))
    return GridAxis(name, tuple(values), start)


def _varied(name: str, given: Any, of: Mapping[str, tuple[Any, ...]]) -> GridAxis:
    start = DEFAULTS[name] if given is None else ALL[name].checked(given)
    if name in RANGES:
        low, high = RANGES[name]
        return GridAxis(
            name, (min(low, start), max(high, start)), start, continuous=True, log=_is_log(name, min(low, start))
        )
    stops = of[name]
    if start not in stops:
        stops = tuple(sorted((*stops, start)))
    return GridAxis(name, stops, start)


def _is_log(name: str, low: float) -> bool:
    """Say whether an axis is interpolated in its logarithm: rounds in which all hit are steep in few misses."""
    return name == "hit_c" and low > 0.0


def _of_pair(said: Mapping[str, Any]) -> list[GridAxis]:
    """Axes of a measured pair: its sets of requests, its temperatures, and the C that it knows at the one asked for."""
    found = chosen_by(said, said.get("temperature"))
    if found is None:
        return []
    temperatures = sorted(each for each in found.pair.temperatures if each is not None)
    sets = [
        name for name in found.pair.by_temperature[0].sets if all(name in at.sets for at in found.pair.by_temperature)
    ]
    axes = [GridAxis("pair_set", (None, *sets), None)] if found.set_name is None else []
    if "temperature" not in said and len(temperatures) > 1:
        axes.append(GridAxis("temperature", tuple(temperatures), found.temperature))
    elif SAGUARO.option not in said and _scales(said):
        axes.append(GridAxis(SAGUARO.option, _few(known_cs(said)), PLAIN))
    return [axis for axis in axes if len(axis.values) > 1]


def _scales(said: Mapping[str, Any]) -> bool:
    """Whether every strategy of the page that may sample by Saguaro's C does so in the engine, if one is named."""
    least = min(known_cs(said), default=PLAIN)
    return said.get("engine") is None or (
        not isinstance(said["engine"], list) and Engine.of(said).lacks_scale(strategies_by_options(said), least) is None
    )


def _few(known: Sequence[float]) -> tuple[float, ...]:
    """Plain sampling first, as the simplest, then the one in the middle, and the least."""
    return tuple(sorted({known[0], known[len(known) // 2], PLAIN}, reverse=True)) if known else ()


def _is_possible(options: Mapping[str, Any]) -> bool:
    try:
        _check(options)
    except InputError:
        return False
    return True


def _check(options: Mapping[str, Any]) -> None:
    """Refuse options that make no sense together; lack of room is no reason."""
    asked = Question.of(options)
    for name in asked.contestants.names:
        with suppress(CannotRun):
            list(asked.scenarios(name))
