"""How fast the machine is now against its profile: the GEMMs of a layer of each pass, timed between runs.

Shared machines drift by tens of percent within minutes. What is timed are microbenchmarks, no pass and no round.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ssdsim.executor.ranks import Ranks
from ssdsim.operations import Gemm
from ssdsim.placement import PASSES, Placement
from ssdsim.transformer import ForwardPass

Drift = Mapping[str, float]  # by pass, how many times slower than the profile says

TARGET_PASSES = ("ar", "verify")
_RUNS = 3
_ANSWER_S = 60.0


def time_drift(placement: Placement, ranks: Ranks) -> Drift:
    """Measured over predicted seconds of the GEMMs of each pass, on the first target rank and on the draft's."""
    passes = placement.forward_passes()
    found = {}
    for name in PASSES:
        rank, profile = (0, placement.profile) if name in TARGET_PASSES else (-1, placement.draft_profile)
        shapes = layer_gemms(passes[name])
        request = {"gemms": shapes, "runs": _RUNS, "rank": rank % len(ranks.devices)}
        seconds = next(answer for answer in ranks.ask(request, _ANSWER_S) if answer is not None)
        gemms = [op for op in passes[name].layer if isinstance(op, Gemm)]
        found[name] = float(seconds / sum(profile.seconds(op).seconds for op in gemms))
    return found


def layer_gemms(forward: ForwardPass) -> list[tuple[int, int, int]]:
    """``(m, n, k)`` of a layer's GEMMs, in order."""
    return [(op.m, op.n, op.k) for op in forward.layer if isinstance(op, Gemm)]


def mean_drift(timed: Sequence[Drift]) -> Drift:
    return {name: float(np.mean([drift[name] for drift in timed])) for name in PASSES}
