"""Each strategy at its own best: its K, cached outcomes and backup, by the one rule over all that is not known.

What is given stays as it is; a given K is that of all strategies. The search tries the coarse values of each option,
then values near the best so far, one option after the other; that for a deployment tries them together. It climbs by
mean log speed whatever the rule, which then chooses among all that it tried: the best of other rules is near.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from ssdsim import strategies
from ssdsim.answers.decision import Candidate, Key, Rule, decide
from ssdsim.base.errors import InputError
from ssdsim.base.intervals import Draws
from ssdsim.base.record import Record
from ssdsim.base.settings import GIVEN, Settings
from ssdsim.hardware.catalog import find_transformer
from ssdsim.question.configuration import Configuration, configured
from ssdsim.question.many import DrawnRates, ScenarioTable
from ssdsim.question.question import Question
from ssdsim.question.scenario import Scenario
from ssdsim.strategies.protocols.axes import LookaheadAxis, NumberAxis, OutcomesAxis, Scope, SearchAxis, Values, work_of
from ssdsim.strategies.protocols.shared import SERVICE_ORDER, TARGETS
from ssdsim.strategies.protocols.strategy import Strategy

_STEPS = (3.0, 1.7)  # factors between neighbours: first of a coarse look, then of a nearer one
_WALK = 9  # looks at most that an option moves on
Variant = tuple[str, tuple[tuple[str, Any], ...]]
"""A strategy's name, and its searched options with their values."""
Searched = Mapping[SearchAxis, Values]
"""Options that a search varies, with the values that they may have."""


class Looked(Record, eq=False):
    """A strategy with some settings, and draws of its tokens/s; ``key`` names both."""

    key: Variant
    scenario: Scenario
    draws: Draws

    @property
    def candidate(self) -> Candidate[Variant]:
        return candidate_of(self.key, float(self.scenario.gpus), self.key)


def candidate_of(variant: Variant, gpus: float, key: Key) -> Candidate[Key]:
    name, settings = variant
    return Candidate.of(key, name, gpus, *work_of(settings))


def at_their_best(
    given: Mapping[str, Any], rates: DrawnRates, rule: Rule = "mean-log"
) -> tuple[Configuration, dict[str, list[Looked]]]:
    """The configuration that options describe, each strategy at its own best; and all that was looked at for it."""
    question = Question.of(given)
    looked: dict[str, list[Looked]] = {}

    def best_first(name: str) -> list[Scenario]:
        looked[name] = _looked(question, strategies.ALL.named(name), rates)
        best = _best(looked[name], rule)
        return [best.scenario, *(each.scenario for each in looked[name] if each is not best)]

    return configured(question, given, best_first), looked


def _looked(question: Question, strategy: Strategy, rates: DrawnRates) -> list[Looked]:
    """Every setting of a strategy that is possible, of those that its search looks at.

    Raises
    ------
    InputError : no settings are possible; the reason is that of the default ones.
    """
    search = VariantSearch(question.settings, strategy, searched(question.settings, strategy))
    looked: list[Looked] = []
    for proposed in search:
        found = [scenario for settings in proposed for scenario in _possible(question, strategy, settings)]
        for scenario, draws in zip(found, rates(ScenarioTable.of(found)) if found else (), strict=True):
            key = search.key(scenario.settings)
            if search.saw(key, float(np.log(draws).mean())):
                looked.append(Looked(key, scenario, draws))
    if not looked:
        [*question.scenarios(strategy.name)]
    return looked


def _possible(question: Question, strategy: Strategy, settings: Mapping[str, Any]) -> list[Scenario]:
    try:
        return [*question.scenarios(strategy.name, settings)]
    except InputError:
        return []


def _best(looked: Iterable[Looked], rule: Rule) -> Looked:
    """The choice of the rule."""
    by_key = {each.key: each for each in looked}
    draws = {key: each.draws for key, each in by_key.items()}
    points = {key: float(each.scenario.estimate.tokens_per_second) for key, each in by_key.items()}
    return by_key[decide([each.candidate for each in by_key.values()], draws, rule=rule, points=points).chosen]


