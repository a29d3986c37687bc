"""Correlation of rounds: within a request, and between the requests of a batch that runs in lockstep."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ssdsim.base.checks import Array
from ssdsim.tokens.pair_file import Batch
from ssdsim.tokens.request_spread import Course

Hits = NDArray[np.bool_]

_Z = 1.96
_WIDEST = 1e6  # a Beta so concentrated is a point


def lag1(values: Sequence[Array]) -> float | None:
    """Correlation of neighbouring rounds of a request about the mean of all; None where they do not vary."""
    longer = [v.astype(float) for v in values if len(v) > 1]
    if not longer:
        return None
    before, after = np.concatenate([v[:-1] for v in longer]), np.concatenate([v[1:] for v in longer])
    if before.std() == 0 or after.std() == 0:
        return None
    return float(np.corrcoef(before, after)[0, 1])


def intraclass(values: Sequence[Array]) -> float | None:
    """One-way ANOVA estimate of the share of the variance that lies between requests; None where nothing varies."""
    groups = [v.astype(float) for v in values if len(v) > 0]
    sizes = np.array([len(v) for v in groups], dtype=float)
    if len(groups) < 2 or sizes.sum() <= len(groups):
        return None
    everything = np.concatenate(groups)
    means = np.array([v.mean() for v in groups])
    between = (sizes * (means - everything.mean()) ** 2).sum() / (len(groups) - 1)
    inside = sum(((v - m) ** 2).sum() for v, m in zip(groups, means, strict=True)) / (sizes.sum() - len(groups))
    typical = (sizes.sum() - (sizes**2).sum() / sizes.sum()) / (len(groups) - 1)
    total = between + (typical - 1.0) * inside
    return float((between - inside) / total) if total > 0 else None


def in_lockstep(
    courses: Sequence[Course], sets: Sequence[str], fan_out: int, batches: Sequence[int]
) -> tuple[Batch, ...]:
    """Batches of requests of one data set that start together and run round by round until the first one ends.

    No batch is drawn: of n requests that have a round i, m of which hit, ``C(m, b)`` of ``C(n, b)`` batches hit all. A
    data set is taken with the share of its requests. Sizes that no data set has requests for are left out.
    """
    hits = [course.needed <= fan_out for course in courses]
    by_set = [[hits[i] for i, of in enumerate(sets) if of == name and len(hits[i])] for name in sorted(set(sets))]
    return tuple(_lockstep(usable, b) for b in batches if (usable := [each for each in by_set if len(each) >= b]))


def _lockstep(by_set: Sequence[Sequence[Hits]], b: int) -> Batch:
    share = np.array([len(each) for each in by_set], dtype=float)
    share /= share.sum()
    of_sets = [_of_set(each, b) for each in by_set]
    all_hit, hit, own = (float(share @ np.array([values[i] for values, _ in of_sets])) for i in range(3))
    # by the jackknife: what is known of sets of their own adds up
    se_all, se_excess = (
        float(
            np.sqrt(sum((w * _jackknifed(without[:, i])) ** 2 for w, (_, without) in zip(share, of_sets, strict=True)))
        )
        for i in (0, 3)
    )
    low, high = (float(np.clip(all_hit + side * _Z * se_all, 0.0, 1.0)) for side in (-1, 1))
    clustered = all_hit - hit**b > _Z * se_excess
    return Batch(
        b=b,
        p_all_hit=all_hit,
        low=low,
        high=high,
        independent=hit**b,
        by_request=own,
        concentration=concentration(hit, b, all_hit) if clustered else None,
    )


def _of_set(hits: Sequence[Hits], b: int) -> tuple[tuple[float, float, float], Array]:
    """P(all hit), P(hit) and the mean product of the requests' own rates; and (with P(all hit) - p^b as the fourth) the
    same with each request left out in turn, shape ``(requests, 4)``.
    """
    longest = max(map(len, hits))
    hit, alive = np.zeros((len(hits), longest)), np.zeros((len(hits), longest))
    for row, each in enumerate(hits):
        hit[row, : len(each)], alive[row, : len(each)] = each, 1.0
    m, n = hit.sum(axis=0), alive.sum(axis=0)
    all_hit, rate = _moments(m, n, b)
    without = np.array([(*_moments(m - h, n - a, b), 0.0) for h, a in zip(hit, alive, strict=True)])
    excess = without[:, 0] - without[:, 1] ** b
    rates = [float(each.mean()) for each in hits]
    return (all_hit, rate, _product(rates, alive, b)), np.column_stack([without, excess])


def _moments(m: Array, n: Array, b: int) -> tuple[float, float]:
    """P(all hit) and P(hit) over all batches of b and the rounds in which all of them are under way."""
    from scipy.special import comb

    batches = comb(n, b)
    if not batches.sum() > 0:
        return np.nan, np.nan
    share = np.divide(m, n, out=np.zeros_like(m), where=n > 0)
    return float(comb(m, b).sum() / batches.sum()), float((batches * share).sum() / batches.sum())


def _product(rates: Sequence[float], alive: Array, b: int) -> float:
    """Mean product of the rates of b requests under way, by elementary symmetric polynomials of each round."""
    sums = np.zeros((b + 1, 2, alive.shape[1]))  # of the rates, and of ones: how many batches there are
    sums[0] = 1.0
    for rate, here in zip(rates, alive, strict=True):
        each = np.stack([rate * here, here])
        for size in range(b, 0, -1):
            sums[size] += sums[size - 1] * each
    products, batches = sums[b].sum(axis=1)
    return float(products / batches)


def _jackknifed(without: Array) -> float:
    """Standard error from the values with each request left out in turn."""
    known = without[np.isfinite(without)]
    return float(np.sqrt((known.size - 1) * known.var())) if known.size > 1 else np.inf


def concentration(mean: float, b: int, moment: float) -> float | None:
    """The a + b of the Beta of this mean whose ``b``-th moment is ``moment``; None where no Beta has it."""
    from scipy.optimize import brentq
    from scipy.special import betaln

    if not mean**b < moment < mean or b < 2:
        return None

    def excess(log_concentration: float) -> float:
        size = float(np.exp(log_concentration))
        return float(betaln(mean * size + b, (1.0 - mean) * size) - betaln(mean * size, (1.0 - mean) * size)) - float(
            np.log(moment)
        )

    low, high = np.log(1e-6), np.log(_WIDEST)
    if excess(high) >= 0.0 or excess(low) <= 0.0:
        return None
    return float(np.exp(brentq(excess, low, high)))
