"""Trees of drafted tokens: Sequoia's tables, three ways to the best tree, and what trees keep."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ssdsim.base.checks import Array
from ssdsim.tokens.acceptance import accepted_length_pmf, expected_tokens
from ssdsim.tokens.hit_models import PowerLawHits
from ssdsim.tokens.trees.drafted import (
    RANKS,
    DynamicTrees,
    RankModel,
    StaticTree,
    best_tree,
    best_trees,
    best_trees_of_sizes,
    grown,
)
from ssdsim.tokens.trees.shape import Rates, Tree
from tests.ssdsim.tokens.verifiers import with_replacement, without_replacement

A = (0.6, 0.2, 0.1, 0.05)
S = (0.6342, 0.1079, 0.0570, 0.0225, 0.0195, 0.0150, 0.0045, 0.0030)  # head of the vector that Sequoia ships
E = (0.80, 0.10, 0.04, 0.02)
ANY = 8  # as deep as the tables' nodes
# expected tokens with at most 1...8 drafted nodes, by the most levels; computed apart from this code by brute force
TABLES: list[tuple[tuple[float, ...], dict[int, list[float]], list[float]]] = [
    (
        A,
        {
            1: [1.6000, 1.8000, 1.9000, 1.9500, 1.9500, 1.9500, 1.9500, 1.9500],
            2: [1.6000, 1.9600, 2.1600, 2.2800, 2.4000, 2.5000, 2.5600, 2.6200],
            3: [1.6000, 1.9600, 2.1760, 2.3760, 2.4960, 2.6160, 2.7160, 2.7880],
            4: [1.6000, 1.9600, 2.1760, 2.3760, 2.5056, 2.6256, 2.7456, 2.8456],
            ANY: [1.6000, 1.9600, 2.1760, 2.3760, 2.5056, 2.6256, 2.7456, 2.8456],
        },
        [1.6000, 1.9600, 2.1760, 2.3056, 2.3834, 2.4300, 2.4580, 2.4748],
    ),
    (
        S,
        {
            1: [1.6342, 1.7421, 1.7991, 1.8216, 1.8411, 1.8561, 1.8606, 1.8636],
            2: [1.6342, 2.0364, 2.1443, 2.2127, 2.2812, 2.3382, 2.3743, 2.4105],
            3: [1.6342, 2.0364, 2.2915, 2.3994, 2.4678, 2.5363, 2.5933, 2.6366],
            4: [1.6342, 2.0364, 2.2915, 2.4533, 2.5612, 2.6296, 2.6980, 2.7550],
            ANY: [1.6342, 2.0364, 2.2915, 2.4533, 2.5612, 2.6638, 2.7322, 2.8006],
        },
        [1.6342, 2.0364, 2.2915, 2.4533, 2.5559, 2.6209, 2.6622, 2.6884],
    ),
    (
        E,
        {
            1: [1.8000, 1.9000, 1.9400, 1.9600, 1.9600, 1.9600, 1.9600, 1.9600],
            2: [1.8000, 2.4400, 2.5400, 2.6200, 2.7000, 2.7400, 2.7720, 2.8040],
            3: [1.8000, 2.4400, 2.9520, 3.0520, 3.1320, 3.2120, 3.2760, 3.3400],
            4: [1.8000, 2.4400, 2.9520, 3.3616, 3.4616, 3.5416, 3.6216, 3.6856],
            ANY: [1.8000, 2.4400, 2.9520, 3.3616, 3.6893, 3.9514, 4.1611, 4.3289],
        },
        [1.8000, 2.4400, 2.9520, 3.3616, 3.6893, 3.9514, 4.1611, 4.3289],
    ),
]
# Sequoia's acceptance-rate-vector.pt, without the 0 before it
SHIPPED = tuple(
    float(rate)
    for rate in ".634183 .107946 .056972 .022489 .019490 .014993 .004498 .002999 .011994 .004498 .007496 .004498 "
    ".005997 .002999 .001499 .002999 .001499 .002999 0 .002999 .002999 .002999 0 .001499 0 .001499 0 0 0 .001499 "
    ".001499 .001499".split()
)
# (nodes, levels, expected tokens), root included
SHIPPED_BEST = [
    (4, 4, 2.2914), (8, 4, 2.5933), (8, 7, 2.7322), (16, 4, 2.8645), (16, 9, 3.1303), (32, 5, 3.3047),
    (32, 10, 3.5007), (64, 6, 3.7017), (64, 10, 3.8523), (128, 7, 4.0855), (128, 10, 4.1921),
]  # fmt: skip
# EAGLE-1's static tree of 25 nodes: the children's ranks on each path
EAGLE_1 = Tree.of_paths(
    tuple(int(rank) + 1 for rank in path)
    for path in "0 1 2 3 00 01 02 10 11 20 21 30 000 001 002 010 011 020 021 100 0000 0001 0002 00000 00001".split()
)
# rates by position, published tokens of the tree, and of a chain of 5 (EAGLE-1, table 2, T = 0)
EAGLE_1_ROWS = [
    ((0.79, 0.74, 0.72, 0.73, 0.67), 3.94, 0.29),
    ((0.79, 0.74, 0.72, 0.74, 0.70), 3.98, 0.31),
    ((0.74, 0.69, 0.67, 0.67, 0.66), 3.68, 0.30),
    ((0.76, 0.69, 0.67, 0.68, 0.68), 3.62, 0.24),
    ((0.77, 0.69, 0.69, 0.70, 0.71), 3.90, 0.37),
    ((0.75, 0.69, 0.65, 0.64, 0.64), 3.81, 0.38),
]

falling = st.lists(st.floats(0.0, 1.0), min_size=1, max_size=6).map(
    lambda each: np.sort(np.array(each) / max(1.0, sum(each)))[::-1]
)


def alike(ranks: Array | tuple[float, ...], depths: int = 10) -> Rates:
    return np.repeat(np.asarray(ranks, dtype=float)[None], depths, axis=0)


@cache
def forests(nodes: int) -> list[tuple[tuple[int, ...], ...]]:
    """Every ordered forest under one root, as the paths of its nodes."""
    if nodes == 0:
        return [()]
    listed = []
    for below in range(nodes):  # nodes under the eldest child
        for eldest in forests(below):
            for others in forests(nodes - 1 - below):
                shifted = tuple((path[0] + 1, *path[1:]) for path in others)
                listed.append(((1,), *((1, *path) for path in eldest), *shifted))
    return listed


def cells() -> Iterator[tuple[tuple[float, ...], int, int, float]]:
    for ranks, by_depth, _ in TABLES:
        for depth, row in by_depth.items():
            for nodes, expected in enumerate(row, start=1):
                yield ranks, depth, nodes, expected


@pytest.mark.parametrize(("ranks", "depth", "nodes", "expected"), list(cells()))
def test_heap_and_dynamic_program_find_the_best_tree_of_each_size(
    ranks: tuple[float, ...], depth: int, nodes: int, expected: float
) -> None:
    rates = alike(ranks)
    greedy = grown(rates, nodes, depth).first(nodes)
    assert greedy.depth <= depth
    assert greedy.nodes <= nodes
    assert greedy.expected_tokens(rates) == pytest.approx(expected, abs=5e-5 + 1e-12)
    table = best_trees(rates[:1], nodes + 1, depth + 1)
    assert table.tokens[: nodes + 2, depth + 1].max() == pytest.approx(greedy.expected_tokens(rates), abs=1e-12)


@pytest.mark.parametrize("ranks", [A, S, E])
def test_so_does_looking_at_every_tree(ranks: tuple[float, ...]) -> None:
    rates = alike((*ranks, *(0.0,) * 8))
    best: dict[tuple[int, int], float] = {}
    for nodes in range(1, 8):
        for paths in forests(nodes):
            tree = Tree.of_paths(paths)
            value = tree.expected_tokens(rates)
            for depth in range(tree.depth, ANY + 1):
                for budget in range(nodes, 8):
                    best[budget, depth] = max(best.get((budget, depth), 0.0), value)
    assert len(forests(7)) == 429  # of Catalan
    for (nodes, depth), value in best.items():
        assert grown(rates, nodes, depth).expected_tokens(rates) == pytest.approx(value, abs=1e-12)


@pytest.mark.parametrize(("ranks", "row"), [(ranks, row) for ranks, _, row in TABLES])
def test_a_chain_of_each_length(ranks: tuple[float, ...], row: list[float]) -> None:
    for tokens, expected in enumerate(row, start=1):
        assert Tree.chain(tokens).expected_tokens(alike(ranks)) == pytest.approx(expected, abs=5.1e-5)


def test_survivals() -> None:
    for ranks, depth, expected in (
        (A, 4, (1, 0.9, 0.6, 0.216, 0.1296)),
        (S, 3, (1, 0.7991, 0.5391, 0.2985)),
        (E, 3, (1, 0.9, 0.8, 0.64)),
    ):
        pmf = grown(alike(ranks), 8, depth).accepted_pmf(alike(ranks))
        assert np.cumsum(pmf[::-1])[::-1] == pytest.approx(expected, abs=5e-5)


@pytest.mark.parametrize(("nodes", "levels", "expected"), SHIPPED_BEST)
def test_the_vector_that_sequoia_ships(nodes: int, levels: int, expected: float) -> None:
    """Its ninth guess is likelier than its eighth: only the dynamic program keeps to the order of ranks."""
    table = best_trees(np.array([SHIPPED]), nodes, levels)
    assert table.tokens[nodes, levels] == pytest.approx(expected, abs=5e-5)
    tree = table.tree(nodes, levels)
    assert (tree.nodes, tree.depth) <= (nodes - 1, levels - 1)
    assert tree.expected_tokens(alike(SHIPPED)) == pytest.approx(table.tokens[nodes, levels], abs=1e-12)


def test_sequoias_demo_chooses_its_shipped_chain_of_three() -> None:
    """The cost charges one level more than is drafted, as its tree_search.py does."""
    target = {1: 10.0, 2: 10.0, 4: 10.0, 8: 12.0, 16: 14.0, 32: 18.0}
    table = best_trees(np.array([SHIPPED]), 32, 11)
    cost = {
        (n, level): (0.3 * level + time) / table.tokens[n, level]
        for n, time in target.items()
        for level in range(1, 12)
        if np.isfinite(table.tokens[n, level])
    }
    n, level = min(cost, key=lambda at: cost[at])
    assert (n, level) == (4, 4)
    assert cost[n, level] == pytest.approx(4.8878, abs=5e-5)
    assert 10.0 / cost[n, level] == pytest.approx(2.0459, abs=5e-5)
    assert table.tree(n, level) == Tree.chain(3)


@given(ranks=falling, nodes=st.integers(1, 40), depth=st.integers(1, 8))
@settings(deadline=None)
def test_more_nodes_and_levels_are_never_worse_and_a_chain_is_never_better(
    ranks: Array, nodes: int, depth: int
) -> None:
    rates = alike(ranks)

    def best(nodes: int, depth: int) -> float:
        return grown(rates, nodes, depth).first(nodes).expected_tokens(rates)

    assert best(nodes, depth) <= best(nodes + 1, depth) + 1e-12
    assert best(nodes, depth) <= best(nodes, depth + 1) + 1e-12
    assert Tree.chain(min(nodes, depth)).expected_tokens(rates) <= best(nodes, depth) + 1e-12


@given(by_depth=st.lists(falling, min_size=3, max_size=3), nodes=st.integers(1, 14))
@settings(deadline=None, max_examples=30)
def test_heap_and_dynamic_program_agree_where_rates_differ_by_depth(by_depth: list[Array], nodes: int) -> None:
    rates = np.zeros((3, 6))
    for row, found in zip(rates, by_depth, strict=True):
        row[: found.size] = found
    table = best_trees(rates, nodes + 1, 4)
    greedy = grown(rates, nodes, 3).expected_tokens(rates)
    assert table.tokens[: nodes + 2, 4].max() == pytest.approx(greedy, abs=1e-12)


@given(ranks=falling, paths=st.integers(0, 428))
@settings(deadline=None)
def test_ends_are_a_distribution_whose_mean_is_the_sum_of_scores(ranks: Array, paths: int) -> None:
    tree, rates = Tree.of_paths(forests(7)[paths]), np.zeros((8, 8))
    rates[:, : ranks.size] = ranks
    ends = tree.ends(rates)
    assert ends.sum() == pytest.approx(1.0)
    assert float(ends @ (np.array(tree.depths) + 1)) == pytest.approx(tree.expected_tokens(rates))
    assert np.bincount(tree.depths, weights=ends) == pytest.approx(tree.accepted_pmf(rates))


@pytest.mark.long
def test_a_drawn_walk_down_a_tree_gets_as_deep_as_the_pmf_says() -> None:
    """Literal: at each accepted node one uniform number against its children's rates."""
    tree, rng, rounds = grown(alike(S), 8, 4), np.random.default_rng(5), 40_000
    child = {(parent, rank): node for node, (parent, rank) in enumerate(zip(tree.parents, tree.ranks, strict=True), 1)}
    depths = np.zeros(rounds, dtype=int)
    for at in range(rounds):
        node = 0
        while True:
            rank = 1 + int(np.searchsorted(np.cumsum(S), rng.random(), side="right"))
            if (node, rank) not in child:
                break
            node = child[node, rank]
        depths[at] = tree.depths[node]
    tokens = depths + 1.0
    half = 2.576 * tokens.std() / np.sqrt(rounds)
    assert abs(tokens.mean() - 2.7550) < half + 5e-5


