"""Swings of the ratio of two strategies with each input of acceptance and hits that is not sure.

The widest swing says what to measure next. Settings, and the outcomes that are cached, are held.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from ssdsim.base.checks import Array
from ssdsim.base.record import record
from ssdsim.scenario.many import SideBySide, rates_under
from ssdsim.scenario.options import ALL
from ssdsim.scenario.scenario import Scenario
from ssdsim.scenario.standing import ACCEPTANCE, HITS, Standing, TokenInput, of_all
from ssdsim.scenario.token_errors import Change, directions

_ENDS_SDS = 1.96
_BETWEEN = (0.25, 0.5, 0.75)  # of the way to an end, where the ratio may be beyond what it is there
_NONE = 1e-9


@record
class Swing:
    """A ratio's swing: ``low`` and ``high`` at the lower and upper end of where the input (``what``) may lie.

    ``lowest`` and ``highest`` bound it in between too: with settings held, a ratio may rise and fall again.
    A ``placeholder`` lies in its plausible range, what is ``given`` in the user's, which ``over`` says; a rate that was
    ``measured`` in its 95 % interval. ``of`` is what to measure: acceptance, or hits.
    """

    what: str
    of: str
    standing: Standing
    over: str
    low: float
    high: float
    lowest: float
    highest: float

    @property
    def width(self) -> float:
        """The distance of the bounds, in logarithms."""
        return abs(math.log(self.highest / self.lowest))


def swings(first: Scenario, other: Scenario) -> list[Swing]:
    """Swings of a sequence's tokens/s of ``first`` over ``other``, the widest first; none that moves nothing."""
    return swings_each([first], [other])[0]


def swings_each(firsts: Sequence[Scenario], others: Sequence[Scenario]) -> list[list[Swing]]:
    """:func:`swings` of many pairs, each side of one strategy; pairs of the same tokens are worked out together."""
    alike: dict[tuple[int, int], list[int]] = {}
    for number, (first, other) in enumerate(zip(firsts, others, strict=True)):
        alike.setdefault((id(first.known), id(other.known)), []).append(number)
    found: list[list[Swing]] = [[] for _ in firsts]
    for numbers in alike.values():
        sides = [firsts[each] for each in numbers], [others[each] for each in numbers]
        for number, swung in zip(numbers, _of_the_same_tokens(*sides), strict=True):
            found[number] = swung
    return found


def _of_the_same_tokens(firsts: Sequence[Scenario], others: Sequence[Scenario]) -> Iterator[list[Swing]]:
    own, its = SideBySide.of(firsts), SideBySide.of(others)

    def ratios(change: Change) -> Array:
        return np.asarray(_per_user(own, change) / _per_user(its, change))

    first, other, present = firsts[0], others[0], ratios({})
    moved = [
        (told, np.stack([ratios(change) for change in changes]))
        for told, changes in (*_ranges(first, other), *_measured(first, other))
    ]
    for at, now in enumerate(present.tolist()):
        made = [_swing(told, now, along[:, at].tolist()) for told, along in moved]
        yield sorted((each for each in made if each.width > _NONE), key=lambda each: -each.width)


def _swing(told: tuple[str, str, Standing, str], present: float, ratios: Sequence[float]) -> Swing:
    return Swing(*told, ratios[0], ratios[-1], min(present, *ratios), max(present, *ratios))


def _ranges(first: Scenario, other: Scenario) -> Iterator[tuple[tuple[str, str, Standing, str], list[Change]]]:
    """Inputs in a range, and the options on the way from their lower end to their upper one."""
    for each in inputs_of(first, other):
        if each.within is not None and each.is_open:
            low, high = each.within
            values = (low, *_from_to(low, each.value)[::-1], *_from_to(high, each.value), high)
            told = ALL[each.name].axis, each.what, each.standing, f"{low:g} to {high:g}"
            yield told, [{each.name: value} for value in values]


def inputs_of(*scenarios: Scenario) -> tuple[TokenInput, ...]:
    """The inputs that the scenarios' tokens rest on."""
    return of_all({scenario.strategy.name: scenario.known.inputs for scenario in scenarios})


def _measured(first: Scenario, other: Scenario) -> Iterator[tuple[tuple[str, str, Standing, str], list[Change]]]:
    """Rates of a pair that move together, and the options on the way from their lower end to their upper one."""
    settings = (first if first.strategy.drafts else other).settings
    nearer = [{each.name: each for each in directions(settings, way * _ENDS_SDS)} for way in _BETWEEN]
    for each in directions(settings, _ENDS_SDS):
        between = [known[each.name] for known in nearer if each.name in known]
        ups, downs = [one.up for one in between], [one.down for one in between]
        of = ACCEPTANCE if "alpha" in each.up else HITS
        yield (each.what, of, "measured", "95 %"), [each.down, *downs[::-1], *ups, each.up]


def _from_to(end: float, present: float) -> list[float]:
    """Values between where an input is and an end, the nearest to where it is first."""
    return [present + way * (end - present) for way in _BETWEEN]


def _per_user(rows: SideBySide, change: Change) -> Array:
    """Tokens/s of a sequence, of rows whose tokens are the same."""
    return np.asarray(rates_under(rows, change) / rows.batch)
