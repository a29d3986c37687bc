"""Drawing what a round does to each of the sequences of a batch that changes from round to round."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ssdsim.base.checks import Array
from ssdsim.rounds.drawn import SharedChances, SharedLevels
from ssdsim.rounds.kernel import Kernel, Tokens

BELOW_ONE = 1.0 - 1e-9


class OutcomeRows:
    """The rows of a strategy's kernel as one table: row ``kind * states + state``.

    ``cdf`` is each row's distribution over outcomes, plus the row's number, so that one search finds the outcomes of
    sequences in different rows: ``searchsorted(cdf, uniform + row)``. An outcome's tokens and next state follow from
    ``tokens`` and ``state``.
    """

    def __init__(self, tokens: Tokens) -> None:
        kernels = (tokens,) if isinstance(tokens, Kernel) else tokens.kernels
        weights = np.ones(1) if isinstance(tokens, Kernel) else tokens.weights
        self.states = tokens.states
        self.kinds_cdf = np.cumsum(weights / weights.sum())
        p = np.array([kernel.p for kernel in kernels])  # (kinds, states, tokens + 1, states)
        kinds, states, width, _ = p.shape
        self.shared = tokens.shared
        self._kernels = kernels
        one = np.arange(1, width)
        each, to = np.repeat(one, states), np.tile(np.arange(states), width - 1)
        rows = p[:, :, 1:, :].reshape(kinds * states, -1)
        if self.shared is not None:  # those that lead to the first state come first, which the chances need
            order = np.argsort(to, kind="stable")
            each, to, rows = each[order], to[order], rows[:, order]
        cdf = np.cumsum(rows, axis=1)
        cdf /= cdf[:, -1:]
        self.cdf = (cdf + np.arange(kinds * states)[:, None]).ravel()
        self.tokens = np.tile(each, kinds * states).astype(float)
        self.state = np.tile(to, kinds * states).astype(np.uint8)
        self.most_tokens = width - 1
        self.is_certain = tokens.is_certain
        self.kinds = kinds
        self.several = kinds * states > 1
        self._rows = rows

    @property
    def shares_chances(self) -> bool:
        """Whether all of a batch share the chances of a round."""
        return self._levels is not None

    def kind_of(self, uniform: Array) -> NDArray[np.int64]:
        """The kinds of requests, drawn by their weights."""
        return np.asarray(np.minimum(np.searchsorted(self.kinds_cdf, uniform, side="right"), self.kinds - 1))

    def chances(self, seed: list[int]) -> SharedChances | None:
        """Chances of ending a round in the first state, where all of a batch share them."""
        return None if self._levels is None else SharedChances(self._levels, np.random.SeedSequence(seed))

    @cached_property
    def _levels(self) -> SharedLevels | None:
        """What those chances may be: the same for every replica and every run."""
        return None if self.shared is None or self.is_certain else SharedLevels(self._kernels, self.shared)

    @cached_property
    def tokens_of_certain(self) -> int:
        """Tokens that every round yields where :attr:`is_certain`."""
        return int(self.tokens[int(np.argmax(self._rows[0]))])
