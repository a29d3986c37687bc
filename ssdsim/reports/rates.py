"""Rates of strategies at points near each other, each step taken once for all of them."""

from __future__ import annotations

from collections.abc import Mapping
from math import nan

from ssdsim.answers.grid import Fastest, OfPoint
from ssdsim.base.errors import InputError
from ssdsim.base.intervals import Draws, bounds_95
from ssdsim.base.record import Record
from ssdsim.pricing.room import NoRoom, why_no_room
from ssdsim.question import many
from ssdsim.question.points import Points


class Rates(Record):
    """The strategies with room at one point, and why others do not fit; tokens/s under draws of what is not known, of
    all sides or of none, and whether anything there may be otherwise.
    """

    subject: str
    sides: Mapping[str, OfPoint]
    draws: Mapping[str, Draws]
    refused: Mapping[str, NoRoom]
    errs: bool

    def ratio(self, above: str, below: str) -> tuple[float, float, float]:
        """``above / below`` with its 95 % interval; errors that both share cancel.

        nan where one of the two has no room; nan bounds without draws, or where nothing errs.
        """
        if not {above, below} <= self.sides.keys():
            return nan, nan, nan
        own, other = self.sides[above], self.sides[below]
        draws = self.draws[above] / self.draws[below] if self.draws else None
        return own.tokens_per_second / other.tokens_per_second, *self._bounds(draws)

    def interval(self, name: str) -> tuple[float, float]:
        """95 % interval of a strategy's tokens/s; nan without draws, or where nothing errs."""
        return self._bounds(self.draws[name] if self.draws else None)

    def _bounds(self, draws: Draws | None) -> tuple[float, float]:
        if draws is None or not self.errs:
            return nan, nan
        low, high = bounds_95(draws)
        return float(low), float(high)

    @property
    def no_room(self) -> str | None:
        """The reason why one of the strategies does not fit here."""
        return why_no_room(self.subject, self.refused) if self.refused else None


def rates_at(points: Points, drawn: many.Rates | None) -> list[Rates | InputError]:
    """Closed forms at each point, or why it is not possible, which having no room for any strategy is too."""
    sides: list[dict[str, OfPoint]] = [{} for _ in points.errors]
    draws: list[dict[str, Draws]] = [{} for _ in points.errors]
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
        rows = fastest.scenarios.side_by_side
        under = None if drawn is None else drawn(rows)
        for row, one in fastest.of_points():
            sides[row][name] = one
            if under is not None:
                draws[row][name] = under[one.number]
            errs[row] |= points.sites.at(row).result is not None or not rows.known[rows.known_of[one.number]].is_sure
    found: list[Rates | InputError] = []
    for row, error in enumerate(errors):
        if error is not None:
            found.append(error)
            continue
        subject = points.sides.at(row).result.subject
        made = Rates(subject, sides[row], draws[row], refused[row], errs[row])
        found.append(made if sides[row] else refused[row][subject])
    return found
