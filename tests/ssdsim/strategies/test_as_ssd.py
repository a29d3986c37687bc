"""Systems that are SSD with other durations and hit rates: lockstep SSD and Mirror-SD."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ssdsim.answers.simulation.simulate import simulate
from ssdsim.question.configuration import configure
from ssdsim.question.scenario import Scenario


def ssd(alpha: float, k: int, t_sd: float, t_p: float, t_b: float, p_hit: float) -> Scenario:
    options: dict[str, Any] = {"t_sd": t_sd, "t_p": t_p, "t_b": t_b, "p_hit": p_hit, "backup": "jit"}
    return configure(strategies="ssd", alpha=alpha, k=k, **options).scenarios["ssd"]


def lockstep(alpha: float, k: int, d: float) -> Scenario:
    """The outcome "all accepted", with one guess that is right as often as a token is."""
    return ssd(alpha, k, k * d, (k + 1) * d, k * d, alpha ** (k + 1))


def mirror(
    alpha: float, k: int, phi: float, d: float, per_step: int, hit: float, hit_all: float, rendezvous: float = 0.0
) -> Scenario:
    """Guesses from the target's early exit, a share ``phi`` of its pass."""
    drafting = math.ceil(k / per_step) * d
    p_hit = (1.0 - alpha**k) * hit + alpha**k * hit_all
    return ssd(alpha, k, drafting, phi + rendezvous + drafting, drafting, p_hit)


def rate(case: Scenario) -> float:
    return float(case.estimate.tokens_per_second)


LOCKSTEP = [(0.8, 7, 0.1, 2.629373), (0.9, 5, 0.25, 2.246532), (0.7, 3, 0.2, 1.739769)]
BEST_LOCKSTEP = [(0.5, 2, 1.489362), (0.7, 4, 2.080701), (0.8, 5, 2.695014), (0.9, 8, 4.111096), (0.95, 9, 5.895999)]
BEST_SD = [(0.5, 2, 1.458333), (0.7, 4, 1.980786), (0.8, 6, 2.469640), (0.9, 10, 3.430947), (0.95, 15, 4.478987)]
MIRROR = [
    (0.8, 7, 0.5, 0.1, 1, 0.85, 0.90, 3.206648),
    (0.9, 7, 0.5, 0.05, 2, 0.70, 0.90, 5.471709),
    (0.7, 5, 0.75, 0.1, 1, 0.60, 0.80, 2.052180),
]


@pytest.mark.parametrize(("alpha", "k", "d", "expected"), LOCKSTEP)
def test_lockstep_ssd(alpha: float, k: int, d: float, expected: float) -> None:
    assert rate(lockstep(alpha, k, d)) == pytest.approx(expected, abs=5e-7)
    run = simulate(lockstep(alpha, k, d), rounds=20_000, confidence=0.99)
    assert run.tokens_per_second.covers(expected)


@pytest.mark.parametrize(("alpha", "k", "expected"), BEST_LOCKSTEP)
def test_the_best_lookahead_of_lockstep_ssd(alpha: float, k: int, expected: float) -> None:
    rates = {each: rate(lockstep(alpha, each, 0.1)) for each in range(1, 16)}
    assert max(rates, key=lambda each: rates[each]) == k
    assert rates[k] == pytest.approx(expected, abs=5e-7)


@pytest.mark.parametrize(("alpha", "k", "expected"), BEST_SD)
def test_the_best_lookahead_of_sd(alpha: float, k: int, expected: float) -> None:
    cases = {each: configure(strategies="sd", alpha=alpha, k=each, t_sd=0.1 * each) for each in range(1, 20)}
    rates = {each: rate(case.scenarios["sd"]) for each, case in cases.items()}
    assert max(rates, key=lambda each: rates[each]) == k
    assert rates[k] == pytest.approx(expected, abs=5e-7)


@pytest.mark.parametrize(("alpha", "k", "phi", "d", "per_step", "hit", "hit_all", "expected"), MIRROR)
def test_mirror_sd(
    alpha: float, k: int, phi: float, d: float, per_step: int, hit: float, hit_all: float, expected: float
) -> None:
    case = mirror(alpha, k, phi, d, per_step, hit, hit_all)
    assert rate(case) == pytest.approx(expected, abs=5e-7)
    assert simulate(case, rounds=20_000, confidence=0.99).tokens_per_second.covers(expected)


@given(
    alpha=st.floats(0.0, 1.0),
    k=st.integers(1, 12),
    phi=st.floats(0.0, 1.0),
    d=st.floats(0.01, 0.5),
    hit=st.floats(0, 1),
)
@settings(deadline=None)
def test_mirror_sd_beats_sd_with_the_same_draft_where_it_hides_more_than_misses_cost(
    alpha: float, k: int, phi: float, d: float, hit: float
) -> None:
    ours = rate(mirror(alpha, k, phi, d, 1, hit, hit))
    theirs = rate(configure(strategies="sd", alpha=alpha, k=k, t_sd=k * d).scenarios["sd"])
    left, right = max(1.0 - phi, k * d) - (1.0 - phi), hit * k * d
    assert abs(left - right) < 1e-9 or (ours > theirs) == (left < right)
