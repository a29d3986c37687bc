"""Laws of recurrent layers: streams of states, what stands in where nothing was timed, other devices."""

from __future__ import annotations

import pytest

from ssdsim.hardware.catalog import find_hardware
from ssdsim.hardware.elementwise import ConvolutionModel
from ssdsim.hardware.laws import HYPOTHETICAL
from ssdsim.hardware.prefill import PrefillRecurrenceCosts, PrefillRecurrenceModel
from ssdsim.hardware.profile import HardwareProfile, Provenance, provenance_summary
from ssdsim.hardware.recurrence import RecurrenceCosts, RecurrenceModel
from ssdsim.hardware.what_if import scale
from ssdsim.transformer.recurrences import Convolution, PrefillRecurrence, RecurrentStep

US = 1e-6


def step(batch: int = 64, queries: int = 1, **changes: object) -> RecurrentStep:
    shape = {"heads": 64, "key_heads": 16, "key_dim": 128, "value_dim": 128, "rule": "gated-delta", "dtype": "bfloat16"}
    return RecurrentStep("recurrence", batch, queries, **{**shape, **changes})  # type: ignore[arg-type]


def timed_profile(bandwidth: float = 2e12) -> HardwareProfile:
    """An H100 whose recurrences were timed, as slow as nobody would guess."""
    source = {"made": Provenance(kind="measured", source="a test")}
    profile = find_hardware("h100-sxm")
    recurrence = RecurrenceModel(
        source="made",
        domain={"batch": (1, 256), "queries": (1, 8)},
        costs=RecurrenceCosts(launch_s=9 * US, per_query_s=US, bandwidth=bandwidth),
    )
    in_chunks = PrefillRecurrenceCosts(
        launch_s=30 * US, per_token_s=5e-8, flops_per_s=1e14, bandwidth=1e12, sharpness=8.0
    )
    prompts = PrefillRecurrenceModel(source="made", costs=in_chunks)
    convolution = ConvolutionModel(source="made", launch_s=5 * US, bandwidth=1e12)
    return profile.changed(
        recurrence={"gated-delta": recurrence},
        prefill_recurrence={"gated-delta": prompts},
        convolution=convolution,
        sources=profile.sources | source,
    )


@pytest.mark.parametrize("rule", ["gated-delta", "kimi-delta", "mamba2"])
@pytest.mark.parametrize("name", ["h100-sxm", "b200-sxm", "l40s"])
def test_what_was_not_timed_takes_the_h100_s_share_of_the_bandwidth_and_says_so(name: str, rule: str) -> None:
    profile = find_hardware(name).changed(recurrence={})
    timing = profile.seconds(step(batch=512, rule=rule))
    streaming_s = 2 * 512 * 64 * 128 * 128 * 4 / profile.device.memory_bandwidth
    assert 1.1 * streaming_s < timing.seconds < 1.25 * streaming_s
    assert timing.provenance_kind == "datasheet"
    assert timing.warning == (f"{name}: no {rule} recurrence was timed: the H100's floor and share of the bandwidth")


def test_timings_of_the_rule_are_taken_where_there_are_some() -> None:
    profile = timed_profile()
    op = step(batch=64, queries=4)
    seconds = profile.seconds(op)
    assert seconds.seconds == pytest.approx(12 * US + 5 * 64 * op.state_bytes / 2e12)
    assert (seconds.warning, seconds.provenance_kind) == (None, "measured")
    assert profile.launch_seconds(op) == pytest.approx(12 * US)
    beyond = profile.seconds(step(batch=512)).warning
    assert beyond is not None
    assert "batch above the largest timed, 256" in beyond


def test_a_rule_that_nobody_timed_streams_as_its_kin_does() -> None:
    profile = timed_profile()
    kin, found = (profile.seconds(step(batch=64, rule=rule)) for rule in ("gated-delta", "mamba2"))
    assert found.seconds == kin.seconds
    assert found.warning == "h100-sxm: no mamba2 recurrence was timed: the gated-delta step's floor and bandwidth"


def test_states_come_from_memory_however_few_they_are() -> None:
    """A law that a loop over one buffer made faster than memory is held to memory's rate."""
    profile = timed_profile(bandwidth=1e15)
    op = step(batch=64, queries=2)
    seconds = profile.seconds(op)
    assert seconds.seconds == pytest.approx(op.streamed_bytes / profile.device.memory_bandwidth)
    assert "recurrence is priced at what memory and arithmetic take" in str(seconds.warning)


def test_states_of_16_bits_take_half_as_long_beyond_the_floor() -> None:
    profile = timed_profile()
    wide, narrow = (profile.seconds(step(batch=256, state_dtype=dtype)).seconds for dtype in ("float32", "bfloat16"))
    assert narrow - 9 * US == pytest.approx((wide - 9 * US) / 2)


def test_another_device_has_the_same_law_by_its_bandwidth_and_clock() -> None:
    profile = timed_profile()
    twice = scale(profile, "twice", memory_bandwidth=2.0, clock=2.0)
    for op in (
        step(batch=256, queries=3),
        Convolution("convolution", 256, 3, 12288, 4, "bfloat16"),
        PrefillRecurrence("recurrence", 8, 4096, 64, 16, 128, 128, "gated-delta", "bfloat16"),
    ):
        assert twice.seconds(op).seconds == pytest.approx(profile.seconds(op).seconds / 2)
        assert twice.seconds(op).provenance_kind == HYPOTHETICAL


def test_a_prompt_is_done_in_turn_however_few_share_the_device() -> None:
    profile = timed_profile()
    one, two, many = (
        profile.seconds(PrefillRecurrence("r", batch, 4096, 4, 4, 128, 128, "gated-delta", "bfloat16")).seconds
        for batch in (1, 2, 128)
    )
    assert one == pytest.approx(two, rel=0.02)
    assert many > 5 * one


def test_prompts_and_convolutions_have_laws_everywhere() -> None:
    untimed = find_hardware("h100-sxm").changed(prefill_recurrence={}, convolution=None)
    prompt = PrefillRecurrence("recurrence", 8, 16384, 64, 16, 128, 128, "gated-delta", "bfloat16")
    # 3.44 ms in aiconfigurator's table of the H100, 2.90 ms for the convolution
    assert untimed.seconds(prompt).seconds == pytest.approx(3.44e-3, rel=0.35)
    assert untimed.seconds(Convolution("c", 8, 16384, 12288, 4, "bfloat16")).seconds == pytest.approx(2.9e-3, rel=0.2)
    assert "was timed" in str(untimed.seconds(prompt).warning)
    profile = timed_profile()
    assert profile.seconds(prompt).warning is None
    assert profile.launch_seconds(prompt) == 30 * US
    assert profile.launch_seconds(Convolution("c", 1, 1, 12288, 4, "bfloat16")) == 5 * US


def test_what_recurrent_layers_rest_on_is_said_of_models_that_have_them() -> None:
    profile = find_hardware("h100-sxm")
    assert "recurrence" not in (plain := provenance_summary(profile, {"bfloat16"}, 1))
    assert "convolution" not in plain
    hybrid = provenance_summary(profile, {"bfloat16"}, 1, rules={"gated-delta"})
    assert "recurrence 1.1%, convolution 6.0%" in hybrid
