"""How far the ratio of two strategies moves with what is not sure of acceptance and hits, one input after the other.

The widest swing says what to measure next. Settings, and the outcomes that are cached, are held.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from ssdsim import strategies
from ssdsim.scenario.measured_pair import is_placeholder
from ssdsim.scenario.options import ALL
from ssdsim.scenario.placeholders import PLAUSIBLE
from ssdsim.scenario.scenario import Scenario
from ssdsim.scenario.token_errors import averages_under, directions

_ENDS_SDS = 1.96
_NONE = 1e-9


@dataclass(frozen=True)
class Swing:
    """``low`` and ``high`` are the ratio where the input (``what``) is at the lower and upper end of where it may lie.

    A ``placeholder`` lies in the plausible range that ``over`` says, a rate of a ``pair`` in its 95 % interval.
    """

    what: str
    origin: Literal["placeholder", "pair"]
    over: str
    low: float
    high: float

    @property
    def width(self) -> float:
        """Between the ends, in logarithms."""
        return abs(math.log(self.high / self.low))


def swings(first: Scenario, other: Scenario) -> list[Swing]:
    """Of tokens/s of a sequence of ``first`` over those of ``other``, the widest first; none that moves nothing."""
    found = []
    for what, origin, over, low, high in _ends(first if _drafts(first) else other):
        ratio = _per_user(first, low) / _per_user(other, low), _per_user(first, high) / _per_user(other, high)
        found.append(Swing(what, origin, over, *ratio))
    return sorted((each for each in found if each.width > _NONE), key=lambda each: -each.width)


def _ends(
    scenario: Scenario,
) -> Iterator[tuple[str, Literal["placeholder", "pair"], str, Mapping[str, Any], Mapping[str, Any]]]:
    """Inputs with where they come from and the options at their two ends."""
    settings = scenario.settings
    for name, (low, high) in PLAUSIBLE.items():
        if is_placeholder(settings, name):
            yield ALL[name].axis, "placeholder", f"{low:g} to {high:g}", {name: low}, {name: high}
    for each in directions(settings, _ENDS_SDS):
        yield each.what, "pair", "95 %", each.down, each.up


def _drafts(scenario: Scenario) -> bool:
    return bool(strategies.ALL.named(scenario.strategy.name).drafts)


def _per_user(scenario: Scenario, change: Mapping[str, Any]) -> float:
    averages = averages_under(scenario.strategy, scenario.settings, scenario.drafter, change)
    estimate = scenario.strategy.closed_form(replace(scenario.round, averages=averages))
    return float(estimate.tokens_per_second) / scenario.batch
