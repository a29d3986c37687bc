"""A tree that grows while part of it is verified and is then re-rooted: a Markov chain over trees.

Every guess of rank j is right with the same probability wherever it stands, so what happens to a tree depends on its
shape alone, and from a fresh tree only finitely many shapes are reached (a literal model of SwiftSpec, Zhang et al.,
2025, arXiv 2506.11309).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush, nsmallest
from math import prod

from ssdsim.base.record import Record

Order = tuple[float, int, tuple[int, ...]]

_ROOT = 0


class Growing(Record):
    """The nodes of a tree, by their numbers, and those of them whose children were guessed already."""

    nodes: frozenset[int] = frozenset({_ROOT})
    expanded: frozenset[int] = frozenset()


class Outcome(Record):
    """An outcome: its probability, the accepted tokens, and the tree that follows (None: it is lost)."""

    probability: float
    accepted: int
    tree: Growing | None


class Places:
    """Places of nodes in any tree, numbered in order of first use: parents before their children."""

    def __init__(self, ranks: Sequence[float]) -> None:
        self.ranks = tuple(ranks)
        self.parent = [_ROOT]
        self.rank = [0]
        self.order: list[Order] = [(-1.0, 0, ())]
        """The likeliest first; then the shallowest, then the lowest ranks."""
        self._children: list[list[int] | None] = [None]

    def value(self, place: int) -> float:
        """P(right), with all before it."""
        return -self.order[place][0]

    def depth(self, place: int) -> int:
        return self.order[place][1]

    def children(self, place: int) -> list[int]:
        """The children of a node by rank from 1 on."""
        children = self._children[place]
        if children is None:
            _, depth, path = self.order[place]
            children = list(range(len(self.parent), len(self.parent) + len(self.ranks)))
            for rank in range(1, len(self.ranks) + 1):
                self.parent.append(place)
                self.rank.append(rank)
                self.order.append((-self._product((*path, rank)), depth + 1, (*path, rank)))
                self._children.append(None)
            self._children[place] = children
        return children

    def _product(self, path: tuple[int, ...]) -> float:
        """The product of the rates on a path, sorted: paths of the same rates in another order tie to the last bit."""
        return prod(sorted(self.ranks[rank - 1] for rank in path))


class Rerooting:
    """A tree that the draft grows beside a verification, and re-roots at its outcome.

    The draft makes ``passes`` a verification, each over the ``width`` likeliest nodes without children; their guesses
    are right with the rates ``ranks``. The target verifies the ``verified`` likeliest nodes, root included. Nothing
    grows below twice that depth: it would be verified no sooner than after two more rounds.
    """

    def __init__(self, ranks: Sequence[float], width: int, passes: int, verified: int) -> None:
        self._places = Places(ranks)
        self._width, self._passes, self._verified = width, passes, verified

    @property
    def fresh(self) -> Growing:
        """The tree that the draft grows while nothing is verified."""
        return self._grown(Growing())

    def outcomes(self, tree: Growing) -> Iterator[Outcome]:
        """The outcomes of verifying the likeliest nodes of a tree while it grows."""
        places = self._places
        verified = nsmallest(self._verified, tree.nodes, key=places.order.__getitem__)
        checked = set(verified)
        left = self._below(self._grown(tree), checked)
        too_unlikely = max(0.0, 1.0 - sum(places.ranks))
        for node in verified:
            value, depth = places.value(node), places.depth(node)
            yield Outcome(value * too_unlikely, depth, None)
            for bonus, rate in zip(places.children(node), places.ranks, strict=True):
                if bonus not in checked:
                    yield Outcome(value * rate, depth, left.get(bonus))

    def _grown(self, tree: Growing) -> Growing:
        """The tree after as many passes as there are beside a verification."""
        order, nodes, expanded = self._places.order, set(tree.nodes), set(tree.expanded)
        deepest = 2 * self._verified
        waiting = [(order[node], node) for node in nodes - expanded if order[node][1] < deepest]
        heapify(waiting)
        for _ in range(self._passes):
            for _, node in [heappop(waiting) for _ in range(min(self._width, len(waiting)))]:
                expanded.add(node)
                children = self._places.children(node)
                nodes.update(children)
                if order[node][1] + 1 < deepest:
                    for child in children:
                        heappush(waiting, (order[child], child))
        return Growing(frozenset(nodes), frozenset(expanded))

    def _below(self, tree: Growing, kept: set[int]) -> dict[int, Growing]:
        """Subtrees below ``kept`` nodes, by their roots, each with places of its own."""
        parent, rank, children = self._places.parent, self._places.rank, self._places.children
        at: dict[int, tuple[int, int]] = {}  # under which root, and where there
        nodes: dict[int, list[int]] = {}
        expanded: dict[int, list[int]] = {}
        for node in sorted(tree.nodes - kept):
            before = at.get(parent[node])
            root, place = (node, _ROOT) if before is None else (before[0], children(before[1])[rank[node] - 1])
            at[node] = root, place
            nodes.setdefault(root, []).append(place)
            if node in tree.expanded:
                expanded.setdefault(root, []).append(place)
        return {root: Growing(frozenset(each), frozenset(expanded.get(root, ()))) for root, each in nodes.items()}


def chain_of_trees(how: Rerooting, lost: Growing, most: int) -> dict[Growing | None, Sequence[Outcome]] | None:
    """Outcomes from each tree that the chain reaches; None where it reaches more than ``most``.

    The key None is the start and every loss, after which the chain goes on from the tree ``lost``.
    """
    chain: dict[Growing | None, Sequence[Outcome]] = {}
    open_: list[Growing | None] = [None]
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
