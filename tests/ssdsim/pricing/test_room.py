"""A refusal for want of memory names what has room, and what it names has."""

from __future__ import annotations

import pickle
import re
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ssdsim.base.errors import DoesNotFit
from ssdsim.hardware.catalog import HARDWARE, TRANSFORMERS, find_hardware
from ssdsim.question.configuration import configure
from tests.refusals import refused
from tests.ssdsim.cli.in_process import asked

CONSUMER: dict[str, Any] = {"hardware": "rtx-4090", "tp": 1}


def ways(**options: Any) -> dict[str, Any]:
    """What the refusal of AR there names, by option; empty where there is room, or where it names nothing."""
    try:
        configure(strategies="ar", **options)
    except DoesNotFit as error:
        _, _, said = str(error).partition("there is room")
        named: dict[str, Any] = dict(re.findall(r"--(context|dtype|target|attention) (\S+?)(?=,|$| )", said))
        named |= {"context": int(named["context"])} if "context" in named else {}
        degree = re.search(r"\(tp (\d+)(, a node has \d+)?\)", said)
        return named if degree is None or degree[2] else named | {"tp": int(degree[1])}
    return {}


@settings(deadline=None, max_examples=60)
@given(
    hardware=st.sampled_from([name for name in HARDWARE.names() if "torch" not in name]),
    target=st.sampled_from([name for name in TRANSFORMERS.names() if "shaped" not in name]),
    context=st.sampled_from([1024, 8192, 32768, 131_072]),
    tp=st.sampled_from([1, 2, 4]),
    b=st.sampled_from([1, 8, 64]),
)
def test_what_a_refusal_names_has_room(hardware: str, target: str, context: int, tp: int, b: int) -> None:
    assume(tp <= find_hardware(hardware).device.count)
    at = {"hardware": hardware, "target": target, "context": context, "tp": tp, "b": b}
    for name, value in ways(**at).items():
        assert configure(strategies="ar", **at | {name: value}).scenarios
        if name == "context" and value + 1024 < context:
            with pytest.raises(DoesNotFit):
                configure(strategies="ar", **at | {name: value + 1024})


def test_a_degree_without_timings_is_not_named() -> None:
    """Six devices may share Kimi-K3's 96 heads, but nobody timed six of these."""
    assert ways(hardware="mi355x", target="kimi-k3", context=1024, tp=1, b=1).get("tp") in (None, 8)


def test_the_same_model_in_fewer_bits_comes_before_a_smaller_one() -> None:
    assert ways(**CONSUMER, target="qwen3-32b") == {"dtype": "int4"}
    assert ways(**CONSUMER, target="qwen3-8b", b=2, context=32768) == {"tp": 2, "context": 21504, "dtype": "float8"}
    assert ways(**CONSUMER, target="llama-3.1-70b") == {"target": "llama-3.1-8b"}


@pytest.mark.parametrize(
    ("gpus", "at", "named"),
    [
        ("8xh100", "--model deepseek-r1 -b 4 --engine vllm", ""),
        ("16xh100", "--model deepseek-r1 -b 4 --engine vllm --tp 8", "16 h100-sxm (tp 16) --pp 2 --pp-link rdma"),
        ("4xh100", "--model qwen3-235b-a22b -b 4 --tp 2,4", ""),
        ("8xh100", "--model qwen3-235b-a22b -b 4 --tp 2,4", "8 h100-sxm (tp 8)"),
        ("8xh100", "--model qwen3-235b-a22b -b 4 --tp 2,4 --strategies ssd --draft-gpus 1", ""),
    ],
)
def test_a_recommendation_advises_no_more_gpus_than_there_are(gpus: str, at: str, named: str) -> None:
    told = " ".join(asked("recommend", "--gpus", gpus, *at.split(), "--quiet").stdout.split())
    assert "nothing fits" in told
    _, _, ways = told.replace(", a node has 8", "").partition("there is room")
    more = re.findall(r"--pp \d+ --pp-link rdma|\d+ h100-sxm \(tp \d+\)", ways)
    assert " ".join(more) == named


def test_a_reason_keeps_its_ways_between_processes() -> None:
    with pytest.raises(DoesNotFit) as refusal:
        configure(**CONSUMER, target="qwen3-32b", strategies="ar")
    reason = pickle.loads(pickle.dumps(refusal.value.reason))
    assert reason == str(refusal.value)
    assert reason.within(1).endswith("there is room with --dtype int4")


def test_two_cards_of_a_desktop_at_a_long_context_are_told_what_fits() -> None:
    pair = "--model", "qwen3-32b-q4_k_m", "--draft", "qwen3-0.6b-q4_k_m", "--context", "32768"
    told = " ".join(asked("recommend", "--gpus", "1xrtx-4090+1xrtx-3090", *pair, "--quiet").stdout.split())
    assert "nothing fits" in told
    assert "there is room with --context 16384 or --target qwen3-8b" in told  # there is no second rtx-4090


def test_a_cache_that_every_device_would_hold_may_be_held_once() -> None:
    """GLM-5.2's is sparse, so that --dcp is refused: the refusal, too, names what holds it once."""
    at: dict[str, Any] = {"target": "glm-5.2", "hardware": "b200-sxm", "tp": 8, "context": 131_072, "engine": "vllm"}
    assert ways(**at, b=64)["attention"] == "data-parallel"
    with refused("dcp 8", "--attention data-parallel"):
        configure(**at, dcp=8)


def test_a_refusal_for_want_of_devices_does_not_name_more_devices() -> None:
    """A draft has no ninth device; at four the target has no room, and the eight that there are do not help."""
    at: dict[str, Any] = {"target": "deepseek-v4-pro", "hardware": "b200-sxm", "tp": 8, "b": 8, "context": 8192}
    told = configure(**at, draft="qwen3-0.6b", any_vocabulary=True).no_room["ssd"]
    assert "has 8; at most tp 4 is there" in told
    assert "(tp 8)" not in told
    assert "--draft-devices shared" in told
    assert "ssd" in configure(**at, draft="qwen3-0.6b", any_vocabulary=True, draft_devices="shared").scenarios


def test_more_devices_than_a_node_has_are_told_as_such() -> None:
    with refused("tp 4", "a node has 2", error=DoesNotFit):
        configure(**CONSUMER, target="qwen3-32b", strategies="ar")