@given(alpha=st.floats(0.0, 1.0), k=st.integers(1, 12))
def test_a_tree_of_width_one_is_a_chain(alpha: float, k: int) -> None:
    rates = np.full((k, 1), alpha)
    assert Tree.chain(k) == Tree.expanded_by((1,) * k)
    assert Tree.chain(k).accepted_pmf(rates) == pytest.approx(accepted_length_pmf(alpha, k))
    assert Tree.chain(k).expected_tokens(rates) == pytest.approx(float(expected_tokens(alpha, k)))
    if alpha > 0.01:  # where no product of rates vanishes
        assert grown(rates, k, k) == Tree.chain(k)


def test_specinfers_expansion() -> None:
    tree = Tree.expanded_by((1, 1, 3, 1, 1, 1, 1, 1))
    assert tree.nodes == 20
    assert tree.widths == (1, 1, 3, 3, 3, 3, 3, 3)
    assert tree.expanded == (1, 1, 1, 3, 3, 3, 3, 3)
    assert Tree.expanded_by((5, *(1,) * 7)).nodes + 1 == 41
    assert not tree.is_chain


@pytest.mark.parametrize(("first", "published", "share"), EAGLE_1_ROWS)
def test_one_share_of_the_siblings_gives_eagle_1_its_published_tokens(
    first: tuple[float, ...], published: float, share: float
) -> None:
    """Rank r >= 2 is right with (1 - alpha) x (1 - x)^(r-2)."""
    assert (EAGLE_1.widths, EAGLE_1.expanded) == ((4, 8, 8, 3, 2), (1, 4, 4, 1, 1))

    def tokens(x: float) -> float:
        return EAGLE_1.expected_tokens(RankModel(np.array(first), x * (1.0 - x) ** np.arange(6)).rates)

    assert tokens(share - 0.006) < published < tokens(share + 0.006)


