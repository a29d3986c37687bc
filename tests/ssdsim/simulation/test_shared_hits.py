"""Misses of a batch that go together: the closed form, both engines, and what was measured of a pair."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calibration.pairs.correlation import concentration
from ssdsim import evaluate, predict
from ssdsim.answers.simulation.simulate import simulate
from ssdsim.question.configuration import configure
from ssdsim.question.scenario import Scenario
from ssdsim.rounds.round import all_of
from ssdsim.tokens.pair_file import load_pair
from tests.refusals import refused

PAIR = str(Path(__file__).parents[3] / "models" / "pairs" / "smollm2-135m-28-layers.json")
TOGETHER: dict[str, Any] = {"t_sd": 0.2, "alpha": 0.7, "k": 4, "p_hit": 0.8, "b": 6, "hit_concentration": 3.0}


def ssd(**options: Any) -> Scenario:
    return configure(**options).scenarios["ssd"]


def test_the_moment_of_a_batch_is_the_one_that_made_its_concentration() -> None:
    for mean, b, moment in ((0.8, 6, 0.4), (0.95, 16, 0.6), (0.3, 2, 0.1)):
        found = concentration(mean, b, moment)
        assert all_of(b, mean, found) == pytest.approx(moment)
        assert all_of(b, mean, None) == mean**b
    columns = all_of(np.array([1.0, 6.0]), 0.8, np.array([3.0, np.inf]))
    assert columns == pytest.approx([0.8, 0.8**6])


@pytest.mark.long
@pytest.mark.parametrize(("solver", "rounds"), [("mc", 20_000), ("des", 6_000)])
@pytest.mark.parametrize("requests", [{}, {"alpha_concentration": 10.0, "output_tokens": 64}])
def test_engines_draw_what_the_closed_form_says(solver: Any, rounds: int, requests: dict[str, Any]) -> None:
    """Just in time a round depends on no state, and the closed form is exact."""
    scenario = ssd(**TOGETHER, **requests, backup="jit")
    run = simulate(scenario, solver=solver, rounds=rounds, seed=1)
    assert run.p_all_hit is not None
    assert run.p_hit is not None
    assert scenario.estimate.p_all_hit == pytest.approx(all_of(6, 0.8, 3.0))
    for drawn, due in ((run.p_all_hit, scenario.estimate.p_all_hit), (run.p_hit, 0.8)):
        assert abs(drawn.value - due) < 2.5 * (drawn.high - drawn.low) / 2.0  # nearly five standard errors
    expected = float(scenario.estimate.tokens_per_round)
    assert run.tokens_per_round.value == pytest.approx(expected, rel=0.02)


def test_a_fast_fallbacks_chains_are_drawn_about_their_mean() -> None:
    """Where rounds depend on states the closed form is an approximation: to a twentieth here."""
    scenario = ssd(**TOGETHER, p_hit_backup=0.6, backup="fast")
    run = simulate(scenario, solver="mc", rounds=20_000, seed=2)
    assert run.p_all_hit is not None
    assert run.p_all_hit.value == pytest.approx(scenario.estimate.p_all_hit, rel=0.05)
    alone = ssd(**{**TOGETHER, "hit_concentration": None}, p_hit_backup=0.6, backup="fast")
    assert run.p_all_hit.value > 1.3 * float(alone.estimate.p_all_hit)


def test_grids_price_it_as_predict_does() -> None:
    points = [{**TOGETHER, "backup": "jit", "hit_concentration": size} for size in (None, 3.0, 30.0)]
    table = evaluate(points).to_dict("records")
    for row, point in zip(table, points, strict=True):
        estimate = predict(**point).estimates["ssd"]
        assert row["p_all_hit"] == pytest.approx(estimate.p_all_hit)
        assert row["ssd_tokens_per_second"] == pytest.approx(estimate.tokens_per_second)


@pytest.mark.long
def test_simulated_batches_hit_as_measured_ones_did() -> None:
    """Of the real model: P(all 16 hit) with the hit rate that its batches had, within its measured interval."""
    batch = next(each for each in load_pair(PAIR).by_temperature[0].correlation.batch if each.b == 16)
    assert batch.independent is not None
    assert batch.low is not None
    assert batch.high is not None
    scenario = ssd(pair=PAIR, b=16, p_hit=batch.independent ** (1 / 16), backup="jit")
    assert scenario.settings["hit_concentration"] == batch.concentration
    run = simulate(scenario, solver="mc", rounds=20_000, seed=3)
    assert run.p_all_hit is not None
    assert batch.low < run.p_all_hit.value < batch.high
    assert run.p_all_hit.value > batch.independent


def test_a_batch_that_shares_nothing_is_refused() -> None:
    with refused("--hit-concentration"):
        ssd(**{**TOGETHER, "hit_concentration": 0.0})
