"""Markov chains in the long run, and that of a batch whose sequences fail singly and draft anew together (SPECTRE)."""

from __future__ import annotations

from functools import cached_property, lru_cache
from math import comb

import numpy as np

from ssdsim.base.checks import Array
from ssdsim.base.record import Record

_NOTHING = 1e-200  # a chance below it is none: arithmetic on the smallest numbers takes a hundred times as long
_AGREE = 1e-14  # of the rows, once the start is forgotten
_DOUBLINGS = 64  # of the rounds after which a chain has forgotten its start: 2^64


def long_run(transitions: Array) -> Array:
    """The share of each state in the long run, averaged over a period, from each start; shapes ``(..., s, s)``."""
    lazy = (np.eye(transitions.shape[-1]) + transitions) / 2.0  # the same shares, without a period
    for _ in range(_DOUBLINGS):
        lazy = lazy @ lazy
        lazy = np.where(lazy < _NOTHING, 0.0, lazy)
        lazy /= lazy.sum(axis=-1, keepdims=True)
        if np.ptp(lazy, axis=-2).max() < _AGREE:
            break
    return lazy


class Retrying(Record):
    """``batch`` sequences, each with drafts to verify or with none.

    One with drafts has some for the next round with probability ``after_drafts``, one without with ``after_none``.
    Where more than the share ``ratio`` of a batch of more than ``least`` have none, those draft at once, and all begin
    the next round with drafts.
    """

    batch: int
    after_drafts: float
    after_none: float
    ratio: float
    least: int

    @property
    def most_failed(self) -> int:
        """The most of the batch that may fail without a retry."""
        return self.batch if self.batch <= self.least else int(np.floor(self.ratio * self.batch + 1e-9))

    @cached_property
    def long_run(self) -> Array:
        """Share of rounds that begin with 0 ... b sequences with drafts, and last of those that follow a retry."""
        return np.asarray(long_run(self._chain)[-1])

    @cached_property
    def retries(self) -> float:
        """Share of rounds that end with a retry."""
        return float(self.long_run[-1])

    @cached_property
    def _chain(self) -> Array:
        """The chain from rounds to rounds; the first one is as after a retry."""
        keep = self.batch - self.most_failed  # sequences with drafts that no retry needs
        rows = [self._kept(n, self.batch - n) for n in range(self.batch + 1)]
        rows.append(rows[-1])  # after a retry all have drafts
        chain = np.zeros((self.batch + 2, self.batch + 2))
        for begun, pmf in enumerate(rows):
            chain[begun, keep : self.batch + 1] = pmf[keep:]
            chain[begun, -1] = pmf[:keep].sum()
        return chain

    def _kept(self, drafts: int, none: int) -> Array:
        """P(this many have drafts after the round), from so many with and without, shape ``(drafts + none + 1,)``."""
        return np.convolve(_binomial(drafts, self.after_drafts), _binomial(none, self.after_none))

    def retried_with(self, state: str, kept: bool) -> float:
        """P(a retry ends the round | a sequence that began it in ``state`` then has drafts of its own, or none).

        ``state`` is ``pre`` without drafts, ``post`` with them, ``again`` with them after a retry.
        """
        begun = np.arange(self.batch + 1)
        if state == "again":
            shares = np.where(begun == self.batch, 1.0, 0.0)
        else:
            shares = self.long_run[:-1] * (begun if state == "post" else self.batch - begun)
        if not shares.sum():
            return 0.0
        needs = self.batch - self.most_failed - int(kept)  # of the others
        own = (0, 1) if state == "pre" else (1, 0)
        found = 0.0
        for drafts in np.flatnonzero(shares):
            others = self._kept(int(drafts) - own[0], self.batch - int(drafts) - own[1])
            found += float(shares[drafts] * others[: max(0, needs)].sum())
        return min(1.0, found / float(shares.sum()))  # sums of many chances end a rounding above 1

    @cached_property
    def branches(self) -> tuple[float, float]:
        """P(a retry follows a retry), and P(one follows a round without), both in the long run."""
        between = 1.0 - self.retries
        begins = self.retries * (1.0 - float(self._chain[-1, -1]))
        return float(self._chain[-1, -1]), begins / between if between > 0.0 else 1.0


@lru_cache(maxsize=256)
def retrying_of(batch: int, after_drafts: float, after_none: float, ratio: float, least: int) -> Retrying:
    """Cached: settings, tokens and draws ask for the same batch."""
    return Retrying(batch, after_drafts, after_none, ratio, least)


@lru_cache(maxsize=4096)
def _binomial(count: int, chance: float) -> Array:
    k = np.arange(count + 1)
    return np.asarray(_ways(count) * chance**k * (1.0 - chance) ** (count - k))


@lru_cache(maxsize=1024)
def _ways(count: int) -> Array:
    """Ways to choose k of ``count``: the same at every chance."""
    return np.array([float(comb(count, k)) for k in range(count + 1)])
