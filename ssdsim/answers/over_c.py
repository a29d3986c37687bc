"""What Saguaro's C makes of a strategy whose other settings are the best at each C."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ssdsim.answers.own_best import Looked
from ssdsim.base.record import Record
from ssdsim.strategies.protocols.axes import SAGUARO
from ssdsim.tokens.saguaro import PLAIN


class AtC(Record):
    """Rounds at one C; ``gain`` is what they are faster than with plain sampling, by the mean of the logarithms."""

    c: float
    gain: float
    tokens_per_round: float
    p_hit: float | None


def over_c(looked: Iterable[Looked]) -> tuple[AtC, ...]:
    """Every C that was looked at, each with the best of the other settings; empty where C was not searched."""
    levels: dict[float, tuple[float, Looked]] = {}
    for each in looked:
        settings = dict(each.key[1])
        if SAGUARO.option in settings:
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
