"""A tree of drafted tokens: which guesses are drafted after which, and how deep a verification gets in it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from ssdsim.base.checks import Array
from ssdsim.base.record import Record

Places = NDArray[np.int64]

Rates = Array
"""``rates[d-1, r-1]`` is P(the child of rank r at depth d is the accepted one | its parent was accepted).

Shape ``(depths, ranks)``. Children of one parent exclude each other, so a row sums to at most 1.
"""


class Tree(Record):
    """``m`` drafted nodes after the root, which is the last token that the target has given.

    Node v (1...m) comes after ``parents[v-1]`` (0: the root) as the draft's guess of rank ``ranks[v-1]`` there (1: the
    likeliest). Parents come before their children.
    """

    parents: tuple[int, ...]
    ranks: tuple[int, ...]

    @classmethod
    def chain(cls, tokens: int) -> Tree:
        """A chain of guesses, as speculative decoding drafts."""
        return cls(tuple(range(tokens)), (1,) * tokens)

    @classmethod
    def expanded_by(cls, children: Sequence[int]) -> Tree:
        """Every node at depth d has ``children[d]`` children (SpecInfer's expansion vector)."""
        parents: list[int] = []
        ranks: list[int] = []
        level = [0]
        for each in children:
            start = len(parents) + 1
            for parent in level:
                parents += [parent] * each
                ranks += range(1, each + 1)
            level = list(range(start, len(parents) + 1))
        return cls(tuple(parents), tuple(ranks))

    @classmethod
    def of_paths(cls, paths: Iterable[Sequence[int]]) -> Tree:
        """Tree from each node's ranks on the way from the root, counted from 1."""
        numbers: dict[tuple[int, ...], int] = {(): 0}
        parents: list[int] = []
        ranks: list[int] = []
        for path in sorted(map(tuple, paths), key=lambda path: (len(path), path)):
            parents.append(numbers[path[:-1]])
            ranks.append(path[-1])
            numbers[path] = len(parents)
        return cls(tuple(parents), tuple(ranks))

    def first(self, nodes: int) -> Tree:
        """The tree of the first so many nodes."""
        return Tree(self.parents[:nodes], self.ranks[:nodes])

    @property
    def nodes(self) -> int:
        """Drafted nodes; a verification has one row more, the root's."""
        return len(self.parents)

    @cached_property
    def depths(self) -> tuple[int, ...]:
        """The depths of the root and of every node."""
        depths = [0]
        for parent in self.parents:
            depths.append(depths[parent] + 1)
        return tuple(depths)

    @cached_property
    def depth(self) -> int:
        """The most tokens that can be accepted."""
        return max(self.depths)

    @cached_property
    def children(self) -> tuple[int, ...]:
        """Numbers of children of the root and of every node."""
        counted = np.bincount(np.asarray(self.parents, dtype=np.int64), minlength=self.nodes + 1)
        return tuple(counted.tolist())

    @property
    def widths(self) -> tuple[int, ...]:
        """Nodes at each depth from 1 on."""
        return tuple(np.bincount(self.depths)[1:].tolist())

    @cached_property
    def expanded(self) -> tuple[int, ...]:
        """Nodes with children at each depth from the root's on: the rows of each pass of the draft."""
        inner = [depth for depth, children in zip(self.depths, self.children, strict=True) if children]
        return tuple(np.bincount(inner).tolist()) if inner else ()

    @cached_property
    def is_chain(self) -> bool:
        return all(children <= 1 for children in self.children)

    @cached_property
    def _levels(self) -> list[tuple[Places, Places, Places]]:
        """The nodes by depth from 1 on, their parents, and the columns of their ranks."""
        depths, parents, ranks = (np.asarray(each) for each in (self.depths[1:], self.parents, self.ranks))
        at = [np.flatnonzero(depths == depth) for depth in range(1, self.depth + 1)]
        return [(nodes + 1, parents[nodes], ranks[nodes] - 1) for nodes in at]

    def scores(self, rates: Rates) -> Array:
        """P(a node is on the accepted path), shape ``(..., m+1)``: the product of the rates from the root on; 1 there.

        ``rates`` may have axes in front, of rounds that differ.
        """
        return _scores(self, rates.tobytes(), rates.shape)

    def ends(self, rates: Rates) -> Array:
        """P(the accepted path ends at a node), shape ``(m+1,)``; they sum to 1."""
        scores = self.scores(rates)
        goes_on = np.bincount(np.asarray(self.parents, dtype=np.int64), weights=scores[1:], minlength=self.nodes + 1)
        return np.asarray(np.maximum(0.0, scores - goes_on))

    def accepted_pmf(self, rates: Rates) -> Array:
        """P(exactly j tokens are accepted), shape ``(depth+1,)``; the mean of rounds that differ."""
        by_node = self.scores(rates).reshape(-1, self.nodes + 1).mean(axis=0)
        reached = np.bincount(self.depths, weights=by_node)
        return np.asarray(np.maximum(0.0, -np.diff(reached, append=0.0)))

    def expected_tokens(self, rates: Rates) -> float:
        """Tokens of a round with its bonus: the sum of all scores (Sequoia, Proposition 3.4); the mean of rounds."""
        return float(self.scores(rates).sum(axis=-1).mean())


@lru_cache(maxsize=1024)
def _scores(tree: Tree, rates_bytes: bytes, shape: tuple[int, ...]) -> Array:
    """Cached: a search asks for the same trees on other devices and at other batches."""
    rates = np.frombuffer(rates_bytes).reshape(shape)
    scores = np.ones((*shape[:-2], tree.nodes + 1))
    for depth, (nodes, parents, ranks) in enumerate(tree._levels):
        scores[..., nodes] = scores[..., parents] * rates[..., depth, ranks]
    scores.flags.writeable = False
    return scores
