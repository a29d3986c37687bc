from __future__ import annotations

import cProfile
import itertools

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ssdsim.tokens.acceptance import expected_tokens
from ssdsim.tokens.theory import (
    Round,
    sandwich_bounds,
    sd_speedup,
    ssd_round,
    ssd_speedup,
    stationary_hit_rate,
)
from tests.refusals import refused

laws = settings(derandomize=True, deadline=None, max_examples=200)
rates = st.floats(0, 1)
lookaheads = st.integers(0, 16)
times = st.floats(0, 3)
short_times = st.floats(0, 1)
batches = st.integers(1, 256)
EXACT = 1e-12


@pytest.mark.parametrize(
    ("alpha", "k", "t_sd", "speedup"), [(0.9, 5, 0.1, 4.26), (0.9, 5, 0.3, 3.60), (0.7, 3, 0.3, 1.95)]
)
def test_sd_numbers_of_the_proposal(alpha: float, k: int, t_sd: float, speedup: float) -> None:
    assert sd_speedup(alpha, k, t_sd) == pytest.approx(speedup, abs=5e-3)


def test_batch_numbers_of_the_proposal() -> None:
    p_all_hit = 2 - ssd_round(0.85, 1, 1, 16)
    assert p_all_hit == pytest.approx(0.074, abs=5e-4)

    def ssd_over_sd(b: int) -> float:
        tokens, t_sd = expected_tokens(0.9, 5), 0.3
        return float(ssd_speedup(0.85, tokens, tokens, 1, t_sd, b) / sd_speedup(0.9, 5, t_sd))

    assert 1.15 <= ssd_over_sd(1) <= 1.25
    assert ssd_over_sd(16) == pytest.approx(1, abs=0.02)


@laws
@given(rates, lookaheads, times, rates)
def test_corollary_8_ssd_is_no_slower_than_sd_with_the_same_speculator(
    alpha: float, k: int, t_sd: float, p: float
) -> None:
    tokens = expected_tokens(alpha, k)
    ratio = ssd_speedup(p, tokens, tokens, t_sd, t_sd) / sd_speedup(alpha, k, t_sd)
    assert ratio >= 1 - EXACT
    if p > 1e-6 and t_sd > 1e-6:
        assert ratio > 1


@laws
@given(rates, lookaheads, short_times, rates, batches)
def test_corollary_8_holds_for_a_batch_and_for_the_event_round_while_drafting_fits(
    alpha: float, k: int, t_sd: float, p: float, b: int
) -> None:
    tokens = expected_tokens(alpha, k)
    assert ssd_speedup(p, tokens, tokens, t_sd, t_sd, b, "event") >= sd_speedup(alpha, k, t_sd) * (1 - EXACT)


def test_corollary_8_fails_for_the_event_round_when_drafting_is_late_and_misses() -> None:
    assert ssd_speedup(0, 3, 3, 2, 2, round="event") < 3 / (1 + 2)


@laws
@given(rates, rates, lookaheads, times, short_times, rates)
def test_corollary_9_sandwich(alpha: float, alpha_b: float, k: int, t_sd: float, t_p: float, p: float) -> None:
    assume(alpha_b <= alpha)
    e_hit, e_miss = expected_tokens(alpha, k), expected_tokens(alpha_b, k)
    ratio = ssd_speedup(p, e_hit, e_miss, t_p, 0) / sd_speedup(alpha, k, t_sd)
    low, high = sandwich_bounds(p, e_hit, e_hit, t_sd)
    assert low * (1 - EXACT) <= ratio <= high * (1 + EXACT)


@laws
@given(rates, lookaheads, times, short_times, batches)
def test_a_perfect_cache_hides_all_drafting(alpha: float, k: int, t_sd: float, t_p: float, b: int) -> None:
    tokens = expected_tokens(alpha, k)
    ratio = ssd_speedup(1, tokens, tokens, t_p, t_sd, b) / sd_speedup(alpha, k, t_sd)
    assert ratio == pytest.approx(1 + t_sd, rel=EXACT)


@laws
@given(rates, lookaheads, short_times, short_times, batches)
def test_no_hits_with_just_in_time_fallback_is_sd(alpha: float, k: int, t_sd: float, t_p: float, b: int) -> None:
    tokens = expected_tokens(alpha, k)
    assert ssd_speedup(0, tokens, tokens, t_p, t_sd, b) == pytest.approx(sd_speedup(alpha, k, t_sd), rel=EXACT)


@laws
@given(rates, rates)
def test_stationary_hit_rate_is_the_fixed_point_of_the_chain(primary: float, backup: float) -> None:
    p = stationary_hit_rate(primary, backup)
    assert 0 <= p <= 1
    assert p * primary + (1 - p) * backup == pytest.approx(p, abs=1e-15)


@laws
@given(st.floats(0.02, 0.98), st.floats(0.02, 0.98))
def test_stationary_hit_rate_is_where_the_recurrence_ends(primary: float, backup: float) -> None:
    p = primary
    for _ in range(2000):
        p = p * primary + (1 - p) * backup
    assert stationary_hit_rate(primary, backup) == pytest.approx(p, rel=1e-12)