def test_guesses_after_the_first_are_those_of_a_cache() -> None:
    hits = PowerLawHits(c=0.4, r=0.7)
    rates = RankModel.of_hits(np.array([0.8, 0.7]), hits).rates
    assert rates.shape == (2, RANKS)
    for row, alpha in zip(rates, (0.8, 0.7), strict=True):
        assert row[0] == alpha
        for guesses in (1, 4, 20):
            assert row[1 : guesses + 1].sum() == pytest.approx((1.0 - alpha) * float(hits(guesses)))


def test_verifiers() -> None:
    """Sequoia, appendix F: with two guesses from an even draft the target's sure token is found in 0.75 and in all."""
    target, draft = (1.0, 0.0), (0.5, 0.5)
    assert with_replacement(target, draft, 2).sum() == pytest.approx(0.75)
    assert without_replacement(target, draft, 2).sum() == pytest.approx(1.0)


@given(
    p=st.lists(st.floats(0.01, 1.0), min_size=4, max_size=4),
    q=st.lists(st.floats(0.01, 1.0), min_size=4, max_size=4),
    guesses=st.integers(1, 4),
)
@settings(deadline=None)
def test_guesses_that_do_not_repeat_are_at_least_as_good(p: list[float], q: list[float], guesses: int) -> None:
    target, draft = np.array(p) / sum(p), np.array(q) / sum(q)
    repeat, once = with_replacement(target, draft, guesses), without_replacement(target, draft, guesses)
    assert repeat[0] == pytest.approx(np.minimum(target, draft).sum())
    assert once[0] == pytest.approx(repeat[0])
    assert once.sum() <= 1.0 + 1e-9
    assert once.sum() >= repeat.sum() - 1e-9
    assert without_replacement(target, draft, 4).sum() == pytest.approx(1.0), "it covers what it has drawn"


