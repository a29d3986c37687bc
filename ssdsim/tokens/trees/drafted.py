"""Which tree is drafted: how likely guesses of each rank are right, and the tree of the most tokens that they make."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from heapq import heappop, heappush, nlargest

import numpy as np
from numpy.typing import NDArray

from ssdsim.base.checks import Array
from ssdsim.base.record import Record
from ssdsim.tokens.acceptance_models import beta_rates
from ssdsim.tokens.hit_models import HitCurve
from ssdsim.tokens.trees.shape import Rates, Tree

RANKS = 32
"""Guesses of one token that a tree may hold, where they follow from a hit curve."""


class RankModel(Record):
    """``first[d-1]`` is P(the likeliest guess at depth d is right | its parent is), shape ``(depths,)``.

    ``shares[r-2]`` is P(the guess of rank r is right | the first one is not), shape ``(ranks-1,)``, or with a row a
    depth. With a ``concentration`` rounds differ: the first guess's rate is Beta with that mean and this a + b in each,
    all other guesses share what is left. ``ordered`` models hold no guess likelier than the one ranked before it.
    """

    first: Array
    shares: Array
    concentration: float | None = None
    ordered: bool = True

    @classmethod
    def of_hits(cls, first: Array, hits: HitCurve, concentration: float | None = None) -> RankModel:
        """The guesses after the first one are those that a speculation cache holds: rank r is its guess r - 1.

        So one vector says what trees and caches do. (Of greedy decoding, in which a guess is right or wrong.)
        """
        return cls(first, np.diff(hits(np.arange(RANKS))), concentration)

    @classmethod
    def of_ranks(cls, ranks: Sequence[float], first: Array, concentration: float | None = None) -> RankModel:
        """``first`` by depth; where it is wrong, others are right as often as these ranks say, alike at every depth."""
        likeliest, *others = ranks
        shares = np.asarray(others) / (1.0 - likeliest) if likeliest < 1.0 else np.zeros(len(others))
        return cls(first, shares, concentration, ordered=False)

    @classmethod
    def of_levels(cls, ranks: Sequence[Sequence[float]], concentration: float | None = None) -> RankModel:
        """Rates of each rank at each depth (Medusa: those of a head's guesses)."""
        width = max(map(len, ranks))
        rates = np.array([[*level, *[0.0] * (width - len(level))] for level in ranks])
        wrong = 1.0 - rates[:, :1]
        shares = np.divide(rates[:, 1:], wrong, out=np.zeros_like(rates[:, 1:]), where=wrong > 0.0)
        return cls(rates[:, 0], shares, concentration, ordered=False)

    @cached_property
    def one_deeper(self) -> RankModel:
        """Model that includes the bonus token: one more depth, as good as the last."""
        shares = self.shares if self.shares.ndim == 1 else np.vstack([self.shares, self.shares[-1:]])
        return RankModel(np.append(self.first, self.first[-1]), shares, self.concentration, self.ordered)

    @cached_property
    def rates(self) -> Rates:
        """The rates of the mean round."""
        return self._rates(self.first)

    @cached_property
    def rounds(self) -> Rates:
        """The rates of equally likely rounds, shape ``(rounds, depths, ranks)``; all of one are as hard."""
        if self.concentration is None:
            return self.rates[None]
        columns = [beta_rates(float(mean), self.concentration) for mean in self.first]
        return np.array([self._rates(first) for first in np.array(columns).T])

    def _rates(self, first: Array) -> Rates:
        rates = np.concatenate([first[:, None], (1.0 - first[:, None]) * self.shares], axis=1)
        return without_rises(rates) if self.ordered else rates


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
    """Cap each rate at that of the rank before it."""
    return np.asarray(np.minimum.accumulate(rates, axis=1))


class BestTrees(Record):
    """Sequoia's dynamic program: the tree of exactly n nodes and at most l levels with the most expected tokens.

    Z. Chen et al., *Sequoia: Scalable and Robust Speculative Decoding*, NeurIPS 2024, arXiv 2402.12374. Nodes and
    levels are counted with the root, as there.

    ``tokens[n, l]``: the most tokens a round of n nodes in at most l levels; minus infinity where there is no such.
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
    """Best trees of every number of nodes and levels up to these, root included.

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
    """Tree of the most expected tokens in the mean round, with at most so many nodes and levels, and at least one.

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


def best_trees_of_sizes(model: RankModel, sizes: Sequence[int], depth: int) -> list[tuple[StaticTree, float]]:
    """The best tree of each size (they rise), with the tokens of a round.

    Where rates never rise with the rank, all of them are the beginning of the largest one.
    """
    if not never_rise(model.rates[:depth]):
        trees = [best_tree(model, size, depth) for size in sizes]
        return [(each, each.tree.expected_tokens(model.rounds)) for each in trees]
    whole = best_tree(model, sizes[-1], depth).tree
    tokens = np.cumsum(whole.scores(model.rounds).mean(axis=0)).tolist()
    return [(StaticTree(whole.first(size)), tokens[min(size, whole.nodes)]) for size in sizes]


@lru_cache(maxsize=64)
def _table(rates: bytes, ranks: int, nodes: int, levels: int) -> BestTrees:
    return best_trees(np.frombuffer(rates).reshape(-1, ranks), nodes, levels)
