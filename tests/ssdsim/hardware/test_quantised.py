"""Prices of products with quantised weights and of attention over a quantised cache, timed or not."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssdsim.hardware.catalog import find_hardware
from ssdsim.hardware.laws import DATASHEET_LOG_SD, Roofline
from ssdsim.hardware.timing import EXTRAPOLATION_LOG_SD
from ssdsim.transformer.operations import DTYPES, QUANTISED_BYTES, WEIGHT_BYTES, Attention, Gemm
from tests.refusals import refused
from tests.ssdsim.hardware.test_hardware import REPORT, ROOFLINE, attention, card, profile

BARE = profile()
WITH_FLOAT8 = profile(gemm=card()["gemm"] | {"float8": card()["gemm"]["bfloat16"] | {"element_bytes": 1}})
shapes = {"m": st.integers(1, 4096), "n": st.integers(64, 65_536), "k": st.integers(64, 65_536)}
untimed = st.sampled_from(sorted(set(QUANTISED_BYTES)))


def test_a_timed_format_has_its_own_law() -> None:
    timing = WITH_FLOAT8.seconds(Gemm("x", 4, 4096, 8192, "float8"))
    law = WITH_FLOAT8.gemm["float8"]
    assert timing.seconds == pytest.approx(float(law.seconds(4, 4096, 8192)))
    assert (timing.key, timing.log_sd, timing.warning) == ("gemm:4096x8192:float8", law.log_sd, None)


def test_timings_of_float8_stand_in_for_blocks_of_it() -> None:
    timing = WITH_FLOAT8.seconds(Gemm("x", 4, 4096, 8192, "float8-block"))
    same = WITH_FLOAT8.seconds(Gemm("x", 4, 4096, 8192, "float8"))
    assert timing.seconds == same.seconds
    assert timing.log_sd == pytest.approx(math.hypot(same.log_sd, EXTRAPOLATION_LOG_SD))
    assert timing.warning
    assert "float8-block was not timed, float8 was" in timing.warning


@pytest.mark.parametrize("dtype", QUANTISED_BYTES)
def test_a_format_that_was_not_timed_is_as_efficient_as_the_nearest_and_says_so(dtype: str) -> None:
    op, plain = Gemm("x", 1, 8192, 8192, dtype), Gemm("x", 1, 8192, 8192, "bfloat16")
    timing, timed = BARE.seconds(op), BARE.seconds(plain)
    assert timing.warning == f"toy: no {dtype} GEMMs were timed: their bytes at the efficiency of bfloat16's"
    assert timing.log_sd == math.hypot(timed.log_sd, DATASHEET_LOG_SD)
    roofline_s = Roofline(**ROOFLINE).seconds(np.array([op.bytes, plain.bytes]), op.flops)
    assert timing.seconds / timed.seconds == pytest.approx(roofline_s[0] / roofline_s[1], rel=1e-6)
    assert BARE.launch_seconds(op) == ROOFLINE["launch_s"]


@pytest.mark.parametrize(("name", "activations", "row"), [("v100-sxm2-32gb", "float16", 0.3), ("a100-sxm", "", 0.0)])
def test_a_row_more_of_untimed_weights_costs_what_it_did_elsewhere(name: str, activations: str, row: float) -> None:
    """What cancels in a comparison of one row with five is the bandwidth, not the unpacking: that one stays open."""
    device = find_hardware(name)
    one, five, tile, more = (
        device.seconds(Gemm("x", m, 8192, 8192, "int4", activations or "bfloat16")) for m in (1, 5, 16, 17)
    )
    stream_s = WEIGHT_BYTES["int4"] * 8192**2 / device.device.memory_bandwidth
    assert five.seconds - one.seconds == pytest.approx(4 * row * stream_s, rel=0.2, abs=0.1 * stream_s)
    assert one.shared["gemm:int4 rows"] == 0.0
    assert 0.05 < five.shared["gemm:int4 rows"] < tile.shared["gemm:int4 rows"] < 0.8
    assert more.seconds - tile.seconds <= 0.1 * tile.seconds
    assert five.log_sd == pytest.approx(math.hypot(one.log_sd, five.shared["gemm:int4 rows"]))


def test_four_bits_are_taken_for_the_kernels_that_multiply_alike_and_eight_for_the_nearest() -> None:
    h200, a100 = find_hardware("h200-sxm"), find_hardware("a100-sxm")
    near = {kept: h200.seconds(Gemm("x", 4, 8192, 8192, kept)).warning or "" for kept in ("nvfp4", "int4", "int8")}
    assert [said.rpartition(" ")[2] for said in near.values()] == ["bfloat16's", "bfloat16's", "float8's"]
    assert "bfloat16's" in (a100.seconds(Gemm("x", 4, 8192, 8192, "float8")).warning or "")


@given(**shapes, formats=st.tuples(untimed, untimed))
def test_the_guess_never_grows_as_weights_shrink(m: int, n: int, k: int, formats: tuple[str, str]) -> None:
    narrow, wide = sorted(formats, key=WEIGHT_BYTES.__getitem__)
    fast, slow = (BARE.seconds(Gemm("x", m, n, k, dtype)).seconds for dtype in (narrow, wide))
    assert fast <= slow * (1 + 1e-12)


@given(**shapes, dtype=untimed)
def test_an_untimed_format_is_never_faster_than_bytes_and_arithmetic_allow(m: int, n: int, k: int, dtype: str) -> None:
    op = Gemm("x", m, n, k, dtype)
    seconds = BARE.seconds(op).seconds * (1 + 1e-9)
    assert seconds >= op.flops / BARE.device.peak_flops["bfloat16"]
    assert seconds >= op.streamed_bytes / BARE.device.memory_bandwidth


@given(**shapes, dtype=st.sampled_from(sorted(set(QUANTISED_BYTES) - {"float8", "float8-block"})))
def test_nor_on_a_bundled_profile(m: int, n: int, k: int, dtype: str) -> None:
    """Whose fitted peak is above the device's, since its smooth maximum is soft."""
    found, op = find_hardware("h100-sxm"), Gemm("x", m, n, k, dtype)
    peaks = found.device.peak_flops
    if dtype not in found.gemm:
        best = max(peaks[each] for each in op.arithmetic if each in peaks)
        assert found.seconds(op).seconds * (1 + 1e-9) >= op.flops / best


