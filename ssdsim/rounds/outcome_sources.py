"""Sources of round outcomes: the right sampler for a kernel, and samplers of rules over a whole batch."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ssdsim.base.checks import Array
from ssdsim.base.record import replace
from ssdsim.rounds.drawn import (
    Buffered,
    CertainOutcomes,
    ChainedOutcomes,
    IndependentOutcomes,
    OutcomeTable,
    SteppedOutcomes,
    WalkedOutcomes,
)
from ssdsim.rounds.kernel import AGAIN, POST, PRE, ByState, ChosenRows, GatedDrafts, Kernel, Mix, Retried, Tokens
from ssdsim.rounds.outcomes import LOW, STATE, Draws, OutcomeBlock, OutcomeSource, rounds_to_run_in, steps_one_by_one
from ssdsim.tokens.confidence import drawn_confidences

_FEW = 16  # sequences up to which a loop is faster than arrays


def outcome_source(tokens: Tokens, batch: int, seed: np.random.SeedSequence) -> OutcomeSource:
    """The source of outcomes from the start, where every sequence is in the first state."""
    return _source(tokens, batch, seed)


def long_run_source(tokens: Tokens, batch: int, seed: np.random.SeedSequence, lanes: int = 1) -> OutcomeSource:
    """The source after a run-in, when it has forgotten its start."""
    source = _source(tokens, batch, seed, lanes, long_run=True)
    if run_in := rounds_to_run_in(tokens):
        source.block(run_in * lanes)
    return source


def _source(
    tokens: Tokens, batch: int, seed: np.random.SeedSequence, lanes: int = 1, long_run: bool = False
) -> OutcomeSource:
    if isinstance(tokens, ChosenRows):
        return ChosenOutcomes(tokens, batch, seed)
    if isinstance(tokens, GatedDrafts):
        return GatedOutcomes(tokens, batch, seed)
    if isinstance(tokens, Retried):
        return RetriedOutcomes(tokens, batch, seed)
    drawn = _drawn(tokens, batch, seed, lanes, long_run)
    first = tokens.kernel if isinstance(tokens, Mix) else tokens
    return RowsByState(drawn, first.rows) if isinstance(first, ByState) else drawn


def _drawn(tokens: Tokens, batch: int, seed: np.random.SeedSequence, lanes: int, long_run: bool) -> OutcomeSource:
    if steps_one_by_one(tokens):
        if isinstance(tokens, Kernel) and tokens.shared is None and lanes == 1 and batch <= _FEW:
            return WalkedOutcomes(tokens, batch, seed)
        return SteppedOutcomes(tokens, batch, lanes, seed, long_run)
    assert isinstance(tokens, Kernel)
    if tokens.is_certain:
        return CertainOutcomes(tokens, batch)
    return (IndependentOutcomes if tokens.forgets else ChainedOutcomes)(tokens, batch, seed)


class ChosenOutcomes(Buffered):
    """Rounds that choose the drafted tokens to verify by confidence, with the number of rows of each round."""

    _chunk_draws = 1 << 14

    def __init__(self, rule: ChosenRows, batch: int, seed: np.random.SeedSequence) -> None:
        super().__init__(rule, batch)
        self._rule, self._batch = rule, batch
        self._random = np.random.default_rng(seed)
        self._before = np.ones((rule.lag, batch, len(rule.rates)))
        self._rows = np.empty(0, dtype=np.int64)

    def block(self, rounds: int) -> OutcomeBlock:
        block = super().block(rounds)
        rows, self._rows = self._rows[:rounds], self._rows[rounds:]
        return replace(block, rows=rows)

    def _chunk(self, rounds: int) -> Draws:
        rule = self._rule
        now = drawn_confidences(rule.rates, rule.concentration, (rounds, self._batch), self._random)
        known = np.concatenate([self._before, now])
        self._before = known[rounds:]
        verified = self._budgets(survivals(known[:rounds]))
        widths = _widths(survivals(now), verified)
        accepted = np.cumprod(self._random.random(now.shape) < now, axis=2).sum(axis=2)
        self._rows = np.concatenate([self._rows, self._batch + verified])
        return np.asarray((1 + np.minimum(accepted, widths)).T, dtype=np.uint32)

    def _budgets(self, seen: Array) -> NDArray[np.int64]:
        """The number of drafted tokens to verify in each round."""
        if self._rule.budget is not None:
            return np.full(len(seen), self._rule.budget)
        likeliest = -np.sort(-seen.reshape(len(seen), -1), axis=1)
        tokens = self._batch + np.cumsum(np.pad(likeliest, ((0, 0), (1, 0))), axis=1)
        return np.asarray(np.argmax(tokens / self._rule.seconds, axis=1))


class GatedOutcomes(Buffered):
    """Rounds whose drafts end at a token of little confidence, with the rows and the draft's passes of each."""

    _chunk_draws = 1 << 14

    def __init__(self, rule: GatedDrafts, batch: int, seed: np.random.SeedSequence) -> None:
        super().__init__(rule, batch)
        self._rule, self._batch = rule, batch
        self._random = np.random.default_rng(seed)
        self._counted = np.empty((2, 0), dtype=np.int64)

    def block(self, rounds: int) -> OutcomeBlock:
        block = super().block(rounds)
        (rows, passes), self._counted = self._counted[:, :rounds], self._counted[:, rounds:]
        return replace(block, rows=rows, passes=passes)

    def _chunk(self, rounds: int) -> Draws:
        rule = self._rule
        now = drawn_confidences(rule.rates, rule.concentration, (rounds, self._batch), self._random)
        proposed = np.cumprod(now >= rule.least, axis=2)
        accepted = np.cumprod(proposed * (self._random.random(now.shape) < now), axis=2).sum(axis=2)
        lengths = proposed.sum(axis=2)
        passes = np.minimum(lengths.max(axis=1) + 1, len(rule.rates))
        self._counted = np.concatenate([self._counted, [self._batch + lengths.sum(axis=1), passes]], axis=1)
        return np.asarray((1 + accepted).T, dtype=np.uint32)


class RowsByState:
    """Rounds whose number of rows follows from the states of their sequences."""

    def __init__(self, source: OutcomeSource, rows: Mapping[str, float]) -> None:
        self._source, self._rows = source, rows

    def block(self, rounds: int) -> OutcomeBlock:
        block = self._source.block(rounds)
        each = (count * block.count_in(state).astype(np.int64) for state, count in self._rows.items())
        return replace(block, rows=np.sum(list(each), axis=0))


def survivals(confidences: Array) -> Array:
    """P(a draft survives up to each token): products of confidences, shape ``(rounds, sequences, K)``."""
    return np.asarray(np.cumprod(confidences, axis=2), dtype=float)


def _widths(survival: Array, verified: NDArray[np.int64]) -> NDArray[np.int64]:
    """The number of verified tokens of each sequence, shape ``(rounds, sequences)``.

    Of equal survivals the earlier token comes first, so the verified tokens are always the beginning of a draft.
    """
    flat = survival.reshape(len(survival), -1)
    order = np.argsort(-flat, axis=1, kind="stable")
    has_row = np.zeros(flat.shape, dtype=bool)
    np.put_along_axis(has_row, order, np.arange(flat.shape[1]) < verified[:, None], axis=1)
    return np.asarray(has_row.reshape(survival.shape).sum(axis=2))


class RetriedOutcomes(Buffered):
    """Rounds after which the whole batch drafts anew if too many of its sequences failed (SPECTRE)."""

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
