"""DSI against its closed forms, a literal timeline, its paper's theorems and other systems that it equals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ssdsim import sweep
from ssdsim.answers.simulation.simulate import simulate
from ssdsim.answers.simulation.trace import Trace
from ssdsim.question.configuration import configure
from ssdsim.question.scenario import Scenario
from tests.refusals import refused


def dsi(alpha: float, k: int, d: float, targets: int | None = None, **options: Any) -> Scenario:
    """Unit-free, with a draft step of ``d``."""
    return configure(strategies="dsi", alpha=alpha, k=k, t_sd=k * d, dsi_targets=targets, **options).scenarios["dsi"]


def rate(case: Scenario) -> float:
    return float(case.estimate.tokens_per_second)


def of(name: str, alpha: float, k: int, d: float) -> float:
    return rate(configure(strategies=name, alpha=alpha, k=k, t_sd=k * d).scenarios[name])


# (alpha, k, d, targets, R), checked against a literal event loop apart from this code
ROWS = [
    (0.9, 5, 0.1, 2, 4.764459),
    (0.8, 1, 0.1, 10, 3.571429),
    (0.7, 3, 0.2, 2, 2.033426),
    (0.9, 2, 0.1, 2, 3.106314),  # too few
    (0.9, 5, 0.1, 1, 3.127200),
]
TEN_TARGETS = [(0.5, 1.818182), (0.7, 2.702703), (0.8, 3.571429), (0.9, 5.263158), (0.95, 6.896552)]


@pytest.mark.parametrize(("alpha", "k", "d", "targets", "expected"), ROWS)
def test_the_closed_form_is_that_of_the_text(alpha: float, k: int, d: float, targets: int, expected: float) -> None:
    assert rate(dsi(alpha, k, d, targets)) == pytest.approx(expected, abs=5e-7)


@pytest.mark.parametrize(("alpha", "expected"), TEN_TARGETS)
def test_ten_targets_that_verify_every_token(alpha: float, expected: float) -> None:
    assert rate(dsi(alpha, 1, 0.1, 10)) == pytest.approx(expected, abs=5e-7)


@pytest.mark.long
@pytest.mark.parametrize(
    ("solver", "rounds"), [("mc", 20_000), ("des", 5_000), pytest.param("des", 20_000, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize(("alpha", "k", "d", "targets", "expected"), ROWS)
def test_events_and_monte_carlo_agree(
    alpha: float, k: int, d: float, targets: int, expected: float, solver: Any, rounds: int
) -> None:
    run = simulate(dsi(alpha, k, d, targets), solver=solver, rounds=rounds, seed=4, confidence=0.99)
    assert run.tokens_per_second.covers(expected)


@given(alpha=st.floats(0.0, 0.98), k=st.integers(1, 8), d=st.floats(0.01, 1.0), targets=st.integers(1, 12))
@settings(deadline=None)
def test_it_is_the_sum_over_runs_of_accepted_tokens(alpha: float, k: int, d: float, targets: int) -> None:
    """A run of G right tokens ends with thread ceil(G / k), which started when a block and a target were there."""
    j = np.arange(1, 5000)
    seen_by = alpha ** ((j - 1) * k + 1) * (1.0 - alpha**k)
    start = j // targets * max(1.0, targets * k * d) + j % targets * k * d
    expected = 1.0 / ((1.0 - alpha) * (1.0 - alpha + float(seen_by @ (start + 1.0))))
    assert rate(dsi(alpha, k, d, targets)) == pytest.approx(expected, rel=1e-6)


@pytest.mark.long
@given(alpha=st.floats(0.0, 0.999), k=st.integers(1, 16), share=st.floats(0.001, 1.0))
@settings(deadline=None)
def test_the_papers_theorems(alpha: float, k: int, share: float) -> None:
    """With a draft that keeps up and enough targets: at least AR, SD and PEARL; and one target is PEARL."""
    d = share / k
    enough = rate(dsi(alpha, k, d, min(64, int(np.ceil(1.0 / share)) + 1)))
    if share > 1.0 / 60.0:
        assert enough >= max(1.0, of("sd", alpha, k, d), of("pearl", alpha, k, d)) - 1e-9
    assert enough <= 1.0 / d * (1.0 + 1e-9)
    assert rate(dsi(alpha, k, d, 1)) == pytest.approx(of("pearl", alpha, k, d), rel=1e-9)


def test_limits() -> None:
    assert rate(dsi(0.0, 3, 0.2)) == pytest.approx(1.0)
    assert rate(dsi(1.0, 3, 0.2, 2)) == pytest.approx(5.0, rel=1e-6)
    assert rate(dsi(0.8, 1, 0.02)) == pytest.approx(1.0 / (1.0 - 0.8 * 0.98))


def test_more_targets_than_blocks_wait_for_change_nothing() -> None:
    assert dsi(0.8, 4, 0.1).settings["dsi_targets"] == 3
    assert rate(dsi(0.8, 4, 0.1)) == pytest.approx(rate(dsi(0.8, 4, 0.1, 20)))


@pytest.mark.long
def test_messages_delay_the_first_block_and_hide_behind_targets_that_are_too_few() -> None:
    """On hardware messages take time: events say the same as the closed form, with enough targets and with too few."""
    for targets in (1, 2, 3):
        case = configure(strategies="dsi", tp=2, dsi_k=2, dsi_targets=targets, alpha=0.9).scenarios["dsi"]
        run = simulate(case, rounds=4_000, confidence=0.999)
        assert run.round_s.covers(float(case.estimate.round_s))
        assert sum(run.breakdown_s.values()) == pytest.approx(run.round_s.value)


def test_targets_work_side_by_side_and_a_rejection_ends_what_they_do() -> None:
    trace = Trace()
    case = configure(strategies="dsi", tp=2, dsi_k=4, dsi_targets=3, alpha=0.6).scenarios["dsi"]
    assert case.gpus == 7
    simulate(case, rounds=60, trace=trace)
    slices = [event for event in trace.to_json()["traceEvents"] if event["ph"] == "X"]
    verifying = [e for e in slices if e["name"] == "verify"]
    assert len({e["tid"] for e in verifying}) == 6
    full = max(e["dur"] for e in verifying)
    assert min(e["dur"] for e in verifying) < 0.9 * full
    assert {name for name in trace.tracks if name.startswith("target")} == {
        f"target {copy} GPU {gpu}" for copy in (1, 2, 3) for gpu in (0, 1)
    }


def test_it_decodes_one_sequence_with_a_draft_that_keeps_up() -> None:
    with refused("DSI", "1 sequence", "--b 2"):
        dsi(0.8, 4, 0.1, b=2)
    with refused("DSI"):
        dsi(0.8, 4, 1.1)
    with refused("DSI", "12 target", "1 draft"):
        configure(strategies="dsi", dsi_targets=3)


def test_the_node_bounds_its_targets_where_nobody_says_how_many() -> None:
    assert configure(strategies="dsi").scenarios["dsi"].settings["dsi_targets"] == 1
    assert configure(strategies="dsi", tp=2, dsi_k=1).scenarios["dsi"].settings["dsi_targets"] == 3


def test_targets_against_tokens_a_block_is_swept() -> None:
    table = sweep(strategies="pearl,dsi", dsi_k=[1, 2, 5], dsi_targets=[1, 2, 10], t_sd=0.5, k=5, alpha=0.9)
    best = table.loc[table["dsi_tokens_per_second"].idxmax()]
    assert (best["dsi_k"], best["dsi_targets"]) == (1, 10)
    one = table[(table["dsi_targets"] == 1) & (table["dsi_k"] == 5)]
    assert float(one["dsi_over_pearl"].iloc[0]) == pytest.approx(1.0)
