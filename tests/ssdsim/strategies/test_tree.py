"""Tree speculative decoding: its tables by three engines, its reductions, and the tree that is best on hardware."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ssdsim import predict, recommend
from ssdsim.answers.simulation.simulate import simulate
from ssdsim.pricing.step import Pass
from ssdsim.question.configuration import configure
from ssdsim.question.scenario import Scenario
from tests.refusals import refused
from tests.ssdsim.tokens.test_trees import A, E, S


def tree(**options: Any) -> Scenario:
    return configure(strategies="tree", **options).scenarios["tree"]


def rate(case: Scenario) -> float:
    return float(case.estimate.tokens_per_second)


# (ranks, nodes, levels, expected tokens): from a search over every tree apart from this code
CASES = [(A, 8, 4, 2.8456), (A, 4, 2, 2.2800), (S, 8, 3, 2.6366), (S, 8, 8, 2.8006), (E, 8, 4, 3.6856), (E, 6, 2, 2.74)]


@pytest.mark.parametrize(("ranks", "nodes", "depth", "expected"), CASES)
def test_tokens_of_a_round(ranks: tuple[float, ...], nodes: int, depth: int, expected: float) -> None:
    case = tree(t_sd=0.6, k=6, tree_ranks=list(ranks), tree_nodes=nodes, tree_depth=depth)
    assert case.tokens.averages.tokens_per_round == pytest.approx(expected, abs=5.1e-5)
    (draft,) = case.steps["draft"].pieces
    assert draft.times == len(case.settings["tree_rows"]) <= depth
    assert rate(case) == pytest.approx(expected / (1.0 + 0.1 * draft.times), rel=3e-5)


@pytest.mark.long
@pytest.mark.parametrize("solver", ["des", "mc"])
@pytest.mark.parametrize(("ranks", "nodes", "depth", "expected"), CASES)
def test_events_and_monte_carlo_agree(
    ranks: tuple[float, ...], nodes: int, depth: int, expected: float, solver: Any
) -> None:
    case = tree(t_sd=0.6, k=6, tree_ranks=list(ranks), tree_nodes=nodes, tree_depth=depth)
    run = simulate(case, solver=solver, rounds=30_000, seed=4, confidence=0.99)
    assert run.tokens_per_second.covers(rate(case))
    assert run.tokens_per_round.covers(expected)


@pytest.mark.parametrize(
    "options",
    [
        {"t_sd": 0.4},
        {"b": 8},
        {"b": 4, "sd_draft": "separate", "temperature": 0.7},
        {"alpha_concentration": 4.0, "output_tokens": 50, "t_sd": 0.3},
        {"alpha": [0.9, 0.8, 0.7, 0.6, 0.5, 0.4]},
    ],
)
@pytest.mark.parametrize("shape", [{"tree_children": [1] * 6}, {"tree_beam": 1, "tree_depth": 6, "tree_nodes": 6}])
def test_a_tree_of_width_one_is_sd(options: dict[str, Any], shape: dict[str, Any]) -> None:
    scenarios = configure(strategies="sd,tree", k=6, **shape, **options).scenarios
    assert scenarios["tree"].seconds == pytest.approx(scenarios["sd"].seconds)
    assert rate(scenarios["tree"]) == pytest.approx(rate(scenarios["sd"]))


@given(alpha=st.floats(0.0, 1.0), nodes=st.integers(1, 32), depth=st.integers(1, 8))
@settings(deadline=None, max_examples=30)
def test_a_free_drafter_gains_all_tokens(alpha: float, nodes: int, depth: int) -> None:
    case = tree(t_sd=0.0, alpha=alpha, tree_nodes=nodes, tree_depth=depth)
    assert rate(case) == pytest.approx(case.tokens.averages.tokens_per_round)


def test_a_perfect_draft_needs_no_siblings() -> None:
    case = tree(t_sd=0.6, k=6, alpha=1.0, tree_nodes=30, tree_depth=5)
    assert case.tokens.averages.tokens_per_round == pytest.approx(6.0)


def test_with_one_rank_the_best_tree_is_the_chain_of_as_many_nodes_or_levels() -> None:
    for nodes, depth in ((4, 9), (9, 4)):
        case = tree(tree_ranks=[0.8], tree_nodes=nodes, tree_depth=depth)
        (draft,) = case.steps["draft"].pieces
        assert draft.times == 4
        assert case.tokens.averages.tokens_per_round == pytest.approx(sum(0.8**j for j in range(5)))


KNEE = {"b": 2, "alpha": 0.95, "t_sd": 0.048, "k": 7, "t_v": [(1, 1.0), (16, 1.0), (128, 3.75)]}  # two hills


@pytest.mark.parametrize("options", [{"b": 1}, {"b": 16}, {"b": 2, "target": "llama-3.1-8b", "tp": 1}, KNEE])
def test_the_tree_that_is_chosen_is_the_fastest_of_all_sizes_and_depths(options: dict[str, Any]) -> None:
    chosen = tree(**options)
    others = {
        (nodes, depth): rate(tree(tree_nodes=nodes, tree_depth=depth, **options))
        for nodes in (1, 3, 6, 12, 16, 24, 64, 128, 256)
        for depth in (1, 3, 5, 8, 12, 16)
        if depth <= nodes
    }
    assert rate(chosen) >= 0.998 * max(others.values())
    assert chosen.settings["tree_nodes"] >= chosen.settings["tree_depth"]


def test_a_larger_batch_has_smaller_trees() -> None:
    sizes = [tree(b=b).settings["tree_nodes"] for b in (1, 8, 64)]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] > sizes[-1]


def test_a_pass_of_the_draft_is_over_the_nodes_that_get_children() -> None:
    """SpecInfer's default: the pass that makes level i runs level i - 1; all are verified with the root in one."""
    case = tree(tree_children=[1, 1, 3, 1, 1, 1, 1, 1], b=2)
    works = [(piece.times, piece.work) for piece in case.steps["draft"].pieces]
    assert [(times, work.forward.tokens) for times, work in works if isinstance(work, Pass)] == [(3, 2), (5, 6)]
    (verify,) = case.steps["verify"].passes
    assert verify.forward.tokens == 2 * 21
    assert case.settings["tree_nodes"] == 20


