"""Hit curves by fan-out: after a rejection, after all accepted, after a backup, and along SSD's own chain of rounds.

The power law ``h(F) = 1 - c F^-r`` is fitted to how many guesses were needed. Which rounds follow a miss is decided by
the misses: they start where the draft is often wrong. So their hits are counted in the chain that each fan-out leads
to, not over all positions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from calibration.pairs.backups import LookedUp
from calibration.pairs.coupling import FIRST, AnswerTable, CoupledRounds
from ssdsim.base.checks import Array, Floats
from ssdsim.base.record import Record
from ssdsim.tokens.pair_file import HitLaw
from ssdsim.tokens.request_spread import Resampled

Bounds = Callable[[Floats], tuple[Floats, Floats]]

FEW = 50.0
"""Rounds below which a rate is shown with its count, and no law is fitted."""


def after_rejection(
    table: AnswerTable, rounds: CoupledRounds, resampled: Resampled, fan_outs: Sequence[int], shown: int
) -> HitLaw:
    """The curve after a rejection; ``by_k`` is its rate with ``shown`` guesses after 0, 1, ... accepted tokens."""
    most, above = max(fan_outs), table.flat.above
    by_k = []
    for j in range(rounds.k):
        needed = table.by_needed(rounds.rejected_after(j), above, most).sum(axis=0)
        by_k.append(float(needed[: shown + 1].sum() / needed.sum()) if needed.sum() > 0 else None)
    law = of_needed(table.by_needed(rounds.rejected, above, most), resampled, fan_outs)
    return law.changed(by_k=tuple(by_k))


def after_all(table: AnswerTable, rounds: CoupledRounds, resampled: Resampled, fan_outs: Sequence[int]) -> HitLaw:
    """The curve after all K were accepted: the bonus comes from the target itself, and nothing is left out."""
    return of_needed(table.by_needed(rounds.bonus, None, max(fan_outs)), resampled, fan_outs)


def of_needed(needed: Floats, resampled: Resampled, fan_outs: Sequence[int]) -> HitLaw:
    """The curve of weights by guesses needed, shape ``(R, most + 2)``."""
    total = needed.sum(axis=0)
    if total.sum() <= 0.0:
        return HitLaw(trials=0.0)
    drawn = resampled.sums(needed)
    low, high = resampled.bounds(hit_rates(drawn))
    return _law(total, drawn, hit_rates(total), fan_outs, resampled.bounds, (low, high))


def after_backup(chain: Chain, resampled: Resampled, fan_outs: Sequence[int], shown: int) -> HitLaw:
    """The curve of rounds that a backup speculated for, each fan-out in the chain that it leads to.

    More guesses leave fewer and harder misses, so that rates need not rise with them: the rising curve closest to them
    is kept (isotonic regression). Fan-outs with fewer than 50 such rounds are left out.
    """
    from scipy.optimize import isotonic_regression

    trials = chain.after_miss.sum(axis=0)
    enough = [f for f in fan_outs if trials[f - 1] >= FEW]
    if not enough:
        return HitLaw(trials=float(trials[shown - 1]))
    most = max(enough)
    known = trials[:most]
    rates = np.divide(chain.hits_after_miss.sum(axis=0)[:most], known, out=np.zeros(most), where=known > 0)
    rates = np.clip(isotonic_regression(rates, weights=np.maximum(known, 1e-9)).x, 0.0, 1.0)
    drawn = resampled.ratio(chain.hits_after_miss[:, :most], chain.after_miss[:, :most])
    drawn = np.maximum.accumulate(np.where(np.isfinite(drawn), drawn, 0.0), axis=1).clip(0.0, 1.0)
    low, high = resampled.bounds(drawn)
    count = float(trials[shown - 1]) if shown <= most else float(trials[most - 1])
    law = _law(_as_needed(rates) * count, _as_needed(drawn), rates, enough, resampled.bounds, (low, high))
    return law.changed(trials=count)


def _as_needed(rates: Floats) -> Floats:
    """The weights by guesses needed whose curve this is."""
    nothing = np.zeros((*rates.shape[:-1], 1))
    return np.concatenate([nothing, np.diff(rates, prepend=0.0, axis=-1), 1.0 - rates[..., -1:]], axis=-1)


def _law(
    total: Floats,
    drawn: Floats,
    rates: Floats,
    fan_outs: Sequence[int],
    interval_of: Bounds,
    interval: tuple[Floats, Floats],
) -> HitLaw:
    low, high = (np.clip(np.where(np.isfinite(bound), bound, rates), 0.0, 1.0) for bound in interval)
    rates = np.clip(rates, 0.0, 1.0)
    curve = tuple((f, float(rates[f - 1]), float(low[f - 1]), float(high[f - 1])) for f in sorted(fan_outs))
    trials = float(total.sum())
    law = fit(total) if trials >= FEW and len(rates) >= 4 else None
    if law is None:
        return HitLaw(curve=curve, trials=trials)
    (c_low, r_low), (c_high, r_high) = (np.array(bound) for bound in interval_of(np.stack(most_likely(drawn), axis=1)))
    return HitLaw(
        curve=curve,
        c=law.c,
        r=law.r,
        c_interval=_known(c_low, c_high),
        r_interval=_known(r_low, r_high),
        r2=law.r2,
        max_error=law.max_error,
        trials=trials,
    )


def _known(low: float, high: float) -> tuple[float, float] | None:
    return (float(low), float(high)) if np.isfinite(low) and np.isfinite(high) else None


class Chain(Record):
    """Sums over the rounds of each request by fan-out F = 1, 2, ..., shape ``(R, F)``.

    ``after_hit`` rounds that the draft speculated for (the first one, too) and ``after_miss`` those of the backup;
    their ``hits_after_*``, and the tokens of both.
    """

    after_hit: Array
    after_miss: Array
    hits_after_hit: Array
    hits_after_miss: Array
    tokens: Array


def ssd_chain(table: AnswerTable, backup: LookedUp, most: int) -> Chain:
    """The chain with a uniform fan-out of 1 to ``most`` guesses for every outcome."""
    k, fan_outs = backup.k, np.arange(1, most + 1)
    flat = table.flat
    rank = table.scatter(flat.rank.astype(float), np.inf)[..., None]
    above = table.scatter(flat.above.astype(float))[..., None]
    u = table.accept[..., None]
    steps, requests = u.shape[0], np.arange(u.shape[1])
    shape = (steps + k + 2, requests.size, most)
    primary, fast = np.zeros(shape), np.zeros(shape)  # weight of rounds that start here, in each state
    primary[FIRST] = 1.0
    sums = [np.zeros(shape[1:]) for _ in range(5)]
    ages = np.zeros((k + 1, *shape[1:]))  # the draft's rounds under way, by how many of their tokens were accepted
    last = (table.lengths - 1 - k)[:, None]
    for t in range(FIRST, steps):
        counts = t <= last
        begin, begin_fast = np.where(counts, primary[t], 0.0), np.where(counts, fast[t], 0.0)
        ages = np.concatenate([begin[None], ages[:-1] * u[t - 1]])
        rejected, bonus = ages[:-1].sum(axis=0) * (1.0 - u[t]), ages[-1]
        hit_rejected = np.where(rank[t] < fan_outs, 1.0, np.where(rank[t] == fan_outs, above[t], 0.0))
        hits = rejected * hit_rejected + bonus * (rank[t] < fan_outs)
        primary[t + 1] += hits
        fast[t + 1] += rejected + bonus - hits
        after = t + backup.tokens[t]
        hit_fast = begin_fast * (backup.needed[t][:, None] <= fan_outs)
        primary[after, requests] += hit_fast
        fast[after, requests] += begin_fast - hit_fast
        written = ages[:-1].sum(axis=0) + bonus + begin_fast * backup.tokens[t][:, None]
        for total, each in zip(sums, (begin, begin_fast, hits, hit_fast, written), strict=True):
            total += each
    return Chain(*sums)


_STEEPEST = 12.0
_HALVINGS = 40


class HitLawFit(Record):
    """The law, R^2 of ``log(1 - h)`` over ``log F``, and the largest absolute error of a hit rate."""

    c: float
    r: float
    r2: float
    max_error: float


def hit_rates(needed: Floats) -> Floats:
    """``h(F)`` at F = 1, 2, ... from weights by guesses needed, shape ``(..., most + 2)``; NaN where there are none."""
    total = needed.sum(axis=-1, keepdims=True)
    running = np.cumsum(needed[..., 1:-1], axis=-1)
    rates = np.divide(running, total, out=np.full_like(running, np.nan), where=total > 0)
    return np.asarray(np.minimum(rates, 1.0))  # two sums of the same weights may differ in the last bit


def most_likely(needed: Floats) -> tuple[Floats, Floats]:
    """The c and r of the highest likelihood for each row of weights by guesses needed, shape ``(..., most + 2)``.

    A round that needs f guesses has the likelihood ``h(f) - h(f - 1)``, and one that needs more than ``most``
    ``1 - h(most)``. It splits in two: c is the share that one guess misses; r, of those, solves a concave
    equation in one unknown. Where all needed one guess c = 0 and r is NaN.
    """
    most = needed.shape[-1] - 2
    total = needed.sum(axis=-1)
    missed = needed[..., 2:]
    share = np.divide(missed.sum(axis=-1), total, out=np.full_like(total, np.nan), where=total > 0)
    c = np.minimum(share, 1.0)  # as in hit_rates
    log_before = np.log(np.arange(1, most))
    step = np.log(np.arange(2, most + 1)) - log_before

    def slope(r: Floats) -> Floats:
        # d/dr log((f-1)^-r - f^-r) = -log(f-1) + s / expm1(r s), s = log f/(f-1)
        within = -log_before + step / np.expm1(r[..., None] * step)
        return np.asarray((missed[..., :-1] * within).sum(axis=-1) - missed[..., -1] * np.log(most))

    low, high = np.full_like(total, 1e-9), np.full_like(total, _STEEPEST)
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        rising = slope(middle) > 0.0
        low, high = np.where(rising, middle, low), np.where(rising, high, middle)
    return c, np.where(c > 0, 0.5 * (low + high), np.nan)


def fit(needed: Floats) -> HitLawFit | None:
    """The law of one row of weights; None where no round missed its first guess, or there was no round."""
    c, r = (float(value) for value in most_likely(needed))
    if not (c > 0.0 and np.isfinite(r)):
        return None
    curve = hit_rates(needed)
    fan_outs = np.arange(1, curve.size + 1)
    law = 1.0 - c * fan_outs**-r
    missing = curve < 1.0 - 1e-6
    measured = np.log(1.0 - curve[missing])
    scatter = ((measured - measured.mean()) ** 2).sum()
    r2 = 1.0 - ((measured - np.log(1.0 - law[missing])) ** 2).sum() / scatter if scatter > 0 else 0.0
    return HitLawFit(c, r, float(r2), float(np.abs(curve - law).max()))
