from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ssdsim.base.errors import InputError
from ssdsim.tokens.acceptance import (
    accepted_length_pmf,
    expected_tokens,
    expected_tokens_of_pmf,
    moved_to,
    pooled_rate,
    rate_of,
)
from tests.refusals import refused

laws = settings(derandomize=True, deadline=None, max_examples=200)
rates = st.floats(0, 1)
lookaheads = st.integers(0, 32)


@pytest.mark.long
@laws
@given(rates, lookaheads)
def test_expected_tokens_is_the_exact_sum_of_powers(alpha: float, k: int) -> None:
    exact = sum(Fraction(alpha) ** j for j in range(k + 1))
    assert expected_tokens(alpha, k) == pytest.approx(float(exact), rel=1e-14)


@laws
@given(st.floats(0, 1e-6), lookaheads)
def test_expected_tokens_is_accurate_next_to_one(gap: float, k: int) -> None:
    alpha = 1 - gap
    exact = sum(Fraction(alpha) ** j for j in range(k + 1))
    assert expected_tokens(alpha, k) == pytest.approx(float(exact), rel=1e-14)


@laws
@given(rates, lookaheads)
def test_expected_tokens_at_the_limits(alpha: float, k: int) -> None:
    assert expected_tokens(0, k) == 1
    assert expected_tokens(1, k) == k + 1
    assert expected_tokens(alpha, 0) == 1


@laws
@given(rates, rates, lookaheads)
def test_more_acceptance_or_lookahead_never_costs_tokens(alpha: float, other: float, k: int) -> None:
    low, high = sorted((alpha, other))
    assert expected_tokens(low, k) <= expected_tokens(high, k) * (1 + 1e-14)
    assert expected_tokens(alpha, k) <= expected_tokens(alpha, k + 1) * (1 + 1e-14)


@pytest.mark.parametrize("alpha", [0.0, 0.3, 0.8, 0.95, 1.0])
def test_the_rate_of_a_length_inverts_the_expected_tokens(alpha: float) -> None:
    assert rate_of(expected_tokens(alpha, 6), 6) == pytest.approx(alpha, abs=1e-9)


def test_a_length_that_no_rate_yields_has_the_nearest() -> None:
    assert (rate_of(0.9, 6), rate_of(7.1, 6)) == (0.0, 1.0)


@pytest.mark.parametrize(("alpha", "k", "tokens"), [(0.9, 5, 4.686), (0.7, 3, 2.533)])
def test_numbers_of_the_proposal(alpha: float, k: int, tokens: float) -> None:
    assert expected_tokens(alpha, k) == pytest.approx(tokens, abs=5e-4)


def test_expected_tokens_broadcasts_and_keeps_scalars() -> None:
    grid = expected_tokens(np.array([[0.0], [0.5], [1.0]]), np.array([0, 1, 2]))
    np.testing.assert_allclose(grid, np.array([[1, 1, 1], [1, 1.5, 1.75], [1, 2, 3]]))
    assert type(expected_tokens(0.5, 2)) is float


@laws
@given(rates, lookaheads)
def test_pmf_is_a_distribution_whose_mean_gives_the_expected_tokens(alpha: float, k: int) -> None:
    pmf = accepted_length_pmf(alpha, k)
    assert pmf.shape == (k + 1,)
    assert pmf.min() >= 0
    assert pmf.sum() == pytest.approx(1, abs=1e-14)
    assert expected_tokens_of_pmf(pmf) == pytest.approx(expected_tokens(alpha, k), rel=1e-13)


@laws
@given(st.lists(rates, min_size=1, max_size=16))
def test_pmf_of_rates_for_each_position(alphas: list[float]) -> None:
    pmf = accepted_length_pmf(alphas, len(alphas))
    assert pmf.sum() == pytest.approx(1, abs=1e-14)
    # P(at least j accepted) is the running product, and E is the sum of these
    assert expected_tokens_of_pmf(pmf) == pytest.approx(1 + np.cumprod(alphas).sum(), rel=1e-13)


@pytest.mark.long
@laws
@given(rates, st.integers(1, 16))
def test_equal_rates_are_one_rate(alpha: float, k: int) -> None:
    np.testing.assert_allclose(accepted_length_pmf([alpha] * k, k), accepted_length_pmf(alpha, k))


def test_a_pooled_rate_counts_tokens_that_are_looked_at() -> None:
    assert pooled_rate([0.6] * 5, 3) == pytest.approx(0.6)
    assert pooled_rate([0.5, 0.8, 0.1], 2) == pytest.approx((0.5 + 0.4) / (1 + 0.5))


@pytest.mark.long
@laws
@given(st.floats(0.01, 0.99), st.lists(st.floats(0.01, 0.99), min_size=3, max_size=8))
def test_rates_moved_to_a_pooled_rate_have_it_and_one_factor_on_their_odds(pooled: float, known: list[float]) -> None:
    moved = moved_to(pooled, known, 3)
    assert pooled_rate(moved, 3) == pytest.approx(pooled)
    factors = moved / (1 - moved) * (1 - np.array(known)) / np.array(known)
    np.testing.assert_allclose(factors, factors[0], rtol=1e-6)
    np.testing.assert_array_equal(moved_to(0.0, known, 3), 0.0)
    np.testing.assert_array_equal(moved_to(1.0, known, 3), 1.0)


@pytest.mark.parametrize("alpha", [1.2, -0.1, np.nan, [0.5, 2.0]])
def test_bad_rates_are_refused(alpha: float) -> None:
    with pytest.raises(InputError, match=r"alpha must lie in \[0, 1\], got"):
        expected_tokens(alpha, 2)
    with pytest.raises(InputError, match=r"alpha must lie in \[0, 1\], got"):
        accepted_length_pmf(alpha, 2)


def test_bad_lookaheads_and_distributions_are_refused() -> None:
    with refused("k"):
        expected_tokens(0.5, -1)
    with refused("k"):
        accepted_length_pmf(0.5, 2.5)  # type: ignore[arg-type]
    with refused("alpha", "k = 3"):
        accepted_length_pmf([0.5, 0.5], 3)
    with refused("pmf", "0.9"):
        expected_tokens_of_pmf([0.5, 0.4])
    with refused("alpha"):
        expected_tokens([], 1)
    with pytest.raises(InputError, match="got one number"):
        expected_tokens_of_pmf(1.0)
