"""Rounds after which a batch drafts anew together where too many of its sequences failed."""

from __future__ import annotations

import numpy as np

from ssdsim.rounds.drawn import Buffered, OutcomeTable
from ssdsim.rounds.outcomes import LOW, STATE, Draws
from ssdsim.rounds.retried import AGAIN, POST, PRE, Retried


class RetriedOutcomes(Buffered):
    """The stream of such rounds: what each sequence does by itself, then the rule."""

    _chunk_draws = 1 << 14

    def __init__(self, rule: Retried, batch: int, seed: np.random.SeedSequence) -> None:
        super().__init__(rule, batch)
        self._rule, self._random = rule, np.random.default_rng(seed)
        self._tables = [OutcomeTable(row) for row in rule.alone.p]
        self._with_drafts = np.ones(batch, dtype=bool)

    def _chunk(self, rounds: int) -> Draws:
        batch = self._with_drafts.size
        filled = np.empty((rounds, batch), dtype=np.uint32)
        again, pre, post = map(self._rule.states.index, (AGAIN, PRE, POST))
        if_none, if_drafts = (table.outcome(self._random.random((rounds, batch))) for table in self._tables)
        for row in range(rounds):
            drawn = np.where(self._with_drafts, if_drafts[row], if_none[row])
            kept = drawn >= STATE
            if batch - int(kept.sum()) > self._rule.most_failed:
                filled[row], kept = (drawn & LOW) + STATE * again, np.ones(batch, dtype=bool)
            else:
                filled[row] = (drawn & LOW) + STATE * np.where(kept, post, pre).astype(np.uint32)
            self._with_drafts = kept
        return filled.T
