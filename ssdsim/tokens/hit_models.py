"""The speculation cache: how often ``F`` guesses hit, and how a budget of guesses is spread over outcomes.

A fan-out is an int array ``(K+1,)``: ``F_k`` bonus-token guesses for the outcome "exactly ``k`` draft tokens
accepted".
"""

from __future__ import annotations

import math

import numpy as np
from msgspec.structs import force_setattr
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import ArrayLike, NDArray

from ssdsim.base.checks import Array, FloatOrArray, distribution, whole, within
from ssdsim.base.errors import InputError, nearest
from ssdsim.base.record import Record
from ssdsim.tokens.acceptance import accepted_length_pmf

FanOut = NDArray[np.int64]

POLICIES = ("uniform", "geometric", "optimal")
_MOST_VALUES = 10_000_000  # of hit rates by outcome and fan-out that are held at once
_MOST_SUMS = 2_000_000_000  # of the dynamic program: some seconds
_ROUNDING = 1e-12  # differences of hit rates below this are rounding


class PowerLawHits(Record, kw_only=True):
    """``h(F) = 1 - c F^-r`` for ``F >= 1``, ``h(0) = 0``.

    ``c`` is the miss rate of one guess; ``c = 1`` is the SSD paper's Definition 11, in which one guess never
    hits. Constant after ``most`` guesses, where so many were measured. Columns of ``c`` and ``r``, shape ``(n, 1)``,
    are as many curves.
    """

    r: FloatOrArray
    c: FloatOrArray = 1.0
    most: float = math.inf

    def __post_init__(self) -> None:
        within("r", self.r, 0)
        within("c", self.c, 0, 1)

    def __call__(self, fan_out: ArrayLike) -> Array:
        guesses = np.minimum(np.asarray(fan_out, dtype=float), self.most)
        return np.where(guesses >= 1, 1 - self.c * np.maximum(guesses, 1) ** -self.r, 0.0)


class MeasuredHits(Record):
    """Measured hit rates at some fan-outs, joined by straight lines from ``h(0) = 0`` on.

    Constant after the last point: no hits are promised that were not measured.
    The curve passes through every point and need not be concave: ``optimal_fan_out`` is exact without that.
    """

    fan_outs: tuple[float, ...]
    rates: tuple[float, ...]

    def __post_init__(self) -> None:
        fan_outs, rates = within("fan_outs", self.fan_outs, 1), within("rates", self.rates, 0, 1)
        if fan_outs.ndim != 1 or fan_outs.shape != rates.shape:
            raise InputError(f"fan_outs and rates must be lists of one length, got {fan_outs.shape} and {rates.shape}")
        if np.any(np.diff(fan_outs) <= 0):
            raise InputError(f"fan_outs must increase, got {fan_outs.tolist()}")
        if np.any(np.diff(rates) < 0):
            raise InputError(f"rates must not decrease with the fan-out, got {rates.tolist()}")
        force_setattr(self, "fan_outs", tuple(fan_outs.tolist()))
        force_setattr(self, "rates", tuple(rates.tolist()))

    def __call__(self, fan_out: ArrayLike) -> Array:
        return np.asarray(np.interp(np.asarray(fan_out, dtype=float), (0.0, *self.fan_outs), (0.0, *self.rates)))


OwnCurve = PowerLawHits | MeasuredHits


class ScaledHits(Record):
    """Hit rates of another ``curve`` with its misses times factors, joined over the logarithm of the fan-out.

    Constant after ``most`` guesses.
    """

    curve: OwnCurve
    fan_outs: tuple[float, ...]
    factors: tuple[float, ...]
    most: float

    def __call__(self, fan_out: ArrayLike) -> Array:
        guesses = np.minimum(np.asarray(fan_out, dtype=float), self.most)
        logarithm = np.log(np.maximum(guesses, 1))
        factor = np.exp(np.interp(logarithm, np.log(self.fan_outs), np.log(self.factors)))
        return np.where(guesses >= 1, np.clip(1 - (1 - self.curve(guesses)) * factor, 0.0, 1.0), 0.0)


