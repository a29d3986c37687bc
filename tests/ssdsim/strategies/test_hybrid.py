"""Look-up first against the printed rows, a literal loop apart from this code, and the two systems that it joins."""

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
from tests.calibration.executor.run import ROUNDS, run, small, spans
from tests.refusals import refused
from tests.ssdsim.strategies.checks import deviation, deviations_are_chance

Table = tuple[tuple[float, float], ...]
SLOPE = ((0, 0.9), (1_000, 1.9))  # T_v by rows of the batch


def case(found: float, looked_up: tuple[float, int], drafted: tuple[float, int], **options: Any) -> Scenario:
    given = {"hybrid_found": found, "hybrid_alpha": looked_up[0], "hybrid_lookup_k": looked_up[1]}
    given |= {"alpha": drafted[0], "k": drafted[1]}
    return configure(strategies="hybrid", **{**given, **options}).scenarios["hybrid"]


def rate(scenario: Scenario) -> float:
    return float(scenario.estimate.tokens_per_second)


@pytest.mark.parametrize(
    ("b", "expected", "drawn", "error"), [(1, 3.7647, 3.7628, 0.0126), (8, 3.3333, 3.3392, 0.0039)]
)
def test_the_printed_rows(b: int, expected: float, drawn: float, error: float) -> None:
    """Half of rounds find something, E_s(0.9, 8), E_m(0.7, 3), a draft of 0.3: the formula, and drawn rounds (99 %)."""
    scenario = case(0.5, (0.9, 8), (0.7, 3), t_sd=0.3, b=b)
    assert rate(scenario) / b == pytest.approx(expected, abs=5e-5)
    assert abs(rate(scenario) / b - drawn) < 2.576 * error


@given(alpha=st.floats(0.0, 1.0), k=st.integers(1, 12), b=st.sampled_from([1, 3, 16]), t_sd=st.floats(0.0, 2.0))
@settings(deadline=None, max_examples=25)
def test_where_nothing_is_found_it_is_sd(alpha: float, k: int, b: int, t_sd: float) -> None:
    sd = configure(strategies="sd", alpha=alpha, k=k, b=b, t_sd=t_sd).scenarios["sd"]
    assert rate(case(0.0, (0.9, 8), (alpha, k), t_sd=t_sd, b=b)) == pytest.approx(rate(sd))


@pytest.mark.parametrize("by", ["ngram", "suffix"])
@pytest.mark.parametrize("drafter", ["model", "eagle3"])
def test_on_hardware_it_joins_sd_and_its_look_up(by: str, drafter: str) -> None:
    given: dict[str, Any] = {"target": "llama-3.1-8b", "tp": 1, "b": 4, "sd_draft": "colocated"}
    none, all_of_them = (case(each, (0.6, 5), (0.7, 4), **given, drafter=drafter, hybrid_by=by) for each in (0.0, 1.0))
    sd = configure(strategies="sd", drafter=drafter, alpha=0.7, k=4, **given).scenarios["sd"]
    looking = configure(strategies="sd", drafter=by, alpha=0.6, k=5, found=1.0, **given).scenarios["sd"]
    look_up_s = none.seconds["look up"]
    assert float(none.estimate.round_s) == pytest.approx(float(sd.estimate.round_s) + look_up_s)
    assert rate(all_of_them) == pytest.approx(rate(looking))
    assert none.gpus == sd.gpus == 1


def test_a_longer_match_verifies_more() -> None:
    """The look-up's own rule: ``min(p, K, 24 - p)`` tokens."""
    given: dict[str, Any] = {"target": "llama-3.1-8b", "tp": 1}
    all_long, mean_three = (case(1.0, (0.8, 8), (0.7, 4), suffix_match=mean, **given) for mean in (None, 3.0))
    assert float(mean_three.estimate.tokens_per_round) < float(all_long.estimate.tokens_per_round)
    assert mean_three.seconds["verify"] < all_long.seconds["verify"]


def test_a_look_up_behind_a_look_up_is_refused() -> None:
    with refused("n-gram look-up"):
        case(0.5, (0.6, 5), (0.7, 4), drafter="ngram")


@cache  # the engines are held against the same loops
def literal(
    found: float, s: tuple[float, int], m: tuple[float, int], t_m: float, b: int, seed: int, t_v: Table = SLOPE
) -> tuple[float, float]:
    """Tokens a T_v and their standard error over 20 batches; passes are as wide as each round's sequences make them."""
    rng = np.random.default_rng(seed)

    def accepted(alpha: float, k: int) -> np.ndarray:
        return (rng.random((20, 300, b, k)) < alpha).cumprod(axis=3).sum(axis=3)

    hits = rng.random((20, 300, b)) < found
    made = np.where(hits, accepted(*s), accepted(*m)).sum(axis=(1, 2)) + 300.0 * b
    found_in_round = hits.sum(axis=2)
    rows = b + found_in_round * s[1] + (b - found_in_round) * m[1]
    took = (np.interp(rows, *np.transpose(t_v)) + np.where(found_in_round == b, 0.0, t_m)).sum(axis=1)
    value = made.sum() / took.sum()
    return float(value), float(np.std(made - value * took, ddof=1) / took.mean() / math.sqrt(len(made)))


@pytest.mark.long
@pytest.mark.parametrize("solver", ["closed", "mc", "des"])
def test_its_rate_is_that_of_a_literal_loop(solver: Any) -> None:
    off = []
    for seed, (found, s, m, b) in enumerate(
        product((0.1, 0.5, 0.9), ((0.9, 8), (0.5, 3)), ((0.7, 3), (0.85, 6)), (1, 4, 12))
    ):
        scenario = case(found, s, m, t_sd=0.3, b=b, t_v=SLOPE)
        off.append(deviation(scenario, solver, *literal(found, s, m, 0.3, b, seed), rounds=1_500))
    deviations_are_chance(off)


@pytest.mark.parametrize("solver", ["closed", "mc", "des"])
def test_where_t_v_has_a_knee_each_round_pays_for_its_own_rows(solver: Any) -> None:
    off = []
    for seed, (found, looked_up, drafted, b) in enumerate(
        [(0.4, (0.9, 12), (0.7, 2), 4), (0.3, (0.8, 3), (0.7, 6), 12)]
    ):
        knee = ((1, 1.0), (7.0 * b, 1.0), (28.0 * b, 3.0))
        expected = literal(found, looked_up, drafted, 0.3, b, seed, knee)
        scenario = case(found, looked_up, drafted, t_sd=0.3, b=b, t_v=knee)
        off.append(deviation(scenario, solver, *expected, rounds=3_000))
    assert max(map(abs, off)) < 3.5


@pytest.mark.ranks
def test_on_a_real_rank_it_drafts_only_where_some_sequence_found_nothing(pair: Ranks) -> None:
    scenario = small("hybrid", hybrid_found=0.6, hybrid_lookup_k=4).scenarios["hybrid"]
    target, idle = run(pair, scenario)
    assert idle is None
    drafted = len(spans(target, "draft step")) / 3
    assert 0 < drafted < ROUNDS
    assert sum(len(spans(target, f"verify {rows} rows")) for rows in (8, 9, 10)) == ROUNDS