@laws
@given(rates)
def test_stationary_hit_rate_limits(p: float) -> None:
    assert stationary_hit_rate(1, 0) == 1  # starts in the primary and stays
    assert stationary_hit_rate(p, p) == pytest.approx(p, abs=1e-15)
    assert stationary_hit_rate(1, 0.5) == 1
    assert stationary_hit_rate(0.5, 0) == 0
    assert stationary_hit_rate(0, 1) == 0.5
    assert stationary_hit_rate(np.nextafter(1, 0), 0) == 0
    np.testing.assert_allclose(stationary_hit_rate(np.array([1.0, 0.5]), 0.0), [1, 0])


@laws
@given(rates, times, times, batches, batches)
def test_rounds_of_a_larger_batch_are_no_shorter(p: float, t_p: float, t_b: float, b: int, other: int) -> None:
    small, large = sorted((b, other))
    assert ssd_round(p, t_p, t_b, small, "event") <= ssd_round(p, t_p, t_b, large, "event") * (1 + EXACT)
    if t_p <= 1 + t_b:  # else the paper's round is shorter after a miss than after a hit
        assert ssd_round(p, t_p, t_b, small) <= ssd_round(p, t_p, t_b, large) * (1 + EXACT)


@laws
@given(rates, short_times, times, batches)
def test_rounds_agree_while_drafting_fits(p: float, t_p: float, t_b: float, b: int) -> None:
    assert ssd_round(p, t_p, t_b, b, "event") == pytest.approx(ssd_round(p, t_p, t_b, b, "paper"), rel=EXACT)


@laws
@given(rates, st.floats(1, 4), times, batches)
def test_a_late_draft_makes_the_event_round_longer(p: float, t_p: float, t_b: float, b: int) -> None:
    difference = ssd_round(p, t_p, t_b, b, "event") - ssd_round(p, t_p, t_b, b, "paper")
    assert difference == pytest.approx((1 - p**b) * (t_p - 1), abs=1e-12)


@pytest.mark.long
@laws
@given(rates, st.floats(1, 17), st.floats(1, 17), times, times)
def test_a_huge_batch_always_pays_the_fallback(p: float, e_hit: float, e_miss: float, t_p: float, t_b: float) -> None:
    assume(p < 0.99)
    limit = (p * e_hit + (1 - p) * e_miss) / (1 + t_b)
    assert ssd_speedup(p, e_hit, e_miss, t_p, t_b, 10**5) == pytest.approx(limit, rel=1e-9)


@pytest.mark.parametrize("round", ["paper", "event"])
def test_a_grid_of_open_axes_equals_the_scalars(round: Round) -> None:
    axes = ([0.0, 0.6, 1.0], [1.0, 5.0], [0.0, 0.7, 1.0], [1.0, 16.0])
    alphas, ks, ps, bs = np.ix_(*axes)
    sds = np.broadcast_to(sd_speedup(alphas, ks, 0.3), (3, 2, 3, 2))
    ssds = np.asarray(ssd_speedup(ps, expected_tokens(alphas, ks), expected_tokens(0.2, ks), 1.2, 0.4, bs, round))
    assert ssds.shape == sds.shape
    for index, (alpha, k, p, b) in zip(np.ndindex(3, 2, 3, 2), itertools.product(*axes), strict=True):
        ssd = ssd_speedup(p, expected_tokens(alpha, k), expected_tokens(0.2, k), 1.2, 0.4, b, round)
        assert ssds[index] == pytest.approx(ssd, rel=EXACT)
        assert sds[index] == pytest.approx(sd_speedup(alpha, k, 0.3), rel=EXACT)


def test_a_million_configurations_take_as_many_calls_as_sixteen() -> None:
    def calls(points: int, lookaheads: int, batches: int) -> tuple[int, int]:
        rates = np.linspace(0, 1, points)
        alpha, k, p, b = np.ix_(rates, np.arange(1, lookaheads + 1), rates, np.arange(1, batches + 1))
        with cProfile.Profile() as profile:
            ssd = ssd_speedup(p, expected_tokens(alpha, k), expected_tokens(0.0, k), 1.0, 0.0, b)
            grid = np.asarray(ssd / sd_speedup(alpha, k, 0.05 * k))
        return grid.size, sum(entry.callcount for entry in profile.getstats())

    calls(2, 2, 2)  # what the first call loads
    (size, few), (million, many) = calls(2, 2, 2), calls(50, 16, 25)
    assert (size, million) == (16, 1_000_000)
    assert many == few


def test_scalars_stay_scalars() -> None:
    assert type(sd_speedup(0.9, 5, 0.1)) is float
    assert type(stationary_hit_rate(0.9, 0.5)) is float
    assert type(ssd_speedup(0.9, 4, 1, 1, 0, 2)) is float


def test_bad_input_is_refused() -> None:
    with refused("p_hit", "-0.2"):
        ssd_speedup(-0.2, 4, 1, 1, 0)
    with refused("b", "0"):
        ssd_round(0.5, 1, 0, 0)
    with refused("round", "paper", "event", "other"):
        ssd_round(0.5, 1, 0, 1, "other")  # type: ignore[arg-type]
    with refused("t_sd", "nan"):
        sd_speedup(0.5, 2, float("nan"))
    with refused("p_hit_backup", "2"):
        stationary_hit_rate(0.5, 2)
