"""Hypothetical devices: slower where they were made slower, and never mistaken for measured ones."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from ssdsim.answers.predict import predict
from ssdsim.base.errors import InputError
from ssdsim.hardware.catalog import find_hardware, find_transformer
from ssdsim.hardware.gpu_names import is_same_gpu
from ssdsim.hardware.profile import load_profile
from ssdsim.hardware.what_if import Datasheet, from_datasheet, scale
from ssdsim.pricing.passes import cost_of_pass
from ssdsim.question.configuration import configure
from ssdsim.transformer.forward import forward_pass
from ssdsim.transformer.operations import Attention, Collective, Gemm
from tests.refusals import refused

STREAMED = Gemm("w", 1, 16384, 8192, "bfloat16")
COMPUTED = Gemm("w", 8192, 16384, 8192, "bfloat16")


def test_bandwidth_slows_what_streams_and_the_clock_what_computes() -> None:
    whole = find_hardware("h100-sxm")
    slow_memory, slow_clock = scale(whole, "m", memory_bandwidth=0.5), scale(whole, "c", clock=0.5)
    # laws of few and of many tokens meet elsewhere on a device of other rates, the faster one serving fewer tokens
    assert slow_memory.seconds(STREAMED).seconds == pytest.approx(2 * whole.seconds(STREAMED).seconds, rel=0.1)
    assert slow_clock.seconds(STREAMED).seconds == pytest.approx(whole.seconds(STREAMED).seconds, rel=0.05)
    assert slow_clock.seconds(COMPUTED).seconds == pytest.approx(2 * whole.seconds(COMPUTED).seconds, rel=0.1)
    assert slow_memory.seconds(COMPUTED).seconds == pytest.approx(whole.seconds(COMPUTED).seconds, rel=0.1)


def test_a_slower_link_slows_messages_and_collectives() -> None:
    whole = find_hardware("h100-sxm")
    pcie = scale(whole, "p", link="pcie4")
    assert pcie.message_seconds(1 << 26).seconds > 5 * whole.message_seconds(1 << 26).seconds
    reduce = Collective("r", "all_reduce", 1 << 26, 4)
    assert pcie.seconds(reduce).seconds > 5 * whole.seconds(reduce).seconds


def test_it_is_marked_hypothetical_and_survives_a_file(tmp_path: Path) -> None:
    weak = scale(find_hardware("h100-sxm"), "weak", memory_bandwidth=0.5, clock=0.7, link="pcie4")
    weak.save(tmp_path / "weak.json")
    assert load_profile(tmp_path / "weak.json") == weak
    assert {source.kind for source in weak.sources.values()} == {"hypothetical"}
    assert weak.seconds(STREAMED).log_sd > find_hardware("h100-sxm").seconds(STREAMED).log_sd


def test_a_small_factor_keeps_the_held_out_error_and_a_large_one_has_a_datasheets() -> None:
    whole = find_hardware("a100-sxm")
    attention = Attention("a", 8, 1, 4096, 32, 8, 128, "bfloat16")
    for op in (STREAMED, attention, Collective("r", "all_reduce", 1 << 16, 4)):
        same, near, far = (scale(whole, "s", memory_bandwidth=of).seconds(op).log_sd for of in (0.999, 0.76, 0.5))
        held_out = whole.seconds(op).log_sd
        assert same == pytest.approx(held_out, rel=0.01)
        assert near == pytest.approx(math.hypot(held_out, 0.25 * math.log2(1 / 0.76)))
        assert far == pytest.approx(math.hypot(held_out, 0.25))
        assert scale(whole, "s", memory_bandwidth=0.45).seconds(op).log_sd == pytest.approx(far)
    linked = scale(whole, "l", link="nvlink2").seconds(Collective("r", "all_reduce", 1 << 16, 4))
    assert linked.log_sd == pytest.approx(0.25)


A_SMALLER_ONE = Datasheet(
    name="RTX 5090",
    memory_bytes=32 * 2**30,
    memory_bandwidth=1792e9,
    peak_flops={"bfloat16": 209.5e12, "float8": 419e12},
    link="pcie5",
    count=2,
)


def test_a_device_of_a_datasheet_streams_and_computes_at_its_figures() -> None:
    like, made = find_hardware("h100-sxm"), from_datasheet(find_hardware("h100-sxm"), A_SMALLER_ONE, "rtx-5090")
    streamed, computed = ((made.seconds(op).seconds / like.seconds(op).seconds) for op in (STREAMED, COMPUTED))
    assert streamed == pytest.approx(3350 / 1792, rel=0.05)
    assert computed == pytest.approx(989 / 209.5, rel=0.1)
    assert (made.device.count, made.device.memory_bytes) == (2, 32 * 2**30)
    assert list(made.gemm) == ["bfloat16", "float8"]  # what the datasheet does not name is not there
    assert list(made.collectives["all_reduce"]) == [2]
    assert made.message_seconds(1 << 26).seconds > 5 * like.message_seconds(1 << 26).seconds
    assert {source.kind for source in made.sources.values()} == {"hypothetical"}
    assert all(model.report is None for model in made.models().values())


def test_a_rate_alone_moves_every_format_in_proportion() -> None:
    like = find_hardware("h100-sxm")
    made = from_datasheet(like, Datasheet("half", peak_flops={"": 989e12 / 2}), "half")
    assert made.device.peak_flops == {dtype: flops / 2 for dtype, flops in like.device.peak_flops.items()}
    assert list(made.gemm) == list(like.gemm)


def test_a_datasheet_that_cannot_be_read_is_one_line() -> None:
    like = find_hardware("h100-sxm")
    with refused("float9", "float8"):
        from_datasheet(like, Datasheet("x", peak_flops={"float9": 1e12}), "x")
    with refused("pcie6"):
        from_datasheet(like, Datasheet("x", link="pcie6"), "x")


def test_a_target_and_a_weaker_draft_on_two_profiles(tmp_path: Path) -> None:
    """The proposal's heterogeneity experiment: a slower draft device finishes later and fits less fan-out."""
    weak = scale(find_hardware("h100-sxm"), "weak", memory_bandwidth=0.25, clock=0.5, link="pcie4")
    weak.save(tmp_path / "weak.json")
    options: dict[str, Any] = {"draft_hardware": str(tmp_path / "weak.json"), "b": 4}
    strong, slow = (configure(**each).scenarios["ssd"].seconds for each in ({"b": 4}, options))
    assert slow["pre-speculate"] > strong["pre-speculate"]
    assert slow["verify"] == strong["verify"]
    kinds = [record["summary"].split()[0] for record in map(dict, _provenance(options))]
    assert "hypothetical" in kinds


