"""Lookahead decoding against the printed sums, a literal loop apart from this code, and what it reduces to."""

from __future__ import annotations

import math
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibration.machine.ranks import Ranks
from ssdsim.question.configuration import configure
from ssdsim.question.scenario import Scenario
from ssdsim.strategies.lookahead import best_of_chains
from tests.calibration.executor.run import ROUNDS, run, small, spans
from tests.ssdsim.strategies.checks import deviation, deviations_are_chance

Table = tuple[tuple[float, float], ...]
SLOPE = ((0, 0.9), (1_000, 1.9))  # T_v by rows of the batch


def case(alpha: float, found: float, w: int = 7, n: int = 5, g: int = 7, **options: Any) -> Scenario:
    given = {"lookahead_alpha": alpha, "lookahead_found": found, "lookahead_window": w, "lookahead_ngram": n}
    options = {"t_sd": 0.1} | options if "target" not in options else options
    return configure(strategies="lookahead", **given, lookahead_guesses=g, **options).scenarios["lookahead"]


def rate(scenario: Scenario) -> float:
    return float(scenario.estimate.tokens_per_second)


def tokens(scenario: Scenario) -> float:
    return float(scenario.estimate.tokens_per_round)


@pytest.mark.parametrize(("g", "expected"), [(1, 1.650), (5, 2.907), (15, 3.878)])
def test_tokens_of_rounds_with_a_hit_are_the_printed_sums(g: int, expected: float) -> None:
    """Alpha 0.4, four tokens after the last one; at one n-gram it is the chain."""
    assert tokens(case(0.4, 1.0, g=g)) == pytest.approx(expected, abs=5e-4)


@given(alpha=st.floats(0.0, 1.0), n=st.integers(2, 12), g=st.integers(1, 40), found=st.floats(0.0, 1.0))
@settings(deadline=None, max_examples=50)
def test_it_is_the_papers_damped_sum(alpha: float, n: int, g: int, found: float) -> None:
    best = n - sum((1.0 - alpha**i) ** g for i in range(1, n))
    assert best_of_chains(alpha, n - 1, g).sum() == pytest.approx(1.0)
    assert tokens(case(alpha, found, n=n, g=g)) == pytest.approx(1.0 + found * (best - 1.0))


def test_its_pass_has_the_rows_of_both_branches() -> None:
    """W = G = 15, N = 5: the paper's about 120."""
    scenario = case(0.4, 1.0, 15, 5, 15, target="llama-3.1-8b", tp=1, b=2)
    assert scenario.steps["verify"].passes[0].forward.tokens == 2 * 121
    half = case(0.4, 0.5, 15, 5, 15, target="llama-3.1-8b", tp=1, b=2).steps["verify"].by_rows
    assert half is not None
    assert half.rows.tolist() == [*half.numbers] == [2 * 61, 61 + 121, 2 * 121]
    assert scenario.gpus == 1
    (occupancy,) = scenario.strategy.occupancies(scenario.site, scenario.drafter)  # type: ignore[arg-type]
    (alone,) = occupancy.demands
    ar = configure(strategies="ar", target="llama-3.1-8b", tp=1, b=2).scenarios["ar"]
    (bare,) = next(iter(ar.strategy.occupancies(ar.site, ar.drafter))).demands  # type: ignore[arg-type]
    assert alone.weights_bytes == bare.weights_bytes, "no draft: only slots of the tokens in flight are more"


def test_with_an_empty_pool_it_is_ar_at_its_width() -> None:
    given: dict[str, Any] = {"target": "llama-3.1-8b", "tp": 1, "b": 4}
    scenario = case(0.4, 0.0, **given)
    assert tokens(scenario) == 1.0
    assert scenario.steps["verify"].passes[0].forward.tokens == 4 * 29, "no row of an n-gram"
    assert rate(case(0.4, 0.0, t_v=[(1, 1.0), (2, 1.0)])) == pytest.approx(1.0)