HitCurve = OwnCurve | ScaledHits
"""P(the bonus token is among ``F`` guesses) for an array of ``F``: nondecreasing, 0 at ``F = 0``."""


def hit_rate(fan_outs: ArrayLike, pmf: ArrayLike, h: HitCurve, h_all: HitCurve | None = None) -> float:
    """``sum_{k<K} P(k) h(F_k) + P(K) h_all(F_K)``, the hit rate of a cache (SSD paper, before Theorem 18).

    ``fan_outs`` and ``pmf`` (of the accepted length) have shape ``(K+1,)``; ``h_all``, by default ``h``, is
    the curve of the outcome "all accepted", whose bonus token comes from the target and not from the
    residual.
    """
    pmf = distribution("pmf", pmf)
    fan_outs = within("fan_outs", fan_outs, 0)
    if fan_outs.shape != pmf.shape:
        raise InputError(f"fan_outs and pmf must have one entry an outcome, got {fan_outs.shape} and {pmf.shape}")
    return float(pmf @ _hits(fan_outs, h, h_all))


def _hits(fan_outs: Array | FanOut, h: HitCurve, h_all: HitCurve | None) -> Array:
    """Hit rate given each outcome, the outcome being the first axis."""
    hits = np.array(h(fan_outs))
    if h_all is not None and h_all is not h:
        hits[-1] = h_all(fan_outs[-1])
    return hits


def fan_out(policy: str, budget: int, k: int, alpha: ArrayLike, h: HitCurve, h_all: HitCurve | None = None) -> FanOut:
    """The fan-out of the policy called ``uniform``, ``geometric`` or ``optimal``; its sum is ``budget``.

    ``alpha`` is one acceptance rate or ``K`` of them; ``geometric`` needs a power law for ``h`` and takes its
    ``r``.
    """
    if policy == "uniform":
        return uniform_fan_out(budget, k)
    if policy == "optimal":
        return optimal_fan_out(budget, accepted_length_pmf(alpha, k), h, h_all)
    if policy != "geometric":
        raise InputError(f"unknown fan-out policy '{policy}'{nearest(policy, POLICIES)} Allowed: {', '.join(POLICIES)}")
    law = h.curve if isinstance(h, ScaledHits) else h
    if not isinstance(law, PowerLawHits):
        raise InputError("fan-out policy 'geometric' needs a power-law hit curve; 'optimal' takes any")
    return geometric_fan_out(budget, k, alpha, law.r, h, h_all)


def uniform_fan_out(budget: int, k: int) -> FanOut:
    """``budget`` guesses spread evenly over ``K+1`` outcomes, the remainder to the shortest accepted lengths."""
    each, remainder = divmod(whole("budget", budget, 0), whole("k", k, 0) + 1)
    return each + (np.arange(k + 1) < remainder).astype(np.int64)


def geometric_fan_out_real(budget: float, k: int, alpha: ArrayLike, r: float) -> Array:
    """SSD paper Theorem 12 in real numbers, shape ``(K+1,)``, sum ``budget``.

    ``F_k`` is proportional to ``P(k)^(1/(1+r))``: with one ``alpha`` that is ``F_0 alpha^(k/(1+r))`` for ``k
    < K`` and ``F_K = F_0 alpha^(K/(1+r)) (1-alpha)^(-1/(1+r))``, and in this form its limits ``alpha -> 0``,
    ``alpha -> 1`` and ``r -> 0`` need no case of their own, and it holds for ``K`` rates as well. It
    maximises ``1 - c sum P(k) F_k^-r`` over real ``F_k > 0``, whatever ``c``.
    """
    within("budget", budget, 0)
    within("r", r, 0)
    share = accepted_length_pmf(alpha, k) ** (1 / (1 + r))
    return np.asarray(budget * (share / share.sum()))


