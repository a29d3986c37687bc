"""A draft and a target that never wait for each other's verdicts: how long passes are, and how often they come.

Times are those at the target: a drafted token counts from when it arrives there. A pass may start when the draft is
``least`` tokens ahead; it verifies all that it is ahead by, up to ``most``.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ssdsim.base.checks import Array
from ssdsim.base.record import Record

_SAME_INSTANT = 1e-9  # of a step: a token that arrives as a pass ends is there
_FORGOTTEN = 1e-14
_MOST_PASSES = 512  # since a divergence, that are summed one by one
_FAR_AHEAD = 1e13  # tokens a pass: a draft that is faster changes nothing

_PASSES, _FIRST = 256, 64  # that are averaged in each run, after the first ones
_MOST_RUNS, _LEAST_RUNS, _AT_ONCE = 1024, 32, 1 << 16  # side by side: fewer where there are many columns
_SEED = 2024
_REMEMBERED = 62  # rounds: a draft is behind by no more

Flags = NDArray[np.bool_]


class MeanRound(Record):
    """Tokens and seconds of a pass and the wait after it, in the long run."""

    tokens: Array
    seconds: Array


def long_run(
    accepted: ArrayLike,
    guessed: ArrayLike,
    *,
    least: ArrayLike,
    pass_s: ArrayLike,
    token_s: ArrayLike,
    there_s: ArrayLike = 0.0,
    back_s: ArrayLike = 0.0,
) -> MeanRound:
    """The mean round of AMUSD, exact for constant durations.

    Every divergence starts the same path anew: the n-th pass after one has a certain length, and is reached if all
    before it were accepted. After 512 passes, which only near-certain acceptance reaches, the rest is as the second
    half of them was.

    Parameters
    ----------
    accepted : P(exactly k of the longest pass's tokens are accepted), shape ``(..., K+1)``, NaN beyond a shorter K.
    guessed : P(the draft guesses the bonus token).
    least : tokens that a pass waits for.
    pass_s, token_s : of a pass of the target, and of drafting a token.
    there_s, back_s : of an outcome's way to the draft, and of a token's to the target.

    Returns
    -------
    Means over passes, of the shape that the arguments broadcast to.

    >>> rounds = long_run([0.2 * 0.8**k for k in range(64)] + [0.8**64], 0.8, least=2, pass_s=1.0, token_s=0.1)
    >>> round(float(rounds.tokens / rounds.seconds), 6)
    2.819143
    """
    pmf = np.asarray(accepted, dtype=float)
    most = np.sum(~np.isnan(pmf), axis=-1) - 1
    reached = np.cumsum(np.nan_to_num(pmf)[..., ::-1], axis=-1)[..., ::-1]  # P(at least k accepted)
    yields = np.cumsum(reached, axis=-1)  # tokens of a pass of k, the last one included
    arguments = (most, guessed, least, pass_s, token_s, there_s, back_s)
    most, bonus, least, run_s, step_s, there, back = np.broadcast_arrays(*map(np.asarray, arguments))
    reached, yields = (np.broadcast_to(each, (*most.shape, pmf.shape[-1])) for each in (reached, yields))
    step = np.maximum(step_s, run_s / _FAR_AHEAD)
    phase, lead, sure = np.zeros(most.shape), least.astype(float), np.ones(most.shape)
    sums = np.zeros((3, *most.shape))  # passes, tokens, seconds
    later = np.zeros((3, *most.shape))
    middle = sure
    for number in range(_MOST_PASSES):
        if number == _MOST_PASSES // 2:
            middle, later = sure, np.zeros_like(sums)
        verified = np.minimum(lead, most)
        at = verified.astype(np.intp)[..., None]
        tokens, all_right = (np.take_along_axis(each, at, -1)[..., 0] for each in (yields, reached))
        made = np.floor((phase + run_s) / step + _SAME_INSTANT)
        after = np.maximum(phase + run_s - made * step, 0.0)
        after = np.where(after < _SAME_INSTANT * step, 0.0, after)
        lost = np.ceil((after + there + back) / step - _SAME_INSTANT)
        diverged_s = run_s - after + (lost + least) * step
        ahead = lead - verified - 1.0 + made
        goes_on = ahead >= least
        hit_s = np.where(goes_on, run_s, run_s - after + (least - ahead) * step)
        right = all_right * bonus
        passed = np.array([sure, sure * tokens, sure * (right * hit_s + (1.0 - right) * diverged_s)])
        sums += passed
        later += passed
        sure = sure * right
        phase = np.where(goes_on, after, 0.0)
        lead = np.where(goes_on, ahead, least)
        if sure.max() < _FORGOTTEN:
            break
    else:
        # the second half stands for the passes to come; a sure draft is as fast as the slower side
        keeps = np.where(middle > 0.0, sure / np.where(middle > 0.0, middle, 1.0), 0.0)
        certain = keeps >= 1.0 - _FORGOTTEN
        sums = np.where(certain, later, sums + later * keeps / np.where(certain, 1.0, 1.0 - keeps))
        # of its tokens, not its seconds: no pass is shorter than the target takes
        sums[1] = np.where(certain, sums[2] / np.maximum(step, run_s / (most + 1)), sums[1])
    return MeanRound(sums[1] / sums[0], sums[2] / sums[0])


class FreeRun:
    """The ideal handshake's rounds, one by one, from drawn outcomes."""

    def __init__(self, least: int, most: int) -> None:
        self._least, self._most = least, most
        self._lead = least
        self._phase_s = 0.0  # since the last token arrived, as the pass starts

    def round(
        self, accepted: int, guessed: bool, pass_s: float, token_s: float, there_s: float, back_s: float
    ) -> tuple[int, float]:
        """Accepted tokens, and seconds until the next pass; ``accepted`` is what the longest pass would accept."""
        verified = min(self._lead, self._most)
        step = max(token_s, pass_s / _FAR_AHEAD)
        spent = self._phase_s + pass_s
        made = math.floor(spent / step + _SAME_INSTANT)
        after = max(spent - made * step, 0.0)
        after = 0.0 if after < _SAME_INSTANT * step else after
        if accepted < verified or not guessed:
            lost = math.ceil((after + there_s + back_s) / step - _SAME_INSTANT)
            self._phase_s, self._lead = 0.0, self._least
            return min(accepted, verified), pass_s - after + (lost + self._least) * step
        ahead = self._lead - verified - 1 + made
        if ahead >= self._least:
            self._phase_s, self._lead = after, ahead
            return verified, pass_s
        self._phase_s, self._lead = 0.0, self._least
        return verified, pass_s - after + (self._least - ahead) * step


class CountedRun:
    """Rounds with the handshake of AMUSD's released code, one after the other, of many runs at once.

    Two counters tell when the target may go on, and they go wrong. The target compares its text with the draft's as the
    draft published it last, which is at the end of a step, before the draft looks at the target's text. A published
    text that is wrong already (a *stale* one) costs the target a pass over one row. The target counts a rollback when
    it rejects a token, the draft when it gives up tokens: also those after a wrong guess of the bonus token, for which
    nobody asked. From then on the target waits for no rollback. There is no closed form: the long run is drawn.

    A round is a wait and a pass. Arrays have ``shape``. Lengths are in tokens beyond the target's text, below 0 where
    the draft has not yet drafted what the target has. Times are those at the target: a drafted token counts from when
    it is published there. ``settled``: more rollbacks were counted than asked for, as in the long run wherever a bonus
    token is ever guessed wrongly.
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
        step = np.asarray(np.maximum(token_s, np.asarray(pass_s) / _FAR_AHEAD))
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
        made = np.maximum(np.ceil(spent / step - _SAME_INSTANT) - 1.0, 0.0)
        self._draft(made, self._since_pass + step - self._since_token, step, knows_s)
        taken = np.minimum(accepted, verified)
        self._commit(taken, taken < verified, guessed)
        left = spent - made * step
        now = left >= step * (1.0 - _SAME_INSTANT)  # what is published as the pass ends knows its outcome
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
        unknowing = np.maximum(np.ceil((knows_s - first_s) / step - _SAME_INSTANT), 0.0)
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
) -> tuple[MeanRound, Array]:
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
    return MeanRound(sums[0] / _PASSES, sums[1] / _PASSES), sums[2] / _PASSES


def _quantile(below: Array, level: Array) -> NDArray[Any]:
    """Number of the ascending ``below``, shape ``(..., K)``, at most each level, shape ``(..., levels)``."""
    rows = below.reshape(-1, below.shape[-1])
    distinct, which = np.unique(rows, axis=0, return_inverse=True)
    places = np.array([np.searchsorted(row, level, side="right") for row in distinct])
    return np.asarray(places[which.ravel()].reshape(*below.shape[:-1], level.size))
