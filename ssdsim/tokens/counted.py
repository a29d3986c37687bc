"""The handshake of AMUSD's released code, drawn: two counters tell when the target may go on, and they go wrong.

The target compares its text with the draft's as the draft published it last, which is at the end of a step, before the
draft looks at the target's text. A published text that is wrong already (a *stale* one) costs the target a pass over
one row. The target counts a rollback when it rejects a token, the draft when it gives up tokens: also those after a
wrong guess of the bonus token, for which nobody asked. From then on the target waits for no rollback.

There is no closed form: the long run is drawn, many runs side by side, with the same numbers for all columns.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ssdsim.base.checks import Array
from ssdsim.tokens.free_running import FAR_AHEAD, SAME_INSTANT, Rounds

Flags = NDArray[np.bool_]

_PASSES, _FIRST = 256, 64  # that are averaged in each run, after the first ones
_MOST_RUNS, _LEAST_RUNS, _AT_ONCE = 1024, 32, 1 << 16  # side by side: fewer where there are many columns
_SEED = 2024
_REMEMBERED = 62  # rounds: a draft is behind by no more


class CountedRun:
    """Rounds one after the other, of many runs at once: a round is a wait and a pass. Arrays have ``shape``.

    Lengths are in tokens beyond the target's text, below 0 where the draft has not yet drafted what the target has.
    Times are those at the target: a drafted token counts from when it is published there. ``settled``: more rollbacks
    were counted than asked for, as in the long run wherever a bonus token is ever guessed wrongly.
    """

    def __init__(self, shape: tuple[int, ...] = (), settled: ArrayLike = False) -> None:
        self._length, self._published = np.zeros((2, *shape))
        self._wrong, self._stale = np.zeros((2, *shape), dtype=bool)
        self._news = np.zeros(shape, dtype=bool)  # the target's text has grown since the draft's last look
        self._guesses = np.zeros(shape, dtype=np.int64)  # were those of the last rounds' last tokens right; a bit each
        self._asked = np.zeros(shape) - np.where(settled, np.inf, 0.0)  # rollbacks, less those that were counted
        self._since_token, self._since_pass = np.zeros((2, *shape))

    def round(
        self,
        accepted: ArrayLike,
        guessed: ArrayLike,
        *,
        least: ArrayLike,
        most: ArrayLike,
        pass_s: ArrayLike,
        stale_s: ArrayLike,
        token_s: ArrayLike,
        news_s: ArrayLike = 0.0,
    ) -> tuple[Array, Array, Flags]:
        """Tokens accepted, the seconds until the pass ends, and whether it was one over a row.

        ``accepted`` is what the longest pass (of ``most``) would accept, ``guessed`` whether the draft guesses the
        token after those; ``news_s`` is how long both sides' messages take.
        """
        step = np.asarray(np.maximum(token_s, np.asarray(pass_s) / FAR_AHEAD))
        knows_s = np.asarray(news_s, dtype=float)
        waited = np.zeros(self._length.shape)
        while np.any(waits := (self._asked > 0) | (self._published < least)):
            next_s = np.where(waits, step - self._since_token, 0.0)
            self._draft(waits.astype(float), self._since_pass + next_s, step, knows_s)
            self._since_token = np.where(waits, 0.0, self._since_token)
            self._since_pass = self._since_pass + next_s
            waited = waited + next_s
        stale = self._stale
        verified = np.where(stale, 0.0, np.minimum(self._published, most))
        run_s = np.where(stale, stale_s, pass_s)
        spent = self._since_token + run_s
        made = np.maximum(np.ceil(spent / step - SAME_INSTANT) - 1.0, 0.0)
        self._draft(made, self._since_pass + step - self._since_token, step, knows_s)
        taken = np.minimum(accepted, verified)
        self._commit(taken, taken < verified, guessed)
        left = spent - made * step
        now = left >= step * (1.0 - SAME_INSTANT)  # what is published as the pass ends knows its outcome
        self._draft(now.astype(float), np.zeros(now.shape), step, knows_s)
        self._since_token, self._since_pass = np.where(now, 0.0, left), np.zeros(now.shape)
        return taken, waited + run_s, stale

    def _commit(self, taken: Array, rejected: Flags, guessed: ArrayLike) -> None:
        """The target's text grows by the accepted tokens, and by one that is its own."""
        right = np.asarray(guessed, dtype=bool) & ~rejected
        self._length = self._length - taken - 1.0
        self._published = self._published - taken - 1.0
        self._asked = self._asked + rejected
        self._wrong = self._wrong | (~right & (self._length >= 0.0))
        self._stale = self._stale | (~right & (self._published >= 0.0))
        self._guesses = (self._guesses << 1 | right) & ((1 << _REMEMBERED) - 1)
        self._news = np.ones(self._news.shape, dtype=bool)

    def _draft(self, tokens: Array, first_s: Array, step: Array, knows_s: Array) -> None:
        """Draft so many tokens, the first ``first_s`` after the last pass; after one of them the draft looks."""
        unknowing = np.maximum(np.ceil((knows_s - first_s) / step - SAME_INSTANT), 0.0)
        looks = self._news & (tokens > unknowing)
        before = np.where(looks, unknowing + 1.0, tokens)
        self._publish(before)
        gives_up = looks & self._wrong
        self._asked = self._asked - (gives_up & (self._length > 0.0))
        self._length = np.where(gives_up, 0.0, self._length)
        self._wrong, self._news = self._wrong & ~gives_up, self._news & ~looks
        self._publish(tokens - before)

    def _publish(self, tokens: Array) -> None:
        behind = np.clip(-self._length, 0.0, _REMEMBERED)
        if behind.any():  # it drafts what the target has already, and may differ
            again = np.minimum(tokens, behind).astype(np.int64)
            known = (1 << again) - 1
            self._wrong = self._wrong | ((self._guesses >> (behind.astype(np.int64) - again)) & known != known)
        self._length = self._length + tokens
        self._published = np.where(tokens > 0.0, self._length, self._published)
        self._stale = np.where(tokens > 0.0, self._wrong, self._stale)


