"""A speculation cache for the outcomes of verifying a tree: which bonus tokens are guessed where, and how often right.

The path ends at some node, and the bonus token is none of its children: the guesses are the next siblings that were not
verified. So a cache's hit rate is what the tree would gain by those nodes, ``E(tree with them) - E(tree)``: a wider
tree takes the easy guesses away from its cache.
"""

from __future__ import annotations

from functools import lru_cache
from heapq import heapify, heappop, heappush

import numpy as np
from numpy.typing import NDArray

from ssdsim.base.checks import Array
from ssdsim.tokens.trees.shape import Rates, Tree

FanOuts = NDArray[np.int64]
"""Guesses of the bonus token at the root and every node, shape ``(m+1,)``."""


def likeliest_fan_outs(tree: Tree, rates: Rates, budget: int) -> FanOuts:
    """Fan-outs of the ``budget`` likeliest guesses; fewer where ranks run out.

    ``rates`` reach one depth below the tree.
    """
    most = 1 << (budget - 1).bit_length()
    return np.bincount(_likeliest(tree, rates.tobytes(), rates.shape[1], most)[:budget], minlength=tree.nodes + 1)


@lru_cache(maxsize=4096)
def _likeliest(tree: Tree, rates_bytes: bytes, ranks: int, most: int) -> NDArray[np.int64]:
    """The nodes of the ``most`` likeliest guesses, in this order.

    Cached: a search asks for the same trees with other budgets, on other devices and at other batches.
    """
    rates = np.frombuffer(rates_bytes).reshape(-1, ranks)
    scores, depths = tree.scores(rates).tolist(), tree.depths
    by_depth = rates.tolist()
    heap = [(-scores[v] * _rate(by_depth[depths[v]], tree.children[v] + 1), v) for v in range(tree.nodes + 1)]
    heapify(heap)
    guessed, ranks_of = list[int](), [children + 1 for children in tree.children]
    while len(guessed) < most and heap and heap[0][0] != 0.0:
        _, v = heappop(heap)
        guessed.append(v)
        ranks_of[v] += 1
        heappush(heap, (-scores[v] * _rate(by_depth[depths[v]], ranks_of[v]), v))
    return np.array(guessed, dtype=np.int64)


def hits_by_accepted(tree: Tree, rates: Rates, guesses: FanOuts) -> Array:
    """P(j tokens are accepted and the bonus token is among the guesses), shape ``(depth+1,)``; the mean of rounds.

    ``rates`` reach one depth below the tree, and may have axes in front, of rounds that differ.
    """
    scores = tree.scores(rates)
    until = np.concatenate([np.zeros((*rates.shape[:-1], 1)), np.cumsum(rates, axis=-1)], axis=-1)
    depths, children = np.asarray(tree.depths), np.asarray(tree.children)
    last = np.minimum(children + guesses, rates.shape[-1])
    right = scores * (until[..., depths, last] - until[..., depths, children])
    by_node = right.reshape(-1, tree.nodes + 1).mean(axis=0)
    return np.asarray(np.bincount(depths, weights=by_node), dtype=float)


def _rate(of_ranks: list[float], rank: int) -> float:
    return of_ranks[rank - 1] if rank <= len(of_ranks) else 0.0
