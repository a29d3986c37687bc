"""Routed experts on a device: tokens sorted by their experts, two products for each expert, and the sum."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
import torch.nn.functional as functional
from numpy.typing import NDArray

from ssdsim.base.checks import Array
from ssdsim.base.record import Record
from ssdsim.transformer.layers import Experts
from ssdsim.transformer.routing import chances, held_share

DRAWS = 64  # of routes for each shape of a pass, and less than twice as many at most: runs take turns with them
_TOKENS_DRAWN, _FEWEST, _MOST = 8192, 16, 256  # what is drawn for them: so many tokens, and so many routes


class ExpertWeights(Record):
    """A layer's weights: ``gate_up`` of shape ``(count, 2 width, hidden)``, ``down`` of ``(count, hidden, width)``."""

    gate_up: torch.Tensor
    down: torch.Tensor


def run_experts(
    tokens: torch.Tensor, choices: torch.Tensor, weights: ExpertWeights, out: torch.Tensor, first: int = 0
) -> torch.Tensor:
    """Write each token's mean over its experts' outputs to ``out``; experts of other ranks add nothing.

    Parameters
    ----------
    tokens, out : shape ``(tokens, hidden)``.
    choices : numbers of experts, shape ``(tokens, per_token)``.
    first : number of the first expert of ``weights``.
    """
    per_token = choices.shape[1]
    order = torch.argsort(choices.flatten())
    visitors = order // per_token
    last = first + len(weights.down)
    counts = torch.bincount(choices.flatten(), minlength=last).tolist()
    out.zero_()
    start = sum(counts[:first])
    for expert, count in enumerate(counts[first:last]):
        if not count:
            continue
        own = visitors[start : start + count]
        gate, up = torch.mm(tokens[own], weights.gate_up[expert].t()).chunk(2, dim=1)
        answer = torch.mm(functional.silu(gate).mul_(up), weights.down[expert].t())
        out.index_add_(0, own, answer, alpha=1.0 / per_token)
        start += count
    return out


def routes(experts: Experts, sequences: int, tokens: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Experts of every token, as :func:`ssdsim.transformer.routing.distinct_experts` has them on average.

    Choices are drawn, because random weights would route each token as if it came from another text. Shape
    ``(sequences * tokens, per_token)``, each sequence's tokens in a row.
    """
    chance = chances(experts.count, experts.per_token, experts.skew)
    held = held_share(chance, experts.overlap)
    none, all_of_them = np.zeros((sequences, experts.count), dtype=bool), np.full(sequences, experts.per_token)
    chosen = [_draw(all_of_them, chance, none, rng)]
    while len(chosen) < tokens:
        chosen.append(_next(chosen[-1], chance, held, rng))
    of_sequences = np.stack(chosen, axis=1)
    return np.nonzero(of_sequences)[-1].reshape(sequences * tokens, experts.per_token)


def _draw(
    number: NDArray[np.int64], chance: Array, taken: NDArray[np.bool_], rng: np.random.Generator
) -> NDArray[np.bool_]:
    """Choose ``number`` experts of each sequence by popularity, without replacement and none of those taken.

    Shapes ``(sequences,)``, ``(count,)`` and ``(sequences, count)``, which is the answer's too.
    """
    rates = -np.log1p(-np.minimum(chance, 1.0 - 1e-12))
    rings = rng.exponential(size=taken.shape) / rates
    rings[taken] = np.inf
    chosen = np.zeros(taken.shape, dtype=bool)
    np.put_along_axis(chosen, rings.argsort(axis=1), np.arange(len(chance)) < number[:, None], axis=1)
    return chosen


def _next(before: NDArray[np.bool_], chance: Array, held: float, rng: np.random.Generator) -> NDArray[np.bool_]:
    """The tokens after those ``before``: each expert is kept by chance, the rest are drawn from the others.

    Where more are missing than there are others, some of those before fill up.
    """
    kept = before & (rng.random(before.shape) < held + (1.0 - held) * chance)
    missing, free = (before.sum(axis=1) - kept.sum(axis=1)), (~before).sum(axis=1)
    lost = before & ~kept
    kept |= lost & (lost.cumsum(axis=1) <= (missing - free)[:, None])
    return kept | _draw(np.minimum(missing, free), chance, before, rng)


def usual_routes(experts: Experts, sequences: int, tokens: int, rng: np.random.Generator) -> list[NDArray[np.int64]]:
    """Some :func:`routes` that touch, together, about as many experts as all such routes do, in random order.

    For few tokens more routes are drawn than kept: sorted by the number of touched experts, one of every few is kept.
    The mean of the kept routes then varies no more than that of all.
    """
    together = sequences * tokens
    several = min(_MOST, max(_FEWEST, _TOKENS_DRAWN // together))
    choices = routes(experts, several * sequences, tokens, rng).reshape(several, together, experts.per_token)
    every = max(1, several // DRAWS)
    by_touched = np.argsort([len(np.unique(each)) for each in choices], kind="stable")
    return [choices[each] for each in rng.permutation(by_touched[every // 2 :: every])]


class Routes:
    """Routes of passes, drawn once for each shape and used in turn; popular experts have any numbers."""

    def __init__(self, experts: Experts, device: torch.device, seed: int) -> None:
        self._experts, self._device = experts, device
        self._rng = np.random.default_rng(seed)
        self._known: dict[tuple[int, int], Iterator[torch.Tensor]] = {}

    def next(self, sequences: int, tokens: int) -> torch.Tensor:
        """Choices of the next layer that runs a pass of this shape."""
        key = (sequences, tokens)
        if key not in self._known:
            self._known[key] = self._in_turn(*key)
        return next(self._known[key])

    def _in_turn(self, sequences: int, tokens: int) -> Iterator[torch.Tensor]:
        drawn = usual_routes(self._experts, sequences, tokens, self._rng)
        numbered = [self._rng.permutation(self._experts.count)[each] for each in drawn]
        choices = [torch.from_numpy(each).to(self._device) for each in numbered]
        while True:
            yield from choices
