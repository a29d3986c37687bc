"""Work that runs as often as rounds within a step happen to need: a draft that is itself drafted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from ssdsim.base.checks import Array
from ssdsim.base.record import Record
from ssdsim.tokens.acceptance import accepted_length_pmf

Pmf = tuple[float, ...]
"""P(so many rounds), from none on."""


class Repeats(Record):
    """``each`` times in every round of the innermost of ``rounds``, which run within each other, the outermost first.

    The number of rounds is drawn anew wherever they run, independently.
    """

    rounds: tuple[Pmf, ...]
    each: int

    @property
    def mean(self) -> float:
        return self.each * prod(float(np.arange(len(pmf)) @ pmf) for pmf in self.rounds)

    def times(self, counts: Sequence[Any]) -> Any:
        """Count how often it runs, by how many rounds of each level there are: numbers, or arrays of them."""
        return self.each * counts[len(self.rounds) - 1]


def deepest(drawn: Iterable[Repeats | None]) -> tuple[Pmf, ...]:
    """The rounds within rounds of the innermost; none where nothing is drawn."""
    return max((each.rounds for each in drawn if each is not None), key=len, default=())


def drawn_rounds(rounds: Sequence[Pmf], rng: np.random.Generator, steps: int) -> list[Array]:
    """Draw how many rounds of each level so many steps have, those of all rounds around them together."""
    found: list[Array] = []
    around = np.ones(steps, dtype=np.int64)
    for pmf in rounds:
        drawn = rng.choice(len(pmf), size=int(around.sum()), p=pmf)
        around = np.add.reduceat(drawn, np.concatenate([[0], np.cumsum(around)[:-1]]))  # none of a step has no round
        found.append(around.astype(float))
    return found


@lru_cache(maxsize=4096)
def rounds_until(tokens: int, drafted: int, alpha: float, chains: int) -> Pmf:
    """P(so many rounds until each of ``chains`` has its ``tokens``), where a round drafts so many for all of them.

    A round yields what is accepted of them and one more, each with probability ``alpha`` given those before it.
    """
    accepted = accepted_length_pmf(alpha, drafted)
    have = np.eye(tokens + 1)[0]  # of tokens, at most those that are needed
    up_to = [0.0]
    for _ in range(tokens):
        after = np.convolve(have[:-1], np.concatenate([[0.0], accepted]))
        have = np.append(after[:tokens], have[-1] + after[tokens:].sum())
        up_to.append(float(have[-1]))
    up_to[-1] = 1.0
    return tuple(np.diff(np.array(up_to) ** chains, prepend=0.0).tolist())
