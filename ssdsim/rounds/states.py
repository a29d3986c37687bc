"""The states of a batch in a round: their probabilities in the long run, or the indicators of drawn rounds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np

from ssdsim.base.checks import FloatOrArray
from ssdsim.rounds.kernel import Averages

_SURE = 1e-9  # of a chance at 0 or 1, which nothing shared moves
_ALL_ALIKE = 1e-9  # a concentration at which all of a batch do the same, as at any smaller one


class States(Protocol):
    """Answers to the parts of a round; a probability where rounds are averaged, 0 or 1 where they are drawn."""

    def any_in(self, state: str) -> FloatOrArray:
        """P(some sequence of the batch begins the round in ``state``)."""

    def any_to(self, state: str) -> FloatOrArray:
        """P(some sequence of the batch ends the round in ``state``)."""


class Stationary:
    """The long run: sequences are independent chains (SSD paper, Corollary 16), or share their chances of a round.

    Then what they share is drawn about the mean over states, which is exact where a round depends on no state.
    """

    def __init__(self, batch: FloatOrArray, averages: Averages) -> None:
        self._batch = batch
        self._averages = averages

    def any_in(self, state: str) -> FloatOrArray:
        return 1.0 - self._none(self._averages.inside, state)

    def any_to(self, state: str) -> FloatOrArray:
        return 1.0 - self.none_to(state)

    def none_to(self, state: str) -> FloatOrArray:
        """P(no sequence of the batch ends the round in ``state``)."""
        return self._none(self._averages.to, state)

    def one_not_to(self, state: str) -> FloatOrArray:
        """P(a sequence does not end the round in ``state``)."""
        return _others(self._averages.to, state)

    def _none(self, shares: Mapping[str, FloatOrArray], state: str) -> FloatOrArray:
        return all_of(self._batch, _others(shares, state), self._averages.shared)


def all_of(batch: FloatOrArray, chance: FloatOrArray, concentration: FloatOrArray | None) -> FloatOrArray:
    """P(all of a batch do what each does with this chance): the b-th moment of a Beta of that mean, or p^b.

    ``concentration`` is the Beta's a + b; None, infinite or NaN where the sequences are independent.
    """
    independent = chance**batch
    if concentration is None:
        return independent
    from scipy.special import betaln  # here, because predict must start fast

    mean, size = np.clip(chance, _SURE, 1.0 - _SURE), np.where(np.isfinite(concentration), concentration, 1.0)
    size = np.maximum(size, _ALL_ALIKE)
    log_moment = betaln(mean * size + batch, (1.0 - mean) * size) - betaln(mean * size, (1.0 - mean) * size)
    inside = np.isfinite(concentration) & (chance > _SURE) & (chance < 1.0 - _SURE)
    where = np.where(inside, np.exp(log_moment), independent)
    return where if where.ndim else float(where)


def _others(shares: Mapping[str, FloatOrArray], state: str) -> FloatOrArray:
    return sum(share for other, share in shares.items() if other != state)


class Always:
    """Rounds in which some sequence ends in ``state`` (``share`` 1), or none does (0)."""

    def __init__(self, state: str, share: float) -> None:
        self._state, self._share = state, share

    def any_in(self, state: str) -> float:
        return self.any_to(state)

    def any_to(self, state: str) -> float:
        return self._share if state == self._state else 1.0 - self._share