def _provenance(options: dict[str, Any]) -> list[dict[str, str]]:
    from ssdsim.answers.predict import as_json

    records: list[dict[str, str]] = as_json(predict(**options))["provenance"]
    return records


@pytest.mark.parametrize("wrong", [{"clock": 0.0}, {"memory_bandwidth": -1.0}, {"link": "pci4"}])
def test_mistakes_are_named(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"positive factor|did you mean 'pcie4'"):
        scale(find_hardware("h100-sxm"), "x", **wrong)


def test_a_copy_of_a_profile_that_has_priced_prices_anew() -> None:
    forward = forward_pass(find_transformer("llama-3.1-70b"), batch=1, context=512, tp=4)
    profile = find_hardware("h100-sxm")
    before = cost_of_pass(forward, profile).seconds
    assert cost_of_pass(forward, scale(profile, "slow", memory_bandwidth=0.5)).seconds > 1.5 * before


def test_the_40_gb_a100_is_the_80_gb_one_with_memory_of_its_own_and_wider_errors() -> None:
    whole, half = find_hardware("a100-sxm"), find_hardware("a100-40gb")
    made = scale(whole, "made", memory_bandwidth=1555 / 2039)
    assert half.gemm == made.gemm
    assert half.device.memory_bandwidth == pytest.approx(made.device.memory_bandwidth)
    assert half.gemm["bfloat16"].log_sd > whole.gemm["bfloat16"].log_sd
    for name, profile in (("NVIDIA A100-SXM4-40GB", half), ("NVIDIA A100-SXM4-80GB", whole)):
        assert [is_same_gpu(name, each.device.name, each.device.memory_bytes) for each in (half, whole)] == [
            profile is half,
            profile is whole,
        ]
