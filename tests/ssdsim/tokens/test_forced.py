"""Acceptance that engines are told to draw."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssdsim import InputError, predict, recommend
from ssdsim.tokens.accepted import forced_pmf


@given(k=st.integers(1, 12), share=st.floats(0.0, 1.0))
def test_two_values_have_the_mean_that_is_asked_for(k: int, share: float) -> None:
    tokens = 1.0 + share * k
    pmf = forced_pmf(f"synthetic:{tokens!r}", k)
    assert pmf.sum() == pytest.approx(1.0)
    assert np.arange(1, k + 2) @ pmf == pytest.approx(tokens)
    assert np.count_nonzero(pmf > 1e-12) <= 2


# tokens asked for, K, mean of a rounded normal: worked out apart from this code
ROUNDED = [(3, 3, 2.9332), (3.3, 3, 3.1730), (1.84, 1, 1.6331), (2.5, 3, 2.5), (3.61, 5, 3.6090), (3.73, 7, 3.7306)]


@pytest.mark.parametrize(("tokens", "k", "mean"), ROUNDED)
def test_a_rounded_normal_has_another_mean(tokens: float, k: int, mean: float) -> None:
    pmf = forced_pmf(f"multinomial:{tokens}", k)
    assert np.all(pmf >= 0.0)
    assert np.arange(1, k + 2) @ pmf == pytest.approx(mean, abs=5e-5)


def test_limits() -> None:
    assert forced_pmf("synthetic:1", 3).tolist() == [1.0, 0.0, 0.0, 0.0]
    assert forced_pmf("synthetic:4", 3).tolist() == [0.0, 0.0, 0.0, 1.0]


def test_rounds_yield_what_is_forced() -> None:
    prediction = predict(strategies="sd", k=4, acceptance="synthetic:3.3")
    assert float(prediction.estimates["sd"].tokens_per_round) == pytest.approx(3.3)
    assert recommend(gpus=4, b=1, strategies="ar,sd", subject="sd", k=[4], acceptance="synthetic:3.3").answers


def test_what_an_engine_is_told_to_draw_is_given() -> None:
    """It was called published: as if a text had said so."""
    (acceptance,) = predict(strategies="sd", k=4, acceptance="synthetic:3.3").configuration.inputs
    assert (acceptance.value, acceptance.standing, acceptance.rests_on) == ("synthetic:3.3", "given", "given")


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ("synthetic:9", "a round of 4 drafted tokens yields 1 to 5 tokens"),
        ("synthetic:x", "'x' is no number of tokens a round"),
        ("synthetic:nan", "yields 1 to 5 tokens"),
    ],
)
def test_what_no_round_yields_is_refused(asked: str, message: str) -> None:
    options: dict[str, Any] = {"strategies": "sd", "k": 4, "acceptance": asked}
    with pytest.raises(InputError, match=message):
        predict(**options)
