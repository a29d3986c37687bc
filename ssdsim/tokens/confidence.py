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
from itertools import accumulate
from typing import Any

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
    spectra = {rate: np.fft.rfft(_cells(rate, concentration, cells), 2 * cells) for rate in rates[1:]}
    first = _cells(rates[0], concentration, cells)
    up_to = np.cumsum([*accumulate((spectra[rate] for rate in rates[1:]), _convolved, initial=first)], axis=-1)
    rows, reached = np.pad(up_to, ((0, 0), (0, 0), (1, 0))).swapaxes(0, 1)
    return RowCurve(rows.sum(axis=0), reached.T)


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
def _cells(rate: float, concentration: float, cells: int) -> Array:
    """The cells of one confidence, by minus its logarithm, rounded to the nearest: P(it is there), and its mean there.

    Shape ``(2, cells)``; so are those of a product of confidences.
    """
    if min(rate, 1.0 - rate) * concentration < _TWO_VALUED:
        return rate * np.eye(1, cells).repeat(2, axis=0)
    from scipy.special import betainc, betaln  # here, because predict must start fast

    logs = -_LEAST_LOG_SURVIVAL / cells * np.maximum(0.0, np.arange(cells + 1) - 0.5)
    a, b = rate * concentration, (1.0 - rate) * concentration
    below = betainc(a, b, np.exp(logs))
    with np.errstate(divide="ignore"):  # at a confidence of 1
        less = np.exp(a * logs + b * np.log(-np.expm1(logs)) - betaln(a, b)) / a  # than that: betainc(a + 1, b, ...)
    return np.maximum(0.0, -np.diff([below, rate * (below - less)], axis=-1))


def _convolved(one: Array, spectrum: Any) -> Array:
    """Convolution with cells of a ``spectrum``, without what leaves the last cell: survivals only fall."""
    cells = one.shape[-1]
    return np.maximum(0.0, np.fft.irfft(np.fft.rfft(one, 2 * cells) * spectrum, 2 * cells)[:, :cells])


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
