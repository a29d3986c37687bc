"""Rates of strategies at points near each other, each step taken once for all of them."""

from __future__ import annotations

from collections.abc import Mapping
from math import nan

import numpy as np

from ssdsim.answers.grid import Fastest
from ssdsim.base.errors import InputError
from ssdsim.base.intervals import Draws, bounds_95
from ssdsim.base.record import record
from ssdsim.pricing.room import NoRoom
from ssdsim.scenario import many
from ssdsim.scenario.points import Points, Scenarios
from ssdsim.scenario.scenario import Scenario


@record
class Side:
    """A strategy at a point: tokens/s, and under draws of what is not known (None: none were made)."""

    tokens_per_second: float
    draws: Draws | None
    scenarios: Scenarios
    number: int

    @property
    def scenario(self) -> Scenario:
        return self.scenarios[self.number]


@record
class Rates:
    """The strategies with room at one point, and why others do not fit; whether anything there may be otherwise."""

    subject: str
    sides: Mapping[str, Side]
    refused: Mapping[str, NoRoom]
    errs: bool

    def ratio(self, above: str, below: str) -> tuple[float, float, float]:
        """``above / below`` with its 95 % interval; errors that both share cancel.

        nan where one of the two has no room; nan bounds without draws, or where nothing errs.
        """
        if not {above, below} <= self.sides.keys():
            return nan, nan, nan
        own, other = self.sides[above], self.sides[below]
        draws = None if own.draws is None or other.draws is None else own.draws / other.draws
        return own.tokens_per_second / other.tokens_per_second, *self._bounds(draws)

    def interval(self, name: str) -> tuple[float, float]:
        """95 % interval of a strategy's tokens/s; nan without draws, or where nothing errs."""
        return self._bounds(self.sides[name].draws)

    def _bounds(self, draws: Draws | None) -> tuple[float, float]:
        if draws is None or not self.errs:
            return nan, nan
        low, high = bounds_95(draws)
        return float(low), float(high)

    @property
    def no_room(self) -> str | None:
        """The reason why one of the strategies does not fit here."""
        problem = self.refused.get(self.subject) or next(iter(self.refused.values()), None)
        return None if problem is None else str(problem)


def rates_at(points: Points, drawn: many.Rates | None) -> list[Rates | InputError]:
    """Closed forms at each point, or why it is not possible, which having no room for any strategy is too."""
    sides: list[dict[str, Side]] = [{} for _ in points.errors]
    refused: list[dict[str, NoRoom]] = [{} for _ in points.errors]
    errors, errs = [*points.errors], [False for _ in points.errors]
    for name in points.names:
        scenarios = points.of_strategy(name, points.asking(name))
        for row, problem in scenarios.errors.items():
            errors[row] = errors[row] or problem
        for row, no_room in scenarios.no_room.items():
            refused[row][name] = no_room
        if not len(scenarios):
            continue
        fastest = Fastest.of(scenarios)
        kept, rates = fastest.scenarios, np.broadcast_to(fastest.rates, len(fastest.scenarios))
        draws = None if drawn is None else drawn(kept.side_by_side)
        known = [kept.side_by_side.known[each] for each in kept.side_by_side.known_of]
        for number, (row, rate) in enumerate(zip(kept.rows.tolist(), rates.tolist(), strict=True)):
            sides[row][name] = Side(rate, None if draws is None else draws[number], kept, number)
            errs[row] |= points.sites.at(row).result is not None or not known[number].is_sure
    found: list[Rates | InputError] = []
    for row, error in enumerate(errors):
        if error is not None:
            found.append(error)
            continue
        subject = points.sides.at(row).result.subject
        found.append(Rates(subject, sides[row], refused[row], errs[row]) if sides[row] else refused[row][subject])
    return found