def geometric_fan_out(
    budget: int, k: int, alpha: ArrayLike, r: float, h: HitCurve | None = None, h_all: HitCurve | None = None
) -> FanOut:
    """SSD paper Theorem 12 in whole guesses, never worse than uniform; shape ``(K+1,)``, sum ``budget``.

    The real-valued fan-outs are rounded down, and the guesses left over go, one each, where they gain most
    under ``h`` (by default ``PowerLawHits(r=r)``, the paper's curve) and ``h_all``. Where uniform then hits
    more often, uniform is returned. That happens where the theorem starves outcomes that one guess would
    serve (a small budget, a small ``c``): it lets the power law fall below 0 for ``F < 1``, but ``h(0) = 0``.
    It is very rare where the theorem gives every outcome a guess or more: 11 of 850,000 random cases, each
    with ``r > 2.8``.
    """
    h = h or PowerLawHits(r=r)
    pmf = accepted_length_pmf(alpha, k)
    uniform = uniform_fan_out(budget, k)
    geometric = np.floor(geometric_fan_out_real(budget, k, alpha, r)).astype(np.int64)
    several = np.stack([geometric, geometric + 1, uniform], axis=-1)  # of which the curve is asked at once
    hits, with_one_more, evenly = np.ascontiguousarray(_hits(several, h, h_all).T)
    gain = pmf * (with_one_more - hits)
    grows = np.argsort(-gain, kind="stable")[: budget - int(geometric.sum())]
    geometric[grows] += 1
    hits[grows] = with_one_more[grows]
    return geometric if pmf @ hits >= pmf @ evenly else uniform


def optimal_fan_out(budget: int, pmf: ArrayLike, h: HitCurve, h_all: HitCurve | None = None) -> FanOut:
    """The fan-out of highest hit rate among all whole ones that sum to ``budget``; shape ``(K+1,)``.

    ``pmf``, shape ``(K+1,)``, is that of the accepted length. Solves SSD paper Theorem 18 in whole numbers
    for any curves: greedily by marginal gain where they are concave, else (such as ``c = 1``, where the first
    guess gains nothing and the second does) by dynamic programming, in time ``O(K B^2)``.
    """
    pmf = distribution("pmf", pmf)
    guesses = np.arange(whole("budget", budget, 0, max(1, _MOST_VALUES // pmf.size)) + 1)
    value = pmf[:, None] * h(guesses)
    if h_all is not None:
        value[-1] = pmf[-1] * h_all(guesses)
    gain = np.diff(value, axis=1)
    if np.all(np.diff(gain, axis=1) <= _ROUNDING):
        return _largest_gains(gain)
    if pmf.size * guesses.size**2 > _MOST_SUMS:
        raise InputError(f"an optimal fan-out of {budget} outcomes takes too long for a hit curve that is not concave")
    return _dynamic_program(value)


def _largest_gains(gain: Array) -> FanOut:
    """Fan-out of the ``B`` largest entries of ``gain[k, F]``, that of the guess ``F+1`` for outcome ``k``."""
    outcomes, budget = gain.shape
    # transposed, so that equal gains go to the smaller fan-outs first
    chosen = np.argsort(-gain.T, axis=None, kind="stable")[:budget]
    return np.bincount(chosen % outcomes, minlength=outcomes).astype(np.int64)


def _dynamic_program(value: Array) -> FanOut:
    """Fan-out of the largest ``sum_k value[k, F_k]`` with ``sum_k F_k = B``; ``value`` is ``(K+1, B+1)``."""
    size = value.shape[1]
    best = value[0]  # best[n]: the outcomes so far share n guesses
    choices = []
    for row in value[1:]:
        padded = np.concatenate([np.full(size - 1, -np.inf), best])
        total = sliding_window_view(padded, size)[:, ::-1] + row  # total[n, F] = best[n - F] + row[F]
        choice = total.argmax(axis=1)
        best = total[np.arange(size), choice]
        choices.append(choice)
    left = size - 1
    fan_outs = []
    for choice in reversed(choices):
        fan_outs.append(int(choice[left]))
        left -= fan_outs[-1]
    return np.array([left, *reversed(fan_outs)], dtype=np.int64)
