"""What Saguaro's C does to acceptance and hits (SSD paper, section 4.2), as far as a measured pair knows it.

The draft's F likeliest tokens, which the cache guesses, are scaled by C before it samples: the rejected mass gathers on
them. A pair's table says how often tokens are then accepted and guesses hit after a rejection. All other hits stay as
they are, since the target alone decides what follows K accepted tokens, and random tokens are not the draft's.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from ssdsim.base.record import Record
from ssdsim.base.settings import Settings
from ssdsim.tokens.hit_models import HitCurve, OwnCurve, ScaledHits
from ssdsim.tokens.pair_choice import ChosenFindings, chosen_by
from ssdsim.tokens.priors import logit, moved

if TYPE_CHECKING:
    from ssdsim.tokens.pair_file import Saguaro

PLAIN = 1.0
"""The C of plain sampling."""


class DraftScale(Record):
    """Effect of one C at the ``fan_outs`` of a table, between which it goes by their logarithm.

    ``moves`` are of acceptance, in logits; ``factors`` are on the misses after a rejection. More tokens than the
    largest fan-out are not scaled, and more guesses hit no more, unless ``extrapolated``.
    """

    c: float
    fan_outs: tuple[float, ...]
    moves: tuple[float, ...]
    factors: tuple[float, ...]
    extrapolated: bool = False

    def accepting(self, settings: Settings, fan_out: float) -> Settings:
        """The settings with the acceptance of a draft whose ``fan_out`` likeliest tokens are scaled."""
        scaled = settings.copy()
        by = float(np.interp(math.log(max(fan_out, 1.0)), np.log(self.fan_outs), self.moves))
        scaled.settle("alpha", moved(settings["alpha"], by), f"{settings.source('alpha')}, C {self.c:g}")
        return scaled

    def hits(self, curve: OwnCurve) -> HitCurve:
        """The curve after a rejection."""
        return ScaledHits(curve, self.fan_outs, self.factors, math.inf if self.extrapolated else self.fan_outs[-1])


def scale_of(settings: Mapping[str, Any]) -> DraftScale | None:
    """The effect of the settings' C; None of plain sampling, and of a greedy draft, which samples nothing."""
    chosen = chosen_by(settings, settings["temperature"])
    if chosen is None or _is_greedy(settings, chosen) or (c := settings["saguaro_c"]) == PLAIN:
        return None
    table = _table(chosen)
    below, above = next((a, b) for a, b in pairwise(sorted(table)) if a <= c <= b)
    share = (c - below) / (above - below)
    fan_outs = sorted(table[below].keys() & table[above].keys() & table[PLAIN].keys())
    moves, factors = [], []
    for f in fan_outs:
        (move, factor), (next_move, next_factor) = (_effect(table[at][f], table[PLAIN][f]) for at in (below, above))
        moves.append(move + share * (next_move - move))
        factors.append(factor ** (1.0 - share) * next_factor**share)
    return DraftScale(c, tuple(map(float, fan_outs)), tuple(moves), tuple(factors), settings["extrapolate"])


def known_cs(options: Mapping[str, Any]) -> tuple[float, ...]:
    """The values of C of which the pair of options knows the effect, plain sampling among them; none without one."""
    return tuple(sorted(_table(chosen_by(options, options.get("temperature")))))


def known_fan_out(options: Mapping[str, Any]) -> int:
    """The largest fan-out at which the pair of options knows an effect of C; 0 where it knows none."""
    return max(_table(chosen_by(options, options.get("temperature"))).get(PLAIN, {}), default=0)


def why_not(options: Mapping[str, Any], c: float) -> str | None:
    """The reason why the pair of options does not know the effect of ``c``; None where it does, or there is none."""
    chosen = chosen_by(options, options.get("temperature"))
    if chosen is None or c == PLAIN or _is_greedy(options, chosen):
        return None
    known = sorted(_table(chosen))
    if not known:
        return f"{chosen.source}: no table of C; ssdsim measure makes one, of all requests above temperature 0"
    return None if c >= known[0] else f"{chosen.name} knows C from {known[0]:g} to 1"


def _is_greedy(options: Mapping[str, Any], chosen: ChosenFindings) -> bool:
    """Whether temperature 0 is asked for, or by default chosen; the nearest that was measured may be 0 without that."""
    asked = options.get("temperature")
    return (chosen.temperature if asked is None else asked) == 0.0


def _table(chosen: ChosenFindings | None) -> dict[float, dict[int, Saguaro]]:
    """Rows by C and fan-out, of the K that lengths are told at; empty where plain sampling is not among them."""
    rows = () if chosen is None or chosen.temperature == 0.0 else chosen.findings.saguaro
    k = None if chosen is None else chosen.findings.length.k
    table: dict[float, dict[int, Saguaro]] = {}
    for each in [row for row in rows if row.k == k] or rows:
        if each.alpha is not None and each.hit_rejected is not None:
            table.setdefault(each.c, {})[each.f] = each
    return table if len(table) > 1 and PLAIN in table else {}


def _effect(scaled: Saguaro, plain: Saguaro) -> tuple[float, float]:
    """The move of acceptance in logits, and the factor on the misses after a rejection."""
    assert scaled.alpha is not None and plain.alpha is not None  # noqa: PT018  (rows without them are left out)
    assert scaled.hit_rejected is not None and plain.hit_rejected is not None  # noqa: PT018
    missed = 1.0 - plain.hit_rejected
    return logit(scaled.alpha) - logit(plain.alpha), max(1.0 - scaled.hit_rejected, 1e-9) / missed if missed else 1.0
