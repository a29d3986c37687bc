"""Strategies at many points, at each at their own best: the searches of all points go on side by side, in columns.

Each point has the settings that :func:`ssdsim.answers.own_best.at_their_best` finds for it alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any

import numpy as np

from ssdsim.answers.decision import TIED, Candidate, simplest
from ssdsim.answers.own_best import Searched, Variant, VariantSearch, candidate_of, searched, searched_options
from ssdsim.base.checks import Array
from ssdsim.base.record import Record
from ssdsim.base.settings import GIVEN, Entry, Settings
from ssdsim.question.many import DrawnRates, estimate
from ssdsim.question.point_table import Column, Rows, groups
from ssdsim.question.points import Points, Scenarios
from ssdsim.question.question import OWN_BEST
from ssdsim.strategies.protocols.strategy import Strategy

_AT_ONCE = 64  # scenarios under draws: columns of 512 kB, which stay in a cache
_SHAPES = (
    *("alpha", "acceptance", "pair", "pair_set", "temperature", "extrapolate"),
    *("target", "engine", "ep", "attention"),
)
"""Options whose values, not only that they are given, say what is searched."""
_OUT_OF_REACH = 0.015
"""Of log speed. An alternative this far behind by the closed form cannot be first under draws of timings alone."""


def best_scenarios(points: Points, name: str, rates: DrawnRates) -> Scenarios:
    """A strategy's scenario at each of the points that ask for it, at its own best there."""
    places = points.asking(name)
    axes = _axes(points, places, points.steps.of_strategy(name).strategy)
    is_free = np.array([bool(each) for each in axes.values], dtype=bool)[axes.index]
    given = points.scenarios(name, places[~is_free])
    found = given.take(_best_alternatives(given, rates))
    if not is_free.any():
        return found
    at = np.flatnonzero(is_free)
    settings = [points.table.settings(place) for place in places[at].tolist()]
    searches = [
        VariantSearch(each, found.strategy, axes.at(one)) for each, one in zip(settings, at.tolist(), strict=True)
    ]
    chosen = _run(points, name, places[at], searches, rates)
    turned = [_turned(*each) for each in zip(settings, searches, chosen, strict=True)]
    return found.joined(points.scenarios(name, places[at], Column(turned, np.arange(len(at)))))


def _axes(points: Points, places: Rows, strategy: Strategy) -> Column[Searched]:
    """What is searched at each of the places: it follows from which options are given, and from a few values."""
    table = points.table.take(places)
    given = [column.map(_is_given) for column in table.options.values()]
    shapes = [
        table.options[name].map(_shape) if name == "alpha" else table.options[name]
        for name in _SHAPES
        if name in table.options
    ]
    first, group = groups([*(each.distinct for each in given), *(each.distinct for each in shapes)], len(places))
    return Column([searched(table.settings(place), strategy) for place in first.tolist()], group)


def _is_given(entry: Entry | None) -> bool:
    return entry is not None and entry[1] == GIVEN


def _shape(entry: Entry | None) -> Any:
    """The value of alpha, but for single rates, which are all alike: a list alone says how far K goes."""
    return None if entry is None or isinstance(entry[0], float) else entry


def _best_alternatives(scenarios: Scenarios, rates: DrawnRates) -> Rows:
    """The numbers of the scenarios that are the best of each point's alternatives, where nothing else is to choose.

    Draws tell where the closed form cannot: of alternatives that are close, or whose tokens lie in a range.
    """
    rows = scenarios.rows
    if len(np.unique(rows)) == len(rows):
        return np.arange(len(rows))
    levels = np.log(np.broadcast_to(estimate(scenarios.side_by_side).tokens_per_second, len(rows)))
    order = np.lexsort((np.arange(len(rows)), -levels, rows))
    first = np.ones(len(rows), dtype=bool)
    first[1:] = np.diff(rows[order]) > 0
    top = np.empty(len(rows), dtype=np.intp)
    top[order] = order[first][np.cumsum(first) - 1]
    tokens = scenarios.table.results["tokens"].used()
    is_open = np.array([not each.value.is_sure for each in tokens.values], dtype=bool)[tokens.index]
    is_near = (levels[top] - levels <= _OUT_OF_REACH + _tied(scenarios)) | is_open
    several = np.bincount(top[is_near], minlength=len(rows))[top] > 1
    best, near = {int(each): int(each) for each in order[first]}, np.flatnonzero(is_near & several)
    options = searched_options(scenarios.table.settings(0), scenarios.strategy)
    of_each: dict[int, list[tuple[Candidate[Any], float]]] = {}
    for number, (_, settings, level, gpus) in zip(
        near.tolist(), _levels(scenarios.take(near), options, rates), strict=True
    ):
        key = scenarios.strategy.name, tuple(settings.items())
        of_each.setdefault(int(top[number]), []).append((candidate_of(key, gpus, number), level))
    for number, some in of_each.items():
        candidates, found = zip(*some, strict=True)
        best[number] = candidates[simplest(candidates, found, range(len(found)))].key
    return np.array([*best.values()], dtype=np.intp)


