"""What Saguaro's C makes of a strategy whose other settings are its own best."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ssdsim.answers.own_best import Looked, Variant
from ssdsim.base.record import Record
from ssdsim.strategies.protocols.axes import SAGUARO
from ssdsim.tokens.saguaro import PLAIN


class AtC(Record):
    """Rounds at one C; ``gain`` is what they are faster than with plain sampling, by the mean of the logarithms."""

    c: float
    gain: float
    tokens_per_round: float
    p_hit: float | None


def over_c(looked: Iterable[Looked], chosen: Variant) -> tuple[AtC, ...]:
    """Every C that was looked at beside the chosen numbers, the better backup each; empty where C was not searched."""
    levels: dict[float, tuple[float, Looked]] = {}
    for each in looked:
        settings = dict(each.key[1])
        if SAGUARO.option in settings and _others(settings) == _others(dict(chosen[1])):
            c, level = settings[SAGUARO.option], float(np.log(each.draws).mean())
            if c not in levels or level > levels[c][0]:
                levels[c] = level, each
    if len(levels) < 2 or PLAIN not in levels:
        return ()
    plain = levels[PLAIN][0]
    return tuple(_at(c, float(np.expm1(levels[c][0] - plain)), levels[c][1]) for c in sorted(levels))


def _at(c: float, gain: float, looked: Looked) -> AtC:
    estimate = looked.scenario.estimate
    p_hit = None if estimate.p_hit is None else float(estimate.p_hit)
    return AtC(c, gain, float(estimate.tokens_per_round), p_hit)


def _others(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The other numbers: words, such as a backup's, are chosen anew at each C."""
    return {name: each for name, each in settings.items() if name != SAGUARO.option and not isinstance(each, str)}
