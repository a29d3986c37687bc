"""What nobody gave stands at the median of what is drawn, so that a headline is in the middle of its own draws."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ssdsim.question.configuration import configure
from ssdsim.question.many import RateDraws
from ssdsim.question.token_errors import between
from ssdsim.question.token_inputs import TokenInput

RATES = st.floats(0.0, 1.0)


@given(RATES, RATES, RATES)
def test_half_of_the_draws_lie_on_each_side_of_the_value(first: float, second: float, third: float) -> None:
    low, value, high = sorted((first, second, third))
    each = TokenInput("alpha", value, "placeholder", "a default", (low, high))
    places = np.linspace(0.0, 1.0, 41)
    drawn = between(each, places)
    assert drawn[[0, 20, 40]] == pytest.approx([low, value, high], abs=1e-12)
    assert np.all(np.diff(drawn) >= -1e-12)


@given(
    where=st.sampled_from(
        [
            {"target": "llama-3.1-70b", "hardware": "h100-sxm", "tp": 4},
            {"target": "qwen3-32b", "hardware": "b200-sxm", "tp": 2},
            {"target": "llama-3.1-8b", "hardware": "a100-sxm", "tp": 1},
        ]
    ),
    batch=st.sampled_from([1, 8, 32, 128]),
    k=st.integers(1, 12),
    f=st.integers(1, 8),
)
@settings(max_examples=12, deadline=None)
def test_a_scenario_s_speed_is_in_the_middle_of_its_draws(where: dict[str, Any], batch: int, k: int, f: int) -> None:
    """It stood at the 73rd to 86th percentile. Timings' errors and the skew of three inputs leave a few points.

    Of all 1,152 settings: 49 to 58 % (SD) and 48 to 60 % (SSD) of the draws are slower; the most at short lookaheads.
    """
    configuration = configure(**where, b=batch, k=k, f=f, strategies="sd,ssd")
    errors = configuration.errors(1000, 0)
    assert errors is not None
    for name, most in (("sd", 0.60), ("ssd", 0.62)):
        scenario = configuration.scenarios[name]
        joint = RateDraws.of(scenario, errors).joint
        assert 0.45 <= np.mean(joint < scenario.estimate.tokens_per_second) <= most
