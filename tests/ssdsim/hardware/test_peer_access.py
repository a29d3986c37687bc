"""Collectives over PCIe: through the host's memory, where devices do not reach each other's."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssdsim.answers.predict import predict
from ssdsim.hardware.catalog import HARDWARE, find_hardware
from ssdsim.hardware.collectives import through_host_s
from ssdsim.hardware.profile import HardwareProfile
from ssdsim.hardware.timing import Timing
from ssdsim.hardware.what_if import scale
from ssdsim.transformer.operations import Collective

OVER_PCIE = ["rtx-pro-6000", "l40s", "a6000", "rtx-4090", "rtx-3090", "rtx-5090"]
sizes = st.integers(256, 2**28)


def reduced(profile: HardwareProfile, size: int, ranks: int = 2) -> Timing:
    return profile.seconds(Collective("all-reduce", "all_reduce", size, ranks))


def direct(name: str) -> HardwareProfile:
    """As it was timed, or scaled from what was."""
    profile = find_hardware(name)
    return profile.changed(device=profile.device.changed(peer_access=None))


@pytest.mark.parametrize("name", HARDWARE.names())
def test_cards_over_pcie_say_what_is_known_of_peer_access(name: str) -> None:
    access = find_hardware(name).device.peer_access
    assert (access is not None) == (name in OVER_PCIE)
    assert (access == "no") == ("GeForce" in find_hardware(name).device.name)


@pytest.mark.parametrize("name", OVER_PCIE)
@given(size=sizes)
def test_by_way_of_the_host_nothing_is_faster(name: str, size: int) -> None:
    own, timed = reduced(find_hardware(name), size), reduced(direct(name), size)
    assert own.seconds == max(timed.seconds, through_host_s("all_reduce", 2, size))
    if own.seconds > timed.seconds:
        assert own.log_sd > timed.log_sd
        assert any("through the host" in each for each in own.warnings)


@given(size=sizes)
def test_where_nobody_says_it_the_interval_holds_what_was_timed_too(size: int) -> None:
    own, timed = reduced(find_hardware("rtx-pro-6000"), size), reduced(direct("rtx-pro-6000"), size)
    assert own.seconds * math.exp(-1.96 * own.log_sd) <= timed.seconds


@pytest.mark.parametrize(("size", "us"), [(8, 14.4), (16_384, 17.0)])
def test_two_rtx_4090_take_as_long_as_nccl_said(size: int, us: float) -> None:
    assert reduced(find_hardware("rtx-4090"), size).seconds == pytest.approx(1e-6 * us, rel=0.15)


def test_a_dense_32b_on_two_cards_over_pcie_is_within_its_interval() -> None:
    """Qwen3-32B on two RTX PRO 6000, 128 requests running: 58.8 ms a token (vLLM 0.19)."""
    asked = {"target": "qwen3-32b", "hardware": "rtx-pro-6000", "tp": 2, "b": 128, "context": 1024}
    interval = predict(**asked, engine="vllm-0.9", strategies="ar").intervals["ar"]
    assert interval.low <= 128 / 58.8e-3 <= interval.high


def test_another_link_says_what_is_known_of_it() -> None:
    assert scale(find_hardware("l40s"), "new", link="nvlink4").device.peer_access is None
    assert scale(find_hardware("h100-sxm"), "new", link="pcie5").device.peer_access == "maybe"
    assert scale(find_hardware("l40s"), "new", memory_bandwidth=2.0).device.peer_access == "maybe"
