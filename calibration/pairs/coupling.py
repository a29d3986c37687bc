"""The retrospective coupling: what rounds of speculative decoding would have written a given answer.

Speculative decoding's output is distributed as the target's. Given the output y, a drafted position t was accepted
with probability u_t = min(1, q_t(y_t) / p_t(y_t)), independently over t: a token is accepted with probability
min(p, q) in all, and comes with probability p. So no coin is thrown: the probability that a round starts at t follows
from those before it. Where ``b_t`` is the probability that t is the bonus after K accepted tokens and ``alive_t`` that
a round under way reaches t,

    start_(t+1) = (alive_t - b_t) (1 - u_t) + b_t,     b_t = start_(t-K) u_(t-K) ... u_(t-1).

Only rounds count that have K + 1 positions left: the others may have been cut by the answer's end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from calibration.pairs.records import Positions, RecordedAnswer
from ssdsim.base.checks import Floats, whole
from ssdsim.base.errors import InputError
from ssdsim.base.record import Record
from ssdsim.tokens.request_spread import Course

Starts = Literal["first", "offsets"]
"""Rounds begin at an answer's second token, as an engine's do, or with equal weight at its next K + 1."""

FIRST = 1
"""The position where a first round starts: position 0 is the prompt pass's token."""


class CoupledRounds(Record):
    """Rounds of lookahead ``k`` of every answer, as weights of its positions, shape ``(T, R, ...)``.

    ``starts`` of rounds that count, ``tested`` of positions that they drafted, ``bonus`` of positions that came after
    all K were accepted.
    """

    k: int
    accept: Floats
    starts: Floats
    tested: Floats
    bonus: Floats

    @property
    def rejected(self) -> Floats:
        """Weight of positions that replaced a rejected token."""
        return self.tested * (1.0 - self.accept)

    @property
    def count(self) -> Floats:
        """Rounds of each request, shape ``(R, ...)``."""
        return np.asarray(self.starts.sum(axis=0))

    @property
    def tokens(self) -> Floats:
        """Tokens that they yielded, bonus included."""
        return np.asarray((self.tested + self.bonus).sum(axis=0))

    @property
    def accepted(self) -> Floats:
        return np.asarray((self.tested * self.accept).sum(axis=0))

    @property
    def drafted(self) -> Floats:
        """Drafted tokens that were looked at: those after a rejection were not."""
        return np.asarray(self.tested.sum(axis=0))

    def by_length(self) -> Floats:
        """Rounds by how many drafted tokens were accepted, shape ``(K+1, R, ...)``."""
        reached, ended = self.starts.copy(), []
        for j in range(self.k):
            accept = _ahead(self.accept, j)
            ended.append((reached * (1.0 - accept)).sum(axis=0))
            reached = reached * accept
        return np.stack([*ended, reached.sum(axis=0)])

    def rejected_after(self, j: int) -> Floats:
        """Weight of positions that replaced the drafted token ``j``, those before it being accepted."""
        reached = self.starts.copy()
        for i in range(j):
            reached = reached * _ahead(self.accept, i)
        at = np.zeros_like(reached)
        at[j:] = (reached * (1.0 - _ahead(self.accept, j)))[: len(at) - j]
        return at


def rounds_of(table: AnswerTable, k: int, starts: Starts = "first", accept: Floats | None = None) -> CoupledRounds:
    """The rounds of every answer with a lookahead of ``k``.

    ``accept``, shape ``(T, R, ...)``, replaces the table's own where the draft's tokens are drawn otherwise.
    """
    u = table.accept if accept is None else accept
    start, tested, bonus = (np.zeros_like(u) for _ in range(3))
    for t, *at in each_position(table, k, starts, u):
        start[t], tested[t], bonus[t] = at
    return CoupledRounds(k, u, start, tested, bonus)


def each_position(
    table: AnswerTable, k: int, starts: Starts, u: Floats
) -> Iterator[tuple[int, Floats, Floats, Floats]]:
    """The programme over starts: a position and its weights of starts, tests and bonuses, shape ``(R, ...)`` each.

    They hold until the next position is asked for.
    """
    whole("k", k, 1)
    last = (table.lengths - 1 - k).reshape(-1, *[1] * (u.ndim - 2))  # the last start that counts, of each request
    if last.max() < FIRST:
        raise InputError(f"no answer has the {k + 2} tokens that a round of --k {k} needs")
    first = {FIRST: 1.0} if starts == "first" else {FIRST + i: 1.0 / (k + 1) for i in range(k + 1)}
    ages = np.zeros((k + 1, *u.shape[1:]), dtype=u.dtype)  # rounds under way, by how many tokens were accepted
    alive = ended = tested = bonus = np.zeros(u.shape[1:], dtype=u.dtype)
    for t in range(FIRST, len(u)):
        if t > FIRST:
            alive = tested * u[t - 1]
            ended = tested - alive + bonus
            ages[1:] = ages[:-1] * u[t - 1]
        ages[0] = start = np.where(t <= last, ended + u.dtype.type(first.get(t, 0.0)), u.dtype.type(0.0))
        bonus = ages[k].copy()
        tested = np.maximum(alive + start - bonus, 0.0)  # rounding leaves less than nothing where all was bonus
        yield t, start, tested, bonus