def test_when_sampling_each_expanded_node_sends_a_distribution() -> None:
    given: dict[str, Any] = {"tree_children": [4, 2], "sd_draft": "separate"}
    greedy, sampling = (tree(temperature=t, **given).steps["speculation"].message for t in (0.0, 1.0))
    assert greedy is not None
    assert sampling is not None
    assert sampling.sent_bytes - greedy.sent_bytes == 5 * 128_256 * 2


def test_eagle_2_runs_its_beam_in_each_pass_and_wins_where_rounds_differ() -> None:
    given: dict[str, Any] = {"alpha": 0.7, "tree_nodes": 40, "tree_depth": 6, "tree_concentration": 3.0}
    static, dynamic = tree(**given), tree(tree_beam=10, **given)
    assert dynamic.tokens.averages.tokens_per_round > static.tokens.averages.tokens_per_round
    assert [(piece.name, piece.times) for piece in dynamic.steps["draft"].pieces] == [
        ("draft step", 1),
        ("draft step", 5),
    ]
    assert tree(tree_beam=10).settings["tree_nodes"] == 60


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"tree_ranks": [0.7, 0.6]}, "--tree-ranks"),
        ({"tree_children": [2, 2], "tree_nodes": 3}, "--tree-nodes"),
        ({"tree_children": [32] * 60}, "--tree-children"),
        ({"tree_children": [3], "tree_ranks": [0.7, 0.1]}, "--tree-children"),
        ({"tree_depth": 9, "alpha": [0.8, 0.7]}, "--alpha"),
        ({"tree_ranks": [0.6], "alpha_concentration": 3.0}, "--tree-ranks"),
        ({"drafter": "ngrams"}, "ngrams"),
    ],
)
def test_what_means_nothing_is_refused_in_one_line(options: dict[str, Any], says: str) -> None:
    with refused(says):
        tree(**options)


@pytest.mark.long
def test_it_is_recommended_beside_the_others() -> None:
    recommendation = recommend(gpus=5, strategies="ar,sd,tree", subject="tree", b=(1, 16))
    for answer in recommendation.answers:
        best = answer.by_strategy["tree"]
        assert best.per_user >= answer.by_strategy["sd"].per_user * 0.999, "a chain is a tree"


def test_rounds_of_no_concentration_are_refused() -> None:
    """Every speed was NaN."""
    with refused("--tree-concentration"):
        predict(strategies="ar,tree", t_sd=0.2, k=2, tree_concentration=0)
