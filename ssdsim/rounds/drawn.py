"""Outcomes drawn from kernels: alike sequences in chunks, or slots of requests round by round."""

from __future__ import annotations

from bisect import bisect_right

import numpy as np
from numpy.typing import NDArray

from ssdsim.base.checks import Array
from ssdsim.rounds.kernel import Kernel, Mix, Tokens
from ssdsim.rounds.outcomes import LOW, STATE, Draws, OutcomeBlock

_BUCKETS = 1 << 16
_AT_ONCE = 1 << 14  # draws that are looked up together, in a cache
_STRADDLES = np.uint32(0)  # no draw: a round yields at least one token
_LEVELS = 4096  # of a chance that slots share
_CERTAIN = 1e-9  # from 0 or 1
STRETCH = 32  # rounds of a slot with one request, in the long run


class OutcomeTable:
    """The distribution of (tokens, next state) from one state, sampled by table look-up from 16 random bits."""

    def __init__(self, row: Array) -> None:
        tokens, states = np.arange(1, row.shape[0], dtype=np.uint32), range(row.shape[1])
        # by states first: then few rounds lead elsewhere by where they began, and chain_states is done soon
        self.outcomes = np.concatenate([tokens + np.uint32(STATE * state) for state in states])
        probabilities = np.concatenate([row[1:, state] for state in states])
        self.cdf = np.cumsum(probabilities) / probabilities.sum()

    def of_bits(self) -> Draws:
        """The outcome of each bucket of sixteen bits, :data:`_STRADDLES` where it holds parts of several."""
        ends = self.outcome(np.arange(1, _BUCKETS + 1) / _BUCKETS - 2.0**-53)
        return np.where(self.outcome(np.arange(_BUCKETS) / _BUCKETS) == ends, ends, _STRADDLES)

    def outcome(self, uniform: Array) -> Draws:
        """The outcomes of numbers in [0, 1), however many."""
        index = np.searchsorted(self.cdf, uniform, side="right")
        return self.outcomes[np.minimum(index, self.outcomes.size - 1)]


