"""How fast the machine is now against its profile: the GEMMs of a layer of each pass, timed between runs.

Shared machines drift by tens of percent within minutes. What is timed are microbenchmarks, no pass and no round.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import fields

import numpy as np

from ssdsim.machine.ranks import Ranks
from ssdsim.pricing.placement import Drift, Placement
from ssdsim.transformer.operations import Gemm

_ON_TARGET = ("ar", "verify", "colocated_draft_step")
_AT_LEAST_S = 0.1  # of each pass: a mood of the machine that lasts less would pass for a drift
_FEWEST = 3
_ANSWER_S = 60.0


def time_drift(placement: Placement, ranks: Ranks) -> Drift:
    """Measured over predicted seconds of the GEMMs of each pass, on the first target rank or on the draft's."""
    found = {}
    passes = placement.forward_passes()
    if not placement.sd_separate:
        passes["colocated_draft_step"] = placement.colocated_draft_step()[0], placement.profile
    for name, (forward, profile) in passes.items():
        gemms = [op for op in forward.layer if isinstance(op, Gemm)]
        rank = 0 if name in _ON_TARGET else len(ranks.devices) - 1
        predicted_s = sum(profile.seconds(op).seconds for op in gemms)
        runs = max(_FEWEST, math.ceil(_AT_LEAST_S / predicted_s))
        request = {"gemms": [(op.m, op.n, op.k) for op in gemms], "runs": runs, "rank": rank}
        seconds = next(answer for answer in ranks.ask(request, _ANSWER_S) if answer is not None)
        found[name] = float(seconds / predicted_s)
    return Drift(**found)


def mean_drift(timed: Sequence[Drift]) -> Drift:
    """The mean for each pass."""
    return Drift(**{f.name: float(np.mean([getattr(drift, f.name) for drift in timed])) for f in fields(Drift)})
