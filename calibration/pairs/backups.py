"""Backups that answer a cache miss at once (random tokens, look-ups), and their replay over a given answer.

In a replay a proposal is accepted iff the token comes, with probability p of it: exact at every temperature.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from calibration.pairs.coupling import FIRST, AnswerTable
from calibration.pairs.records import RecordedAnswer
from ssdsim.base.errors import InputError
from ssdsim.base.record import Record


class RandomTokens:
    """Any tokens: next to none of them is accepted."""

    def __init__(self, vocabulary: int, seed: int = 0) -> None:
        self._vocabulary, self._rng = vocabulary, np.random.default_rng(seed)

    def read(self, tokens: Sequence[int]) -> None:
        """Ignore the text: random tokens follow from nothing."""

    def propose(self, tokens: int) -> list[int]:
        drawn: list[int] = self._rng.integers(0, self._vocabulary, tokens).tolist()
        return drawn


class NGrams:
    """Look-up of what followed the latest earlier occurrence of the last n tokens, n from ``longest`` down to 1.

    Source: Saxena, prompt lookup decoding, 2023.
    """

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._text: list[int] = []
        self._goes_on: dict[tuple[int, ...], int] = {}  # n-gram -> where the text goes on after its latest occurrence

    def read(self, tokens: Sequence[int]) -> None:
        """The text goes on with these tokens."""
        for token in tokens:
            end = len(self._text)
            for n in range(1, min(self._longest, end) + 1):
                self._goes_on[tuple(self._text[end - n : end])] = end
            self._text.append(int(token))

    def propose(self, tokens: int) -> list[int]:
        """Propose at most ``tokens`` tokens that may come next; none where nothing is found."""
        for n in range(min(self._longest, len(self._text)), 0, -1):
            after = self._goes_on.get(tuple(self._text[-n:]))
            if after is not None:
                return self._text[after : after + tokens]
        return []


class Suffixes:
    """Look-up of what followed the first occurrence of the longest suffix that occurred before, by an automaton.

    Source: Oliaro et al., SuffixDecoding, 2024, on the request's own text. The suffix automaton grows with the text by
    Blumer's construction, in amortised constant work a token.
    """

    def __init__(self) -> None:
        self._text: list[int] = []
        self._next: list[dict[int, int]] = [{}]
        self._link, self._length, self._end = [-1], [0], [-1]
        self._last = 0

    def read(self, tokens: Sequence[int]) -> None:
        for token in tokens:
            self._extend(int(token))

    def propose(self, tokens: int) -> list[int]:
        # the longest suffix that occurred before is the suffix link of the whole text's state
        state = self._link[self._last]
        return [] if state <= 0 else self._text[self._end[state] + 1 :][:tokens]

    def _extend(self, token: int) -> None:
        state = self._new(self._length[self._last] + 1, len(self._text))
        self._text.append(token)
        at = self._last
        while at >= 0 and token not in self._next[at]:
            self._next[at][token] = state
            at = self._link[at]
        if at < 0:
            self._link[state] = 0
        else:
            self._link[state] = self._state_for(at, token)
        self._last = state

    def _state_for(self, at: int, token: int) -> int:
        """The state of the suffix that ends in ``token`` from ``at``, split off where it is longer."""
        state = self._next[at][token]
        if self._length[state] == self._length[at] + 1:
            return state
        split = self._new(self._length[at] + 1, self._end[state])
        self._next[split] = dict(self._next[state])
        self._link[split] = self._link[state]
        self._link[state] = split
        while at >= 0 and self._next[at].get(token) == state:
            self._next[at][token] = split
            at = self._link[at]
        return split

    def _new(self, length: int, end: int) -> int:
        self._next.append({})
        self._link.append(0)
        self._length.append(length)
        self._end.append(end)
        return len(self._next) - 1


Lookup = RandomTokens | NGrams | Suffixes
"""Proposes tokens from the text that it was told. A proposal is accepted iff it comes: it has no distribution."""


def lookup_named(name: str, vocabulary: int, seed: int) -> Lookup:
    """``random``, ``ngram:3`` (or ``ngram``), ``suffix``."""
    word, _, number = name.partition(":")
    if word == "random" and not number:
        return RandomTokens(vocabulary, seed)
    if word == "suffix" and not number:
        return Suffixes()
    if word == "ngram" and re.fullmatch(r"0*[1-9]\d{0,8}", number or "3"):
        return NGrams(int(number or 3))
    raise InputError(f"unknown backup '{name}'. Allowed: random, ngram:N with N from 1, suffix")


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


def looked_up(table: AnswerTable, name: str, k: int, vocabulary: int, seed: int) -> LookedUp:
    """The rounds of the backup called ``name`` at every start."""
    shape = int(table.lengths.max()), len(table.requests)
    proposed, accepted, needed = (np.zeros(shape, dtype=np.int64) for _ in range(3))
    for column, request in enumerate(table.requests):
        for at, round_of in enumerate(_of_request(request, name, k, vocabulary, seed + column), start=FIRST):
            proposed[at, column], accepted[at, column], needed[at, column] = round_of
    starts = np.arange(shape[0])[:, None]
    counted = (starts >= FIRST) & (starts < table.lengths - k)
    return LookedUp(name, k, counted, proposed, accepted, needed)


def _of_request(request: RecordedAnswer, name: str, k: int, vocabulary: int, seed: int) -> list[tuple[int, int, int]]:
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
