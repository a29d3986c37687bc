from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ssdsim.base.errors import InputError
from ssdsim.tokens.acceptance import accepted_length_pmf
from ssdsim.tokens.hit_models import (
    POLICIES,
    HitCurve,
    MeasuredHits,
    PowerLawHits,
    fan_out,
    geometric_fan_out,
    geometric_fan_out_real,
    hit_rate,
    optimal_fan_out,
    uniform_fan_out,
)
from tests.refusals import refused

laws = settings(derandomize=True, deadline=None, max_examples=200)
few = settings(derandomize=True, deadline=None, max_examples=60)

rates = st.floats(0, 1)
lookaheads = st.integers(0, 16)
budgets = st.integers(0, 200)
exponents = st.floats(0, 4)
power_laws = st.builds(PowerLawHits, r=exponents, c=rates)
measured = st.lists(rates, min_size=1, max_size=5).map(
    lambda hits: MeasuredHits(tuple(range(1, len(hits) + 1)), tuple(sorted(hits)))
)
ROUNDING = 1e-12  # of a sum of at most 17 products: no allocation of guesses hides in it


@laws
@given(power_laws | measured)
def test_curves_start_at_zero_rise_and_stay_probabilities(h: HitCurve) -> None:
    hits = h(np.arange(100))
    assert hits[0] == 0
    assert hits.min() >= 0
    assert hits.max() <= 1
    assert np.all(np.diff(hits) >= 0)


def test_the_paper_power_law_and_its_prefactor() -> None:
    np.testing.assert_allclose(PowerLawHits(r=1)([0, 1, 2, 4]), [0, 0, 0.5, 0.75])
    np.testing.assert_allclose(PowerLawHits(r=1, c=0.5)([0, 1, 2, 4]), [0, 0.5, 0.75, 0.875])


def test_measured_curve_passes_through_its_points_and_does_not_extrapolate() -> None:
    h = MeasuredHits((2, 4), (0.5, 0.7))
    np.testing.assert_allclose(h([0, 1, 2, 3, 4, 100]), [0, 0.25, 0.5, 0.6, 0.7, 0.7])


