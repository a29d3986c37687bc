"""Answers side by side: arrays with time first, so that a programme over starts takes all requests in one stride."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from calibration.pairs.distributions import Positions
from calibration.pairs.records import Request
from ssdsim.base.checks import Floats
from ssdsim.base.errors import InputError
from ssdsim.base.record import Record


class Table(Record):
    """``R`` answers of one temperature. Position 0 of each comes from the prompt's pass and is never speculated."""

    requests: tuple[Request, ...]
    temperature: float

    @classmethod
    def of(cls, requests: Sequence[Request]) -> Table:
        """The table of answers."""
        temperatures = {request.temperature for request in requests}
        if len(temperatures) != 1:
            raise InputError(f"answers of one temperature are needed, got {sorted(temperatures) or 'none'}")
        return cls(tuple(requests), temperatures.pop())

    @cached_property
    def lengths(self) -> NDArray[np.int64]:
        """Positions of each answer, shape ``(R,)``."""
        return np.array([len(request) for request in self.requests])

    @cached_property
    def at(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Time and request of each of the ``N`` positions of all answers, one answer after the other."""
        time = np.concatenate([np.arange(length) for length in self.lengths])
        return time, np.repeat(np.arange(len(self.requests)), self.lengths)

    @cached_property
    def flat(self) -> Positions:
        """The ``N`` positions, in the order of :attr:`at`; of tops as many as every answer has."""
        parts = [request.positions for request in self.requests]
        least = min(part.top_ids.shape[1] for part in parts)
        if any(part.top_ids.shape[1] != least for part in parts):
            raise InputError("answers were collected with different --top: measure again")
        return Positions.joined(parts)

    def scatter(self, flat: Floats, fill: float = 0.0) -> Floats:
        """Values of the ``N`` positions, shape ``(N, ...)``, as ``(T, R, ...)``; ``fill`` past an answer's end."""
        out = np.full((int(self.lengths.max()), len(self.requests), *flat.shape[1:]), fill, dtype=flat.dtype)
        out[self.at] = flat
        return out

    @cached_property
    def accept(self) -> Floats:
        """P(position t's token was accepted | the answer) where it was drafted, shape ``(T, R)``; 0 past the end.

        ``min(1, q/p)`` of the token that came (see :mod:`.coupling`); at temperature 0 whether it was the
        draft's first choice.
        """
        return self.scatter(acceptance(self.flat, self.temperature))

    def by_needed(self, weight: Floats, above: NDArray[np.float32] | None = None, most: int = 64) -> Floats:
        """Weights, shape ``(T, R)``, by how many guesses are needed to hit: ``(R, most + 2)``, the last for more.

        With ``above`` (of the ``N`` positions) the guesses are those without the rejected token, which makes room where
        it ranked above the one that came; else all of the draft's.
        """
        each, (_, request) = weight[self.at], self.at
        needed = np.minimum(self.flat.rank.astype(np.int64) + 1, most + 1)
        spared = np.zeros(len(each)) if above is None else np.asarray(above, dtype=float)
        spared = np.where(self.flat.rank >= 1, spared, 0.0)
        fewer = np.minimum(np.maximum(self.flat.rank.astype(np.int64), 1), most + 1)
        size = len(self.requests) * (most + 2)
        counts = np.bincount(request * (most + 2) + needed, each * (1.0 - spared), size)
        counts += np.bincount(request * (most + 2) + fewer, each * spared, size)
        return np.asarray(counts.reshape(len(self.requests), most + 2))


def acceptance(positions: Positions, temperature: float) -> Floats:
    """``min(1, q/p)`` of every position; at temperature 0 whether the draft's first choice came."""
    if temperature == 0.0:
        return np.asarray(positions.rank == 0, dtype=float)
    p, q = positions.p.astype(float), positions.q.astype(float)
    return np.asarray(np.minimum(1.0, np.divide(q, p, out=np.ones_like(p), where=p > 0.0)))
