from __future__ import annotations

import math

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ssdsim.tokens.theory import critical_batch_size, crossing_batch_size, ssd_speedup
from tests.refusals import refused

laws = settings(derandomize=True, deadline=None, max_examples=200)
hits = st.floats(0.01, 0.999)
times = st.floats(0.01, 3)
tokens = st.floats(1, 17)


def _slow(p: float, t_p: float, e_hit: float, b: float) -> float:
    return float(ssd_speedup(p, e_hit, e_hit, t_p, t_p, b, "event"))


def _fast(p: float, t_p: float, e_hit: float, e_miss: float, b: float) -> float:
    return float(ssd_speedup(p, e_hit, e_miss, t_p, 0, b, "event"))


@pytest.mark.long
@laws
@given(hits, times, tokens, tokens)
def test_critical_batch_size_is_where_the_speedups_cross(p: float, t_p: float, e_hit: float, e_miss: float) -> None:
    critical = critical_batch_size(p, t_p, e_hit, e_miss)
    for b in (1.0, 1.5, 2.0, 8.0, 64.0, 1e3, 1e5):
        slow, fast = _slow(p, t_p, e_hit, b), _fast(p, t_p, e_hit, e_miss, b)
        if b < critical:
            assert slow >= fast * (1 - 1e-9)
        else:
            assert fast >= slow * (1 - 1e-9)
    if 1 <= critical < math.inf:
        assert _slow(p, t_p, e_hit, critical) == pytest.approx(_fast(p, t_p, e_hit, e_miss, critical), rel=1e-9)


@pytest.mark.long
@laws
@given(hits, st.floats(0.01, 1), tokens, tokens)
def test_critical_batch_size_is_the_formula_of_theorem_17(p: float, t_p: float, e_hit: float, e_miss: float) -> None:
    x = 1 + 1 / t_p - e_hit / (t_p * (p * e_hit + (1 - p) * e_miss))
    assume(1e-3 < x < 1 - 1e-3)
    assert critical_batch_size(p, t_p, e_hit, e_miss) == pytest.approx(math.log(x) / math.log(p), rel=1e-9)


@laws
@given(st.floats(0, 1), times, tokens)
def test_a_fast_backup_as_good_as_the_slow_one_always_wins(p: float, t_p: float, e: float) -> None:
    assert critical_batch_size(p, t_p, e, e) == 0
    assert critical_batch_size(p, t_p, 1, e) == 0


def test_a_slow_backup_that_costs_little_always_wins() -> None:
    assert critical_batch_size(0.5, 0.01, 8, 1) == math.inf
    assert critical_batch_size(0.5, 0, 8, 1) == math.inf


@pytest.mark.long
@laws
@given(times, tokens, tokens)
def test_no_misses_no_difference(t_p: float, e_hit: float, e_miss: float) -> None:
    assert critical_batch_size(1, t_p, e_hit, e_miss) == 0
    assert _slow(1, t_p, e_hit, 4) == _fast(1, t_p, e_hit, e_miss, 4)


def test_no_hits() -> None:
    assert critical_batch_size(0, 1, 1.5, 1) == 0  # half a token lost is worth less than a doubled round
    assert critical_batch_size(0, 0.2, 1.5, 1) == math.inf


@pytest.mark.long
@laws
@given(hits, st.floats(0.05, 1), tokens, tokens)
def test_crossing_is_the_next_whole_critical_batch_size(p: float, t_p: float, e_hit: float, e_miss: float) -> None:
    critical = critical_batch_size(p, t_p, e_hit, e_miss)
    assume(e_hit - e_miss > 1e-6 or e_miss > e_hit)  # else rounding decides which of two equals is better
    assume(critical == math.inf or abs(critical - round(critical)) > 1e-6 or critical == 0)
    crossing = crossing_batch_size(lambda b: _slow(p, t_p, e_hit, b), lambda b: _fast(p, t_p, e_hit, e_miss, b), 64)
    assert crossing == (max(1.0, math.ceil(critical)) if critical <= 64 else math.inf)


def test_crossing_takes_the_first_of_several() -> None:
    assert crossing_batch_size(lambda b: 2.0, lambda b: [0, 1, 3, 1, 3][b], 4) == 2
    assert crossing_batch_size(lambda b: 2.0, lambda b: 1.0, 8) == math.inf
    assert crossing_batch_size(lambda b: 2.0, lambda b: 2.0, 8) == 1


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        ((1.5, 1, 3, 1), "p_hit, got 1.5"),
        ((0.5, -1, 3, 1), "t_p, got -1"),
        ((0.5, 1, 0.5, 1), "e_hit, got 0.5"),
        ((0.5, 1, 3, math.nan), "e_miss, got nan"),
    ],
)
def test_bad_input_is_refused(arguments: tuple[float, float, float, float], names: str) -> None:
    with refused(*names.split(", ")):
        critical_batch_size(*arguments)


def test_crossing_needs_a_batch() -> None:
    with refused("max_batch", "0"):
        crossing_batch_size(lambda b: 0.0, lambda b: 0.0, 0)
