"""Adaptive verification under load: fewer rows a sequence where more of them run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ssdsim.question.configuration import configure
from ssdsim.serving.batching import Batching
from ssdsim.serving.replica import simulate
from tests.ssdsim.serving.sample_runs import policy, requests

GIVEN: dict[str, Any] = {
    "target": "qwen3-8b",
    "tp": 1,
    "drafter": "dspark",
    "alpha": 0.6,
    "k": 7,
    "sd_draft": "colocated",
}
WORKLOAD = requests(80, rate=12.0, inputs="400", outputs="100")


def test_rows_fall_as_more_sequences_run_and_are_those_that_predict_has() -> None:
    adaptive = policy("adaptive", WORKLOAD, **GIVEN)
    rows = [adaptive.at(b, 450.0).scenario.settings["adaptive_rows"] for b in (1, 8, 64)]
    assert rows == sorted(rows, reverse=True)
    assert rows[0] > 6.5
    alone = configure(**GIVEN, strategies="adaptive", b=64, context=450).scenarios["adaptive"]
    assert rows[2] == pytest.approx(alone.settings["adaptive_rows"], rel=0.02)
    assert rows[2] < rows[0] - 1.0


def test_it_serves_as_sd_at_the_lightest_load_and_faster_where_sd_verifies_in_vain() -> None:
    sd, adaptive = (policy(name, WORKLOAD, **GIVEN) for name in ("sd", "adaptive"))
    alone, many = ([float(p.mean(b, 450.0).tokens_per_second) for p in (sd, adaptive)] for b in (1, 64))
    assert alone[1] == pytest.approx(alone[0], rel=1e-3)
    assert many[1] > many[0] * 1.02


@pytest.mark.long
def test_a_run_changes_its_rows_with_the_load() -> None:
    batching = Batching()
    run = simulate(policy("adaptive", WORKLOAD, batching, **GIVEN), WORKLOAD, batching)
    assert np.count_nonzero(np.bincount(run.columns[5].astype(int))) > 1


def test_a_number_of_rows_that_is_given_does_not_follow_the_load() -> None:
    assert len(policy("adaptive", WORKLOAD, **GIVEN, adaptive_rows=2.0).variants) == 1


def test_adaptive_gamma_is_that_of_the_batch() -> None:
    """Also between those at which engines time it: three sequences have gamma of four."""
    given: dict[str, Any] = {"alpha": 0.8, "gamma": "adaptive"}
    pearl = policy("pearl", requests(80, rate=1.0, inputs="4000", outputs="192"), **given)
    for b in (1, 3, 5, 9, 17, 30):
        alone = configure(**given, strategies="pearl", b=b, context=4096).scenarios["pearl"]
        assert pearl.at(b, 4096.0).k == alone.settings["gamma"]
    assert [pearl.at(b, 4096.0).k for b in (1, 30)] == [9, 6]
    assert len(policy("pearl", WORKLOAD, **{**given, "gamma": 6}).variants) == 1
