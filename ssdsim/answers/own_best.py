"""Each strategy at its own best: its K, cached outcomes and backup, by the one rule over all that is not known.

What is given stays as it is; a given K is that of all strategies. The search tries the coarse values of each option,
then values near the best so far, one option after the other; that for a deployment tries them together. It climbs by
mean log speed whatever the rule, which then chooses among all that it tried: the best of other rules is near.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import numpy as np

from ssdsim import strategies
from ssdsim.answers.decision import Candidate, Rule, decide
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
from ssdsim.strategies.protocols.strategy import Strategy

_STEPS = (3.0, 1.7)  # factors between neighbours: first of a coarse look, then of a nearer one
_WALK = 8  # steps that an option goes at most
Variant = tuple[str, tuple[tuple[str, Any], ...]]
"""A strategy's name, and its searched options with their values."""


class Looked(Record, eq=False):
    """A strategy with some settings, and draws of its tokens/s; ``key`` names both."""

    key: Variant
    scenario: Scenario
    draws: Draws

    @property
    def candidate(self) -> Candidate[Variant]:
        name, settings = self.key
        return Candidate.of(self.key, name, float(self.scenario.gpus), *work_of(settings))


def at_their_best(
    given: Mapping[str, Any], rates: DrawnRates, rule: Rule = "mean-log"
) -> tuple[Configuration, dict[str, list[Looked]]]:
    """The configuration that options describe, each strategy at its own best; and all that was looked at for it."""
    question = Question.of(given)
    looked: dict[str, list[Looked]] = {}

    def best_first(name: str) -> list[Scenario]:
        search = _Search(question, strategies.ALL.named(name), rates)
        search.run()
        looked[name] = search.looked
        best = search.best(rule)
        return [best.scenario, *(each.scenario for each in search.looked if each is not best)]

    return configured(question, given, best_first), looked


class _Search:
    """The search of one strategy's settings; ``looked`` are those that are possible, of what it looked at."""

    def __init__(self, question: Question, strategy: Strategy, rates: DrawnRates) -> None:
        self._question, self._strategy, self._rates = question, strategy, rates
        scope = _scope(question.settings)
        self._options = [axis.option for axis in strategy.searched if not axis.placing and axis.concerns(scope)]
        self._held: dict[str, Any] = {name: question.settings[name] for name in self._options}
        self._axes = dict(_searched(question.settings, strategy))
        for name, value in (each for axis in self._axes for each in axis.implied):
            if question.settings.source(name) != GIVEN:
                self._held[name] = value
        self.looked: list[Looked] = []
        self._top: Mapping[str, Any] = {}
        self._level = -np.inf

    def run(self) -> None:
        """Look at the default settings, then ever nearer at what is around the best so far.

        Raises
        ------
        InputError : no settings are possible; the reason is that of the default ones.
        """
        if not self._look([self._first()]):
            axis, *_ = [*self._axes, None]
            if axis is None or not self._look({axis.option: value} for value in self._axes[axis] or ()):
                self._add([*self._question.scenarios(self._strategy.name)])
        for step in _STEPS:
            for axis in self._axes:
                walked = 0
                while self._look(self._moved(axis, step)) and walked < _WALK:
                    walked += 1

    def best(self, rule: Rule) -> Looked:
        """The choice of the rule among what was looked at."""
        draws = {each.key: each.draws for each in self.looked}
        points = {each.key: float(each.scenario.estimate.tokens_per_second) for each in self.looked}
        chosen = decide([each.candidate for each in self.looked], draws, rule=rule, points=points).chosen
        return next(each for each in self.looked if each.key == chosen)

    def _first(self) -> Mapping[str, Any]:
        """The default settings, as far as a search goes."""
        settings = self._question.settings
        outcomes = [axis for axis in self._axes if isinstance(axis, OutcomesAxis) and not axis.tables(settings)]
        return {axis.option: axis.most for axis in outcomes}

    def _look(self, proposed: Iterable[Mapping[str, Any]]) -> bool:
        """Look at those settings that are new and possible, and say whether one is better than all before."""
        known = {each.key[1] for each in self.looked}
        implied = {name: value for name, value in self._held.items() if name not in self._options}
        found: list[Scenario] = []
        for settings in proposed:
            if tuple((name, settings.get(name)) for name in self._options) not in known:
                with suppress(InputError):
                    found += [*self._question.scenarios(self._strategy.name, {**implied, **settings})]
        return bool(found) and self._add(found)

    def _add(self, found: list[Scenario]) -> bool:
        before = self._level
        for scenario, draws in zip(found, self._rates(ScenarioTable.of(found)), strict=True):
            settings = {name: scenario.settings[name] for name in self._options}
            self.looked.append(Looked((self._strategy.name, tuple(settings.items())), scenario, draws))
            if (level := float(np.log(draws).mean())) > self._level:
                self._top, self._level = settings, level
        return self._level > before

    def _moved(self, axis: SearchAxis, step: float) -> list[dict[str, Any]]:
        """The best settings with one option moved to its neighbours; what follows it stays as it is for that."""
        moved: list[dict[str, Any]] = [dict(self._top)]
        for each, values in self._axes.items():
            beside = [{**self._held, **before} for before in moved]
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


def _searched(settings: Settings, strategy: Strategy) -> Iterator[tuple[SearchAxis, Values]]:
    """The options of a strategy that are searched, with the values that they may have.

    A given option is not. Without hardware only what takes no time is: T_SD is the time of drafting K tokens, whatever
    K is. K is not where the accepted lengths are given; it goes no further than acceptance by position is given or
    measured, but past the positions that somebody published.
    """
    scope = _scope(settings)
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
            yield axis, values
