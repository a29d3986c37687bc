"""SSD's own chain of rounds over a given answer: after a hit the draft speculates, after a miss a fast backup does.

Which rounds follow a miss is decided by the misses: they start where the draft is often wrong. So their hits are
counted in the chain that each fan-out leads to, not over all positions.
"""

from __future__ import annotations

import numpy as np

from calibration.pairs.coupling import FIRST
from calibration.pairs.looked_up import LookedUp
from calibration.pairs.table import Table
from ssdsim.base.checks import Array
from ssdsim.base.record import Record


class Chain(Record):
    """Sums over the rounds of each request by fan-out F = 1, 2, ..., shape ``(R, F)``.

    ``after_hit`` rounds that the draft speculated for (the first one, too) and ``after_miss`` those of the backup;
    their ``hits_after_*``, and the tokens of both.
    """

    after_hit: Array
    after_miss: Array
    hits_after_hit: Array
    hits_after_miss: Array
    tokens: Array


def ssd_chain(table: Table, backup: LookedUp, most: int) -> Chain:
    """The chain with a uniform fan-out of 1 to ``most`` guesses for every outcome."""
    k, fan_outs = backup.k, np.arange(1, most + 1)
    flat = table.flat
    rank = table.scatter(flat.rank.astype(float), np.inf)[..., None]
    above = table.scatter(flat.above.astype(float))[..., None]
    u = table.accept[..., None]
    steps, requests = u.shape[0], np.arange(u.shape[1])
    shape = (steps + k + 2, requests.size, most)
    primary, fast = np.zeros(shape), np.zeros(shape)  # weight of rounds that start here, in each state
    primary[FIRST] = 1.0
    sums = [np.zeros(shape[1:]) for _ in range(5)]
    ages = np.zeros((k + 1, *shape[1:]))  # the draft's rounds under way, by how many of their tokens were accepted
    last = (table.lengths - 1 - k)[:, None]
    for t in range(FIRST, steps):
        counts = t <= last
        begin, begin_fast = np.where(counts, primary[t], 0.0), np.where(counts, fast[t], 0.0)
        ages = np.concatenate([begin[None], ages[:-1] * u[t - 1]])
        rejected, bonus = ages[:-1].sum(axis=0) * (1.0 - u[t]), ages[-1]
        hit_rejected = np.where(rank[t] < fan_outs, 1.0, np.where(rank[t] == fan_outs, above[t], 0.0))
        hits = rejected * hit_rejected + bonus * (rank[t] < fan_outs)
        primary[t + 1] += hits
        fast[t + 1] += rejected + bonus - hits
        after = t + backup.tokens[t]
        hit_fast = begin_fast * (backup.needed[t][:, None] <= fan_outs)
        primary[after, requests] += hit_fast
        fast[after, requests] += begin_fast - hit_fast
        written = ages[:-1].sum(axis=0) + bonus + begin_fast * backup.tokens[t][:, None]
        for total, each in zip(sums, (begin, begin_fast, hits, hit_fast, written), strict=True):
            total += each
    return Chain(*sums)