class VariantSearch:
    """The search of one strategy's settings: what to look at next, until nothing is better.

    Who works it out says by :meth:`saw` how good each of the settings is, before the next ones are asked for.
    """

    def __init__(self, settings: Settings, strategy: Strategy, axes: Searched) -> None:
        self._name, self._axes = strategy.name, axes
        self.options = searched_options(settings, strategy)
        if SERVICE_ORDER in strategy.options and settings[TARGETS.name] > 1:
            self.options.append(SERVICE_ORDER.name)
        self._first: Mapping[str, Any] = {
            axis.option: axis.most for axis in axes if isinstance(axis, OutcomesAxis) and not axis.tables(settings)
        }
        self._beside: dict[str, Any] = {name: settings[name] for name in self.options}
        self.implied = {
            name: value
            for axis in axes
            for name, value in axis.implied
            if settings.source(name) != GIVEN and name not in self.options
        }
        self._asked: set[Variant] = set()
        self._seen: set[Variant] = set()
        self._top: Mapping[str, Any] = {}
        self._level = -np.inf

    def key(self, settings: Mapping[str, Any]) -> Variant:
        """The name of a strategy's settings."""
        return self._name, tuple((name, settings.get(name)) for name in self.options)

    def saw(self, key: Variant, level: float) -> bool:
        """Take how good settings are, their mean log speed; False if they were seen before."""
        if key in self._seen:
            return False
        self._seen.add(key)
        if level > self._level:
            self._top, self._level = dict(key[1]), level
        return True

    def __iter__(self) -> Iterator[list[dict[str, Any]]]:
        """The default settings as far as a search goes, then ever nearer at what is around the best so far."""
        yield self._new([self._first])
        if not self._seen and self._axes:
            first = next(iter(self._axes))
            yield self._new([{first.option: value} for value in self._axes[first] or ()])
        if not self._seen:
            return
        for step in _STEPS:
            for axis in self._axes:
                for _ in range(_WALK):
                    before = self._level
                    yield self._new(self._moved(axis, step))
                    if self._level <= before:
                        break
        yield self._new([{axis.option: self._top[axis.option] for axis in self._axes}])

    def _new(self, settings: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Those that were not looked at, with what they imply."""
        new = {self.key(each): each for each in settings}
        found = [each for key, each in new.items() if key not in self._asked | self._seen]
        self._asked |= new.keys()
        return [{**self.implied, **each} for each in found]

    def _moved(self, axis: SearchAxis, step: float) -> list[dict[str, Any]]:
        """The best settings with one option moved to its neighbours; those after it stay as they are for that.

        Numbers that follow, such as F (K+1) outcomes of a given F, follow anew.
        """
        axes = {each.option for each in self._axes}
        moved: list[dict[str, Any]] = [
            {name: value for name, value in self._top.items() if name in axes or isinstance(value, str)}
        ]
        for each, values in self._axes.items():
            beside = [{**self._beside, **self.implied, **before} for before in moved]
            near: list[list[Any]]
            if each is axis and isinstance(each, NumberAxis) and step == _STEPS[0]:
                near = [_beside(self._top[each.option], each.coarse(values, before)) for before in beside]
            elif each is axis:
                near = [[*each.near(values, before, self._top, step)] for before in beside]
            elif isinstance(each, NumberAxis):
                near = [[self._top[each.option]]] * len(moved)
            else:
                near = [[*each.near(values, before, self._top, 1.0)][:1] for before in beside]
            moved = [{**of, each.option: v} for of, some in zip(moved, near, strict=True) for v in some]
        return moved


def _beside(at: int, numbers: Iterable[int]) -> list[int]:
    """The next smaller and the next larger of the numbers."""
    every = [*numbers]
    return [*[number for number in every if number < at][-1:], *[number for number in every if number > at][:1]]


def _scope(settings: Settings) -> Scope:
    """The target, and what was given."""
    given = {name: settings[name] for name in settings if settings.source(name) == GIVEN}
    return Scope(1, find_transformer(settings["target"]), given)


def searched_options(settings: Settings, strategy: Strategy) -> list[str]:
    """The options that tell a strategy's variants apart."""
    scope = _scope(settings)
    return [axis.option for axis in strategy.searched if not axis.placing and axis.concerns(scope)]


def searched(settings: Settings, strategy: Strategy) -> Searched:
    """The options of a strategy that are searched, with the values that they may have.

    A given option is not. Without hardware only what takes no time is: T_SD is the time of drafting K tokens, whatever
    K is. K is not where the accepted lengths are given; it goes no further than acceptance by position is given or
    measured, but past the positions that somebody published.
    """
    scope, found = _scope(settings), dict[SearchAxis, Values]()
    given = scope.options
    for axis in strategy.searched:
        if axis.placing or axis.is_idle(given) or {axis.option, axis.table_option} & given.keys():
            continue
        if not axis.concerns(scope) or ("t_sd" in given and not axis.unit_free):
            continue
        if isinstance(axis, LookaheadAxis) and axis.is_settled(given, strategy.drafted):
            continue
        values = axis.possible(scope)
        if values is None or len(values) > 1:
            found[axis] = values
    return found