def drawn_long_run(
    accepted: ArrayLike,
    guessed: ArrayLike,
    *,
    least: ArrayLike,
    pass_s: ArrayLike,
    stale_s: ArrayLike,
    token_s: ArrayLike,
    news_s: ArrayLike = 0.0,
) -> tuple[Rounds, Array]:
    """The mean round with this handshake, and the share of its passes that were over one row.

    Of one column it rests on 260,000 passes: its standard error is about a thousandth.

    Parameters
    ----------
    accepted : P(exactly k of the longest pass's tokens are accepted), shape ``(..., K+1)``, NaN beyond a shorter K.
    guessed : P(the draft guesses the bonus token).
    least : tokens that a pass waits for.
    pass_s, stale_s, token_s : of a pass of the target, of one over a row, and of drafting a token.
    news_s : of an outcome's way to the draft and of a token's to the target.
    """
    pmf = np.asarray(accepted, dtype=float)
    longest = np.sum(~np.isnan(pmf), axis=-1) - 1
    columns = np.broadcast_arrays(longest, guessed, least, pass_s, stale_s, token_s, news_s)
    shape, (most, bonus, *times) = columns[0].shape, (column[..., None] for column in columns)
    runs = min(max(_AT_ONCE // max(1, math.prod(shape)), _LEAST_RUNS), _MOST_RUNS)
    below = np.broadcast_to(np.cumsum(np.nan_to_num(pmf), axis=-1)[..., :-1], (*shape, pmf.shape[-1] - 1))
    names = ("least", "pass_s", "stale_s", "token_s", "news_s")
    run, random = CountedRun((*shape, runs), settled=bonus < 1.0), np.random.default_rng(_SEED)
    sums = np.zeros((3, *shape))
    for number in range(_FIRST + _PASSES):
        # every quantile once among the runs: what a round does scatters less than a round's draw
        level, guess = ((random.permutation(runs) + random.random(runs)) / runs for _ in range(2))
        one = run.round(_quantile(below, level), guess < bonus, most=most, **dict(zip(names, times, strict=True)))
        if number >= _FIRST:
            sums += [np.mean(each, axis=-1) for each in (one[0] + 1.0, one[1], one[2])]
    return Rounds(sums[0] / _PASSES, sums[1] / _PASSES), sums[2] / _PASSES


def _quantile(below: Array, level: Array) -> NDArray[Any]:
    """The number of the ascending ``below``, shape ``(..., K)``, at most each level, shape ``(..., levels)``."""
    rows = below.reshape(-1, below.shape[-1])
    distinct, which = np.unique(rows, axis=0, return_inverse=True)
    places = np.array([np.searchsorted(row, level, side="right") for row in distinct])
    return np.asarray(places[which.ravel()].reshape(*below.shape[:-1], level.size))
