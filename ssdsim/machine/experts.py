"""Routed experts run for real: tokens sorted to the experts that were chosen for them, two products each, and back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as functional
from numpy.typing import NDArray

from ssdsim.transformer.layers import Experts
from ssdsim.transformer.routing import chances, held_share

DRAWS = 16  # of routes for each shape of a pass: runs take turns with them


@dataclass(frozen=True)
class ExpertWeights:
    """Of a layer: ``gate_up`` of shape ``(count, 2 width, hidden)``, ``down`` of ``(count, hidden, width)``."""

    gate_up: torch.Tensor
    down: torch.Tensor


def run_experts(tokens: torch.Tensor, choices: torch.Tensor, weights: ExpertWeights, out: torch.Tensor) -> torch.Tensor:
    """Each token's mean over its experts' answers, into ``out``.

    Parameters
    ----------
    tokens, out : shape ``(tokens, hidden)``.
    choices : numbers of experts, shape ``(tokens, per_token)``.
    """
    per_token = choices.shape[1]
    order = torch.argsort(choices.flatten())
    visitors = order // per_token
    counts = torch.bincount(choices.flatten(), minlength=len(weights.down)).tolist()
    out.zero_()
    start = 0
    for expert, count in enumerate(counts):
        if not count:
            continue
        own = visitors[start : start + count]
        gate, up = torch.mm(tokens[own], weights.gate_up[expert].t()).chunk(2, dim=1)
        answer = torch.mm(functional.silu(gate).mul_(up), weights.down[expert].t())
        out.index_add_(0, own, answer, alpha=1.0 / per_token)
        start += count
    return out


def routes(
    experts: Experts, sequences: int, tokens: int, branches: bool, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Experts of every token, as :func:`ssdsim.transformer.routing.distinct_experts` has them on average.

    Random weights route random activations as if each token were of another text, so choices are drawn. Shape
    ``(sequences * tokens, per_token)``, a sequence's tokens in a row.
    """
    chance = chances(experts.count, experts.per_token, experts.skew)
    held = held_share(chance, experts.overlap)
    found = []
    for _ in range(sequences):
        context = _draw(experts.per_token, chance, np.zeros(experts.count, dtype=bool), rng)
        for number in range(tokens):
            chosen = _next(context, experts.per_token, chance, held, rng) if number or branches else context
            found.append(np.flatnonzero(chosen))
            context = context if branches else chosen
    return np.array(found)


def _draw(
    number: int, chance: NDArray[np.float64], taken: NDArray[np.bool_], rng: np.random.Generator
) -> NDArray[np.bool_]:
    """``number`` experts by their popularity without replacement, none of those taken."""
    rates = -np.log1p(-np.minimum(chance, 1.0 - 1e-12))
    rings = rng.exponential(size=len(chance)) / rates
    rings[taken] = np.inf
    chosen = np.zeros(len(chance), dtype=bool)
    chosen[np.argsort(rings)[:number]] = True
    return chosen


def _next(
    before: NDArray[np.bool_], per_token: int, chance: NDArray[np.float64], held: float, rng: np.random.Generator
) -> NDArray[np.bool_]:
    """A token's experts after those of the one before: each is kept by chance, the rest are drawn from the others."""
    kept = before & (rng.random(len(before)) < held + (1.0 - held) * chance)
    missing = per_token - int(kept.sum())
    free = int((~before).sum())
    if missing > free:  # nearly all experts are used: the token before's fill up
        again = np.flatnonzero(before & ~kept)[: missing - free]
        kept[again] = True
        missing = free
    return kept | _draw(missing, chance, before, rng)


class Routes:
    """Routes of passes, drawn once for each shape and used in turn."""

    def __init__(self, experts: Experts, device: torch.device, seed: int) -> None:
        self._experts, self._device = experts, device
        self._rng = np.random.default_rng(seed)
        self._known: dict[tuple[int, int, bool], Iterator[torch.Tensor]] = {}

    def next(self, sequences: int, tokens: int, branches: bool) -> torch.Tensor:
        """Choices of the next layer that runs a pass of this shape."""
        key = (sequences, tokens, branches)
        if key not in self._known:
            self._known[key] = self._in_turn(*key)
        return next(self._known[key])

    def _in_turn(self, sequences: int, tokens: int, branches: bool) -> Iterator[torch.Tensor]:
        drawn = [routes(self._experts, sequences, tokens, branches, self._rng) for _ in range(DRAWS)]
        choices = [torch.from_numpy(each).to(self._device) for each in drawn]
        while True:
            yield from choices
