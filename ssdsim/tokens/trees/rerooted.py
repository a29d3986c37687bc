"""A tree that grows while part of it is verified and is then re-rooted: a Markov chain over trees.

Every guess of rank j is right with the same probability wherever it stands, so what happens to a tree depends on its
shape alone, and from a fresh tree only finitely many shapes are reached (a literal model of SwiftSpec, Zhang et al.,
2025, arXiv 2506.11309).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from functools import lru_cache
from heapq import heapify, heappop, heappush, heapreplace
from math import inf, prod
from typing import NamedTuple

from ssdsim.base.record import Record

Tree = int
"""A tree by its number among those that a draft has grown: trees of one shape have one number."""

BARE: Tree = 0
"""A root after which nothing was guessed."""


class Outcome(Record):
    """An outcome: its probability, the accepted tokens, and the tree that follows (None: it is lost)."""

    probability: float
    accepted: int
    tree: Tree | None


class TreePlace(NamedTuple):
    """A place in any tree; the likeliest comes first, then the shallowest, then that of the lowest ranks."""

    minus_value: float
    """-P(right, with all before it)."""
    depth: int
    path: tuple[int, ...]
    number: int
    after: TreePlace | None
    """The sibling of the next rank."""
    children: list[TreePlace]
    """By rank from 1 on, numbered one after the other, once they are asked for."""


class Places:
    """Places of nodes in any tree, numbered in order of first use: parents before their children."""

    def __init__(self, ranks: tuple[float, ...]) -> None:
        self.ranks = ranks
        self.root = TreePlace(-1.0, 0, (), 0, None, [])
        self.made = 1

    def children(self, place: TreePlace) -> list[TreePlace]:
        """The children of a node by rank."""
        if not place.children:
            after = None
            for at in reversed(range(len(self.ranks))):
                path = (*place.path, at + 1)
                after = TreePlace(-self._product(path), place.depth + 1, path, self.made + at, after, [])
                place.children.insert(0, after)
            self.made += len(self.ranks)
        return place.children

    def _product(self, path: tuple[int, ...]) -> float:
        """The product of the rates on a path, sorted: paths of the same rates in another order tie to the last bit."""
        return prod(sorted(self.ranks[rank - 1] for rank in path))


class Grown(Record):
    """A tree that has grown: by the number of a place, the tree that begins there (bare also where no node is).

    ``reach`` is the depth of the deepest node that was expanded as it grew.
    """

    trees: Sequence[Tree]
    reach: int


class Growth:
    """How a draft grows a tree: in ``passes``, each of which expands the ``width`` likeliest nodes without children.

    What became of a tree is remembered: however many nodes are verified, the same trees come again.
    """

    def __init__(self, ranks: tuple[float, ...], width: int, passes: int) -> None:
        self.places = _places(ranks)
        self.subtrees: list[tuple[Tree, ...]] = [()]
        """Of each tree, those of the root's children by rank; none of the bare root."""
        self._width, self._passes = width, passes
        self._number: dict[tuple[Tree, ...], Tree] = {(): BARE}
        self._grown: dict[tuple[Tree, float], Grown] = {}

    def of(self, tree: Tree, deepest: int) -> Grown:
        """The tree after all passes; nothing grows below the depth ``deepest``."""
        grown = self._remembered(tree, inf)
        return grown if grown.reach < deepest else self._remembered(tree, deepest)

    def _remembered(self, tree: Tree, deepest: float) -> Grown:
        if (tree, deepest) not in self._grown:
            self._grown[tree, deepest] = self._after(tree, deepest)
        return self._grown[tree, deepest]

    def _after(self, tree: Tree, deepest: float) -> Grown:
        expanded, waiting = self._nodes(tree)
        waiting = [place for place in waiting if place.depth < deepest]
        heapify(waiting)
        for _ in range(self._passes):
            likeliest: list[TreePlace] = []
            while waiting and len(likeliest) < self._width:
                place = waiting[0]
                likeliest.append(place)
                if place.after is None:
                    heappop(waiting)
                else:
                    heapreplace(waiting, place.after)
            expanded += likeliest
            for place in likeliest:
                first = self.places.children(place)[0]
                if first.depth < deepest:
                    heappush(waiting, first)
        return Grown(self._numbered(expanded), max(place.depth for place in expanded))

    def _nodes(self, tree: Tree) -> tuple[list[TreePlace], list[TreePlace]]:
        """Nodes that were expanded, parents before children, and of others the likeliest among siblings."""
        if tree == BARE:
            return [], [self.places.root]
        expanded: list[TreePlace] = []
        waiting: list[TreePlace] = []
        open_ = [(self.places.root, tree)]
        for place, its in open_:
            expanded.append(place)
            for child, below in zip(self.places.children(place), self.subtrees[its], strict=True):
                if below == BARE:
                    waiting.append(child)
                    break
                open_.append((child, below))
        return expanded, waiting

    def _numbered(self, expanded: Sequence[TreePlace]) -> Sequence[Tree]:
        """The trees that begin at places, of which those with children are given, parents first."""
        trees = array("i", bytes(4 * self.places.made))
        wide, subtrees, numbers = len(self.places.ranks), self.subtrees, self._number
        for place in reversed(expanded):
            first = place.children[0].number
            below = tuple(trees[first : first + wide])
            trees[place.number] = number = numbers.setdefault(below, len(subtrees))
            if number == len(subtrees):
                subtrees.append(below)
        return trees


