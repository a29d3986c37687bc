"""Verification that follows confidence: how many drafted tokens are worth a row, and how many of them are accepted.

A drafted token is accepted with the probability that its drafter states, its confidence ``c``: confidences are
calibrated and independent. Around a position's acceptance rate ``a`` they are ``Beta(a s, (1 - a) s)``, with one ``s``
for all positions. The product of a sequence's confidences up to a token is the token's survival. Tokens whose survival
is at least a threshold are verified: always the first ones of a draft. A threshold stands for the rows that it takes.

At ``s`` 0 a confidence is 0 or 1; as it grows confidences tell nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np

from ssdsim.base.checks import Array
from ssdsim.base.record import Record

_CELLS = 16_384  # of the logarithm of survivals, each a threshold that may be the best
_OF_DRAWS = 2_048  # cells where the rows are known, as hundreds of draws ask: accepted tokens are right to 0.01 %
_LEAST_LOG_SURVIVAL = 16.0  # what survives with e^-16 is never worth a row
_TWO_VALUED = 1e-9  # a Beta with a smaller parameter is 0 or 1


class RowCurve(Record):
    """A curve from a threshold of 1 down: drafted tokens a sequence that are verified, ``rows``, shape ``(cells,)``.

    ``reached[i, k]`` = P(at least k + 1 tokens are accepted), shape ``(cells, K)``.
    """

    rows: Array
    reached: Array


@lru_cache(maxsize=128)  # one for each look at rates that are not sure, which every batch of an answer takes again
def expected_curve(rates: tuple[float, ...], concentration: float, cells: int = _CELLS) -> RowCurve:
    """The curve of acceptance ``rates`` by position, each given that all before were accepted."""
    mass = survival = np.eye(1, cells)[0]  # of the survival so far, by minus its logarithm: P(it is there), its mean
    rows, reached = np.zeros(cells), []
    spectra = {rate: np.fft.rfft(_cells(rate, concentration, cells), 2 * cells) for rate in rates}
    for rate in rates:
        mass, survival = map(_convolved, (mass, survival), spectra[rate])
        rows += np.cumsum(mass)
        reached.append(np.cumsum(survival))
    return RowCurve(np.append(0.0, rows), np.vstack([np.zeros(len(rates)), np.transpose(reached)]))


def best_rows(rates: tuple[float, ...], concentration: float, round_s: Callable[[Array], Array]) -> float:
    """Verified tokens a sequence that yield the most tokens a second.

    ``round_s(n)`` are the seconds of rounds in which n drafted tokens a sequence are verified.
    """
    curve = expected_curve(rates, concentration)
    seconds = round_s(curve.rows)
    if seconds[0] == 0.0:  # nothing takes time, as where a plan asks what to time
        return float(len(rates))
    return float(curve.rows[np.argmax((1.0 + curve.reached.sum(axis=1)) / seconds)])


def accepted_pmf(rates: tuple[float, ...], concentration: float, rows: float) -> Array:
    """P(exactly k of K tokens are accepted) where so many ``rows`` a sequence are verified, shape ``(K+1,)``."""
    curve = expected_curve(rates, concentration, _OF_DRAWS)
    reached = [np.interp(rows, curve.rows, each) for each in curve.reached.T]
    return -np.diff(np.minimum.accumulate([1.0, *reached, 0.0]))


@lru_cache(maxsize=256)
def _cells(rate: float, concentration: float, cells: int) -> tuple[Array, Array]:
    """The cells of one confidence, rounded to the nearest: P(it is there), and its mean there."""
    certain = np.eye(1, cells)[0]
    if min(rate, 1.0 - rate) * concentration < _TWO_VALUED:
        return rate * certain, rate * certain
    from scipy.special import betainc  # here, because predict must start fast

    edges = np.exp(-_LEAST_LOG_SURVIVAL / cells * np.maximum(0.0, np.arange(cells + 1) - 0.5))
    a, b = rate * concentration, (1.0 - rate) * concentration
    return -np.diff(betainc(a, b, edges)), -rate * np.diff(betainc(a + 1.0, b, edges))


def _convolved(one: Array, spectrum: Array) -> Array:
    """Convolution with cells of a ``spectrum``, without what leaves the last cell: survivals only fall."""
    size = 2 * one.size
    return np.maximum(0.0, np.fft.irfft(np.fft.rfft(one, size) * spectrum, size)[: one.size])


def passing(rates: Array, concentration: float, least: float) -> tuple[Array, Array]:
    """P(a token's confidence is at least ``least``), and P(it is, and the token is accepted), by the tokens' rates."""
    from scipy.special import betainc  # here, because predict must start fast

    rates = np.asarray(rates, dtype=float)
    a, b = np.maximum(rates * concentration, _TWO_VALUED), np.maximum((1.0 - rates) * concentration, _TWO_VALUED)
    certain = np.minimum(rates, 1.0 - rates) * concentration < _TWO_VALUED
    share = np.where(certain, rates if least > 0.0 else 1.0, 1.0 - betainc(a, b, least))
    return share, np.where(certain, rates, rates * (1.0 - betainc(a + 1.0, b, least)))


def drawn_confidences(
    rates: tuple[float, ...], concentration: float, shape: tuple[int, ...], random: np.random.Generator
) -> Array:
    """Confidences of drafts, shape ``(*shape, K)``."""
    drawn = np.empty((*shape, len(rates)))
    for position, rate in enumerate(rates):
        if min(rate, 1.0 - rate) * concentration < _TWO_VALUED:
            drawn[..., position] = random.random(shape) < rate
        else:
            drawn[..., position] = random.beta(rate * concentration, (1.0 - rate) * concentration, size=shape)
    return drawn
