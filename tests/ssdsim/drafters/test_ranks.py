"""Drafters that run on real ranks: the head's own matrices, and rounds in which nothing is proposed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calibration.machine.executor.executor import BufferShape
from calibration.machine.ranks import Ranks
from calibration.validation.bench import HANDLER
from ssdsim.answers.simulation.simulate import simulate
from ssdsim.question.configuration import configure
from tests.calibration.executor.run import ROUNDS, SEED, run, whats

pytestmark = pytest.mark.ranks

SMALL = """
name = "small"
architecture = "llama"
hidden_size = 128
layers = 2
heads = 4
kv_heads = 2
head_dim = 32
intermediate_size = 256
vocab_size = 512
max_context = 4096
dtype = "bfloat16"
source = "a test"
"""


@pytest.mark.parametrize(
    ("drafter", "more", "done"),
    [
        ("eagle", {}, "draft step"),
        ("eagle3", {}, "catch up"),
        ("dflash", {}, "draft pass"),
        ("dspark", {}, "draft pass"),
        ("ngram", {"found": 0.5}, "verify 1 rows"),
    ],
)
def test_it_runs_with_the_simulators_tokens(drafter: str, more: dict[str, Any], done: str, tmp_path: Path) -> None:
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    options: dict[str, Any] = {"target": str(path), "tp": 1, "b": 1, "k": 3, "context": 32, "alpha": 0.7}
    scenario = configure(**options, strategies=("sd",), drafter=drafter, **more).scenarios["sd"]
    assert scenario.site is not None
    cards = {"target": scenario.site.target, "draft": scenario.site.draft}
    buffers = {model: BufferShape(card, "bfloat16", batch=2, context=64) for model, card in cards.items()}
    with Ranks(["cpu:0"], HANDLER, {"target_ranks": 1, "dtype": "bfloat16", "buffers": buffers}) as ranks:
        (timeline,) = run(ranks, scenario)
    assert done in whats(timeline)
    simulated = simulate(scenario, rounds=ROUNDS, seed=SEED)
    assert np.mean(timeline.tokens) == pytest.approx(simulated.tokens_per_round.value)
