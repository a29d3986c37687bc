"""``--gpus 1xrtx-4090+1xrtx-3090``: the first are the target's, the second the draft's, and no more of either."""

from __future__ import annotations

from typing import Any

import pytest

from ssdsim import predict, recommend
from ssdsim.advise.recommend.request import make_request
from ssdsim.pricing.occupancy import Devices
from tests.refusals import refused
from tests.ssdsim.cli.in_process import asked

PAIR: dict[str, Any] = {"target": "llama-3.1-8b-q4_k_m", "draft": "llama-3.2-1b-q4_k_m", "engine": "llama-cpp"}
ASKED: dict[str, Any] = {"b": 1, "rank": "user", "gpu_hour": None, "at_least": None, "seed": 0}


def test_both_kinds_are_the_profiles_that_options_name() -> None:
    request = make_request(gpus="1xrtx4090+2xrtx3090", **ASKED, **PAIR)
    assert (request.options["hardware"], request.options["draft_hardware"]) == ("rtx-4090", "rtx-3090")
    assert request.gpus == 3
    assert request.named(Devices(1, 1)) == "1 rtx-4090 + 1 rtx-3090"
    assert request.named(Devices(1)) == "1 rtx-4090"
    most = [request.copies(each) for each in (Devices(1), Devices(2), Devices(1, 1), Devices(1, 3))]
    assert most == [1, 0, 1, 0]


@pytest.mark.parametrize("gpus", ["1xrtx-4090+1xrtx-3090", "2xrtx-4090+1xrtx-3090", "1xrtx-4090+1xcpu"])
def test_no_more_of_either_is_used(gpus: str) -> None:
    found = recommend(gpus=gpus, b=[1, 4], k=[1, 2], **PAIR)
    targets = int(gpus[0])
    for answer in found.answers:
        for deployment in (*answer.pareto, *answer.by_strategy.values()):
            devices = deployment.shape.devices
            assert deployment.copies * devices.target <= targets
            assert deployment.copies * devices.draft <= 1
            assert deployment.gpus == deployment.copies * (devices.target + (0 if "cpu" in gpus else devices.draft))


def test_what_is_recommended_is_what_predict_says_of_it() -> None:
    found = recommend(gpus="1xrtx-4090+1xrtx-3090", k=2, strategies=["ar", "sd"], sd_draft="separate", **PAIR)
    answer = predict(hardware="rtx-4090", draft_hardware="rtx-3090", tp=1, k=2, **PAIR)
    (about,) = found.answers
    assert about.by_strategy["sd"].per_user == pytest.approx(float(answer.estimates["sd"].tokens_per_second))


@pytest.mark.parametrize(
    ("gpus", "more", "named"),
    [
        ("1xrtx-4090+1xrtx-3090+1xcpu", {}, ("--gpus", "3")),
        ("1xrtx-4090+1xrtx-3090", {"draft_hardware": "cpu"}, ("--gpus", "--draft-hardware")),
        ("1xrtx-4090+1xrtx-3090", {"hardware": "h100-sxm"}, ("--gpus", "--hardware")),
        ("1xrtx-4090+1xrtx-3091", {}, ("rtx-3091",)),
        ("2x4xh100", {}, ("2 nodes", "--gpus 8xh100 --tp 4 --pp 2 --pp-link rdma")),
        ("0xrtx-4090+1xrtx-3090", {}, ("--gpus",)),
        ("1xrtx-4090+0xrtx-3090", {}, ("--gpus",)),
        ("1xrtx-4090+1xrtx-3090", {"tp": 2}, ("--tp", "2")),
    ],
)
def test_what_cannot_be_is_one_line(gpus: str, more: dict[str, Any], named: tuple[str, ...]) -> None:
    with refused(*named):
        make_request(gpus=gpus, **ASKED, **PAIR | more)


def test_a_recommendation_says_what_the_other_card_is_worth() -> None:
    told = asked("recommend", "--gpus", "1xrtx-3090+1xrtx-4090", "--model", "qwen3-32b-q4_k_m", "--draft",
                 "qwen3-0.6b-q4_k_m", "--engine", "llama.cpp", "--quiet").stdout  # fmt: skip
    assert "on 1 rtx-3090 + 1 rtx-4090" in told
    assert "tokens/s on 1 GPU; 1 more gives 1." in " ".join(told.split())


def test_a_card_that_helps_nothing_stays_idle() -> None:
    for other in ("cpu", "rtx-3090"):
        told = asked("recommend", "--gpus", f"1xrtx-4090+1x{other}", "--model", PAIR["target"], "--draft",
                     PAIR["draft"], "--engine", "llama.cpp", "--quiet").stdout  # fmt: skip
        assert f"Idle 1 {other}: with a draft there nothing is better" in " ".join(told.split())


def test_a_prediction_on_two_kinds_names_the_search_over_both() -> None:
    told = asked("predict", "--model", PAIR["target"], "--draft", PAIR["draft"], "--engine", "llama.cpp",
                 "--hardware", "rtx-4090", "--draft-hardware", "rtx-3090", "--quiet").stdout  # fmt: skip
    assert "ssdsim recommend --gpus 1xrtx-4090+1xrtx-3090 --model" in " ".join(told.split())
