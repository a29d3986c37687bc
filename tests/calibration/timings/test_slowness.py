"""A calibration's drift: what the visits around a moment tell of the machine's speed then."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibration.timings.rows import slowness


def visits(seed: int, points: int = 60, often: int = 16) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Points in random order, every 20 ms, and the true seconds of each visit on a steady machine."""
    rng = np.random.default_rng(seed)
    order = np.concatenate([rng.permutation(points) for _ in range(often)])
    return order, 0.02 * np.arange(len(order)), np.exp(rng.uniform(-9.0, -4.0, points))[order]


def wandering(at_s: np.ndarray) -> np.ndarray:
    """A neighbour that comes every two seconds and goes, beside a slow drift of the clock."""
    return np.where(np.sin(np.pi * at_s) > 0.0, 1.25, 1.0) * np.exp(0.1 * np.sin(at_s / 7.0))


@pytest.mark.parametrize("seed", range(5))
def test_drift_that_visits_share_is_found_and_taken_away(seed: int) -> None:
    points, at_s, true_s = visits(seed)
    noise = np.exp(0.08 * np.random.default_rng(100 + seed).standard_normal(len(at_s)))
    seconds = true_s * wandering(at_s) * noise
    slow = slowness(points, at_s, seconds)
    drifting = wandering(at_s) / np.median(wandering(at_s))
    assert np.corrcoef(np.log(slow), np.log(drifting))[0, 1] > 0.8
    before, after = (np.std(np.log(times / true_s)) for times in (seconds, seconds / slow))
    assert after < 0.8 * before
    assert after == pytest.approx(0.08, rel=0.35)


def test_a_steady_machine_is_left_as_it_was() -> None:
    points, at_s, true_s = visits(seed=1)
    noise = np.exp(0.05 * np.random.default_rng(2).standard_normal(len(at_s)))
    assert np.std(np.log(slowness(points, at_s, true_s * noise))) < 0.03


def test_a_visit_tells_nothing_of_itself_and_little_of_others_when_wild() -> None:
    points, at_s, seconds = visits(seed=3)
    wild = seconds.copy()
    wild[500] *= 50.0
    calm, found = slowness(points, at_s, seconds), slowness(points, at_s, wild)
    assert found[500] == pytest.approx(calm[500], rel=0.02)
    assert np.max(np.abs(np.log(found / calm))) < 0.06


def test_a_visit_after_a_pause_is_not_judged_by_those_before_it() -> None:
    points, at_s, seconds = visits(seed=4)
    later = at_s + np.where(np.arange(len(at_s)) == len(at_s) - 1, 3600.0, 0.0)
    slow = seconds * np.where(np.arange(len(at_s)) >= len(at_s) - 20, 1.3, 1.0)
    assert slowness(points, later, slow)[-1] == pytest.approx(1.0, abs=0.02)
    assert slowness(points, at_s, slow)[-1] > 1.15


@pytest.mark.long
@given(st.integers(0, 1000), st.floats(0.1, 10.0))
def test_the_unit_of_time_and_the_order_of_rows_do_not_matter(seed: int, unit: float) -> None:
    points, at_s, seconds = visits(seed, points=8, often=5)
    seconds = seconds * np.exp(0.1 * np.random.default_rng(seed).standard_normal(len(at_s)))
    slow = slowness(points, at_s, seconds)
    assert slowness(points, at_s, unit * seconds) == pytest.approx(slow)
    shuffled = np.random.default_rng(seed).permutation(len(at_s))
    assert slowness(points[shuffled], at_s[shuffled], seconds[shuffled]) == pytest.approx(slow[shuffled])
