"""Trees drafted for a verification: the same in every round, or one made for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from heapq import nlargest

import numpy as np

from ssdsim.base.checks import Array
from ssdsim.base.record import Record
from ssdsim.tokens.trees.dynamic_program import BestTrees, best_trees
from ssdsim.tokens.trees.growth import grown, never_rise
from ssdsim.tokens.trees.rank_model import RankModel
from ssdsim.tokens.trees.shape import Rates, Tree

Path = tuple[int, ...]
"""A node's ranks on the way from the root."""


class StaticTree(Record):
    """Tree that is the same in every round (SpecInfer, Sequoia, EAGLE-1, Medusa)."""

    tree: Tree

    @property
    def nodes(self) -> int:
        """Drafted tokens that are verified; a verification has one row more."""
        return self.tree.nodes

    @property
    def rows(self) -> tuple[int, ...]:
        """The rows of each pass of the draft."""
        return self.tree.expanded

    @property
    def is_chain(self) -> bool:
        """Tell whether one token comes after the other, so that no pass needs a mask."""
        return self.tree.is_chain

    def accepted_pmf(self, model: RankModel) -> Array:
        """P(exactly j tokens are accepted), shape ``(depth+1,)``."""
        return self.tree.accepted_pmf(model.rounds)


class DynamicTrees(Record):
    """A tree for each round from the draft's confidence, which the rank model takes for the truth (EAGLE-2).

    ``depth`` passes: the first over the root, each other one over the ``beam`` likeliest nodes of the depth before;
    each proposes its ``beam`` likeliest children. Of all that were proposed the ``nodes`` likeliest are verified: they
    are a tree, as no node is likelier than its parent. Li et al., EMNLP 2024, arXiv 2406.16858.
    """

    nodes: int
    depth: int
    beam: int

    @property
    def rows(self) -> tuple[int, ...]:
        return (1, *(self.beam,) * (self.depth - 1))

    @property
    def is_chain(self) -> bool:
        return self.beam == 1

    def accepted_pmf(self, model: RankModel) -> Array:
        pmf = np.zeros(self.depth + 1)
        rounds = [self.tree(rates).accepted_pmf(rates) for rates in model.rounds]
        for each in rounds:
            pmf[: each.size] += each / len(rounds)
        return pmf

    def tree(self, rates: Rates) -> Tree:
        """The tree of a round with these rates; ties go to the shallower node."""
        proposed: dict[Path, float] = {}
        inputs: list[Path] = [()]
        for of_ranks in rates[: self.depth, : self.beam].tolist():
            level = _guesses(inputs, proposed, of_ranks)
            inputs = nlargest(self.beam, level, key=lambda path: level[path])
            proposed |= level
        best = nlargest(self.nodes, proposed, key=lambda path: (proposed[path], -len(path), *(-rank for rank in path)))
        return Tree.of_paths(best)


Drafted = StaticTree | DynamicTrees
"""The drafted tokens of a sequence, with what costs and rounds ask of them."""


def _guesses(inputs: Sequence[Path], scores: Mapping[Path, float], of_ranks: Sequence[float]) -> dict[Path, float]:
    """The scores of all guesses after some nodes."""
    return {(*path, n): scores.get(path, 1.0) * rate for path in inputs for n, rate in enumerate(of_ranks, start=1)}


def tree_of_widths(rates: Rates, widths: Sequence[int], expanded: int | None = None) -> StaticTree:
    """The tree of the likeliest so many nodes at each depth of those proposed there (LongSpec's tree).

    Only the ``expanded`` likeliest of a depth have children, all where it is None: with one it is a chain with siblings
    that nothing goes on from (CaPE).
    """
    scores: dict[Path, float] = {}
    inputs: list[Path] = [()]
    for of_ranks, width in zip(rates.tolist(), widths, strict=False):
        level = _guesses(inputs, scores, of_ranks)
        kept = nlargest(width, level, key=lambda path: (level[path], *(-rank for rank in path)))
        scores |= {path: level[path] for path in kept}
        inputs = kept[:expanded]
    return StaticTree(Tree.of_paths(scores))


def best_tree(model: RankModel, nodes: int, depth: int) -> StaticTree:
    """The tree of at most so many nodes and levels of the most expected tokens, for the mean round; of one at least.

    By taking the likeliest node again and again, or, where a guess is likelier than the one ranked before it, by
    Sequoia's dynamic program.
    """
    rates = model.rates[:depth]
    if never_rise(rates):
        best = grown(rates, nodes, depth)
        return StaticTree(best if best.nodes else Tree.chain(1))
    alike = bool(np.all(rates == rates[0]))
    levels = model.first.size + 1 if alike else depth + 1  # one table for every depth, where it does not matter
    table = _table((rates[:1] if alike else rates).tobytes(), rates.shape[1], nodes + 1, levels)
    return StaticTree(table.tree(2 + int(table.tokens[2:, depth + 1].argmax()), depth + 1))


@lru_cache(maxsize=64)
def _table(rates: bytes, ranks: int, nodes: int, levels: int) -> BestTrees:
    return best_trees(np.frombuffer(rates).reshape(-1, ranks), nodes, levels)