@pytest.mark.parametrize(
    ("fan_outs", "hits", "message"),
    [
        ((1, 2), (0.5, 0.4), "rates must not decrease"),
        ((2, 1), (0.4, 0.5), "fan_outs must increase"),
        ((0, 1), (0.0, 0.5), "fan_outs must be finite and at least 1, got 0"),
        ((1, 2), (0.5, 1.4), r"rates must lie in \[0, 1\], got 1.4"),
        ((1, 2), (0.5,), "one length"),
    ],
)
def test_bad_measurements_are_refused(fan_outs: tuple[float], hits: tuple[float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        MeasuredHits(fan_outs, hits)


@laws
@given(st.sampled_from(POLICIES), budgets, lookaheads, rates, power_laws)
@example("geometric", 10, 4, 0.0, PowerLawHits(r=0.0))
@example("geometric", 10, 4, 1.0, PowerLawHits(r=0.0))
@example("geometric", 10, 4, 5e-324, PowerLawHits(r=0.0))
@example("optimal", 10, 4, 1.0, PowerLawHits(r=0.0, c=0.0))
def test_every_policy_spends_the_budget(policy: str, budget: int, k: int, alpha: float, h: PowerLawHits) -> None:
    fan_outs = fan_out(policy, budget, k, alpha, h)
    assert fan_outs.shape == (k + 1,)
    assert fan_outs.dtype == np.int64
    assert fan_outs.min() >= 0
    assert fan_outs.sum() == budget


@laws
@given(budgets, lookaheads, rates, power_laws, st.none() | power_laws)
@example(8, 7, 0.5, PowerLawHits(r=0.5, c=0.0), None)  # Theorem 12 starves outcomes that one guess serves
@example(20, 3, 0.5, PowerLawHits(r=0.5, c=1.0), None)  # the first guess gains nothing
def test_optimal_beats_geometric_beats_uniform(
    budget: int, k: int, alpha: float, h: PowerLawHits, h_all: PowerLawHits | None
) -> None:
    pmf = accepted_length_pmf(alpha, k)
    uniform, geometric, optimal = (
        hit_rate(fan_out(policy, budget, k, alpha, h, h_all), pmf, h, h_all) for policy in POLICIES
    )
    assert geometric >= uniform
    assert optimal >= geometric - ROUNDING
    assert optimal <= 1 + ROUNDING


def test_whole_geometric_fan_outs_read_c_and_give_way_to_uniform() -> None:
    """As docs/theory.md says; the theorem's real numbers know no c."""
    by_c = [fan_out("geometric", 3, 3, 0.8, PowerLawHits(r=0.7, c=c)).tolist() for c in (0.2, 0.9)]
    assert by_c == [[1, 1, 0, 1], [1, 0, 0, 2]]
    h = PowerLawHits(r=0.5, c=0.0)
    assert fan_out("geometric", 8, 7, 0.5, h).tolist() == uniform_fan_out(8, 7).tolist()


@pytest.mark.long
@laws
@given(st.lists(rates, min_size=1, max_size=8), budgets, power_laws)
def test_the_order_of_policies_holds_with_a_rate_for_each_position(
    alphas: list[float], budget: int, h: PowerLawHits
) -> None:
    pmf = accepted_length_pmf(alphas, len(alphas))
    uniform, geometric, optimal = (
        hit_rate(fan_out(policy, budget, len(alphas), alphas, h), pmf, h) for policy in POLICIES
    )
    assert optimal + ROUNDING >= geometric >= uniform


def _splits(budget: int, parts: int) -> list[tuple[int, ...]]:
    every = itertools.product(range(budget + 1), repeat=parts)
    return [split for split in every if sum(split) == budget]


@few
@given(st.integers(0, 7), st.integers(0, 3), rates, power_laws | measured, st.none() | power_laws | measured)
def test_optimal_is_the_best_of_all_splits(
    budget: int, k: int, alpha: float, h: HitCurve, h_all: HitCurve | None
) -> None:
    pmf = accepted_length_pmf(alpha, k)
    best = max(hit_rate(split, pmf, h, h_all) for split in _splits(budget, k + 1))
    assert hit_rate(optimal_fan_out(budget, pmf, h, h_all), pmf, h, h_all) == pytest.approx(best, abs=ROUNDING)


@pytest.mark.long
@laws
@given(
    st.floats(0.001, 0.999),
    lookaheads,
    st.floats(0.001, 4),
    st.lists(st.floats(0.01, 1), min_size=17, max_size=17),
)
def test_theorem_12_beats_every_real_split_under_the_unclipped_law(
    alpha: float, k: int, r: float, parts: list[float]
) -> None:
    pmf = accepted_length_pmf(alpha, k)
    share = np.array(parts[: k + 1])

    def miss_rate(fan_outs: np.ndarray) -> float:
        return float(pmf @ fan_outs**-r)

    optimum = miss_rate(geometric_fan_out_real(64, k, alpha, r))
    assert optimum <= miss_rate(np.full(k + 1, 64 / (k + 1))) * (1 + ROUNDING)
    assert optimum <= miss_rate(64 * share / share.sum()) * (1 + ROUNDING)


@laws
@given(st.floats(0.01, 0.99), lookaheads, exponents)
def test_theorem_12_closed_form(alpha: float, k: int, r: float) -> None:
    step = alpha ** (1 / (1 + r))
    last = step**k * (1 - alpha) ** (-1 / (1 + r))
    f_0 = 100 / (last + (1 - step**k) / (1 - step))
    expected = np.append(f_0 * step ** np.arange(k), f_0 * last)
    np.testing.assert_allclose(geometric_fan_out_real(100, k, alpha, r), expected, rtol=1e-9)


@laws
@given(st.floats(0, 1e3), lookaheads, rates, exponents)
def test_theorem_12_is_finite_and_spends_the_budget(budget: float, k: int, alpha: float, r: float) -> None:
    real = geometric_fan_out_real(budget, k, alpha, r)
    assert np.all(np.isfinite(real))
    assert real.sum() == pytest.approx(budget, rel=1e-12)


def test_theorem_12_limits() -> None:
    np.testing.assert_allclose(geometric_fan_out_real(10, 3, 0.0, 0.5), [10, 0, 0, 0])
    np.testing.assert_allclose(geometric_fan_out_real(10, 3, 1.0, 0.5), [0, 0, 0, 10])
    np.testing.assert_allclose(geometric_fan_out_real(8, 3, 0.5, 0.0), [4, 2, 1, 1])  # r -> 0: as the outcomes


@laws
@given(budgets, lookaheads, st.floats(0.01, 0.99), st.floats(0.01, 4))
def test_geometric_rounds_theorem_12_or_is_uniform(budget: int, k: int, alpha: float, r: float) -> None:
    geometric = geometric_fan_out(budget, k, alpha, r)
    off = np.abs(geometric - geometric_fan_out_real(budget, k, alpha, r)).max()
    assert off < 1 + 1e-9 or np.array_equal(geometric, uniform_fan_out(budget, k))


def test_geometric_is_uniform_where_its_rounding_would_lose() -> None:
    # Theorem 12: 1.93 1.90 1.88 1.85 1.83 1.80 1.78 3.05. Its best rounding, 2 2 2 2 2 2 1 3, loses to 2
    # everywhere: the step from 2 guesses to 1 costs far more than the theorem's tangent says.
    assert geometric_fan_out(16, 7, 0.9355, 3.966).tolist() == [2] * 8
    # One guess that always hits: the theorem gives the last outcomes of low probability none.
    assert geometric_fan_out(8, 7, 0.5, 0.5, PowerLawHits(r=0.5, c=0.0)).tolist() == [1] * 8


def test_uniform_gives_the_remainder_to_the_first_outcomes() -> None:
    assert uniform_fan_out(10, 3).tolist() == [3, 3, 2, 2]


def test_equal_gains_are_spread() -> None:
    h = PowerLawHits(r=1.0, c=0.0)  # one guess always hits, the others gain nothing
    assert optimal_fan_out(9, [0.25] * 4, h).tolist() == [3, 2, 2, 2]


def test_hit_rate_uses_its_own_curve_for_all_accepted() -> None:
    h, h_all = PowerLawHits(r=1.0, c=0.5), PowerLawHits(r=1.0, c=0.2)
    assert hit_rate([1, 2], [0.4, 0.6], h, h_all) == pytest.approx(0.4 * 0.5 + 0.6 * 0.9)
    assert hit_rate([1, 2], [0.4, 0.6], h) == pytest.approx(0.4 * 0.5 + 0.6 * 0.75)


def test_large_budget_is_optimal_under_the_paper_law() -> None:
    h = PowerLawHits(r=0.7)
    pmf = accepted_length_pmf(0.8, 16)
    optimal = hit_rate(optimal_fan_out(1000, pmf, h), pmf, h)
    real = 1 - float(pmf @ geometric_fan_out_real(1000, 16, 0.8, 0.7) ** -0.7)
    assert optimal <= real  # whole guesses cannot beat real ones
    assert optimal == pytest.approx(real, abs=1e-4)


def test_bad_input_is_refused() -> None:
    h = PowerLawHits(r=0.5)
    with refused("geometrical", "geometric"):
        fan_out("geometrical", 8, 3, 0.8, h)
    with pytest.raises(InputError, match="needs a power-law"):
        fan_out("geometric", 8, 3, 0.8, MeasuredHits((1.0,), (0.5,)))
    with refused("budget", "-1"):
        uniform_fan_out(-1, 3)
    with refused("r", "-1"):
        PowerLawHits(r=-1)
    with refused("c", "2"):
        PowerLawHits(r=1, c=2)
    with pytest.raises(InputError, match="one entry an outcome"):
        hit_rate([1, 2, 3], [0.5, 0.5], h)
