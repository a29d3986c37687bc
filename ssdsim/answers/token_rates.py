"""Acceptance and hit rates from logits, by sums over contexts: one pass over the vocabulary a context."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ssdsim.base.checks import Array, within
from ssdsim.base.errors import InputError
from ssdsim.base.intervals import binomial_interval, student_quantile
from ssdsim.base.record import Record

if TYPE_CHECKING:
    import pandas as pd

_CONFIDENCE = 0.95
_MOST_GUESSES = 1e9
_FEW = 50  # below so many, a count is not yet normal
ROUNDING = 1e-12  # a rejection rate below this is rounding of two equal distributions


class Means(Record):
    """Means over contexts with the bounds of their 95 % intervals: three arrays of one shape."""

    value: Array
    low: Array
    high: Array


class TokenRates(Record):
    """Rates of a token model over temperatures (axis T), Saguaro constants (axis C) and fan-outs (axis F).

    alpha    (T, C, F)  P(a draft token is accepted); it depends on ``F`` only for ``c < 1``
    hit      (T, C, F)  ``h(F)``: P(the bonus token is cached | the draft token of its position was rejected)
    hit_all  (T, F)     ``h_all(F)``: P(the bonus token is cached | all draft tokens were accepted)
    """

    taus: Array
    cs: Array
    fan_outs: NDArray[np.int64]
    alpha: Means
    hit: Means
    hit_all: Means

    def frame(self) -> pd.DataFrame:
        """One row a ``(tau, c, fan_out)``; each mean with ``_low`` and ``_high``."""
        import pandas as pd

        shape = self.alpha.value.shape
        axes = np.meshgrid(self.taus, self.cs, self.fan_outs, indexing="ij")
        columns = {name: axis.ravel() for name, axis in zip(("tau", "c", "fan_out"), axes, strict=True)}
        means = {"alpha": self.alpha, "hit": self.hit, "hit_all": self.hit_all}
        for name, mean in means.items():
            for suffix, part in (("", mean.value), ("_low", mean.low), ("_high", mean.high)):
                spread_out = part if part.ndim == 3 else part[:, None, :]
                columns[name + suffix] = np.broadcast_to(spread_out, shape).ravel()
        return pd.DataFrame(columns)


def checked_axes(taus: ArrayLike, cs: ArrayLike, fan_outs: ArrayLike) -> tuple[Array, Array, NDArray[np.int64]]:
    """Temperatures, Saguaro constants and fan-outs, each one-dimensional."""
    guesses = np.atleast_1d(within("fan_outs", fan_outs, 0, _MOST_GUESSES))
    if np.any(guesses != np.round(guesses)):
        raise InputError(f"fan_outs must be whole numbers, got {guesses.tolist()}")
    tau, c = np.atleast_1d(within("tau", taus, 0)), np.atleast_1d(within("c", cs, 0, 1))
    if max(tau.ndim, c.ndim, guesses.ndim) > 1:
        raise InputError("taus, cs and fan_outs must be numbers or lists of numbers")
    if tau.min() == 0 and c.min() == 0:
        raise InputError("c must be above 0 at temperature 0: greedy drafting would have no token left")
    return tau, c, guesses.astype(np.int64)


def rates_of_contexts(
    logits: Iterable[tuple[Array, Array]], contexts: int, fan_outs: ArrayLike, taus: ArrayLike, cs: ArrayLike
) -> TokenRates:
    """Rates by exact sums over ``contexts``, of each the target's ``logits`` and the ascending noise of its draft's."""
    tau, c, guesses = checked_axes(taus, cs, fan_outs)
    rejected = np.empty((contexts, tau.size, c.size, guesses.size))
    rejected_hit, hit_all = np.empty_like(rejected), np.empty((contexts, tau.size, guesses.size))
    for i, (target, noise) in enumerate(logits):
        context = _Context.of(target, noise, int(guesses.max()))
        for t in range(tau.size):
            sums = context.greedy(c, guesses) if tau[t] == 0 else context.sums(float(tau[t]), c, guesses)
            rejected[i, t], rejected_hit[i, t], hit_all[i, t] = sums
    greedy = tau == 0
    return TokenRates(
        taus=tau,
        cs=c,
        fan_outs=guesses,
        alpha=_means(1 - rejected, np.ones_like(rejected), greedy),
        hit=_means(rejected_hit, rejected, greedy),
        hit_all=_means(hit_all, np.ones_like(hit_all), greedy),
    )


class _Context(Record):
    """Target logits and ascending noise of one context, and the draft's top tokens in order."""

    target: Array
    noise: Array
    draft: Array
    top: NDArray[np.int64]

    @classmethod
    def of(cls, target: Array, noise: Array, fan_out: int) -> _Context:
        draft = target + noise
        size = min(fan_out + 1, target.size)  # one more takes the place of a rejected token
        top = np.argpartition(-draft, size - 1)[:size]
        return cls(target, noise, draft, top[np.argsort(-draft[top], kind="stable")])

    def sums(self, tau: float, cs: Array, fan_outs: NDArray[np.int64]) -> tuple[Array, Array, Array]:
        """P(rejected), P(rejected and hit), both ``(C, F)``, and P(hit | all accepted), ``(F,)``.

        With ``D = C Q_F + 1 - Q_F`` the draft's distribution is ``C q / D`` on its top ``F`` tokens and ``q / D``
        elsewhere. A token exceeds it by ``p - q / D``, which is positive where the noise is below a bound: prefix
        sums in the order of the noise give the excess of the whole vocabulary, to be corrected for the top tokens.
        """
        (p, log_p), (q, log_q) = (_softmax(logits, tau) for logits in (self.target, self.draft))
        p_top, q_top = p[self.top], q[self.top]
        in_top = np.arange(self.top.size) < fan_outs[:, None]  # (F, top)
        q_cached = in_top @ q_top
        total = cs[:, None] * q_cached + np.where(fan_outs < p.size, np.maximum(1 - q_cached, 0), 0)  # D, (C, F)
        if total.min() <= ROUNDING:
            raise InputError(f"c = {cs.min():g} leaves no token to sample at tau = {tau:g}: c must be above 0 there")
        bound = self.draft.max() - self.target.max() + tau * (log_q - log_p + np.log(total))
        below = np.searchsorted(self.noise, bound)
        excess = _prefix_sum(p)[below] - _prefix_sum(q)[below] / total
        scaled = q_top / total[..., None]  # (C, F, top)
        uncached = np.maximum(p_top - scaled, 0)
        biased = p_top - cs[:, None, None] * scaled
        excess_elsewhere = np.maximum(excess - (uncached * in_top).sum(-1), 0)
        excess_cached = (np.maximum(biased, 0) * in_top).sum(-1)
        rejected = excess_cached + excess_elsewhere
        rejected = np.where(rejected > ROUNDING, rejected, 0)
        next_in_line = (uncached * (np.arange(self.top.size) == fan_outs[:, None])).sum(-1)
        cached_rejected = (np.maximum(-biased, 0) * in_top).sum(-1)  # leaves room for the next in line
        share = np.divide(cached_rejected, rejected, out=np.zeros_like(rejected), where=rejected > 0)
        return rejected, np.minimum(excess_cached + share * next_in_line, rejected), in_top @ p_top

    def greedy(self, cs: Array, fan_outs: NDArray[np.int64]) -> tuple[Array, Array, Array]:
        """Sums of :meth:`sums` at temperature 0, where each distribution is one token that any ``c > 0`` leaves."""
        best = self.target.argmax()
        rank = int(np.count_nonzero(self.draft > self.draft[best]))
        shape = (cs.size, fan_outs.size)
        hit = (rank >= 1) & (rank <= fan_outs)
        return np.full(shape, rank >= 1), np.broadcast_to(hit, shape), (rank < fan_outs).astype(float)


