"""A model of ranks: how likely the draft's guess of each rank is right, over all tokens and by how hard the text is."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from ssdsim.base.checks import Array
from ssdsim.base.record import Record
from ssdsim.tokens.acceptance_models import beta_rates
from ssdsim.tokens.hit_models import HitCurve
from ssdsim.tokens.trees.growth import without_rises
from ssdsim.tokens.trees.shape import Rates

RANKS = 32
"""Guesses of one token that a tree may hold, where they follow from a hit curve."""


class RankModel(Record):
    """``first[d-1]`` is P(the likeliest guess at depth d is right | its parent is), shape ``(depths,)``.

    ``shares[r-2]`` is P(the guess of rank r is right | the first one is not), shape ``(ranks-1,)``, or with a row a
    depth. With a ``concentration`` rounds differ: the first guess's rate is Beta with that mean and this a + b in each,
    all other guesses share what is left. ``ordered`` models hold no guess likelier than the one ranked before it.
    """

    first: Array
    shares: Array
    concentration: float | None = None
    ordered: bool = True

    @classmethod
    def of_hits(cls, first: Array, hits: HitCurve, concentration: float | None = None) -> RankModel:
        """The guesses after the first one are those that a speculation cache holds: rank r is its guess r - 1.

        So one vector says what trees and caches do. (Of greedy decoding, in which a guess is right or wrong.)
        """
        return cls(first, np.diff(hits(np.arange(RANKS))), concentration)

    @classmethod
    def of_ranks(cls, ranks: Sequence[float], first: Array, concentration: float | None = None) -> RankModel:
        """``first`` by depth; where it is wrong, others are right as often as these ranks say, alike at every depth."""
        likeliest, *others = ranks
        shares = np.asarray(others) / (1.0 - likeliest) if likeliest < 1.0 else np.zeros(len(others))
        return cls(first, shares, concentration, ordered=False)

    @classmethod
    def of_levels(cls, ranks: Sequence[Sequence[float]], concentration: float | None = None) -> RankModel:
        """Rates of each rank at each depth (Medusa: those of a head's guesses)."""
        width = max(map(len, ranks))
        rates = np.array([[*level, *[0.0] * (width - len(level))] for level in ranks])
        wrong = 1.0 - rates[:, :1]
        shares = np.divide(rates[:, 1:], wrong, out=np.zeros_like(rates[:, 1:]), where=wrong > 0.0)
        return cls(rates[:, 0], shares, concentration, ordered=False)

    @cached_property
    def one_deeper(self) -> RankModel:
        """The model of bonus tokens, too: one depth more, as good as the last."""
        shares = self.shares if self.shares.ndim == 1 else np.vstack([self.shares, self.shares[-1:]])
        return RankModel(np.append(self.first, self.first[-1]), shares, self.concentration, self.ordered)

    @cached_property
    def rates(self) -> Rates:
        """The rates of the mean round."""
        return self._rates(self.first)

    @cached_property
    def rounds(self) -> Rates:
        """The rates of equally likely rounds, shape ``(rounds, depths, ranks)``; all of one are as hard."""
        if self.concentration is None:
            return self.rates[None]
        columns = [beta_rates(float(mean), self.concentration) for mean in self.first]
        return np.array([self._rates(first) for first in np.array(columns).T])

    def _rates(self, first: Array) -> Rates:
        rates = np.concatenate([first[:, None], (1.0 - first[:, None]) * self.shares], axis=1)
        return without_rises(rates) if self.ordered else rates
