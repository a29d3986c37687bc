"""Where a draft that was given a place would do as well: what is told is what a prediction there says."""

from __future__ import annotations

from typing import Any

import pytest

from ssdsim import predict
from ssdsim.answers.predict import Prediction
from tests.ssdsim.cli.in_process import asked

CARD: dict[str, Any] = {"hardware": "rtx-3090", "engine": "llama.cpp", "k": 4}
PAIR: dict[str, Any] = {"target": "qwen3-32b-q4_k_m", "draft": "qwen3-0.6b-q4_k_m"}
H100: dict[str, Any] = {"target": "llama-3.1-8b", "hardware": "h100-sxm"}
NETWORK = {"draft_link_us": 2000, "draft_link_gbs": 0.03}
BESIDE = "beside its target"


def places(found: Prediction) -> list[tuple[str, str, float]]:
    return [(each.where, each.strategy, each.gpus) for each in found.draft_elsewhere]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"draft_hardware": "rtx-4090"}, []),
        ({"draft_hardware": "rtx-3090"}, [(BESIDE, "sd", 1.0)]),
        ({"draft_hardware": "cpu"}, [(BESIDE, "sd", 1.0)]),
        (NETWORK, [(BESIDE, "sd", 1.0)]),
        ({}, []),
    ],
)
def test_a_draft_on_another_card_is_held_against_one_beside_its_target(
    given: dict[str, Any], told: list[tuple[str, str, float]]
) -> None:
    found = predict(**PAIR, **CARD, **given)
    assert places(found) == told
    if told:
        beside = predict(**PAIR, **CARD)
        ratio = beside.rates.shown("sd") / found.rates.shown(found.verdict.best)
        assert found.draft_elsewhere[0].ratio == pytest.approx(ratio, rel=0.01)


def test_one_more_of_the_targets_kind_is_told_where_it_is_no_slower() -> None:
    found = predict(**H100, draft_hardware="rtx-4090")
    assert places(found) == [("on one more h100-sxm", "ssd", 5.0)]
    there = predict(**H100, strategies="ssd")
    ratio = there.rates.shown("ssd") / found.rates.shown(found.verdict.best)
    assert found.draft_elsewhere[0].ratio == pytest.approx(ratio, rel=0.01)
    several = predict(**H100, draft_hardware="rtx-4090", draft_gpus=2, strategies="ar,ssd", k=3)
    assert places(several) == [("on 2 more h100-sxm", "ssd", 6.0)]
    assert predict(**H100 | {"hardware": "rtx-3090", "tp": 1}, draft_hardware="h100-sxm").draft_elsewhere == ()


def test_a_prediction_says_so_in_one_line() -> None:
    told = asked("predict", "--model", PAIR["target"], "--draft", PAIR["draft"], "--engine", "llama.cpp", "--k", "4",
                 "--hardware", "rtx-3090", "--draft-hardware", "rtx-3090", "--quiet").stdout  # fmt: skip
    assert "\nDraft     as fast beside its target (SD on 1 GPU)\n" in told


def test_other_places_are_told_of_closed_forms_alone() -> None:
    """Simulated, each of them took as long as the answer."""
    apart = {**H100, "draft_hardware": "a100-sxm", "strategies": "ar,sd,ssd", "k": 3}
    assert predict(**apart).draft_elsewhere
    assert predict(**apart, solver="mc").draft_elsewhere == ()
