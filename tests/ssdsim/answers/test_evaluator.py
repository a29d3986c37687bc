"""An evaluator that is asked many times answers as one that is asked once."""

from __future__ import annotations

import pandas as pd
import pytest

from ssdsim.answers import grid
from ssdsim.answers.grid import Evaluator, evaluate

POINTS = [
    {"b": 4, "k": 4, "backup": "auto"},
    {"b": 4096, "context": 8192},
    {"b": 4, "k": 4, "budget": 5, "strategies": ("ssd",)},
    {"strategies": ("sd",), "sd_draft": "separate", "k": 2},
    {"b": 1, "tp": 3},
]


@pytest.mark.parametrize("draws", [0, 20])
def test_what_is_remembered_changes_no_answer(draws: int) -> None:
    evaluator = Evaluator()
    for points in (POINTS[:1], POINTS[2:3], POINTS[3:], POINTS, POINTS[1:2], []):
        found, fresh = evaluator.evaluate(points, draws, seed=1), evaluate(points, draws, seed=1)
        columns = pd.DataFrame(found.columns, index=range(len(points)))
        pd.testing.assert_frame_equal(columns, fresh.drop(columns="error"), check_exact=True)
        assert list(found.errors) == list(fresh["error"])
        assert list(found.warnings) == fresh.attrs["warnings"]


def test_rounds_outlive_the_sites_that_they_were_worked_out_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """A grid whose batch varies slowest comes back to the same rounds after thousands of points."""
    monkeypatch.setattr(grid, "_POINTS_AT_SITES", 0)
    evaluator, rounds = Evaluator(), []
    for b in (1, 2, 4):
        points = [{"b": b, "alpha": alpha, "f": f, "k": 6} for alpha in (0.6, 0.8) for f in (1, 3)]
        found = evaluator.evaluate(points)
        rounds.append(evaluator._steps.rounds)
        assert found.columns["ssd_over_sd"].tolist() == evaluate(points)["ssd_over_sd"].tolist()
    assert rounds[0] == rounds[1] == rounds[2] > 0


def test_rounds_beyond_what_is_remembered_leave_the_first_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """All were forgotten, so that a grid with more of them worked out each again at each batch."""
    monkeypatch.setattr(grid, "_ROUNDS_REMEMBERED", 5)
    evaluator = Evaluator()
    for b in (1, 2):
        points = [{"b": b, "alpha": alpha, "strategies": ("sd", "ssd")} for alpha in (0.5, 0.6, 0.7, 0.8)]
        found = evaluator.evaluate(points)
        kept = [each.tokens for each in evaluator._steps._of_strategies.values()]
        assert sum(map(len, kept)) > 5
        evaluator._steps.forget_rounds(5)
        assert sum(map(len, kept)) == 5
        assert found.columns["ssd_over_sd"].tolist() == evaluate(points)["ssd_over_sd"].tolist()
