"""Shares and tokens of rounds keep their bounds by rounding too: what reads them refuses a probability above 1."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ssdsim.base.record import replace
from ssdsim.question.configuration import configure
from ssdsim.rounds.kernel import Kernel, Mix
from ssdsim.tokens.priors import moved, share_of
from ssdsim.tokens.theory import critical_batch_size
from tests.refusals import refused

laws = settings(derandomize=True, deadline=None, max_examples=100)
parts = st.lists(st.floats(1e-6, 1.0), min_size=1, max_size=9)


def _kernel(hit: list[float], miss: list[float]) -> Kernel:
    """A kernel of which rows sum to 1 only by rounding."""
    total = sum(hit) + sum(miss)
    row = {"hit": np.array(hit) / total, "miss": np.array(miss) / total}
    return Kernel.by_state({"hit": row, "miss": row})


@laws
@given(parts, parts, parts, st.integers(1, 40))
def test_no_share_is_above_one(hit: list[float], miss: list[float], other: list[float], output_tokens: int) -> None:
    never = [0.0]
    width = max(len(hit), len(other))
    hit, other = (each + never * (width - len(each)) for each in (hit, other))
    kinds = replace(_kernel(hit, never), p=np.array([_kernel(each, never).p for each in (hit, other)]))
    mix = Mix(np.array([0.3, 0.7]), output_tokens, kinds)
    for averages in (_kernel(hit, miss).averages, _kernel(hit, never).averages, mix.averages):
        for shares in (averages.inside, averages.to):
            assert all(0.0 <= share <= 1.0 for share in shares.values())


@laws
@given(parts)
def test_a_round_yields_at_least_a_token(rest: list[float]) -> None:
    kernel = Kernel.of_tokens(np.array(rest) / sum(rest))
    assert kernel.expected_tokens >= 1.0
    assert Kernel.of_tokens(np.array([0.9999999999999998, 0.0])).expected_tokens == 1.0


@pytest.mark.parametrize("concentration", [0.5, 1.0, 2.0, 3.7, 8.0, 24.0])
def test_sure_hits_leave_no_time_for_a_fallback(concentration: float) -> None:
    options = {"p_hit": 1.0, "alpha": 0.7, "alpha_concentration": concentration, "t_sd": 0.2, "b": 3}
    estimate = configure(**options).scenarios["ssd"].estimate
    assert estimate.p_hit == 1.0
    assert estimate.p_all_hit == 1.0
    assert estimate.breakdown_s["fallback"] == 0.0


def test_a_number_just_out_of_its_range_is_shown_with_the_digits_that_put_it_there() -> None:
    with refused("e_miss", "0.9999999999999998"):
        critical_batch_size(0.5, 0.5, 2.0, 0.9999999999999998)


@pytest.mark.parametrize("by", [-1e6, -800.0, 0.0, 800.0, 1e6])
def test_a_rate_moved_beyond_all_odds_is_sure(by: float) -> None:
    for moved_by in (share_of(by), moved(0.5, by), float(moved(np.array([0.5]), by)[0])):
        assert 0.0 <= moved_by <= 1.0
        assert moved_by == pytest.approx(0.5 if by == 0.0 else float(by > 0.0))
