"""Swings of the ratio of two strategies with each input of acceptance and hits that is not sure.

The widest swing says what to measure next. Settings, and the outcomes that are cached, are held.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ssdsim.base.checks import Array, FloatOrArray
from ssdsim.base.record import Record, replace
from ssdsim.question.many import ScenarioTable, rates_over
from ssdsim.question.options import ALL
from ssdsim.question.scenario import Scenario
from ssdsim.question.standing import ACCEPTANCE, HITS, Standing, TokenInput, of_all
from ssdsim.question.token_errors import Change, Changes, KnownTokens, directions

_ENDS_SDS = 1.96
_BETWEEN = (0.25, 0.5, 0.75)  # of the way to an end, where the ratio may be beyond what it is there
_NONE = 1e-9


class Swing(Record):
    """A ratio's swing: ``low`` and ``high`` at the lower and upper end of where the input (``what``) may lie.

    ``lowest`` and ``highest`` bound it in between too: with settings held, a ratio may rise and fall again.
    A ``placeholder`` lies in its plausible range, what is ``given`` in the user's, which ``over`` says; a rate that was
    ``measured`` in its 95 % interval. ``of`` is what to measure: acceptance, or hits. Numbers, or columns of them.
    """

    what: str
    of: str
    standing: Standing
    over: str
    low: FloatOrArray
    high: FloatOrArray
    lowest: FloatOrArray
    highest: FloatOrArray

    @property
    def width(self) -> FloatOrArray:
        """The distance of the bounds, in logarithms."""
        return np.abs(np.log(self.highest / self.lowest))

    @property
    def moves(self) -> FloatOrArray:
        """Say whether it moves the ratio at all."""
        return self.width > _NONE

    def at(self, row: int) -> Swing:
        """The swing of one row of columns."""
        low, high, lowest, highest = (float(each[row]) for each in (self.low, self.high, self.lowest, self.highest))
        return replace(self, low=low, high=high, lowest=lowest, highest=highest)


def swings(first: Scenario, other: Scenario) -> list[Swing]:
    """Swings of a sequence's tokens/s of ``first`` over ``other``, the widest first; none that moves nothing."""
    made = [each.at(0) for each in swings_over(ScenarioTable.of([first]), ScenarioTable.of([other]))]
    return sorted((each for each in made if each.moves), key=lambda each: -each.width)


def swings_over(own: ScenarioTable, its: ScenarioTable) -> list[Swing]:
    """Swings of many pairs in columns: of the same ranges, and of the same tokens where a pair was measured."""
    ways = [*_ranges(_inputs(own, its)), *_measured((own if own.strategy.drafts else its).known[0])]
    if not ways:
        return []
    present = {name: value for _, at_present, _ in ways for name, value in at_present.items()}
    cases = [present, *({**present, **change} for _, _, changes in ways for change in changes)]
    over = {name: [case[name] for case in cases] for name in present}
    ratios = _per_user(own, over) / _per_user(its, over)
    found, start = [], 1
    for told, _, changes in ways:
        along = ratios[:, [0, *range(start, start + len(changes))]]
        found.append(Swing(*told, along[:, 1], along[:, -1], along.min(axis=1), along.max(axis=1)))
        start += len(changes)
    return found


_Told = tuple[str, str, Standing, str]
_Way = tuple[_Told, Change, list[Change]]
"""What is told of an input; the options that it is at present, and on the way from its lower end to its upper one."""


def _ranges(inputs: Sequence[TokenInput]) -> Iterator[_Way]:
    """Inputs in a range."""
    for each in inputs:
        if each.within is not None and each.is_open:
            low, high = each.within
            values = (low, *_from_to(low, each.value)[::-1], *_from_to(high, each.value), high)
            told = ALL[each.name].axis, each.what, each.standing, f"{low:g} to {high:g}"
            yield told, {each.name: each.value}, [{each.name: value} for value in values]


def inputs_of(*scenarios: Scenario) -> tuple[TokenInput, ...]:
    """The inputs that the scenarios' tokens rest on."""
    return of_all({scenario.strategy.name: scenario.known.inputs for scenario in scenarios})


def _inputs(*sides: ScenarioTable) -> tuple[TokenInput, ...]:
    """Inputs of rows whose tokens rest on the same."""
    return of_all({rows.strategy.name: rows.known[0].inputs for rows in sides})


def _measured(known: KnownTokens) -> Iterator[_Way]:
    """Rates of a pair that move together."""
    nearer = [{each.name: each for each in directions(known.settings, way * _ENDS_SDS)} for way in _BETWEEN]
    for each in directions(known.settings, _ENDS_SDS):
        between = [near[each.name] for near in nearer if each.name in near]
        ups, downs = [one.up for one in between], [one.down for one in between]
        told: _Told = each.what, ACCEPTANCE if "alpha" in each.up else HITS, "measured", "95 %"
        present = {name: known.settings[name] for name in each.up}
        yield told, present, [each.down, *downs[::-1], *ups, each.up]


def _from_to(end: float, present: float) -> list[float]:
    """Values between where an input is and an end, the nearest to where it is first."""
    return [present + way * (end - present) for way in _BETWEEN]


def _per_user(rows: ScenarioTable, over: Changes) -> Array:
    """Tokens/s of a sequence, a row each and a column a case."""
    return np.asarray(rates_over(rows, lambda known: known.over(over)) / rows.batch[:, None])
