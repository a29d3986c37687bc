"""Verification outcomes, drawn in blocks outside the event loop: how many tokens each sequence accepts, and who hits.

A block covers ``rounds`` rounds of ``b`` sequences, shape ``(b, rounds)``: the long axis last, so that NumPy adds rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ssdsim.rounds.scenario import Scenario
from ssdsim.speculation.requests import RequestMix
from ssdsim.speculation.speculator import Speculator

_BUCKETS = 1 << 16
_LONGEST_WARM_UP = 4096
_REQUESTS_RUN_IN = 2
_MISS = 1 << 16  # a draw is accepted + 1 (tokens) in the low half, and one miss in the high half
MOST_TOKENS_A_ROUND = _MISS - 1  # over the batch, whose draws are added up


@dataclass(frozen=True)
class OutcomeBlock:
    """``draws[i, t]`` packs the tokens of sequence i in round t (low 16 bits) and whether it missed (high bits)."""

    draws: NDArray[np.uint32]

    @property
    def tokens(self) -> NDArray[np.int64]:
        """Tokens of each sequence and round, shape ``(b, rounds)``: the accepted ones and the bonus token."""
        return (self.draws & (_MISS - 1)).astype(np.int64)

    @property
    def hits(self) -> NDArray[np.bool_]:
        """Whether the outcome was in the speculation cache, shape ``(b, rounds)``."""
        return self.draws < _MISS

    def totals(self) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
        """Tokens and misses of each round over the batch, shape ``(rounds,)`` each."""
        packed = self.draws.sum(axis=0, dtype=np.uint32)
        return packed & (_MISS - 1), packed >> 16


class OutcomeSource(Protocol):
    """An endless stream of outcomes; the same seed gives the same stream whatever the block sizes' use."""

    def block(self, rounds: int) -> OutcomeBlock:
        """The next ``rounds`` rounds."""
        ...


class OutcomeTable:
    """One speculator's joint distribution of (accepted length, hit), sampled by table look-up from 16 random bits."""

    def __init__(self, speculator: Speculator) -> None:
        pmf, hit = speculator.accepted_pmf, speculator.hit_given_accepted
        tokens = np.arange(1, pmf.size + 1, dtype=np.uint32)
        self.outcomes = np.concatenate([tokens, tokens + np.uint32(_MISS)])
        # hits first: then two speculators' hits from the same bits are nested, as chain_states needs
        probabilities = np.concatenate([pmf * hit, pmf * (1.0 - hit)])
        self.cdf = np.cumsum(probabilities) / probabilities.sum()
        edges = np.arange(_BUCKETS + 1) / _BUCKETS
        self.of_bits = self._outcome(edges[:-1])
        self.straddles = self.of_bits != self._outcome(edges[1:] - 2.0**-53)

    def _outcome(self, uniform: NDArray[np.float64]) -> NDArray[np.uint32]:
        index = np.searchsorted(self.cdf, uniform, side="right")
        return self.outcomes[np.minimum(index, self.outcomes.size - 1)]

    def refine(
        self, draws: NDArray[np.uint32], where: NDArray[np.intp], uniform: NDArray[np.float64]
    ) -> NDArray[np.uint32]:
        """Replace the draws at flat positions ``where`` by the outcomes of full-precision numbers."""
        draws.ravel()[where] = self._outcome(uniform)
        return draws


