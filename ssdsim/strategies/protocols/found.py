"""Rounds in which some sequences of a batch find something to verify and others do not: their kernel and share."""

from __future__ import annotations

import math
from functools import partial

from ssdsim.base.checks import Array
from ssdsim.base.kinds import SHARE
from ssdsim.base.option import Group, Option
from ssdsim.rounds.kernel import Kernel

FOUND, NOTHING = "found", "nothing"

acceptance_share = partial(Option, kind=SHARE, groups=(Group.ACCEPTANCE,))
"""How often something is found, or what was found is right."""


def now_and_then(found: Array, nothing: Array, share: float) -> Kernel:
    """Accepted tokens of rounds in which a sequence found something, a ``share`` of all, and of the others.

    What a round begins with is drawn at the end of the one before, so that engines know it in time.
    """
    rows = {FOUND: found, NOTHING: nothing}
    return Kernel.by_state({state: {FOUND: share * row, NOTHING: (1.0 - share) * row} for state, row in rows.items()})


def share_where_any(share: float, batch: int) -> float:
    """The share of a batch's sequences that found something, in the rounds in which one of them did."""
    if share in (0.0, 1.0):
        return share
    return share / -math.expm1(batch * math.log1p(-share))
