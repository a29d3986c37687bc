"""Two Markov chains: a pair of models of which everything is known by exact sums."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray

from calibration.pairs.measure.positions import positions_of
from calibration.pairs.measure.roles import Branches, Logits
from calibration.pairs.measure.verification import EVERYTHING, Cut, Rules
from calibration.pairs.records import Positions, RecordedAnswer

VOCABULARY = 40


class MarkovChain:
    """A model whose next token depends on the last one alone: everything about it is known by exact sums.

    ``logits[i]``, shape ``(V, V)``, are those after token i.
    """

    def __init__(self, logits: Logits) -> None:
        self.logits = np.asarray(logits, dtype=np.float32)

    @property
    def vocabulary(self) -> int:
        return len(self.logits)

    def after(self, text: Sequence[int], last: int) -> Logits:
        return self.logits[list(text[len(text) - last :])]

    def branches(self, text: Sequence[int], suffixes: Sequence[Sequence[int]]) -> Branches:
        return _ChainBranches(self.logits, [suffix[-1] for suffix in suffixes])


class _ChainBranches:
    def __init__(self, logits: Logits, at: Sequence[int]) -> None:
        self._all, self._at = logits, list(at)

    @property
    def logits(self) -> Logits:
        return self._all[self._at]

    def extend(self, tokens: Sequence[int]) -> None:
        self._at = list(tokens)


def chain_pair(seed: int = 1, spread: float = 2.0, noise: float = 1.2) -> tuple[MarkovChain, MarkovChain]:
    """A target, and a draft that is the target with noise on its logits."""
    rng = np.random.default_rng(seed)
    target = rng.normal(size=(VOCABULARY, VOCABULARY)) * spread
    return MarkovChain(target), MarkovChain(target + rng.normal(size=target.shape) * noise)


def written(
    target: MarkovChain, tokens: int, temperature: float, seed: int, cut: Cut = EVERYTHING
) -> tuple[list[int], NDArray[np.int64]]:
    """A prompt of a token, and what the target writes after it."""
    rng = np.random.default_rng(seed)
    cumulated = np.cumsum(Rules(temperature, rng, cuts=(cut, cut)).target(target.logits), axis=1)
    text = [int(rng.integers(VOCABULARY))]
    for at in rng.random(tokens):
        text.append(min(int(np.searchsorted(cumulated[text[-1]], at, side="right")), VOCABULARY - 1))
    return text[:1], np.array(text[1:])


@cache
def _every_position(target: MarkovChain, draft: MarkovChain, temperature: float, cuts: tuple[Cut, Cut]) -> Positions:
    """Each token after each token, in the order of the token before."""
    before, came = np.divmod(np.arange(VOCABULARY**2), VOCABULARY)
    return positions_between(target.logits[before], draft.logits[before], came, temperature, 64, cuts)


def positions_between(
    target: Logits,
    draft: Logits,
    tokens: Logits,
    temperature: float,
    top: int,
    cuts: tuple[Cut, Cut] = (EVERYTHING, EVERYTHING),
) -> Positions:
    """:func:`calibration.pairs.measure.positions.positions_of` of arrays."""
    p, q = (torch.from_numpy(np.ascontiguousarray(each, dtype=np.float32)) for each in (target, draft))
    return positions_of(p, q, torch.from_numpy(np.asarray(tokens, dtype=np.int64)), temperature, top, cuts)


def answer(
    pair: tuple[MarkovChain, MarkovChain],
    tokens: int,
    temperature: float,
    seed: int,
    data_set: str = "all",
    cuts: tuple[Cut, Cut] = (EVERYTHING, EVERYTHING),
) -> RecordedAnswer:
    """A request that was collected from the chains."""
    target, draft = pair
    prompt, came = written(target, tokens, temperature, seed, cuts[0])
    before = np.array([*prompt, *came[:-1]])
    every = _every_position(target, draft, temperature, cuts)
    positions = Positions(*(getattr(every, name)[before * VOCABULARY + came] for name in Positions.__struct_fields__))
    return RecordedAnswer(f"{data_set}-{seed:05d}", data_set, temperature, tuple(prompt), 1, "length", seed, positions)