@given(ranks=falling, nodes=st.integers(1, 30), depth=st.integers(1, 6))
@settings(deadline=None)
def test_eagle_2_with_one_confidence_and_a_wide_beam_is_the_best_static_tree(
    ranks: Array, nodes: int, depth: int
) -> None:
    rates = alike(ranks, depth)
    dynamic = DynamicTrees(nodes, depth, beam=30).tree(rates)
    assert dynamic.expected_tokens(rates) == pytest.approx(grown(rates, nodes, depth).expected_tokens(rates))


@pytest.mark.long
@given(
    alpha=st.floats(0.05, 0.95),
    concentration=st.floats(0.5, 50.0),
    nodes=st.integers(1, 20),
    depth=st.integers(1, 4),
)
@settings(deadline=None, max_examples=25)
def test_a_tree_of_each_round_is_never_worse_than_the_same_in_all(
    alpha: float, concentration: float, nodes: int, depth: int
) -> None:
    model = RankModel.of_hits(np.full(depth, alpha), PowerLawHits(c=0.4, r=0.7), concentration)
    dynamic, static = DynamicTrees(nodes, depth, beam=20), best_tree(model, nodes, depth)

    def tokens(of: DynamicTrees | StaticTree) -> float:
        pmf = of.accepted_pmf(model)
        return 1.0 + float(pmf @ np.arange(pmf.size))

    assert tokens(dynamic) >= tokens(static) - 1e-9