def _tied(scenarios: Scenarios) -> float:
    """By how much the simpler of two alternatives may be slower: not at all where they differ in words alone."""
    made = scenarios.table.results["alternatives"].values
    values = (entry[0] for each in made for alternative in each.value for entry in alternative.values())
    return TIED if any(isinstance(value, int) for value in values) else 0.0


class _Seen(Record, eq=False):
    """Settings that a point's search looked at, and how good they are."""

    candidates: list[Candidate[Variant]]
    levels: list[float]

    @property
    def best(self) -> Variant | None:
        """The choice by the rule; None where nothing is possible."""
        numbers = range(len(self.levels))
        return self.candidates[simplest(self.candidates, self.levels, numbers)].key if numbers else None


def _run(
    points: Points, name: str, places: Rows, searches: Sequence[VariantSearch], rates: DrawnRates
) -> list[Variant | None]:
    """Run the searches side by side: the best settings of each, None where none is possible."""
    seen = [_Seen([], []) for _ in searches]
    walks = {number: iter(search) for number, search in enumerate(searches)}
    options = [*dict.fromkeys(option for search in searches for option in search.options)]
    while walks:
        asked: list[tuple[int, Mapping[str, Any]]] = []
        for number in [*walks]:
            proposed = next((each for each in walks[number] if each), None)
            if proposed is None:
                del walks[number]
            asked += [(number, settings) for settings in proposed or ()]
        if not asked:
            break
        of = np.array([number for number, _ in asked], dtype=np.intp)
        turned = [{option: (value, OWN_BEST) for option, value in settings.items()} for _, settings in asked]
        found = points.scenarios(name, places[of], Column(turned, np.arange(len(asked))), numbered=True)
        for row, settings, level, gpus in _levels(found, options, rates):
            number = int(of[row])
            key = searches[number].key(settings)
            if searches[number].saw(key, level):
                seen[number].candidates.append(candidate_of(key, gpus, key))
                seen[number].levels.append(level)
    return [each.best for each in seen]


def _levels(
    found: Scenarios, options: Sequence[str], rates: DrawnRates
) -> Iterator[tuple[int, dict[str, Any], float, float]]:
    """Of each scenario its row, its searched settings, its mean log speed and its GPUs."""
    if not len(found):
        return
    rows = found.side_by_side
    starts = range(0, len(rows), _AT_ONCE)
    parts = (rows.select(np.arange(start, min(start + _AT_ONCE, len(rows)))) for start in starts)
    levels: Array = np.concatenate([np.log(rates(part)).mean(axis=1) for part in parts])
    gpus = rows.devices(lambda devices: devices.per_target)
    values = zip(*map(found.values, options), strict=True) if options else repeat((), len(rows))
    for row, each, level, taken in zip(found.rows.tolist(), values, levels.tolist(), gpus.tolist(), strict=True):
        yield row, dict(zip(options, each, strict=True)), level, taken


def _turned(settings: Settings, search: VariantSearch, chosen: Variant | None) -> Mapping[str, Entry]:
    """What a point's chosen settings have other than the point itself."""
    if chosen is None:
        return {}
    found = {**search.implied, **dict(chosen[1])}
    return {option: (value, OWN_BEST) for option, value in found.items() if settings[option] != value}
