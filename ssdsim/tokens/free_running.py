"""A draft and a target that never wait for each other's verdicts: how long passes are, and how often they come.

Times are those at the target: a drafted token counts from when it arrives there. A pass may start when the draft is
``least`` tokens ahead; it verifies all that it is ahead by, up to ``most``.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from ssdsim.base.checks import Array
from ssdsim.base.record import Record

SAME_INSTANT = 1e-9  # of a step: a token that arrives as a pass ends is there
_FORGOTTEN = 1e-14
_MOST_PASSES = 512  # since a divergence, that are summed one by one
FAR_AHEAD = 1e13  # tokens a pass: a draft that is faster changes nothing


class Rounds(Record):
    """Tokens and seconds of a pass in the long run, with the wait before the next one."""

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
) -> Rounds:
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
    step = np.maximum(step_s, run_s / FAR_AHEAD)
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
        made = np.floor((phase + run_s) / step + SAME_INSTANT)
        after = np.maximum(phase + run_s - made * step, 0.0)
        after = np.where(after < SAME_INSTANT * step, 0.0, after)
        lost = np.ceil((after + there + back) / step - SAME_INSTANT)
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
    return Rounds(sums[1] / sums[0], sums[2] / sums[0])


class FreeRun:
    """Rounds one by one, with what is drawn of each."""

    def __init__(self, least: int, most: int) -> None:
        self._least, self._most = least, most
        self._lead = least
        self._phase_s = 0.0  # since the last token arrived, as the pass starts

    def round(
        self, accepted: int, guessed: bool, pass_s: float, token_s: float, there_s: float, back_s: float
    ) -> tuple[int, float]:
        """Accepted tokens, and seconds until the next pass; ``accepted`` is what the longest pass would accept."""
        verified = min(self._lead, self._most)
        step = max(token_s, pass_s / FAR_AHEAD)
        spent = self._phase_s + pass_s
        made = math.floor(spent / step + SAME_INSTANT)
        after = max(spent - made * step, 0.0)
        after = 0.0 if after < SAME_INSTANT * step else after
        if accepted < verified or not guessed:
            lost = math.ceil((after + there_s + back_s) / step - SAME_INSTANT)
            self._phase_s, self._lead = 0.0, self._least
            return min(accepted, verified), pass_s - after + (lost + self._least) * step
        ahead = self._lead - verified - 1 + made
        if ahead >= self._least:
            self._phase_s, self._lead = after, ahead
            return verified, pass_s
        self._phase_s, self._lead = 0.0, self._least
        return verified, pass_s - after + (self._least - ahead) * step