class OutcomeSampler:
    """Draws from one or more tables with the same random numbers.

    Sixteen bits settle nearly every draw; one whose bucket straddles two outcomes gets all the bits of a double, so
    probabilities are exact.
    """

    def __init__(self, tables: list[OutcomeTable], seed: np.random.SeedSequence) -> None:
        self._tables = tables
        self._straddles = np.logical_or.reduce([table.straddles for table in tables])
        bits, finer = seed.spawn(2)
        self._bits, self._finer = np.random.default_rng(bits), np.random.default_rng(finer)

    def draw(self, batch: int, rounds: int) -> list[NDArray[np.uint32]]:
        """One array of shape ``(batch, rounds)`` a table."""
        words = self._bits.bit_generator.random_raw((batch * rounds + 3) // 4)
        bits = np.asarray(words).view(np.uint16)[: batch * rounds].reshape(batch, rounds)
        where = np.flatnonzero(self._straddles[bits])
        uniform = (bits.ravel()[where] + self._finer.random(where.size)) / _BUCKETS
        return [table.refine(table.of_bits[bits], where, uniform) for table in self._tables]


class _Buffered:
    """A source that draws chunks of a fixed size, so that its stream does not depend on the blocks asked for."""

    _chunk_draws = 1 << 17  # a chunk's arrays then stay in the cache

    def __init__(self, batch: int) -> None:
        self._chunk_rounds = max(64, self._chunk_draws // batch)
        self._left = np.empty((batch, 0), dtype=np.uint32)

    def block(self, rounds: int) -> OutcomeBlock:
        parts, have = [self._left], self._left.shape[1]
        while have < rounds:
            parts.append(self._chunk(self._chunk_rounds))
            have += self._chunk_rounds
        drawn = np.concatenate(parts, axis=1) if len(parts) > 1 else self._left
        self._left = drawn[:, rounds:]
        return OutcomeBlock(drawn[:, :rounds])

    def _chunk(self, rounds: int) -> NDArray[np.uint32]:
        raise NotImplementedError


class IndependentOutcomes(_Buffered):
    """Identical sequences whose speculations are always of one kind (SD, or SSD with jit): independent draws."""

    def __init__(self, speculator: Speculator, batch: int, seed: np.random.SeedSequence) -> None:
        super().__init__(batch)
        self._batch = batch
        self._sampler = OutcomeSampler([OutcomeTable(speculator)], seed)

    def _chunk(self, rounds: int) -> NDArray[np.uint32]:
        return self._sampler.draw(self._batch, rounds)[0]


class ChainedOutcomes(_Buffered):
    """Identical sequences, each a two-state chain: after a miss the speculation is the backup's (fast fallback).

    Each chain starts in the primary state, as a real run does.
    """

    _chunk_draws = 1 << 15  # it works on more arrays at once

    def __init__(self, scenario: Scenario, seed: np.random.SeedSequence) -> None:
        super().__init__(scenario.batch)
        tables = [OutcomeTable(scenario.primary), OutcomeTable(scenario.backup)]
        self._sampler = OutcomeSampler(tables, seed)
        self._negates = scenario.backup.p_hit > scenario.primary.p_hit
        self._state = np.ones(scenario.batch, dtype=np.bool_)

    def _chunk(self, rounds: int) -> NDArray[np.uint32]:
        by_primary, by_backup = self._sampler.draw(self._state.size, rounds)
        after = chain_states(by_primary < _MISS, by_backup < _MISS, self._state, self._negates)
        before = np.concatenate([self._state[:, None], after[:, :-1]], axis=1)
        self._state = after[:, -1].copy()
        return np.where(before, by_primary, by_backup)


def chain_states(
    if_primary: NDArray[np.bool_], if_backup: NDArray[np.bool_], start: NDArray[np.bool_], negates: bool
) -> NDArray[np.bool_]:
    """The state after each round of two-state chains, shape ``(b, rounds)``, without a loop over rounds.

    ``if_primary[i, t]`` is the next state if the state is True, ``if_backup`` if it is False. Where they agree the
    state is forgotten. Elsewhere it is kept (``if_primary`` only) or negated (``if_backup`` only): because both
    come from one random number, always the one or, where the backup hits more often (``negates``), the other.
    """
    rounds = np.arange(if_primary.shape[1], dtype=np.int32)
    # the last agreement so far, packed as 2 (its round + 1) + its state; before the first one, 0 + the start
    packed = (2 * (rounds + 1) + if_primary) * (if_primary == if_backup)
    packed[:, 0] = np.maximum(packed[:, 0], start)
    last = np.maximum.accumulate(packed, axis=1)
    state = (last & 1).astype(np.bool_)
    if negates:
        negations = rounds + 1 - (last >> 1)
        state ^= (negations & 1).astype(np.bool_)
    return state


class MixedOutcomes:
    """Requests of several kinds, each ``output_tokens`` long, taken by ``batch`` slots of ``lanes`` independent runs.

    What a slot does next depends on what it did, so rounds are drawn one after the other; many lanes at once make
    that fast for the Monte Carlo. A block's rounds are ordered by lane, then by time.
    """

    def __init__(
        self,
        mix: RequestMix,
        primary: tuple[Speculator, ...],
        backup: tuple[Speculator, ...],
        shape: tuple[int, int],
        seed: np.random.SeedSequence,
    ) -> None:
        uniform, kinds = seed.spawn(2)
        self._uniform, self._kinds = np.random.default_rng(uniform), np.random.default_rng(kinds)
        self._weights = mix.weights / mix.weights.sum()
        self._output_tokens = mix.output_tokens
        self._shape = shape  # (batch, lanes)
        tables = [[OutcomeTable(speculator) for speculator in state] for state in (backup, primary)]
        self._cdf = np.array([[table.cdf for table in state] for state in tables])  # (state, kind, outcome)
        self._outcomes = tables[0][0].outcomes
        slots = shape[0] * shape[1]
        self._kind = self._kinds.choice(self._weights.size, slots, p=self._weights)
        self._left = np.full(slots, self._output_tokens)
        self._primary = np.ones(slots, dtype=np.intp)

    def block(self, rounds: int) -> OutcomeBlock:
        batch, lanes = self._shape
        steps = -(-rounds // lanes)
        uniform = self._uniform.random((steps, batch * lanes))
        draws = np.stack([self._step(row) for row in uniform], axis=1)
        return OutcomeBlock(draws.reshape(batch, lanes * steps)[:, :rounds])

    def _step(self, uniform: NDArray[np.float64]) -> NDArray[np.uint32]:
        """One round of every slot, shape ``(batch * lanes,)``."""
        index = (uniform[:, None] >= self._cdf[self._primary, self._kind]).sum(axis=1)
        draws = self._outcomes[np.minimum(index, self._outcomes.size - 1)]
        hit = draws < _MISS
        tokens = np.minimum(draws & (_MISS - 1), self._left).astype(np.uint32)
        self._left -= tokens
        done = np.flatnonzero(self._left == 0)
        self._primary = hit.astype(np.intp)
        self._primary[done] = 1  # a new request's first speculation is the primary's
        self._left[done] = self._output_tokens
        self._kind[done] = self._kinds.choice(self._weights.size, done.size, p=self._weights)
        return np.asarray(tokens + np.uint32(_MISS) * ~hit)


class ReplayedOutcomes:
    """Outcomes that were drawn before, as one block."""

    def __init__(self, block: OutcomeBlock) -> None:
        self._block = block

    def block(self, rounds: int) -> OutcomeBlock:
        return OutcomeBlock(self._block.draws[:, :rounds])


def outcome_source(scenario: Scenario, strategy: str, seed: np.random.SeedSequence, lanes: int = 1) -> OutcomeSource:
    """The stream of outcomes of ``strategy`` from its start: every sequence is speculated by the primary."""
    if scenario.requests is not None:
        mix, shape = scenario.requests, (scenario.batch, lanes)
        primary, backup = (mix.primary, mix.backup) if strategy == "ssd" else (mix.sd, mix.sd)
        return MixedOutcomes(mix, primary, backup, shape, seed)
    if strategy != "ssd":
        return IndependentOutcomes(scenario.sd, scenario.batch, seed)
    if scenario.fallback == "jit":
        return IndependentOutcomes(scenario.primary, scenario.batch, seed)
    return ChainedOutcomes(scenario, seed)


def outcomes_until(source: OutcomeSource, tokens: int) -> OutcomeBlock:
    """Outcomes until every sequence has ``tokens``; a finished sequence yields nothing more and never misses.

    A round yields at least one token a sequence, so ``tokens`` rounds suffice. Tokens past the end are not counted.
    """
    block = source.block(tokens)
    after = np.minimum(np.cumsum(block.tokens, axis=1), tokens)
    before = np.concatenate([np.zeros((after.shape[0], 1), dtype=np.int64), after[:, :-1]], axis=1)
    draws = (after - before).astype(np.uint32) + np.uint32(_MISS) * (~block.hits & (before < tokens))
    rounds = int((before < tokens).any(axis=0).sum())
    return OutcomeBlock(draws[:, :rounds])


def rounds_to_run_in(scenario: Scenario, strategy: str) -> int:
    """Rounds after which the stream has forgotten its start.

    For requests that differ, a few lifetimes; for chains, until the start has faded to a millionth: a chain's state
    decays by ``|p_p - p_b|`` a round.
    """
    if scenario.requests is not None:
        return _REQUESTS_RUN_IN * scenario.requests.output_tokens
    if strategy != "ssd" or scenario.fallback == "jit":
        return 0
    decay = abs(scenario.primary.p_hit - scenario.backup.p_hit)
    if decay in (0.0, 1.0):
        return 0
    return min(_LONGEST_WARM_UP, 1 + int(np.log(1e-6) / np.log(decay)))
