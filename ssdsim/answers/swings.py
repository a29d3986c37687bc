"""Swings of the ratio of two strategies with each uncertain input of acceptance and hits.

The widest swing says what to measure next. Settings and the cached outcomes are held.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ssdsim.base.checks import Array, FloatOrArray
from ssdsim.base.record import Record, replace
from ssdsim.question.many import ScenarioTable, rates_over
from ssdsim.question.options import ALL
from ssdsim.question.scenario import Scenario
from ssdsim.question.token_errors import Change, Changes, KnownTokens, directions
from ssdsim.question.token_inputs import Standing, TokenInput, merged_inputs

_ENDS_SDS = 1.96
_BETWEEN = (0.25, 0.5, 0.75)  # of the way to an end, where the ratio may be outside of its ends
_NONE = 1e-9


class Swing(Record):
    """A ratio's swing: ``at_lower`` and ``at_upper`` end of the range of an input (``what``), as which it may fall.

    ``lowest`` and ``highest`` bound it, in between, too: with settings held, a ratio may rise and fall again. ``over``
    is the range: the plausible one of a ``placeholder``, the user's of a ``given`` input, the 95 % interval of a
    ``measured`` rate. ``of`` is what to measure: acceptance, or hits. All are numbers, or columns of numbers.
    """

    what: str
    of: str
    standing: Standing
    over: str
    at_lower: FloatOrArray
    at_upper: FloatOrArray
    lowest: FloatOrArray
    highest: FloatOrArray

    @property
    def width(self) -> FloatOrArray:
        """The distance of the bounds, in logarithms."""
        return np.abs(np.log(self.highest / self.lowest))

    @property
    def moves(self) -> FloatOrArray:
        """Say whether the input moves the ratio at all."""
        return self.width > _NONE

    def at(self, row: int) -> Swing:
        """The swing of one row of columns."""
        ends = self.at_lower, self.at_upper, self.lowest, self.highest
        lower, upper, lowest, highest = (float(each[row]) for each in ends)
        return replace(self, at_lower=lower, at_upper=upper, lowest=lowest, highest=highest)


def swings(first: Scenario, other: Scenario) -> list[Swing]:
    """Swings of tokens/s per sequence of ``first`` over ``other``, the widest first; only those that move it."""
    made = [each.at(0) for each in swings_over(ScenarioTable.of([first]), ScenarioTable.of([other]))]
    return sorted((each for each in made if each.moves), key=lambda each: -each.width)


def swings_over(own: ScenarioTable, its: ScenarioTable) -> list[Swing]:
    """Swings of many rows in columns. All rows have the same ranges, and the same tokens of a measured pair."""
    inputs = merged_inputs({rows.strategy.name: rows.known[0].inputs for rows in (own, its)})
    sweeps = [*_ranges(inputs), *_measured((own if own.strategy.drafts else its).known[0])]
    if not sweeps:
        return []
    present = {name: value for _, at_present, _ in sweeps for name, value in at_present.items()}
    cases = [present, *({**present, **change} for _, _, changes in sweeps for change in changes)]
    over = {name: [case[name] for case in cases] for name in present}
    ratios = _per_user(own, over) / _per_user(its, over)
    swings, start = [], 1
    for label, _, changes in sweeps:
        along = ratios[:, [0, *range(start, start + len(changes))]]
        swings.append(Swing(*label, along[:, 1], along[:, -1], along.min(axis=1), along.max(axis=1)))
        start += len(changes)
    return swings


_InputLabel = tuple[str, str, Standing, str]
_Sweep = tuple[_InputLabel, Change, list[Change]]
"""An input's label, its options at present, and its options on the way from the lower end to the upper one."""


def _ranges(inputs: Sequence[TokenInput]) -> Iterator[_Sweep]:
    """Inputs that have a range."""
    for each in inputs:
        if each.within is not None and each.is_open:
            low, high = each.within
            values = (low, *_from_to(low, each.middle)[::-1], *_from_to(high, each.middle), high)
            label = ALL[each.name].axis, each.what, each.standing, f"{low:g} to {high:g}"
            yield label, {each.name: each.value}, [{each.name: each.at(value)} for value in values]


def inputs_of(*scenarios: Scenario) -> tuple[TokenInput, ...]:
    """The inputs that the scenarios' tokens rest on."""
    return merged_inputs({scenario.strategy.name: scenario.known.inputs for scenario in scenarios})


def _measured(known: KnownTokens) -> Iterator[_Sweep]:
    """Measured rates of a pair, which move together."""
    nearer = [{each.name: each for each in directions(known.settings, share * _ENDS_SDS)} for share in _BETWEEN]
    for each in directions(known.settings, _ENDS_SDS):
        between = [near[each.name] for near in nearer if each.name in near]
        ups, downs = [one.up for one in between], [one.down for one in between]
        label: _InputLabel = each.what, each.of, "measured", "95 %"
        present = {name: known.settings[name] for name in each.up}
        yield label, present, [each.down, *downs[::-1], *ups, each.up]


def _from_to(end: float, present: float) -> list[float]:
    """Values between the present one and an end, the nearest to the present first."""
    return [present + share * (end - present) for share in _BETWEEN]


def _per_user(rows: ScenarioTable, over: Changes) -> Array:
    """Tokens/s of a sequence, a row each and a column a case."""
    return np.asarray(rates_over(rows, lambda known: known.over(over)) / rows.batch[:, None])