def test_eagle_2_proposes_what_its_code_does() -> None:
    """Eight passes of ten nodes propose 10 + 7 * 100 candidates; fewer nodes have children than a free tree's."""
    rates = alike(np.array(E), 8)
    free = DynamicTrees(59, 8, 10)
    assert free.rows == (1, *(10,) * 7)
    narrow = DynamicTrees(12, 4, 2).tree(rates)
    assert max(narrow.expanded) <= 2
    assert narrow.expected_tokens(rates) < DynamicTrees(12, 4, 10).tree(rates).expected_tokens(rates)


def test_hard_and_easy_rounds_of_a_chain_are_those_of_a_beta() -> None:
    """Mean 0.75, a + b = infinite, 20, 8, 4, 2, K = 7: closed form, against 64 equally likely rounds."""
    for concentration, expected in ((None, 3.600), (20.0, 3.778), (8.0, 4.000), (4.0, 4.287), (2.0, 4.677)):
        model = RankModel(np.full(7, 0.75), np.zeros(1), concentration)
        assert Tree.chain(7).expected_tokens(model.rounds) == pytest.approx(expected, rel=2e-3)


@given(
    first=st.lists(st.floats(0.05, 0.99), min_size=1, max_size=5),
    miss=st.floats(0.05, 1.0),
    ordered=st.booleans(),
    concentration=st.none() | st.floats(0.5, 20.0),
)
@settings(deadline=None, max_examples=30)
def test_trees_of_all_sizes_are_those_of_each(
    first: list[float], miss: float, ordered: bool, concentration: float | None
) -> None:
    if ordered:
        model = RankModel.of_hits(np.array(first), PowerLawHits(c=miss, r=0.7), concentration)
    else:
        model = RankModel.of_ranks([0.3, 0.1 * miss, 0.2 * miss], np.array(first), concentration)
    sizes = [1, 2, 5, 12]
    for size, (tree, tokens) in zip(sizes, best_trees_of_sizes(model, sizes, len(first)), strict=True):
        assert tree == best_tree(model, size, len(first))
        pmf = tree.accepted_pmf(model)
        assert tokens == pytest.approx(1.0 + pmf @ np.arange(pmf.size), rel=1e-12)