def test_without_the_activations_dtype_nothing_can_be_guessed() -> None:
    with refused("float16 gemm"):
        BARE.seconds(Gemm("x", 4, 4096, 4096, "int4", "float16"))
    with refused("float16 attention"):
        BARE.seconds(attention(dtype="float16", kv_dtype="float8"))


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_plain_cache_that_was_not_timed_is_refused(dtype: str) -> None:
    if dtype != "bfloat16":
        with refused(f"{dtype} attention"):
            BARE.seconds(attention(kv_dtype=dtype))


def test_attention_over_a_timed_cache_has_its_own_law() -> None:
    slower = ROOFLINE | {"bandwidth": 2e12}
    timed = card()["attention"] | {"float8": {"source": "bench", "roofline": slower, "report": REPORT}}
    found = profile(attention=timed)
    op = attention(kv_dtype="float8", context=65_536)
    timing = found.seconds(op)
    shape = (op.batch, op.queries, op.context, op.heads, op.kv_heads, op.head_dim)
    assert timing.seconds == pytest.approx(float(found.attention["float8"].seconds(*shape, 1)))
    assert (timing.key, timing.warning, timing.log_sd) == ("attention:2x128:float8", None, REPORT["log_sd"])
    masked = found.seconds(attention(kv_dtype="float8", masked=True))
    assert masked.warning
    assert "branch masks were not timed" in masked.warning


def test_attention_over_a_cache_that_was_not_timed_takes_what_a_timed_one_does() -> None:
    """Half the bytes in half the time would be a guess: what turning 8 bits back into 16 costs there, nobody knows."""
    plain, over = attention(context=65_536), attention(context=65_536, kv_dtype="float8")
    timing, whole = BARE.seconds(over), BARE.seconds(plain)
    assert timing.seconds == whole.seconds
    assert timing.log_sd == pytest.approx(math.hypot(whole.log_sd, EXTRAPOLATION_LOG_SD))
    assert timing.warning
    assert "a float8 cache was not timed, a bfloat16 one was" in timing.warning
    assert BARE.launch_seconds(over) == ROOFLINE["launch_s"]


def test_a_branch_mask_over_a_quantised_cache_takes_the_nearest_timings() -> None:
    slow: dict[str, Any] = {"bfloat16": {"source": "bench", "roofline": ROOFLINE | {"launch_s": 1e-3}}}
    found = profile(attention_masked=slow)
    assert found.seconds(attention(kv_dtype="float8", masked=True)).seconds > 9e-4
    assert found.seconds(attention(kv_dtype="float8")).seconds < 1e-4


def test_a_cache_of_the_arithmetics_dtype_is_the_same_operation() -> None:
    op = Attention("x", 1, 1, 1, 1, 1, 1, "bfloat16")
    assert op.cache_dtype == "bfloat16"
    assert op.arithmetic == ("bfloat16",)