def test_vicunas_published_lengths_are_inside_the_plausible_ranges() -> None:
    """EAGLE-2's and -3's tables: 1.69 and 1.67 tokens a round; neither alpha nor the pool's share was published."""
    low, high = (tokens(case(alpha, each)) for alpha, each in ((0.3, 0.2), (0.5, 0.5)))
    assert low < 1.67 < 1.69 < high
    assert tokens(case(0.4, 0.3)) == pytest.approx(1.67, abs=0.01)


@pytest.mark.parametrize(("hardware", "expected"), [("h100-sxm", 1.054), ("a100-sxm", 1.100)])
def test_vicunas_published_round_is_near_ours_though_its_gpu_is_not_known(hardware: str, expected: float) -> None:
    """EAGLE-3's table 1, Vicuna 13B: 1.67 tokens and 1.62 times AR, so 1.031 steps of AR a round."""
    given: dict[str, Any] = {"target": "llama-2-13b", "tp": 1, "hardware": hardware, "context": 500}
    scenarios = configure(**given, dtype="float16", engine="kernels", strategies=("ar", "lookahead")).scenarios
    ours = float(scenarios["lookahead"].estimate.round_s / scenarios["ar"].estimate.round_s)
    assert ours == pytest.approx(expected, abs=1e-3)
    assert ours / (1.67 / 1.62) == pytest.approx(1.0, abs=0.07)


@cache  # the engines are held against the same loops
def literal(
    alpha: float, found: float, w: int, n: int, g: int, b: int, rounds: int, seed: int, t_v: Table = SLOPE
) -> tuple[float, float]:
    """Tokens a T_v and their standard error over 20 batches: chains drawn token by token, the pass as wide as what was
    found.
    """
    rng = np.random.default_rng(seed)
    of_batch = (20, rounds // 20, b)
    hits = rng.random(of_batch) < found
    longest = (rng.random((*of_batch, g, n - 1)) < alpha).cumprod(axis=4).sum(axis=4).max(axis=3)
    made = (1 + longest * hits).sum(axis=(1, 2))
    rows = b * (1 + w * (n - 1)) + hits.sum(axis=2) * g * (n - 1)
    took = np.interp(rows, *np.transpose(t_v)).sum(axis=1)
    value = made.sum() / took.sum()
    error = np.std(made - value * took, ddof=1) / took.mean() / math.sqrt(len(made))
    return float(value), float(error)


@pytest.mark.long
@pytest.mark.parametrize("solver", ["closed", "mc", "des"])
def test_its_rate_is_that_of_a_literal_loop(solver: Any) -> None:
    """Whose passes are as wide as each round's."""
    off = []
    for seed, (alpha, found, (w, n, g), b) in enumerate(
        product((0.2, 0.4, 0.7), (0.1, 0.3, 0.8), ((7, 5, 7), (15, 3, 2)), (1, 4))
    ):
        expected, error = literal(alpha, found, w, n, g, b, 6_000, seed)
        off.append(deviation(case(alpha, found, w, n, g, b=b, t_v=SLOPE), solver, expected, error, rounds=1_500))
    deviations_are_chance(off)


@pytest.mark.parametrize("solver", ["closed", "mc", "des"])
def test_where_t_v_has_a_knee_each_round_pays_for_its_own_rows(solver: Any) -> None:
    """Four sequences of 4 or 16 rows: the mean round's T_v is 5 % less than the mean of the rounds'."""
    knee = ((1, 1.0), (53, 1.0), (212, 3.909))
    scenario = case(0.6438, 0.8084, 1, 4, 4, b=4, t_v=knee)
    expected, error = literal(0.6438, 0.8084, 1, 4, 4, 4, 20_000, 5, knee)
    assert abs(deviation(scenario, solver, expected, error, rounds=4_000)) < 3.5


@pytest.mark.ranks
def test_on_a_real_rank_its_pass_is_wider_where_the_pool_has_something(pair: Ranks) -> None:
    scenario = small("lookahead", lookahead_window=2, lookahead_ngram=3, lookahead_guesses=2).scenarios["lookahead"]
    target, idle = run(pair, scenario)
    assert idle is None
    each = {rows: len(spans(target, f"verify {rows} rows")) for rows in (10, 14, 18)}  # two sequences of 5 or 9
    assert 0 < each[10] < ROUNDS
    assert sum(each.values()) == ROUNDS
