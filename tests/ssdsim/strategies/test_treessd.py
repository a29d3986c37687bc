"""SSD with trees: its hit rates by the table, the identity behind them, and SSD, which it is with one child a node."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ssdsim.answers.simulation.simulate import simulate
from ssdsim.base.checks import Array
from ssdsim.pricing.step import Pass
from ssdsim.question.configuration import configure
from ssdsim.question.scenario import Scenario
from ssdsim.tokens.trees.drafted import grown
from ssdsim.tokens.trees.outcome_cache import hits_by_accepted, likeliest_fan_outs
from ssdsim.tokens.trees.shape import Rates, Tree
from tests.refusals import refused
from tests.ssdsim.tokens.test_trees import SHIPPED, alike, falling

SORTED = tuple(sorted(SHIPPED, reverse=True))
RATES = alike(SORTED, 12)
# tree, E, and P(hit) with 8, 24 and 48 outcomes in the cache: from a search apart from this code
TABLE = [
    (Tree.chain(4), 2.4532, (0.4659, 0.6563, 0.7425)),
    (Tree.chain(7), 2.6621, (0.3895, 0.5859, 0.6842)),
    (grown(RATES, 8, 4).first(8), 2.7550, (0.3555, 0.5529, 0.6589)),
    (grown(RATES, 16, 5).first(16), 3.1152, (0.2308, 0.4248, 0.5445)),
    (grown(RATES, 32, 6).first(32), 3.4774, (0.1356, 0.2923, 0.4153)),
]


def with_ghosts(tree: Tree, guesses: Array) -> Tree:
    """The tree and its guesses as nodes."""
    ghosts = [(v, tree.children[v] + 1 + n) for v, count in enumerate(guesses.tolist()) for n in range(int(count))]
    return Tree(tree.parents + tuple(v for v, _ in ghosts), tree.ranks + tuple(rank for _, rank in ghosts))


def hit_rate(tree: Tree, rates: Rates, budget: int) -> float:
    return float(hits_by_accepted(tree, rates, likeliest_fan_outs(tree, rates, budget)).sum())


@pytest.mark.parametrize(("tree", "expected", "hits"), TABLE)
def test_tokens_and_hit_rates(tree: Tree, expected: float, hits: tuple[float, ...]) -> None:
    assert tree.expected_tokens(RATES) == pytest.approx(expected, abs=6e-5)
    assert [hit_rate(tree, RATES, budget) for budget in (8, 24, 48)] == pytest.approx(hits, abs=6e-5)


def test_fan_outs() -> None:
    for tokens, expected in ((4, [8, 6, 5, 2, 3]), (7, [7, 6, 4, 2, 2, 1, 1, 1])):
        assert likeliest_fan_outs(Tree.chain(tokens), RATES, 24).tolist() == expected


@given(ranks=falling, nodes=st.integers(1, 16), depth=st.integers(1, 5), budget=st.integers(0, 24))
@settings(deadline=None)
def test_hits_are_what_the_tree_would_gain_by_its_guesses(ranks: Array, nodes: int, depth: int, budget: int) -> None:
    rates = alike(ranks, depth + 1)
    tree = grown(rates, nodes, depth)
    guesses = likeliest_fan_outs(tree, rates, budget)
    hits = hits_by_accepted(tree, rates, guesses)
    tokens, gained = tree.expected_tokens(rates), float(hits.sum())
    assert gained == pytest.approx(with_ghosts(tree, guesses).expected_tokens(rates) - tokens, abs=1e-12)
    assert tokens + gained <= grown(rates, tree.nodes + budget, depth + 1).expected_tokens(rates) + 1e-9
    assert np.all(hits <= tree.accepted_pmf(rates) + 1e-12)
    assert gained >= max((hit_rate(tree, rates, fewer) for fewer in range(budget)), default=0.0) - 1e-12


def test_every_outcome_hits_where_all_are_guessed() -> None:
    rates = alike((0.6, 0.25, 0.15), 5)
    assert hit_rate(grown(rates, 10, 4), rates, 1000) == pytest.approx(1.0)


def treessd(*names: str, **options: Any) -> Scenario:
    return configure(strategies=names or ("treessd",), **options).scenarios[(names or ("treessd",))[0]]


@pytest.mark.long
@pytest.mark.parametrize("solver", ["des", "mc"])
@pytest.mark.parametrize(("nodes", "depth", "expected", "hits"), [(8, 4, 2.7550, 0.5529), (16, 5, 3.1152, 0.4248)])
def test_events_and_monte_carlo_agree(nodes: int, depth: int, expected: float, hits: float, solver: Any) -> None:
    case = treessd(t_sd=0.6, k=6, tree_ranks=list(SORTED), tree_nodes=nodes, tree_depth=depth, budget=24, b=2)
    assert case.estimate.p_hit == pytest.approx(hits, abs=6e-5)
    run = simulate(case, solver=solver, rounds=30_000, seed=4, confidence=0.99)
    assert run.tokens_per_round.covers(expected)
    assert run.tokens_per_second.covers(float(case.estimate.tokens_per_second))
    assert run.p_hit is not None
    assert run.p_hit.covers(float(case.estimate.p_hit))


@pytest.mark.parametrize("options", [{"t_sd": 0.4}, {"b": 8}, {"temperature": 0.7, "b": 4, "draft_gpus": 2}])
def test_with_one_child_a_node_it_is_ssd(options: dict[str, Any]) -> None:
    """With the same hit rates: those of a vector of ranks, which after all K are others than after a rejection."""
    k, alpha, rest = 4, 0.7, (0.12, 0.06, 0.04, 0.03)
    until = np.cumsum(rest) / (1.0 - alpha)
    curve = [(n, float(h)) for n, h in enumerate(until, start=1)]
    curve_all = [(1, alpha), *((n + 1, float(alpha + (1.0 - alpha) * h)) for n, h in curve)]
    given = {"k": k, "alpha": alpha, "budget": 10, "backup": "jit", "fan_out_policy": "optimal", **options}
    ssd = configure(strategies="ssd", hit_curve=curve, hit_curve_all=curve_all, **given).scenarios["ssd"]
    tree = treessd(tree_ranks=[alpha, *rest], tree_children=[1] * k, **given)
    assert tree.estimate.p_hit == pytest.approx(ssd.estimate.p_hit)
    assert float(tree.estimate.tokens_per_round) == pytest.approx(float(ssd.estimate.tokens_per_round))
    assert tree.seconds == pytest.approx(ssd.seconds)
    assert float(tree.estimate.tokens_per_second) == pytest.approx(float(ssd.estimate.tokens_per_second))


def test_it_drafts_a_tree_for_each_outcome() -> None:
    case = treessd(tree_children=[2, 2], budget=5, b=2)
    works = [(piece.name, piece.times, piece.work) for piece in case.steps["pre-speculate"].pieces]
    rows = [(name, times, work.forward.tokens) for name, times, work in works if isinstance(work, Pass)]
    assert rows == [("glue", 1, 2 * 7), ("branch step", 1, 2 * 5), ("branch step", 1, 2 * 5 * 2)]
    again = [piece.work for piece in case.steps["fallback"].pieces]
    assert [work.forward.tokens for work in again if isinstance(work, Pass)] == [2, 4]


def test_a_tree_for_each_round_is_refused() -> None:
    with refused("Tree SSD"):
        treessd(tree_beam=10)


def test_one_settled_after_another_strategy_is_as_when_alone() -> None:
    alone = treessd(b=4).estimate
    after = configure(strategies=("ssd", "tree", "treessd"), b=4).scenarios["treessd"].estimate
    assert after.tokens_per_second == pytest.approx(alone.tokens_per_second)
    unit_free = configure(strategies=("ssd", "tree", "treessd"), t_sd=0.3, t_p=0.5).scenarios["treessd"].estimate
    assert unit_free.tokens_per_second == pytest.approx(treessd(t_sd=0.3, t_p=0.5).estimate.tokens_per_second)


def test_a_tree_is_no_deeper_by_its_settings_than_it_is() -> None:
    rates = {"alpha": 0.7863212429691651, "hit_c": 0.5512479436442783, "hit_r": 1.1164411941577874}
    case = configure(b=64, strategies=("treessd",), subject="treessd", **rates).scenarios["treessd"]
    assert case.settings["tree_depth"] == len(case.settings["tree_rows"])
