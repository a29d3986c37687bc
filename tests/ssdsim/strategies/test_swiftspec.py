"""SwiftSpec against its recursion, its limits, and PEARL, which it is with one guess and no waiting."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ssdsim.answers.simulation.simulate import simulate
from ssdsim.question.configuration import configure
from ssdsim.question.scenario import Scenario
from ssdsim.strategies import swiftspec
from ssdsim.tokens.acceptance import expected_tokens
from ssdsim.tokens.trees import rerooted
from tests.refusals import refused


def ranks(alpha: float, r: float, guesses: int) -> list[float]:
    """P(right) by rank where P(among F) = 1 - (1 - alpha) F^-r."""
    miss = 1.0 - alpha
    return [alpha, *(miss * ((j - 1) ** -r - j**-r) for j in range(2, guesses + 1))]


def swift(
    alpha: float, r: float, guesses: int, width: int, passes: int, nodes: int, d: float, **options: Any
) -> Scenario:
    """Unit-free, with a draft pass of ``d``."""
    shape = {"swift_guesses": guesses, "swift_width": width, "swift_passes": passes, "swift_nodes": nodes}
    given = {"alpha": alpha, "tree_ranks": ranks(alpha, r, guesses), "k": 4, "t_sd": 4 * d, **shape, **options}
    return configure(strategies="swiftspec", **given).scenarios["swiftspec"]


def rate(case: Scenario) -> float:
    return float(case.estimate.tokens_per_second)


ROOT = {"swift_lost": "verify_root"}
# alpha, r, F, w, s, B, T_d(w), options, R, tokens a round, P(lost): literal event loops apart from this code
ROWS: list[tuple[Any, ...]] = [
    (0.8, 1.0, 1, 1, 4, 8, 0.25, {}, 1.956937, 3.215406, 0.643081),
    (0.8, 1.0, 3, 2, 3, 8, 0.25, {}, 2.146633, 2.465109, 0.197814),
    (0.7, 1.0, 3, 4, 3, 8, 0.3, {}, 1.988250, 2.453186, 0.259824),
    (0.7, 0.5, 3, 4, 2, 8, 0.4, {}, 1.565024, 1.998386, 0.346131),
]
OTHERS: list[tuple[Any, ...]] = [
    (0.8, 1.0, 3, 1, 3, 8, 0.25, {}, 2.100790),
    (0.8, 1.0, 3, 4, 3, 8, 0.25, {}, 2.322303),
    (0.8, 1.0, 3, 8, 3, 8, 0.25, {}, 2.455824),
    (0.8, 1.0, 3, 2, 3, 4, 0.25, {}, 2.084956),
    (0.8, 1.0, 3, 2, 3, 16, 0.25, {}, 2.174228),
    (0.8, 1.0, 3, 2, 3, 8, 0.25, ROOT, 2.127438),
    (0.7, 1.0, 3, 4, 3, 8, 0.3, ROOT, 2.057152),
    (0.8, 1.0, 1, 1, 4, 8, 0.25, ROOT, 2.123130),
]


@pytest.mark.parametrize("row", [*ROWS, *OTHERS])
def test_the_chain_of_trees_is_the_recursion(row: tuple[Any, ...]) -> None:
    *shape, options, expected = row[:9]
    case = swift(*shape, **options)
    assert rate(case) == pytest.approx(expected, abs=6e-7)
    if len(row) > 9:
        assert case.tokens.averages.tokens_per_round == pytest.approx(row[9], abs=6e-7)
        assert case.tokens.averages.to["miss"] == pytest.approx(row[10], abs=6e-7)


@pytest.mark.long
@pytest.mark.parametrize("solver", ["des", "mc"])
@pytest.mark.parametrize("row", [*ROWS, *OTHERS[5:7]])
def test_events_and_monte_carlo_agree(row: tuple[Any, ...], solver: Any) -> None:
    *shape, options, expected = row[:9]
    run = simulate(swift(*shape, **options), solver=solver, rounds=20_000, seed=3, confidence=0.99)
    assert run.tokens_per_second.covers(expected)


@given(alpha=st.floats(0.01, 0.99), passes=st.integers(1, 8), d=st.floats(0.01, 0.6))
@settings(deadline=None, max_examples=30)
def test_a_chain_has_a_closed_form_and_without_waiting_is_pearl(alpha: float, passes: int, d: float) -> None:
    waits = swift(alpha, 1.0, 1, 1, passes, passes + 2, d)
    x = alpha ** (passes + 1) / (1.0 - alpha**passes)
    tokens = float(expected_tokens(alpha, passes)) + x * float(expected_tokens(alpha, passes - 1))
    assert rate(waits) == pytest.approx(tokens / ((1.0 + x) * max(1.0, passes * d) + passes * d))
    goes_on = swift(alpha, 1.0, 1, 1, passes, passes + 2, d, **ROOT)
    pearl = configure(strategies="pearl", alpha=alpha, gamma=passes, k=4, t_sd=4 * d).scenarios["pearl"]
    assert rate(goes_on) == pytest.approx(rate(pearl))


def test_wider_passes_and_more_nodes_never_hurt_where_they_cost_nothing() -> None:
    by_width = [rate(swift(0.8, 1.0, 3, width, 3, 8, 0.25)) for width in (1, 2, 4, 8)]
    by_nodes = [rate(swift(0.8, 1.0, 3, 2, 3, nodes, 0.25)) for nodes in (2, 4, 8, 16)]
    assert by_width == sorted(by_width)
    assert by_nodes == sorted(by_nodes)


def test_guesses_that_are_equally_likely_do_not_change_places_with_the_last_bit_of_a_rate() -> None:
    """Tokens a round rise smoothly with the rate: paths of the same ranks in another order tie, whatever the rate."""
    by_rate = [
        configure(strategies="swiftspec", t_sd=0.2, alpha=alpha, k=6, swift_width=2, swift_passes=3, swift_nodes=9,
                  swift_guesses=2).scenarios["swiftspec"].estimate.tokens_per_round
        for alpha in (0.614, 0.615, 0.616, 0.617, 0.618)
    ]  # fmt: skip
    steps = np.diff(by_rate)
    assert np.all((steps > 0.0) & (steps < 0.01))


def tokens(alpha: float, width: int, passes: int, nodes: int, **options: Any) -> list[float]:
    """Tokens a round and P(lost)."""
    made = swift(alpha, 1.0, 3, width, passes, nodes, 0.2, **options).tokens.averages
    return [float(made.tokens_per_round), float(made.to["miss"])]


@given(
    alpha=st.floats(0.05, 0.95),
    width=st.integers(1, 6),
    passes=st.integers(1, 6),
    nodes=st.lists(st.integers(1, 9), min_size=2, max_size=5, unique=True),
)
@settings(deadline=None, max_examples=15)
def test_trees_that_are_remembered_change_no_answer(alpha: float, width: int, passes: int, nodes: list[int]) -> None:
    """However many nodes were verified before, the same trees are reached, to the last bit."""
    swiftspec._kernel.cache_clear()
    after_others = [tokens(alpha, width, passes, each) for each in nodes]
    for each, known in zip(nodes, after_others, strict=True):
        rerooted.growth.cache_clear()
        swiftspec._kernel.cache_clear()
        assert tokens(alpha, width, passes, each) == known


def test_guesses_count_by_how_likely_they_are_and_not_by_their_place_in_the_list() -> None:
    sure, mixed = ([0.5, 0.3, 0.1], [0.5, 0.1, 0.3])
    assert tokens(0.5, 2, 3, 6, tree_ranks=sure) == tokens(0.5, 2, 3, 6, tree_ranks=mixed)
    assert tokens(0.5, 2, 3, 6, tree_ranks=[0.5, 0.3]) == tokens(0.5, 2, 3, 6, tree_ranks=[0.5, 0.0, 0.3])


def test_on_hardware_the_draft_makes_as_many_passes_as_a_verification_takes() -> None:
    case = configure(strategies="swiftspec").scenarios["swiftspec"]
    beside, verify = case.seconds["pre-speculate"], case.seconds["verify"] + case.seconds["sample"]
    assert 0.6 * verify < beside <= 1.1 * verify
    assert case.tokens.averages.tokens_per_round <= 8.0
    assert case.gpus == 5


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"b": 2}, "SwiftSpec, 1 sequence, --b 2"),
        ({"alpha": [0.8, 0.7]}, "SwiftSpec, one rate"),
        ({"swift_passes": 16, "swift_guesses": 16, "swift_width": 16}, "would grow 4096 nodes beside a verification"),
    ],
)
def test_what_it_does_not_do_is_refused_in_one_line(options: dict[str, Any], names: str) -> None:
    with refused(*names.split(", ")):
        configure(strategies="swiftspec", **options)
