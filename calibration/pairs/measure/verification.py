"""Lossless verification: what the samplers leave (top-k, top-p), which drafted tokens stay, the token after them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ssdsim.base.checks import Array, whole, within
from ssdsim.base.errors import InputError
from ssdsim.base.record import Record
from ssdsim.tokens.sampling import saguaro_distribution

Probabilities = Array


class Cut(Record):
    """The ``top_k`` likeliest tokens, and of these the fewest with a mass of ``top_p``; 1 and None leave all.

    In the order of engines: temperature, top-k, top-p. Source: Holtzman et al., 2020, for top-p.
    """

    top_p: float = 1.0
    top_k: int | None = None

    def __post_init__(self) -> None:
        within("--top-p", self.top_p, 1e-9, 1.0)
        if self.top_k is not None:
            whole("--top-k", self.top_k, 1)

    @property
    def leaves_all(self) -> bool:
        return self.top_p == 1.0 and self.top_k is None

    def of(self, scaled: torch.Tensor) -> torch.Tensor:
        """Logits, shape ``(n, V)``, with minus infinity at what is left out; equal ones by token number."""
        if self.leaves_all:
            return scaled
        values, ids = scaled.sort(dim=-1, descending=True, stable=True)
        if self.top_k is not None:
            values[:, self.top_k :] = -torch.inf
        if self.top_p < 1.0:
            mass = torch.softmax(values, dim=-1)
            values = values.masked_fill(mass.cumsum(dim=-1) - mass >= self.top_p, -torch.inf)
        return torch.empty_like(scaled).scatter_(-1, ids, values)

    def of_array(self, scaled: Array) -> Array:
        """Cut an array's rows alike."""
        return scaled if self.leaves_all else self.of(torch.from_numpy(scaled)).numpy()


EVERYTHING = Cut()


class Speculation(Record):
    """Drafted tokens, and what each was drawn from, shape ``(tokens, V)``; certain where it was looked up.

    ``backup`` says that it answers a cache miss without the draft model.
    """

    tokens: tuple[int, ...]
    drawn_from: Probabilities
    backup: bool = False


def certain(tokens: Sequence[int], vocabulary: int) -> Probabilities:
    """Distributions of tokens that nobody drew, shape ``(tokens, V)``: looked up, or the likeliest ones."""
    probabilities = np.zeros((len(tokens), vocabulary))
    probabilities[np.arange(len(tokens)), list(tokens)] = 1.0
    return probabilities


class Verified(Record):
    """Number of drafted tokens that stay, and the token after them."""

    accepted: int
    bonus: int


class Rules(Record):
    """Draws and decides. At temperature 0 every distribution is certain, and the same rules are greedy ones.

    ``c`` scales the draft's ``fan_out`` likeliest tokens (Saguaro); ``cuts`` are what the samplers leave of target and
    draft. Source: Leviathan et al., 2023, algorithm 1.
    """

    temperature: float
    rng: np.random.Generator
    c: float = 1.0
    fan_out: int = 1
    cuts: tuple[Cut, Cut] = (EVERYTHING, EVERYTHING)

    def target(self, logits: NDArray[Any]) -> Probabilities:
        return softmax(*self._cut_logits(logits, self.cuts[0]))

    def drafted(self, logits: NDArray[Any]) -> tuple[list[int], Probabilities]:
        """A drafted token of each row, and what it is tested against: what it was drawn from."""
        q = self.draft(logits)
        return self.draw(q), q

    def draft(self, logits: NDArray[Any]) -> Probabilities:
        """Distributions that drafted tokens are drawn from."""
        left, temperature = self._cut_logits(logits, self.cuts[1])
        if self.c == 1.0 or temperature == 0.0:
            return softmax(left, temperature)
        return saguaro_distribution(np.asarray(left, dtype=float) / temperature, self.fan_out, self.c)

    def _cut_logits(self, logits: NDArray[Any], cut: Cut) -> tuple[NDArray[Any], float]:
        """Cut the logits as the sampler does; with the temperature that they are still to be divided by."""
        if self.temperature == 0.0 or cut.leaves_all:
            return logits, self.temperature
        return cut.of_array(np.asarray(logits, dtype=float) / self.temperature), 1.0

    def draw(self, probabilities: Probabilities) -> list[int]:
        """A token of each row."""
        sums = np.cumsum(probabilities, axis=-1)
        at = self.rng.random((len(sums), 1)) * sums[:, -1:]
        drawn: list[int] = np.minimum((sums <= at).sum(axis=-1), probabilities.shape[-1] - 1).tolist()
        return drawn

    def verify(self, speculation: Speculation, target: Probabilities) -> Verified:
        """``target``, shape ``(tokens + 1, V)``, is its distribution at each drafted token and after the last."""
        tokens = np.array([speculation.tokens], dtype=np.int64)
        accepted, bonus = self.verify_each(tokens, speculation.drawn_from[None], target[None])
        return Verified(int(accepted[0]), bonus[0])

    def verify_each(
        self, tokens: NDArray[np.int64], drawn_from: Probabilities, target: Probabilities
    ) -> tuple[NDArray[np.int64], list[int]]:
        """Count how many of each speculation's tokens stay, and find the token after them.

        ``tokens``, shape ``(n, K)``, ``drawn_from`` ``(n, K, V)`` and ``target`` ``(n, K + 1, V)``.
        """
        each, (count, k) = np.arange(len(tokens)), tokens.shape
        p, q = (np.take_along_axis(whole, tokens[..., None], axis=-1)[..., 0] for whole in (target[:, :k], drawn_from))
        stays = self.rng.random((count, k)) * q < p
        accepted = np.logical_and.accumulate(stays, axis=1).sum(axis=1)
        after = target[each, accepted]
        rejected = np.flatnonzero(accepted < k)
        after[rejected] = self.after_rejection(after[rejected], drawn_from[rejected, accepted[rejected]])
        return accepted, self.draw(after)

    def after_rejection(self, p: Probabilities, q: Probabilities) -> Probabilities:
        """The residual ``max(p - q, 0)`` of each row; a looked-up token is certain, so all of p but that token."""
        left = np.maximum(p - q, 0.0)
        total = left.sum(axis=-1, keepdims=True)
        return np.where(total > 0.0, left / np.where(total > 0.0, total, 1.0), p)


def softmax(logits: NDArray[Any], temperature: float = 1.0) -> Array:
    """Probabilities at a temperature; at 0 all mass is on the first largest logit."""
    if not temperature >= 0.0:
        raise InputError(f"temperature must be at least 0, got {temperature:g}")
    if temperature == 0.0:
        certain = np.zeros(logits.shape)
        np.put_along_axis(certain, logits.argmax(axis=-1)[..., None], 1.0, axis=-1)
        return certain
    weights = np.asarray(logits, dtype=np.float64) / temperature
    weights -= weights.max(axis=-1, keepdims=True)
    np.exp(weights, out=weights)
    weights /= weights.sum(axis=-1, keepdims=True)
    return weights
