"""Ranks under a measured pair: tokens, hits and misses are the simulator's."""

from __future__ import annotations

from pathlib import Path

import pytest

from calibration.machine.executor.actor import outcomes_of
from calibration.machine.executor.plan import RankPlan
from calibration.machine.ranks import Ranks
from ssdsim.answers.simulation.simulate import simulate
from tests.calibration.executor.run import ROUNDS, SEED, run, small
from tests.calibration.pairs import sample

pytestmark = pytest.mark.ranks


def test_ranks_find_the_hits_of_a_pairs_three_curves(pair: Ranks, tmp_path: Path) -> None:
    configuration = small("ssd", "pearl", pair=sample.written(tmp_path), backup="fast", backup_ms=1.0)
    for name, scenario in configuration.scenarios.items():
        target, draft = run(pair, scenario)
        simulated = simulate(scenario, rounds=ROUNDS, seed=SEED)
        assert sum(target.tokens) / (2 * ROUNDS) == simulated.tokens_per_round.value
        if name == "ssd":
            misses = outcomes_of(RankPlan.of(scenario), SEED, ROUNDS).count_to("miss")
            assert 0 < misses.sum() < 2 * ROUNDS
            assert draft.misses == misses.tolist()
