"""Verification outcomes, drawn in blocks outside the event loop: tokens and next state of each sequence.

A block covers ``rounds`` rounds of ``b`` sequences, shape ``(b, rounds)``: the long axis last, so that NumPy adds rows.
"""

from __future__ import annotations

from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ssdsim.base.checks import Array
from ssdsim.base.record import Record, replace
from ssdsim.rounds.kernel import Mix, Tokens

_LONGEST_WARM_UP = 4096
_FORGOTTEN = 1e-6  # of a chain's start
_SHARED_RUN_IN = 64  # rounds after which slots have in common what they share
STATE = 1 << 16  # a draw is tokens in the low half, and the number of the next state in the high half
LOW = STATE - 1
MOST_TOKENS_A_ROUND = LOW  # over the batch, whose draws are added up

Draws = NDArray[np.uint32]


class OutcomeBlock(Record):
    """``draws[i, t]`` packs the tokens of sequence i in round t (low 16 bits) and the state it leads to (high bits).

    ``first[i]`` is the state in which its first round begins; a later one begins where the one before led to, or, where
    requests end, as ``begun[i, t]`` says. ``most_accepted`` is what a round of alike sequences may accept. ``rows[t]``
    are the rows of the batch that round t verifies, ``passes[t]`` its draft's passes; None where all have as many.
    """

    states: tuple[str, ...]
    draws: Draws
    first: NDArray[np.uint32] | None = None
    begun: NDArray[np.uint32] | None = None
    most_accepted: int = 0
    rows: NDArray[np.int64] | Array | None = None
    passes: NDArray[np.int64] | None = None

    @property
    def batch(self) -> int:
        return int(self.draws.shape[0])

    @property
    def rounds(self) -> int:
        return int(self.draws.shape[1])

    @property
    def tokens(self) -> NDArray[np.int64]:
        """Tokens of each sequence and round, shape ``(b, rounds)``: the accepted ones and the bonus token."""
        return (self.draws & LOW).astype(np.int64)

    @cached_property
    def _ones(self) -> list[int]:
        draws: list[int] = self.draws[0].tolist()
        return draws

    def one(self, round_: int) -> tuple[int, bool]:
        """The one sequence's tokens less 1, and whether the round ends in the first state."""
        draw = self._ones[round_]
        return (draw & LOW) - 1, draw < STATE

    def shortened_to(self, accepted: list[int]) -> OutcomeBlock:
        """Copy the block so that rounds of the one sequence accept no more than so many tokens."""
        tokens = np.asarray(accepted, dtype=np.uint32) + np.uint32(1)
        return OutcomeBlock(self.states, (tokens + (self.draws[0] & ~np.uint32(LOW)))[None, :], self.first)

    def until(self, rounds: int) -> OutcomeBlock:
        """The first so many rounds."""
        rows = None if self.rows is None else self.rows[:rounds]
        passes = None if self.passes is None else self.passes[:rounds]
        return OutcomeBlock(self.states, self.draws[:, :rounds], self.first, rows=rows, passes=passes)

    def leads_to(self, state: str) -> NDArray[np.bool_]:
        """Tell whether each sequence ends each round in ``state``, shape ``(b, rounds)``."""
        return np.asarray(self.draws >> 16 == self._number(state))

    def _number(self, state: str) -> int:
        """The number of a state; one that no sequence has where it is none of these."""
        return self.states.index(state) if state in self.states else len(self.states)

    @cached_property
    def _packed(self) -> Draws:
        """Tokens of each round over the batch, and how many sequences end it in the second of two states."""
        return np.asarray(self.draws.sum(axis=0, dtype=np.uint32))

    @cached_property
    def total_tokens(self) -> Draws:
        """Tokens of each round over the batch, shape ``(rounds,)``."""
        packed = self._packed if len(self.states) <= 2 else (self.draws & LOW).sum(axis=0, dtype=np.uint32)
        return np.asarray(packed & LOW, dtype=np.uint32)

    def count_to(self, state: str) -> Draws:
        """The number of sequences that end each round in ``state``, shape ``(rounds,)``."""
        if len(self.states) == 2 and state in self.states:
            second = self._packed >> 16
            return np.asarray(second if state == self.states[1] else self.batch - second, dtype=np.uint32)
        return np.asarray(self.leads_to(state).sum(axis=0, dtype=np.uint32))

    def count_in(self, state: str) -> Draws:
        """The number of sequences that begin each round in ``state``, shape ``(rounds,)``."""
        return np.asarray((self._before == self._number(state)).sum(axis=0, dtype=np.uint32))

    @cached_property
    def _before(self) -> NDArray[np.uint32]:
        if self.begun is not None:
            return self.begun
        first = np.zeros(self.batch, dtype=np.uint32) if self.first is None else self.first
        return np.concatenate([first[:, None], self.draws[:, :-1] >> 16], axis=1)

    def any_to(self, state: str) -> Array:
        """One (1) in rounds that some sequence ends in ``state``, else 0."""
        return (self.count_to(state) > 0).astype(float)

    def any_in(self, state: str) -> Array:
        """One (1) in rounds that some sequence begins in ``state``, else 0."""
        return (self.count_in(state) > 0).astype(float)


