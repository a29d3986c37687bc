from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from ssdsim.base.errors import InputError
from ssdsim.tokens.sampling import residual, saguaro_distribution
from tests.refusals import refused
from tests.ssdsim.tokens.rejection import acceptance_rate, residual_hit_rate

laws = settings(derandomize=True, deadline=None, max_examples=100)

TARGET = np.array([0.48, 0.48, 0.02, 0.02])
DRAFT = np.array([0.49, 0.49, 0.01, 0.01])


def logits_of(size: int) -> st.SearchStrategy[NDArray[np.float64]]:
    return st.lists(st.floats(-8, 8), min_size=size, max_size=size).map(np.array)


pairs = st.integers(2, 8).flatmap(lambda size: st.tuples(logits_of(size), logits_of(size)))
fan_outs = st.integers(0, 9)
constants = st.floats(0.001, 1)


def softmax(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    return saguaro_distribution(logits, 0, 1.0)


def test_theorem_19_construction() -> None:
    biased = saguaro_distribution(np.log(DRAFT), 2, 47 / 147)
    np.testing.assert_allclose(biased, [0.47, 0.47, 0.03, 0.03])
    assert acceptance_rate(TARGET, DRAFT) == pytest.approx(0.98)
    assert acceptance_rate(TARGET, biased) == pytest.approx(0.98)
    np.testing.assert_allclose(residual(TARGET, DRAFT), [0, 0, 0.5, 0.5])
    np.testing.assert_allclose(residual(TARGET, biased), [0.5, 0.5, 0, 0], atol=1e-15)
    assert residual_hit_rate(TARGET, DRAFT, 2, DRAFT) == pytest.approx(0.5)
    assert residual_hit_rate(TARGET, biased, 2, DRAFT) == pytest.approx(1.0)


@laws
@given(pairs, fan_outs, constants)
def test_saguaro_scales_the_top_tokens_and_keeps_the_others_in_proportion(
    pair: tuple[NDArray[np.float64], ...], fan_out: int, c: float
) -> None:
    logits, _ = pair
    biased = saguaro_distribution(logits, fan_out, c)
    assert biased.sum() == pytest.approx(1)
    factor = np.full(logits.size, 1.0)
    factor[np.argsort(-logits, kind="stable")[:fan_out]] = c
    expected = factor * np.exp(logits)
    np.testing.assert_allclose(biased, expected / expected.sum(), rtol=1e-9)


@laws
@given(pairs, fan_outs)
def test_c_of_one_is_softmax(pair: tuple[NDArray[np.float64], ...], fan_out: int) -> None:
    np.testing.assert_array_equal(saguaro_distribution(pair[0], fan_out, 1.0), softmax(pair[0]))


@pytest.mark.long
@laws
@given(pairs, fan_outs, constants, constants)
def test_theorem_15_residual_mass_on_the_top_tokens_rises_as_c_falls(
    pair: tuple[NDArray[np.float64], ...], fan_out: int, c: float, other: float
) -> None:
    target, logits = softmax(pair[0]), pair[1]
    top = np.argsort(-logits, kind="stable")[:fan_out]
    low, high = sorted((c, other))
    at_low, at_high = (saguaro_distribution(logits, fan_out, value) for value in (low, high))
    assume(acceptance_rate(target, at_high) < 1 - 1e-6)  # else the residual is made of rounding
    assume(acceptance_rate(target, at_low) < 1 - 1e-6)
    assert residual(target, at_low)[top].sum() >= residual(target, at_high)[top].sum() - 1e-9


def test_theorem_15_is_not_about_the_cache_without_the_rejected_token() -> None:
    target, draft = np.array([0.4, 0.2, 0.4]), np.array([0.2, 0.2, 0.6])
    biased = saguaro_distribution(np.log(draft), 1, 0.5)
    # unbiased, only token 2 is ever rejected, which leaves token 0, the whole residual, in the cache
    assert residual_hit_rate(target, draft, 1, draft) == pytest.approx(1)
    # biased, token 1 is rejected three times in four, which leaves token 2
    assert residual_hit_rate(target, biased, 1, draft) == pytest.approx(0.25)


@laws
@given(pairs)
def test_acceptance_is_one_minus_half_the_l1_distance(pair: tuple[NDArray[np.float64], ...]) -> None:
    target, draft = map(softmax, pair)
    alpha = acceptance_rate(target, draft)
    assert type(alpha) is float
    assert alpha == pytest.approx(1 - np.abs(target - draft).sum() / 2)
    assert alpha == pytest.approx(acceptance_rate(draft, target))


@laws
@given(pairs)
def test_verification_yields_the_target_distribution(pair: tuple[NDArray[np.float64], ...]) -> None:
    target, draft = map(softmax, pair)
    accepted = np.minimum(target, draft)
    np.testing.assert_allclose(accepted + (1 - accepted.sum()) * residual(target, draft), target, atol=1e-12)


def _hit_rate_by_enumeration(
    target: NDArray[np.float64], draft: NDArray[np.float64], fan_out: int, scores: NDArray[np.float64]
) -> float:
    """Every rejected token in turn, with the cache that it leaves."""
    bonus, rejected = residual(target, draft), residual(draft, target)
    ranked = np.argsort(-scores, kind="stable")
    return float(sum(rejected[t] * bonus[ranked[ranked != t][:fan_out]].sum() for t in range(target.size)))


@pytest.mark.long
@laws
@given(pairs, fan_outs, constants)
def test_residual_hit_rate_by_enumeration(pair: tuple[NDArray[np.float64], ...], fan_out: int, c: float) -> None:
    target, logits = softmax(pair[0]), pair[1]
    draft = saguaro_distribution(logits, fan_out, c)
    assume(acceptance_rate(target, draft) < 1 - 1e-6)  # else the residual is made of rounding
    expected = _hit_rate_by_enumeration(target, draft, fan_out, logits)
    assert residual_hit_rate(target, draft, fan_out, logits) == pytest.approx(expected, abs=1e-9)


@laws
@given(pairs)
def test_residual_hit_rate_rises_with_the_fan_out(pair: tuple[NDArray[np.float64], ...]) -> None:
    target, logits = softmax(pair[0]), pair[1]
    draft = softmax(logits)
    hits = [residual_hit_rate(target, draft, fan_out, logits) for fan_out in range(target.size + 2)]
    assert np.all(np.diff(hits) >= -1e-12)
    assert hits[-1] == pytest.approx(1)


def test_equal_distributions_reject_nothing() -> None:
    assert not residual(TARGET, TARGET).any()
    assert residual_hit_rate(TARGET, TARGET, 1, TARGET) == 1.0
    assert acceptance_rate(TARGET, TARGET) == pytest.approx(1.0)


def test_leading_axes_are_independent_cases() -> None:
    rng = np.random.default_rng(0)
    target, logits = softmax(rng.normal(size=(3, 5, 16))), rng.normal(size=(3, 5, 16))
    draft = saguaro_distribution(logits, 4, 0.3)
    hits = residual_hit_rate(target, draft, 4, logits)
    assert hits.shape == acceptance_rate(target, draft).shape == (3, 5)
    assert hits[1, 2] == pytest.approx(residual_hit_rate(target[1, 2], draft[1, 2], 4, logits[1, 2]))


def test_bad_input_is_refused() -> None:
    with refused("c", "1.5"):
        saguaro_distribution(TARGET, 2, 1.5)
    with refused("fan_out", "-1"):
        saguaro_distribution(TARGET, -1, 0.5)
    with pytest.raises(InputError, match="leaves no token to sample"):
        saguaro_distribution(TARGET, 4, 0.0)
    with refused("p_draft", "0.96"):
        acceptance_rate(TARGET, [0.48, 0.48, 0.0, 0.0])
