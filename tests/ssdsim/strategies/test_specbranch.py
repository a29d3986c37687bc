"""SpecBranch against its closed forms, its limits and PEARL, which it is with one branch."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ssdsim import recommend
from ssdsim.answers.simulation.simulate import simulate
from ssdsim.question.configuration import configure
from ssdsim.question.scenario import Scenario
from ssdsim.tokens.acceptance import expected_tokens


def branching(alpha: float, gamma: int, d: float, *strategies: str, **options: Any) -> Scenario:
    """Unit-free, with a step over the branches of ``d``; the first of ``strategies`` where others are named."""
    names = strategies or ("specbranch",)
    return configure(strategies=names, alpha=alpha, k=gamma, t_sd=gamma * d, **options).scenarios[names[0]]


def rate(case: Scenario) -> float:
    return float(case.estimate.tokens_per_second)


# (alpha, gamma, d, options, R): from literal event loops apart from this code
FIXED = [
    (0.8, 5, 0.2, {"branch_hit": 0.9}, 2.387943),
    (0.5, 8, 0.125, {"branch_hit": 0.75}, 1.426652),
    (0.9, 4, 0.3, {"branch_hit": 0.97}, 2.394480),
]
UNSURE = [
    (0.95, 6, 0.16, {"branch_hit": 0.98, "hrad_low": 0.3, "hrad_hit": 0.70}, 2.253768),
    (0.90, 8, 0.10, {"branch_hit": 0.95, "hrad_low": 0.2, "hrad_hit": 0.80}, 2.620285),
    (0.90, 5, 0.20, {"branch_hit": 0.95, "hrad_low": 0.5, "hrad_hit": 0.60}, 1.498380),
]
# alpha and the best of gamma 1...10 at d = 0.1, three branches that miss a third as often as one: (alpha, gamma, R)
BEST = [(0.5, 10, 1.454061), (0.7, 10, 2.081331), (0.8, 10, 2.787688), (0.9, 10, 4.347302), (0.95, 10, 6.066173)]


@pytest.mark.parametrize(("alpha", "gamma", "d", "options", "expected"), [*FIXED, *UNSURE])
def test_the_closed_form_is_that_of_the_chain(
    alpha: float, gamma: int, d: float, options: dict[str, float], expected: float
) -> None:
    assert rate(branching(alpha, gamma, d, **options)) == pytest.approx(expected, abs=5e-7)


@pytest.mark.long
@pytest.mark.parametrize("solver", ["des", "mc"])
@pytest.mark.parametrize(("alpha", "gamma", "d", "options", "expected"), [*FIXED, *UNSURE])
def test_events_and_monte_carlo_agree(
    alpha: float, gamma: int, d: float, options: dict[str, float], expected: float, solver: Any
) -> None:
    run = simulate(branching(alpha, gamma, d, **options), solver=solver, rounds=40_000, seed=2, confidence=0.99)
    assert run.tokens_per_second.covers(expected)


@pytest.mark.parametrize(("alpha", "gamma", "expected"), BEST)
def test_the_best_window_of_three_branches(alpha: float, gamma: int, expected: float) -> None:
    rates = {g: rate(branching(alpha, g, 0.1, branches=3, hit_r=1.0)) for g in range(1, 11)}
    assert max(rates, key=lambda g: rates[g]) == gamma
    assert rates[gamma] == pytest.approx(expected, abs=5e-7)


@given(alpha=st.floats(0.0, 0.999), gamma=st.integers(1, 16), d=st.floats(0.001, 2.0), hit=st.floats(0.0, 1.0))
@settings(deadline=None)
def test_it_is_the_papers_chain(alpha: float, gamma: int, d: float, hit: float) -> None:
    all_pending = alpha ** (gamma - 1)
    tokens = 1.0 - all_pending * hit + hit * float(expected_tokens(alpha, gamma - 1))
    expected = tokens / ((1.0 + hit - all_pending * hit) * max(gamma * d, 1.0))
    assert rate(branching(alpha, gamma, d, branch_hit=hit)) == pytest.approx(expected, rel=1e-9)


@pytest.mark.long
@given(alpha=st.floats(0.0, 1.0), gamma=st.integers(1, 16), d=st.floats(0.001, 2.0), b=st.sampled_from([1, 3, 16]))
@settings(deadline=None)
def test_with_one_branch_it_is_pearl(alpha: float, gamma: int, d: float, b: int) -> None:
    one = branching(alpha, gamma, d, "specbranch", branches=1, b=b)
    assert rate(one) == pytest.approx(rate(branching(alpha, gamma, d, "pearl", b=b)), rel=1e-9)


@given(alpha=st.floats(0.0, 1.0), gamma=st.integers(1, 16), share=st.floats(0.0, 1.0), hit=st.floats(0.0, 1.0))
@settings(deadline=None)
def test_it_is_at_least_pearl_where_its_branches_are_at_least_a_token(
    alpha: float, gamma: int, share: float, hit: float
) -> None:
    d = share / gamma
    ours, theirs = rate(branching(alpha, gamma, d, branch_hit=hit)), rate(branching(alpha, gamma, d, "pearl"))
    assert ours >= theirs - 1e-12 if hit >= alpha else ours <= theirs + 1e-12
    assert ours >= 1.0 - 1e-12
    assert ours <= 1.0 / max(d, 1e-9)


def test_limits() -> None:
    assert rate(branching(0.0, 4, 0.2, branch_hit=0.0)) == pytest.approx(1.0)
    assert rate(branching(0.0, 4, 0.2, branch_hit=0.7)) == pytest.approx(1.0), (
        "one token a step whatever the branches do"
    )
    assert rate(branching(1.0, 4, 0.2)) == pytest.approx(4.0)
    assert rate(branching(0.8, 1, 0.2)) == pytest.approx(1.0)
    alpha, hit = 0.8, 0.9
    free = (1.0 - alpha + hit) / ((1.0 - alpha) * (1.0 + hit))
    assert rate(branching(alpha, 64, 1e-9, branch_hit=hit)) == pytest.approx(free, rel=1e-5)


def test_a_batch_is_not_stalled_by_one_rejection() -> None:
    assert rate(branching(0.8, 5, 0.2, b=16)) == pytest.approx(16.0 * rate(branching(0.8, 5, 0.2)))


def test_more_branches_cost_a_wider_step_and_more_memory() -> None:
    one, many = (configure(strategies="specbranch", b=16, branches=k).scenarios["specbranch"] for k in (1, 64))
    assert many.seconds["draft"] > one.seconds["draft"]
    assert many.seconds["speculation"] > one.seconds["speculation"]
    need = [
        max(
            demand.total_bytes(16)
            for place in case.strategy.occupancies(case.site, case.drafter)
            for demand in place.demands[:1]
            if "branches" in place.what
        )
        for case in (one, many)
        if case.site is not None
    ]
    assert need[0] < need[1]


@pytest.mark.long
def test_its_window_and_branches_are_searched() -> None:
    recommendation = recommend(gpus=5, strategies="ar,specbranch", subject="specbranch", tp=4)
    best = recommendation.answers[0].by_strategy["specbranch"]
    assert best.shape.gpus == 5
    rates = {
        (g, k): rate(configure(strategies="specbranch", branch_gamma=g, branches=k).scenarios["specbranch"])
        for g in range(1, 17)
        for k in range(1, 9)
    }
    assert best.per_user >= 0.99 * max(rates.values())  # settings within 1 % are as good, and the simpler one is taken