class OutcomeSource(Protocol):
    """An endless stream of outcomes; the same seed gives the same stream whatever the block sizes' use."""

    def block(self, rounds: int) -> OutcomeBlock:
        """The next ``rounds`` rounds."""


class ReplayedOutcomes:
    """Outcomes that were drawn before, as one block."""

    def __init__(self, block: OutcomeBlock) -> None:
        self._block = block

    def block(self, rounds: int) -> OutcomeBlock:
        return self._block.until(rounds)


def steps_one_by_one(tokens: Tokens) -> bool:
    """Tell whether rounds must be drawn one after the other, so that several lanes of them are worth while."""
    if tokens.shared is not None and not tokens.is_certain:
        return True
    return isinstance(tokens, Mix) or not (tokens.forgets or len(tokens.states) == 2)


def outcomes_until(source: OutcomeSource, tokens: int) -> OutcomeBlock:
    """Outcomes until every sequence has ``tokens``; a finished one yields nothing more and stays in the first state.

    A round yields at least one token a sequence, so ``tokens`` rounds suffice. Tokens past the end are not counted.
    """
    block = source.block(tokens)
    after = np.minimum(np.cumsum(block.tokens, axis=1), tokens)
    before = np.concatenate([np.zeros((after.shape[0], 1), dtype=np.int64), after[:, :-1]], axis=1)
    states = (block.draws >> 16) * (before < tokens)
    draws = (after - before).astype(np.uint32) + np.uint32(STATE) * states.astype(np.uint32)
    rounds = int((before < tokens).any(axis=0).sum())
    return replace(block, draws=draws).until(rounds)


def rounds_to_run_in(tokens: Tokens) -> int:
    """Rounds after which the stream has forgotten its start.

    Requests that differ start as the long run has them, but for what the slots of a batch share. For chains, until the
    start has faded to a millionth: a chain's state decays by its second eigenvalue a round (of two states,
    ``|p_p - p_b|``).
    """
    if isinstance(tokens, Mix):
        return 0 if tokens.shared is None else _SHARED_RUN_IN
    if tokens.forgets:
        return 0
    if len(tokens.states) == 2:
        decay = abs(float(tokens.transitions[0, 0] - tokens.transitions[1, 0]))
    else:
        decay = float(np.sort(np.abs(np.linalg.eigvals(tokens.transitions)))[-2])
    if decay >= 1.0:
        return 0
    return min(_LONGEST_WARM_UP, 1 + int(np.log(_FORGOTTEN) / np.log(max(decay, _FORGOTTEN**2))))