def _softmax(logits: Array, tau: float) -> tuple[Array, float]:
    """Softmax of ``logits / tau``, and the logarithm of its largest probability's inverse."""
    weights = np.exp((logits - logits.max()) / tau)
    total = weights.sum()
    return weights / total, float(np.log(total))


def _prefix_sum(values: Array) -> Array:
    return np.concatenate([[0.0], np.cumsum(values)])


def _means(above: Array, below: Array, greedy: NDArray[np.bool_]) -> Means:
    """``sum(above) / sum(below)`` over contexts (axis 0) with Student's interval by the delta method.

    If nothing is ever rejected, a hit rate is 1 (the convention of SSD paper, Theorem 15). At temperature 0 contexts
    are counted: small counts have the exact binomial interval, as an event that never happened shows no variance.
    """
    n = above.shape[0]
    total = below.sum(axis=0)
    value = np.divide(above.sum(axis=0), total, out=np.ones_like(total), where=total > 0)
    deviation = above - value * below
    mean = np.where(total > 0, total / n, 1.0)
    half = student_quantile(_CONFIDENCE, n - 1) * deviation.std(axis=0, ddof=1) / np.sqrt(n) / mean
    low, high = value - half, value + half
    for at in np.argwhere(np.broadcast_to(greedy.reshape(-1, *[1] * (value.ndim - 1)), value.shape)):
        where = tuple(at)
        successes, trials = above[:, *where].sum(), total[where]
        if trials and min(successes, trials - successes) < _FEW:
            low[where], high[where] = binomial_interval(successes, trials, _CONFIDENCE)
    return Means(value, np.maximum(low, 0.0), np.minimum(high, 1.0))
