"""The best trees of every size at once, where no guess is likelier than the one ranked before it."""

from __future__ import annotations

from functools import lru_cache
from heapq import heappop, heappush

import numpy as np

from ssdsim.base.checks import Array
from ssdsim.tokens.trees.shape import Rates, Tree


def grown(rates: Rates, nodes: int, depth: int) -> Tree:
    """A tree whose first m nodes are the best tree of m nodes that is at most so deep, for every m up to ``nodes``.

    Where rates never rise with the rank, a node's score is at most its parent's and its elder sibling's, so the nodes
    of the highest scores are a tree: take the best one, then its next sibling and its first child come into question
    (as Medusa and EAGLE-2 do; equal to the dynamic program of Sequoia there). Nodes of score 0 are left out, so that
    there may be fewer than ``nodes``.
    """
    return _grown(rates[:depth].tobytes(), rates.shape[1], nodes)


@lru_cache(maxsize=4096)
def _grown(rates: bytes, ranks: int, nodes: int) -> Tree:
    by_depth: list[list[float]] = np.frombuffer(rates).reshape(-1, ranks).tolist()
    found_parents: list[int] = []
    found_ranks: list[int] = []
    heap: list[tuple[float, int, int, int, float]] = []  # ties: the shallower one, then the one that came first

    def consider(depth: int, parent: int, rank: int, parent_score: float) -> None:
        if depth <= len(by_depth) and rank <= ranks:
            score = parent_score * by_depth[depth - 1][rank - 1]
            if score > 0.0:
                heappush(heap, (-score, depth, parent, rank, parent_score))

    consider(1, 0, 1, 1.0)
    while heap and len(found_parents) < nodes:
        minus_score, depth, parent, rank, parent_score = heappop(heap)
        found_parents.append(parent)
        found_ranks.append(rank)
        consider(depth, parent, rank + 1, parent_score)
        consider(depth + 1, len(found_parents), 1, -minus_score)
    return Tree(tuple(found_parents), tuple(found_ranks))


def never_rise(rates: Rates) -> bool:
    """Tell whether no guess is likelier than the one ranked before it, at every depth."""
    return bool(np.all(np.diff(rates, axis=1) <= 0.0))


def without_rises(rates: Array) -> Rates:
    """Each rate at most that of the rank before it."""
    return np.asarray(np.minimum.accumulate(rates, axis=1))