@lru_cache(maxsize=128)
def _places(ranks: tuple[float, ...]) -> Places:
    return Places(ranks)


@lru_cache(maxsize=256)
def growth(ranks: tuple[float, ...], width: int, passes: int) -> Growth:
    """Cached: a search of how many nodes to verify asks for the same trees again."""
    return Growth(ranks, width, passes)


class Rerooting:
    """A tree that grows beside a verification and is re-rooted at its outcome.

    Each guess is right with the rate of its rank, and none is likelier than those before it. The target verifies the
    ``verified`` likeliest nodes, root included. Nothing grows below twice that depth: it would be verified no sooner
    than after two more rounds.
    """

    def __init__(self, how: Growth, verified: int) -> None:
        self._how, self._verified = how, verified

    @property
    def fresh(self) -> Tree:
        """The tree that the draft grows while nothing is verified."""
        return self._trees(BARE)[self._how.places.root.number]

    def _trees(self, tree: Tree) -> Sequence[Tree]:
        return self._how.of(tree, 2 * self._verified).trees

    def outcomes(self, tree: Tree) -> Iterator[Outcome]:
        """The outcomes of verifying the likeliest nodes of a tree while it grows."""
        trees, verified, places = self._trees(tree), self._likeliest(tree), self._how.places
        checked = {place.number for place in verified}
        too_unlikely = max(0.0, 1.0 - sum(places.ranks))
        for place in verified:
            value, depth = -place.minus_value, place.depth
            yield Outcome(value * too_unlikely, depth, None)
            guessed = trees[place.number] != BARE
            for bonus, rate in zip(places.children(place), places.ranks, strict=True):
                if bonus.number not in checked:
                    yield Outcome(value * rate, depth, trees[bonus.number] if guessed else None)

    def _likeliest(self, tree: Tree) -> list[TreePlace]:
        """The nodes that are verified, the likeliest first."""
        found: list[TreePlace] = []
        waiting = [(self._how.places.root, tree)]
        while waiting and len(found) < self._verified:
            place, its = heappop(waiting)
            found.append(place)
            if its != BARE:
                for each in zip(place.children, self._how.subtrees[its], strict=True):
                    heappush(waiting, each)
        return found


def chain_of_trees(how: Rerooting, lost: Tree, most: int) -> dict[Tree | None, Sequence[Outcome]] | None:
    """Outcomes from each tree that the chain reaches; None where it reaches more than ``most``.

    The key None is the start and every loss, after which the chain goes on from the tree ``lost``.
    """
    chain: dict[Tree | None, Sequence[Outcome]] = {}
    open_: list[Tree | None] = [None]
    while open_:
        state = open_.pop()
        if state in chain:
            continue
        if len(chain) == most:
            return None
        outcomes = [each for each in how.outcomes(lost if state is None else state) if each.probability > 0.0]
        chain[state] = outcomes
        open_.extend(each.tree for each in outcomes)
    return chain
