"""Drawing what a round does to each of the sequences of a batch that changes from round to round."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ssdsim.rounds.kernel import Kernel, Tokens

Array = NDArray[np.float64]

_BELOW_ONE = 1.0 - 1e-9


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
        rows = p[:, :, 1:, :].reshape(kinds * states, -1)
        cdf = np.cumsum(rows, axis=1)
        cdf /= cdf[:, -1:]
        self.cdf = (cdf + np.arange(kinds * states)[:, None]).ravel()
        one = np.arange(1, width)
        self.tokens = np.tile(np.repeat(one, states), kinds * states).astype(np.int64)
        self.state = np.tile(np.arange(states), (width - 1) * kinds * states).astype(np.uint8)
        self.most_tokens = width - 1
        self.is_certain = tokens.is_certain
        self.kinds = kinds
        self._rows = rows

    def kind_of(self, uniform: Array) -> NDArray[np.int64]:
        """The kinds of requests, drawn by their weights."""
        return np.asarray(np.minimum(np.searchsorted(self.kinds_cdf, uniform, side="right"), self.kinds - 1))

    @cached_property
    def tokens_of_certain(self) -> int:
        """What every round yields where :attr:`is_certain`."""
        return int(self.tokens[int(np.argmax(self._rows[0]))])


class Uniforms:
    """Uniform numbers below 1 by some, which leaves a row's number plus one of them within the row."""

    def __init__(self, seed: int | list[int]) -> None:
        self._rng = np.random.default_rng(seed)
        self._numbers, self._at = np.empty(0), 0

    def take(self, count: int) -> Array:
        """The next ``count`` of them."""
        end = self._at + count
        if end > self._numbers.size:
            self._numbers = self._rng.random(max(1 << 15, count))
            np.minimum(self._numbers, _BELOW_ONE, out=self._numbers)
            self._at, end = 0, count
        found = self._numbers[self._at : end]
        self._at = end
        return found
