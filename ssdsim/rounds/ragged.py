"""Rounds in which sequences have different numbers of rows: of the likeliest tokens, or by their states."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ssdsim.base.checks import Array
from ssdsim.base.record import replace
from ssdsim.rounds.chosen import Chosen
from ssdsim.rounds.drawn import Buffered
from ssdsim.rounds.outcomes import Draws, OutcomeBlock, OutcomeSource
from ssdsim.tokens.confidence import drawn_confidences


class ChosenOutcomes(Buffered):
    """The stream of such rounds, with the rows of each."""

    _chunk_draws = 1 << 14

    def __init__(self, rule: Chosen, batch: int, seed: np.random.SeedSequence) -> None:
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
        """The number of drafted tokens that have a row, in each round."""
        if self._rule.budget is not None:
            return np.full(len(seen), self._rule.budget)
        likeliest = -np.sort(-seen.reshape(len(seen), -1), axis=1)
        tokens = self._batch + np.cumsum(np.pad(likeliest, ((0, 0), (1, 0))), axis=1)
        return np.asarray(np.argmax(tokens / self._rule.seconds, axis=1))


class RowsByState:
    """A stream whose rounds have as many rows as the states of their sequences say."""

    def __init__(self, source: OutcomeSource, rows: Mapping[str, int]) -> None:
        self._source, self._rows = source, rows

    def block(self, rounds: int) -> OutcomeBlock:
        block = self._source.block(rounds)
        each = (count * block.count_in(state).astype(np.int64) for state, count in self._rows.items())
        return replace(block, rows=np.sum(list(each), axis=0))


def survivals(confidences: Array) -> Array:
    """Products along a draft, shape ``(rounds, sequences, K)`` as the confidences."""
    return np.asarray(np.cumprod(confidences, axis=2), dtype=float)


def _widths(survival: Array, verified: NDArray[np.int64]) -> NDArray[np.int64]:
    """Drafted tokens of each sequence that have a row, shape ``(rounds, sequences)``.

    Of equal survivals the first in a draft come first, so that these are always the first tokens of a draft.
    """
    flat = survival.reshape(len(survival), -1)
    order = np.argsort(-flat, axis=1, kind="stable")
    has_row = np.zeros(flat.shape, dtype=bool)
    np.put_along_axis(has_row, order, np.arange(flat.shape[1]) < verified[:, None], axis=1)
    return np.asarray(has_row.reshape(survival.shape).sum(axis=2))
