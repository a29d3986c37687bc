"""Backups that look tokens up, replayed: what they would have proposed at every position, and how it would have ended.

A proposal is accepted iff the token comes, with probability p of it: exact at every temperature, given the answer.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from calibration.pairs.backups import lookup_named
from calibration.pairs.coupling import FIRST
from calibration.pairs.records import Request
from calibration.pairs.table import Table
from ssdsim.base.record import Record

Whole = NDArray[np.int64]


class LookedUp(Record):
    """Rounds of a backup that start at each position, shape ``(T, R)``; counted where K + 1 positions are left.

    ``proposed`` and ``accepted`` tokens of a round, and how many guesses without the rejected token ``needed`` to hold
    its bonus token.
    """

    name: str
    k: int
    counted: NDArray[np.bool_]
    proposed: Whole
    accepted: Whole
    needed: Whole

    @property
    def tokens(self) -> Whole:
        return self.accepted + 1

    def rate_by_position(self) -> list[float | None]:
        """P(position j accepted | proposed, and those before it accepted), None where none came so far."""
        rates: list[float | None] = []
        for j in range(self.k):
            reached = self.counted & (self.proposed > j) & (self.accepted >= j)
            rates.append(float((self.accepted[reached] > j).mean()) if reached.any() else None)
        return rates


def looked_up(table: Table, name: str, k: int, vocabulary: int, seed: int) -> LookedUp:
    """The rounds of the backup called ``name`` at every start."""
    shape = int(table.lengths.max()), len(table.requests)
    proposed, accepted, needed = (np.zeros(shape, dtype=np.int64) for _ in range(3))
    for column, request in enumerate(table.requests):
        for at, round_of in enumerate(_of_request(request, name, k, vocabulary, seed + column), start=FIRST):
            proposed[at, column], accepted[at, column], needed[at, column] = round_of
    starts = np.arange(shape[0])[:, None]
    counted = (starts >= FIRST) & (starts < table.lengths - k)
    return LookedUp(name, k, counted, proposed, accepted, needed)


def _of_request(request: Request, name: str, k: int, vocabulary: int, seed: int) -> list[tuple[int, int, int]]:
    """Proposed, accepted and needed at each start that leaves K + 1 positions."""
    lookup = lookup_named(name, vocabulary, seed)
    answer, rank, top_ids = request.positions.token.tolist(), request.positions.rank.tolist(), request.positions.top_ids
    lookup.read(request.prompt)
    rounds = []
    for start in range(FIRST, len(answer) - k):
        lookup.read(answer[start - 1 : start])
        proposal = lookup.propose(k)
        accepted = 0
        while accepted < len(proposal) and proposal[accepted] == answer[start + accepted]:
            accepted += 1
        end = start + accepted
        needed = rank[end] + 1
        if accepted < len(proposal):  # the rejected token makes room where the draft ranks it above the one that came
            needed -= int((top_ids[end, : needed - 1] == proposal[accepted]).any())
        rounds.append((len(proposal), accepted, max(1, needed)))
    return rounds
