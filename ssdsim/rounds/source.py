"""The stream of outcomes that a kernel is drawn by."""

from __future__ import annotations

import numpy as np

from ssdsim.rounds.chosen import ByState, Chosen
from ssdsim.rounds.drawn import CertainOutcomes, ChainedOutcomes, IndependentOutcomes, SteppedOutcomes, WalkedOutcomes
from ssdsim.rounds.kernel import Kernel, Tokens
from ssdsim.rounds.outcomes import OutcomeSource, rounds_to_run_in, steps_one_by_one
from ssdsim.rounds.ragged import ChosenOutcomes, RowsByState
from ssdsim.rounds.retried import Retried
from ssdsim.rounds.retries import RetriedOutcomes

_FEW = 16  # sequences, of which a loop is faster than arrays over them


def outcome_source(tokens: Tokens, batch: int, seed: np.random.SeedSequence, lanes: int = 1) -> OutcomeSource:
    """The stream of outcomes from its start, where every sequence is in the first state."""
    if isinstance(tokens, Chosen):
        return ChosenOutcomes(tokens, batch, seed)
    if isinstance(tokens, Retried):
        return RetriedOutcomes(tokens, batch, seed)
    drawn = _drawn(tokens, batch, seed, lanes)
    return RowsByState(drawn, tokens.rows) if isinstance(tokens, ByState) else drawn


def long_run_source(tokens: Tokens, batch: int, seed: np.random.SeedSequence, lanes: int = 1) -> OutcomeSource:
    """The stream once it has forgotten its start."""
    source = outcome_source(tokens, batch, seed, lanes)
    if run_in := rounds_to_run_in(tokens):
        source.block(run_in * lanes)
    return source


def _drawn(tokens: Tokens, batch: int, seed: np.random.SeedSequence, lanes: int) -> OutcomeSource:
    if steps_one_by_one(tokens):
        if isinstance(tokens, Kernel) and tokens.shared is None and lanes == 1 and batch <= _FEW:
            return WalkedOutcomes(tokens, batch, seed)
        return SteppedOutcomes(tokens, batch, lanes, seed)
    assert isinstance(tokens, Kernel)
    if tokens.is_certain:
        return CertainOutcomes(tokens, batch)
    return (IndependentOutcomes if tokens.forgets else ChainedOutcomes)(tokens, batch, seed)