def _ahead(u: Floats, j: int) -> Floats:
    """``u_(t+j)`` at t, 0 past the end."""
    if j == 0:
        return u
    moved = np.zeros_like(u)
    moved[:-j] = u[j:]
    return moved


class AnswerTable(Record):
    """``R`` answers of one temperature. Position 0 of each comes from the prompt's pass and is never speculated."""

    requests: tuple[RecordedAnswer, ...]
    temperature: float

    @classmethod
    def of(cls, requests: Sequence[RecordedAnswer]) -> AnswerTable:
        """The table of answers."""
        temperatures = {request.temperature for request in requests}
        if len(temperatures) != 1:
            raise InputError(f"answers of one temperature are needed, got {sorted(temperatures) or 'none'}")
        return cls(tuple(requests), temperatures.pop())

    @cached_property
    def lengths(self) -> NDArray[np.int64]:
        """Positions of each answer, shape ``(R,)``."""
        return np.array([len(request) for request in self.requests])

    @cached_property
    def at(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Time and request of each of the ``N`` positions of all answers, one answer after the other."""
        time = np.concatenate([np.arange(length) for length in self.lengths])
        return time, np.repeat(np.arange(len(self.requests)), self.lengths)

    @cached_property
    def flat(self) -> Positions:
        """The ``N`` positions, in the order of :attr:`at`; of tops as many as every answer has."""
        parts = [request.positions for request in self.requests]
        least = min(part.top_ids.shape[1] for part in parts)
        if any(part.top_ids.shape[1] != least for part in parts):
            raise InputError("answers were collected with different --top: measure again")
        return Positions.joined(parts)

    def scatter(self, flat: Floats, fill: float = 0.0) -> Floats:
        """Values of the ``N`` positions, shape ``(N, ...)``, as ``(T, R, ...)``; ``fill`` past an answer's end."""
        out = np.full((int(self.lengths.max()), len(self.requests), *flat.shape[1:]), fill, dtype=flat.dtype)
        out[self.at] = flat
        return out

    @cached_property
    def accept(self) -> Floats:
        """P(position t's token was accepted | the answer) where it was drafted, shape ``(T, R)``; 0 past the end.

        ``min(1, q/p)`` of the token that came (see :mod:`.coupling`); at temperature 0 whether it was the
        draft's first choice.
        """
        return self.scatter(acceptance(self.flat, self.temperature))

    def by_needed(self, weight: Floats, above: NDArray[np.float32] | None = None, most: int = 64) -> Floats:
        """Weights, shape ``(T, R)``, by how many guesses are needed to hit: ``(R, most + 2)``, the last for more.

        With ``above`` (of the ``N`` positions) the guesses are those without the rejected token, which makes room where
        it ranked above the one that came; else all of the draft's.
        """
        each, (_, request) = weight[self.at], self.at
        needed = np.minimum(self.flat.rank.astype(np.int64) + 1, most + 1)
        spared = np.zeros(len(each)) if above is None else np.asarray(above, dtype=float)
        spared = np.where(self.flat.rank >= 1, spared, 0.0)
        fewer = np.minimum(np.maximum(self.flat.rank.astype(np.int64), 1), most + 1)
        size = len(self.requests) * (most + 2)
        counts = np.bincount(request * (most + 2) + needed, each * (1.0 - spared), size)
        counts += np.bincount(request * (most + 2) + fewer, each * spared, size)
        return np.asarray(counts.reshape(len(self.requests), most + 2))


def acceptance(positions: Positions, temperature: float) -> Floats:
    """``min(1, q/p)`` of every position; at temperature 0 whether the draft's first choice came."""
    if temperature == 0.0:
        return np.asarray(positions.rank == 0, dtype=float)
    p, q = positions.p.astype(float), positions.q.astype(float)
    return np.asarray(np.minimum(1.0, np.divide(q, p, out=np.ones_like(p), where=p > 0.0)))


def courses(table: AnswerTable, k: int, seed: int) -> list[Course]:
    """A course of every answer: coins are thrown for acceptance and for the place of the rejected token."""
    rng = np.random.default_rng(seed)
    return [_course(table, column, k, rng) for column in range(len(table.requests))]


def _course(table: AnswerTable, column: int, k: int, rng: np.random.Generator) -> Course:
    positions = table.requests[column].positions
    n = len(positions)
    taken = rng.random(n) < table.accept[:n, column]
    spared = (rng.random(n) < positions.above) & (positions.rank >= 1)
    accepted, needed, start = [], [], FIRST
    while start + k < n:
        run = taken[start : start + k]
        length = k if run.all() else int(run.argmin())
        end = start + length
        accepted.append(length)
        needed.append(int(positions.rank[end]) + 1 - int(length < k and spared[end]))
        start = end + 1
    return Course(np.array(accepted, dtype=np.int64), np.array(needed, dtype=np.int64))
