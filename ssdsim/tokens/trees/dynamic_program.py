"""Sequoia's dynamic program: the tree of exactly n nodes and at most so many levels with the most expected tokens.

Z. Chen et al., *Sequoia: Scalable and Robust Speculative Decoding*, NeurIPS 2024, arXiv 2402.12374. Nodes and levels
are counted with the root, as there.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ssdsim.base.checks import Array
from ssdsim.base.record import Record
from ssdsim.tokens.trees.shape import Rates, Tree


class BestTrees(Record):
    """``tokens[n, l]``: the most tokens a round of n nodes in at most l levels; minus infinity where there is no such.

    Shape ``(nodes+1, levels+1)``. Where rates differ by depth, those of fewer levels belong to subtrees that far down.
    """

    tokens: Array
    _children: NDArray[np.int64]  # of the best root of n nodes, l levels
    _before: NDArray[np.int64]  # [n, l, b]: nodes of the root with its first b - 1 children

    def tree(self, nodes: int, levels: int) -> Tree:
        """The best tree itself; its ``nodes`` and ``levels`` include the root."""
        paths: list[tuple[int, ...]] = []
        open_: list[tuple[tuple[int, ...], int, int]] = [((), nodes, levels)]
        while open_:
            path, n, level = open_.pop()
            if path:
                paths.append(path)
            for rank in range(int(self._children[n, level]), 0, -1):
                before = int(self._before[n, level, rank])
                open_.append(((*path, rank), n - before, level - 1))
                n = before
        return Tree.of_paths(paths)


def best_trees(rates: Rates, nodes: int, levels: int) -> BestTrees:
    """Every number of nodes and levels up to these, root included.

    ``T[n][l][b] = max over y of T[y][l][b-1] + p_b M[n-y][l-1]``, ``M[n][l]`` the most of it over b: the root with b
    children takes y nodes with the first b - 1 of them, the best subtree hangs on the last. The first children are
    always those of the lowest ranks, whether rates fall with them or not.
    """
    ranks = rates.shape[1]
    of_children = rates[np.clip(levels - np.arange(levels + 1), 0, rates.shape[0] - 1)]  # by levels of the subtree
    with_children = np.full((nodes + 1, levels + 1, ranks + 1), -np.inf)
    with_children[1, 1:, 0] = 1.0
    tokens = np.full((nodes + 1, levels + 1), -np.inf)
    tokens[1, 1:] = 1.0
    before = np.zeros((nodes + 1, levels + 1, ranks + 1), dtype=np.int64)
    for n in range(2, nodes + 1):
        hung = tokens[n - 1 : 0 : -1, 1:levels, None]  # (y, l - 1, 1): of n - y nodes
        gained = np.where(np.isinf(hung), -np.inf, of_children[None, 2:] * np.where(np.isinf(hung), 0.0, hung))
        total = with_children[1:n, 2:, :ranks] + gained  # (y, l, b - 1)
        with_children[n, 2:, 1:] = total.max(axis=0)
        before[n, 2:, 1:] = 1 + total.argmax(axis=0)
        tokens[n] = with_children[n].max(axis=1)
    return BestTrees(tokens, with_children.argmax(axis=2), before)
