"""Hit curves of a table as the pair's file keeps them: after a rejection, after all accepted, after a backup."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from calibration.pairs.chain import Chain
from calibration.pairs.coupling import Rounds
from calibration.pairs.law import fit, hit_rates, most_likely
from calibration.pairs.table import Table
from ssdsim.base.checks import Floats
from ssdsim.tokens.pair_file import HitLaw
from ssdsim.tokens.resampling import Resampled

Bounds = Callable[[Floats], tuple[Floats, Floats]]

FEW = 50.0
"""Rounds below which a rate is shown with its count, and no law is fitted."""


def after_rejection(table: Table, rounds: Rounds, resampled: Resampled, fan_outs: Sequence[int], shown: int) -> HitLaw:
    """The curve after a rejection; ``by_k`` is its rate with ``shown`` guesses after 0, 1, ... accepted tokens."""
    most, above = max(fan_outs), table.flat.above
    by_k = []
    for j in range(rounds.k):
        needed = table.by_needed(rounds.rejected_after(j), above, most).sum(axis=0)
        by_k.append(float(needed[: shown + 1].sum() / needed.sum()) if needed.sum() > 0 else None)
    law = of_needed(table.by_needed(rounds.rejected, above, most), resampled, fan_outs)
    return law.model_copy(update={"by_k": tuple(by_k)})


def after_all(table: Table, rounds: Rounds, resampled: Resampled, fan_outs: Sequence[int]) -> HitLaw:
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
    return law.model_copy(update={"trials": count})


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