class OutcomeSampler:
    """Draws from one or more tables with the same random numbers.

    Sixteen bits settle nearly every draw; one whose bucket straddles two outcomes gets all the bits of a double, so
    probabilities are exact.
    """

    def __init__(self, tables: list[OutcomeTable], seed: np.random.SeedSequence) -> None:
        self._tables = tables
        of_bits = [table.of_bits() for table in tables]
        straddles = np.logical_or.reduce([each == _STRADDLES for each in of_bits])
        self._of_bits = [np.where(straddles, _STRADDLES, each) for each in of_bits]
        bits, finer = seed.spawn(2)
        self._bits, self._finer = np.random.default_rng(bits), np.random.default_rng(finer)

    def draw(self, batch: int, rounds: int) -> list[Draws]:
        """One array of shape ``(batch, rounds)`` a table."""
        words = self._bits.bit_generator.random_raw((batch * rounds + 3) // 4)
        bits = np.asarray(words).view(np.uint16)[: batch * rounds]
        drawn = [np.empty(bits.size, dtype=np.uint32) for _ in self._of_bits]
        for start in range(0, bits.size, _AT_ONCE):
            some = slice(start, start + _AT_ONCE)
            places = bits[some].astype(np.intp)
            for draws, of_bits in zip(drawn, self._of_bits, strict=True):
                of_bits.take(places, out=draws[some], mode="clip")  # none is out of range; "raise" would copy
        where = np.flatnonzero(drawn[0] == _STRADDLES)
        uniform = (bits[where] + self._finer.random(where.size)) / _BUCKETS
        for draws, table in zip(drawn, self._tables, strict=True):
            draws[where] = table.outcome(uniform)
        return [draws.reshape(batch, rounds) for draws in drawn]


class CertainOutcomes:
    """Rounds that all yield the same tokens: nothing is drawn."""

    def __init__(self, kernel: Kernel, batch: int) -> None:
        self._states, self._batch = kernel.states, batch
        _, tokens, state = np.argwhere(kernel.p)[0]
        self._draw = np.uint32(tokens + STATE * state)
        self._most_accepted = kernel.p.shape[1] - 2

    def block(self, rounds: int) -> OutcomeBlock:
        draws = np.full((self._batch, rounds), self._draw)
        return OutcomeBlock(self._states, draws, most_accepted=self._most_accepted)


class Buffered:
    """A source of alike sequences that draws chunks of a fixed size, so that its stream knows no block sizes.

    Each sequence starts in the first state, as a real run does.
    """

    _chunk_draws = 1 << 17  # a chunk's arrays then stay in the cache

    def __init__(self, kernel: Kernel, batch: int) -> None:
        self._states = kernel.states
        self._most_accepted = kernel.p.shape[1] - 2
        self._chunk_rounds = max(64, self._chunk_draws // batch)
        self._left = np.empty((batch, 0), dtype=np.uint32)
        self._first = np.zeros(batch, dtype=np.uint32)

    def block(self, rounds: int) -> OutcomeBlock:
        parts, have = [self._left], self._left.shape[1]
        while have < rounds:
            parts.append(self._chunk(self._chunk_rounds))
            have += self._chunk_rounds
        drawn = np.concatenate(parts, axis=1) if len(parts) > 1 else self._left
        draws, self._left = drawn[:, :rounds], drawn[:, rounds:]
        block = OutcomeBlock(self._states, draws, self._first, most_accepted=self._most_accepted)
        if rounds:
            self._first = np.asarray(draws[:, -1] >> 16, dtype=np.uint32)
        return block

    def _chunk(self, rounds: int) -> Draws:
        raise NotImplementedError


class IndependentOutcomes(Buffered):
    """Rounds that depend on no state (SD, or SSD with jit): independent draws."""

    def __init__(self, kernel: Kernel, batch: int, seed: np.random.SeedSequence) -> None:
        super().__init__(kernel, batch)
        self._batch = batch
        self._sampler = OutcomeSampler([OutcomeTable(kernel.p[0])], seed)

    def _chunk(self, rounds: int) -> Draws:
        return self._sampler.draw(self._batch, rounds)[0]


class ChainedOutcomes(Buffered):
    """Chains of two states: after a miss the speculation is the backup's (SSD's fast fallback)."""

    _chunk_draws = 1 << 15  # it works on more arrays at once

    def __init__(self, kernel: Kernel, batch: int, seed: np.random.SeedSequence) -> None:
        super().__init__(kernel, batch)
        self._sampler = OutcomeSampler([OutcomeTable(row) for row in kernel.p], seed)
        self._in_first = np.ones(batch, dtype=np.bool_)

    def _chunk(self, rounds: int) -> Draws:
        from_first, from_second = self._sampler.draw(self._in_first.size, rounds)
        after = chain_states(from_first < STATE, from_second < STATE, self._in_first)
        before = np.concatenate([self._in_first[:, None], after[:, :-1]], axis=1)
        self._in_first = after[:, -1].copy()
        return np.asarray(from_second ^ ((from_first ^ from_second) * before))  # np.where takes five times as long


def chain_states(
    if_first: NDArray[np.bool_], if_second: NDArray[np.bool_], start: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Tell whether two-state chains are in the first state after each round, shape ``(b, rounds)``.

    ``if_first[i, t]`` says so of a round that begins in the first state, ``if_second`` of one that does in the second.
    So a round makes of a state x the state ``offset ^ (x & differs)``, and rounds in a row make one of the same form.
    They are put together for twice as many rounds at a time, until none knows any more how it began.
    """
    offset, differs = if_second.copy(), if_first ^ if_second
    offset[:, 0] ^= start & differs[:, 0]
    differs[:, 0] = False
    together = 1
    while differs.any():
        offset[:, together:] ^= offset[:, :-together] & differs[:, together:]
        differs[:, together:] &= differs[:, :-together]
        together *= 2
    return offset


class WalkedOutcomes(Buffered):
    """Chains of more than two states, a few sequences: one after the other, from a table of what each state leads to.

    What a state never does is not in its table.
    """

    _chunk_draws = 1 << 12

    def __init__(self, kernel: Kernel, batch: int, seed: np.random.SeedSequence) -> None:
        super().__init__(kernel, batch)
        self._random = np.random.default_rng(seed)
        self._tables = [self._table(OutcomeTable(row)) for row in kernel.p]
        self._states_now = [0] * batch

    @staticmethod
    def _table(table: OutcomeTable) -> tuple[list[float], list[int]]:
        """Probabilities of this and all outcomes before it, all but the last one's, and the outcomes."""
        happens = np.diff(table.cdf, prepend=0.0) > 0.0
        return table.cdf[happens][:-1].tolist(), table.outcomes[happens].tolist()

    def _chunk(self, rounds: int) -> Draws:
        draws = []
        for sequence, uniforms in enumerate(self._random.random((len(self._states_now), rounds)).tolist()):
            state, row = self._states_now[sequence], []
            for uniform in uniforms:
                cdf, outcomes = self._tables[state]
                draw = outcomes[bisect_right(cdf, uniform)]
                row.append(draw)
                state = draw >> 16
            self._states_now[sequence] = state
            draws.append(row)
        return np.array(draws, dtype=np.uint32)


class SteppedOutcomes:
    """Rounds drawn one after the other: requests of several kinds that end, or chains of more than two states.

    What a slot does next depends on what it did; ``lanes`` independent runs of ``batch`` slots side by side make that
    fast for the Monte Carlo. A block's rounds are ordered by lane, then by time. Requests are ``output_tokens`` long,
    endless where None, and a finished one is replaced at once.

    In the ``long_run`` slots hold what they hold then, from the first round on. Every :data:`STRETCH` rounds another
    request of the long run takes a slot over, in the state in which the last one left it. So means are those of whole
    requests, and rounds forget each other within a stretch, although a request may last for thousands.
    """

    def __init__(
        self, tokens: Tokens, batch: int, lanes: int, seed: np.random.SeedSequence, long_run: bool = False
    ) -> None:
        uniform, kinds = seed.spawn(2)
        self._uniform, self._kinds = np.random.default_rng(uniform), np.random.default_rng(kinds)
        mix = Mix.of(tokens)
        self._up_to_kind = np.cumsum(mix.weights / mix.weights.sum())
        self._up_to_kind /= self._up_to_kind[-1]
        self._output_tokens = mix.output_tokens
        self._states = tokens.states
        self._shape = (batch, lanes)
        tables = [[OutcomeTable(row) for row in mix.p[:, state]] for state in range(len(self._states))]
        self._cdf = np.array([[table.cdf for table in state] for state in tables])  # (state, kind, outcome)
        shared = tokens.shared
        self._chances = None if shared is None else SharedChances(SharedLevels(mix.kernel, shared), seed)
        self._outcomes = tables[0][0].outcomes
        slots = batch * lanes
        self._kind = self._new_kinds(slots)
        self._left = np.full(slots, self._output_tokens)
        self._state = np.zeros(slots, dtype=np.uint32)
        self._found = RequestsFound(mix) if long_run and isinstance(tokens, Mix) else None
        self._steps_done = 0
        if self._found is not None:
            self._state = self._found.states(self._kinds.random(slots))

    def block(self, rounds: int) -> OutcomeBlock:
        batch, lanes = self._shape
        steps = -(-rounds // lanes)
        draws, begun = np.empty((2, batch * lanes, steps), dtype=np.uint32)
        for step, row in enumerate(self._uniform.random((steps, batch * lanes))):
            begun[:, step] = self._state
            draws[:, step] = self._step(row)
        draws, begun = (each.reshape(batch, lanes * steps)[:, :rounds] for each in (draws, begun))
        return OutcomeBlock(self._states, draws, begun=begun)

    def _step(self, uniform: Array) -> Draws:
        """One round of every slot, shape ``(batch * lanes,)``."""
        if self._found is not None and self._steps_done % STRETCH == 0:
            self._kind, self._left = self._found.requests(self._kinds.random(uniform.size), self._state)
        self._steps_done += 1
        if self._chances is not None:
            uniform = self._chances.moved(uniform, self._state, self._kind, self._shape[1])
        index = (uniform[:, None] >= self._cdf[self._state, self._kind]).sum(axis=1)
        draws = self._outcomes[np.minimum(index, self._outcomes.size - 1)]
        state = draws >> 16
        tokens = np.minimum(draws & LOW, self._left).astype(np.uint32)
        self._left -= tokens
        done = np.flatnonzero(self._left == 0)
        self._state = state.copy()
        if done.size:
            self._state[done] = 0  # a new request starts in the first state
            self._left[done] = self._output_tokens
            self._kind[done] = self._new_kinds(done.size)
        return np.asarray(tokens + np.uint32(STATE) * state)

    def _new_kinds(self, count: int) -> NDArray[np.intp]:
        """Kinds as :meth:`numpy.random.Generator.choice` draws them; it looks at the weights anew at every call."""
        return np.searchsorted(self._up_to_kind, self._kinds.random(count), side="right")


class RequestsFound:
    """What a look at a slot finds in the long run: its state, the kind of its request, and the tokens left of it."""

    def __init__(self, mix: Mix) -> None:
        self._tokens = mix.output_tokens
        rounds = (mix.weights[:, None, None] * mix.began).reshape(-1, len(mix.states))  # by kind and tokens made
        up_to_state, self._up_to = np.cumsum(rounds.sum(axis=0)), np.cumsum(rounds.T.copy(), axis=1)
        self._up_to_state = up_to_state / up_to_state[-1]

    def states(self, uniform: Array) -> NDArray[np.uint32]:
        return np.searchsorted(self._up_to_state, uniform, side="right").astype(np.uint32)

    def requests(self, uniform: Array, states: NDArray[np.uint32]) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
        """Kinds, and tokens left, of the requests in slots of these states."""
        places = np.empty(uniform.size, dtype=np.intp)
        for state, up_to in enumerate(self._up_to):
            there = states == state
            places[there] = np.searchsorted(up_to, uniform[there] * up_to[-1], side="right")
        kinds, made = np.divmod(places, self._tokens)
        return kinds, self._tokens - made


class SharedLevels:
    """Equally likely levels of a Beta about each state's and kind's own chance of ending a round in the first state."""

    def __init__(self, kinds: Kernel, concentration: float) -> None:
        from scipy.special import betaincinv  # here, because predict must start fast

        means = kinds.transitions[..., 0].T  # (state, kind), as the tables are
        self.means = np.clip(means, _CERTAIN, 1.0 - _CERTAIN)
        each, of_each = np.unique(self.means, return_inverse=True)  # a level takes microseconds, and many are alike
        levels = (np.arange(_LEVELS) + 0.5) / _LEVELS
        size = each[:, None] * concentration, (1.0 - each[:, None]) * concentration
        chances = np.clip(betaincinv(*size, levels), _CERTAIN, 1.0 - _CERTAIN)
        self.chances = chances[of_each.reshape(self.means.shape)]


class SharedChances:
    """The chance of ending a round in the first state as one draw a round for all slots of a lane, at one level."""

    def __init__(self, levels: SharedLevels, seed: np.random.SeedSequence) -> None:
        self._means, self._chances = levels.means, levels.chances
        self._rng = np.random.default_rng(seed.spawn(1)[0])

    def moved(self, uniform: Array, state: NDArray[np.uint32], kind: NDArray[np.int64], lanes: int) -> Array:
        """Numbers in [0, 1) that lie in the first state's part of a table as often as this round's chance says."""
        level = np.tile(self._rng.integers(_LEVELS, size=lanes), uniform.size // lanes)
        mean, chance = self._means[state, kind], self._chances[state, kind, level]
        first = uniform / chance * mean
        other = mean + (uniform - chance) / (1.0 - chance) * (1.0 - mean)
        return np.asarray(np.where(uniform < chance, first, other))
