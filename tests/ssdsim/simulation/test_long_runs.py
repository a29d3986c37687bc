"""A simulation that would take minutes: it says how far it is, ends where nobody asked for it, can be interrupted."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

import ssdsim
from ssdsim.answers.predict import PredictSolver, predict
from ssdsim.answers.simulation.simulate import simulate, simulate_requests
from ssdsim.answers.simulation.statistics import InTurn, Progress
from ssdsim.question.scenario import Scenario
from tests.ssdsim.cli.in_process import asked

DIFFERENT: dict[str, Any] = {"alpha": 0.8, "alpha_concentration": 2.0, "k": 3, "t_sd": 0.2}
"""Requests that differ: their mean over a run is known slowly."""

pytestmark = pytest.mark.long


def scenario(**options: Any) -> Scenario:
    return ssdsim.configure(**{**DIFFERENT, **options}).scenarios["sd"]


@pytest.mark.parametrize(("solver", "most"), [pytest.param("mc", 2_000_000, marks=pytest.mark.slow), ("des", 100_000)])
def test_a_prediction_ends_by_itself_where_nobody_asked_for_a_precision(solver: PredictSolver, most: int) -> None:
    """Its interval says how well it is known then: pairs of requests that differ took 24 s and never were precise."""
    heard: list[tuple[int, int]] = []
    prediction = predict(solver=solver, strategies="ar,sd", progress=lambda *far: heard.append(far), **DIFFERENT)
    assert heard[-1] == (2 * most, 2 * most)
    interval, exact = prediction.intervals["sd"], predict(strategies="ar,sd", **DIFFERENT).estimates["sd"]
    assert interval is not None
    assert interval.low < exact.tokens_per_second < interval.high


def test_a_large_batch_ends_as_soon_as_a_small_one() -> None:
    """A round of 4,000 sequences takes as much longer: 132 s of a processor, and nothing was said."""
    heard: list[tuple[float, int]] = []
    predict(t_sd=0.2, b=4000, spread=1.0, strategies="ar,sd", progress=lambda *far: heard.append(far))
    assert heard[-1] == (2 * 8000, 2 * 8000)


def test_a_precision_that_is_asked_for_is_kept() -> None:
    tokens_per_second = simulate(scenario(output_tokens=64), solver="mc", precision=0.004).tokens_per_second
    assert (tokens_per_second.high - tokens_per_second.low) / 2.0 <= 0.004 * tokens_per_second.value


def test_it_says_how_far_it_is_and_comes_to_its_end() -> None:
    runs: tuple[Callable[[Progress], object], ...] = (
        lambda progress: simulate(scenario(), solver="des", rounds=5000, progress=progress),
        lambda progress: simulate(scenario(), solver="mc", rounds=50_000, progress=progress),
        lambda progress: simulate(scenario(output_tokens=64), solver="mc", precision=0.01, progress=progress),
        lambda progress: simulate_requests(scenario(), 20, runs=5, progress=progress),
    )
    for run in runs:
        heard: list[tuple[int, int]] = []
        run(lambda *far, heard=heard: heard.append(far))  # type: ignore[misc]
        assert [done for done, _ in heard] == sorted({done for done, _ in heard})
        assert heard[-1][0] == heard[-1][1]
        assert all(done < total for done, total in heard[:-1])


def test_short_work_says_nothing_of_its_end() -> None:
    for verb in ("simulate --t-sd 0.2 --rounds 100", "predict --t-sd 0.2 --spread 0.1"):
        assert asked(*verb.split()).stderr == ""


@pytest.mark.slow
def test_long_work_says_what_is_left_and_ends_at_ctrl_c(ctrl_c: None) -> None:
    """In a terminal: a pipe hears nothing."""
    command = [sys.executable, "-m", "ssdsim", *"simulate --t-sd 0.2 --rounds 10000000".split()]
    watched, terminal = pty.openpty()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=terminal, text=True) as process:
        os.close(terminal)
        said = b""
        while b"/30000000 rounds" not in said:
            said += os.read(watched, 1024)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60.0)
    said += os.read(watched, 65536)
    os.close(watched)
    assert (process.returncode, out) == (130, "")
    assert b"interrupted: nothing is kept" in said


def test_the_progress_of_runs_in_turn_never_goes_back() -> None:
    heard: list[tuple[int, int]] = []
    of = InTurn(lambda done, total: heard.append((done, total)), 2).of
    for at, guesses in enumerate(([(50, 100), (100, 100), (100, 400), (400, 400)], [(10, 20), (20, 20)])):
        for done, total in guesses:
            hears = of(at)
            assert hears is not None
            hears(done, total)
    shares = [done / total for done, total in heard]
    assert shares == sorted(shares)
    assert [done for done, _ in heard] == sorted(done for done, _ in heard)
    assert heard[-1][0] == heard[-1][1]
    assert InTurn(None, 2).of(0) is None
