"""Formats that a device was not timed in: a guess stands beside fitted laws, so it must not beat them by being one."""

from __future__ import annotations

import math
from functools import cache
from itertools import permutations
from typing import Any

import pytest

from ssdsim.base.errors import InputError
from ssdsim.hardware.catalog import HARDWARE, find_hardware, find_transformer
from ssdsim.hardware.runtime_card import KERNELS
from ssdsim.pricing.cost import Cost
from ssdsim.pricing.passes import cost_of_pass
from ssdsim.question.configuration import configure
from ssdsim.transformer.forward import forward_pass
from ssdsim.transformer.operations import QUANTISED_BYTES, WEIGHT_BYTES, ExpertMlp

PROFILES = [profile.name for profile in HARDWARE.cards() if profile.experts]
MODELS = (("llama-3.3-70b", 4), ("deepseek-r1", 8), ("gpt-oss-120b", 8), ("gpt-oss-120b", 1), ("qwen3-235b-a22b", 4))


@cache
def decoding(hardware: str, model: str, tp: int, batch: int, kept: str) -> Cost | None:
    """The kernels of one pass; None where the profile has no timings of so many devices."""
    forward = forward_pass(find_transformer(model), batch=batch, queries=1, context=1024, tp=tp, dtype=kept)
    try:
        return cost_of_pass(forward, find_hardware(hardware), KERNELS, "target")
    except InputError:
        return None


def is_newer(one: str, other: str) -> bool:
    """Say whether a device has more bandwidth than the other, more of all of its peaks, and as fast a link.

    Both are of one maker: another's kernels are other programs.
    """
    made, before = find_hardware(one), find_hardware(other)
    new, old = made.device, before.device
    faster = all(new.peak_flops.get(dtype, 0.0) > peak for dtype, peak in old.peak_flops.items())
    linked = made.message_seconds(1 << 26).seconds <= 1.1 * before.message_seconds(1 << 26).seconds
    of_one = new.name.startswith("AMD") == old.name.startswith("AMD")
    return of_one and faster and linked and new.memory_bandwidth > old.memory_bandwidth


@pytest.mark.parametrize("batch", [1, 64])
@pytest.mark.parametrize("kept", QUANTISED_BYTES)
def test_no_device_beats_a_better_one_in_a_format_that_it_was_not_timed_in(kept: str, batch: int) -> None:
    compared = 0
    for older, newer in permutations(PROFILES, 2):
        for model, tp in MODELS if is_newer(newer, older) else ():
            old, new = (decoding(name, model, tp, batch, kept) for name in (older, newer))
            plain = decoding(newer, model, tp, batch, "bfloat16")
            if old is None or new is None or plain is None or not any(f"no {kept} " in each for each in old.warnings):
                continue
            if new.seconds > plain.seconds and not any(f"no {kept} " in each for each in new.warnings):
                continue  # its table says so, and a warning does
            compared += 1
            error = math.hypot(old.log_sd, new.log_sd)
            assert math.log(new.seconds / old.seconds) < 1.96 * error, (older, newer, model, tp)
    assert compared


def test_experts_of_a_format_that_was_not_timed_take_as_long_as_the_nearest_with_their_own_bytes() -> None:
    h200 = find_hardware("h200-sxm")
    model = find_transformer("deepseek-r1")
    of: dict[str, Any] = {"batch": 1, "queries": 1, "context": 1024, "tp": 8}
    passes = [forward_pass(model, dtype=kept, **of).counted for kept in ("mxfp4", "nvfp4")]
    near, guess = (next(op for op, _ in counted if isinstance(op, ExpertMlp)) for counted in passes)
    timed, guessed = h200.seconds(near), h200.seconds(guess)
    assert guessed.warning == "h200-sxm: no nvfp4 experts were timed: their bytes at the efficiency of mxfp4's"
    assert timed.seconds < guessed.seconds < timed.seconds * guess.expert_bytes / near.expert_bytes
    assert guessed.log_sd > max(timed.log_sd, 0.25)
    assert h200.launch_seconds(guess) == h200.launch_seconds(near)


@pytest.mark.parametrize("batch", [1, 64])
@pytest.mark.parametrize("hardware", PROFILES)
def test_no_format_is_slower_than_a_larger_one_that_has_room_without_a_warning(hardware: str, batch: int) -> None:
    said = 0
    for model, tp in MODELS:
        slower: dict[str, str] = {}
        seconds: dict[str, float] = {}
        for kept in ("bfloat16", *QUANTISED_BYTES):
            options = {
                "target": model,
                "tp": tp,
                "b": batch,
                "dtype": kept,
                "kv_dtype": "bfloat16",
                "engine": "kernels",
            }
            try:
                asked = configure(hardware=hardware, strategies=["ar"], **options)
            except InputError:  # no room, or so many devices were not timed
                continue
            seconds[kept] = float(asked.scenarios["ar"].estimate.round_s)
            slower[kept] = " ".join(line for line in asked.warnings if "is slower in" in line)
        for one, other in permutations(seconds, 2):
            smaller, timed = WEIGHT_BYTES[one] <= WEIGHT_BYTES[other], other in find_hardware(hardware).gemm
            if smaller and timed and seconds[one] > 1.06 * seconds[other]:
                said += 1
                assert f"is slower in {one} than in" in slower[one], (model, other)
    assert said or hardware not in ("h100-sxm", "h200-sxm")


def test_a_dtype_that_is_slower_than_a_larger_one_says_which_to_take() -> None:
    of: dict[str, Any] = {"target": "qwen3-235b-a22b", "hardware": "h200-sxm", "tp": 4, "b": 64, "strategies": ["ar"]}
    line = "qwen3-235b-a22b on h200-sxm is slower in float8 than in float8-block, as kernels were timed there"
    assert f"{line}: --dtype float8-block" in configure(**of, dtype="float8").warnings
    assert not any(
        "is slower in" in each for kept in ("bfloat16", "float8-block") for each in configure(**of, dtype=kept).warnings
    )
