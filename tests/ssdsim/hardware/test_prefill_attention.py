"""Prefill attention: what it computes, what a profile without timings says of it, and laws over the bundled ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ssdsim.hardware.catalog import find_hardware, hardware_names
from ssdsim.hardware.laws import DATASHEET_LOG_SD
from ssdsim.hardware.profile import load_profile
from ssdsim.hardware.what_if import scale
from ssdsim.transformer.operations import Attention, PrefillAttention
from tests.refusals import refused
from tests.ssdsim.hardware.test_hardware import REPORT, ROOFLINE, profile

TIMED = [(name, dtype) for name in hardware_names() for dtype in find_hardware(name).prefill_attention]
HEADS = [(64, 8), (32, 8), (40, 8), (16, 2), (8, 1), (32, 32)]
TOLERANCE_SDS = 4.0
"""How far a larger prompt may fall below a smaller one, in standard deviations of the law's held-out error.

A correction is fitted to timings, not to grow: launches dominate below some hundred tokens, where kernels change
and timings scatter. On a fine grid of these shapes the deepest falls are 14 and 21 % on the H100, 21 and 24 % on
the B200, with caches of 16 and of 8 bits.
"""


def prefill(**changes: Any) -> PrefillAttention:
    shape = {"batch": 2, "tokens": 1024, "heads": 32, "kv_heads": 8, "head_dim": 128}
    return PrefillAttention(**({"name": "prefill", "dtype": "bfloat16"} | shape | changes))


@given(tokens=st.integers(1, 64), batch=st.integers(1, 8), group=st.sampled_from([1, 4]))
def test_a_prompts_flops_are_those_of_decoding_it_token_by_token(tokens: int, batch: int, group: int) -> None:
    steps = [Attention("x", batch, 1, context, 8, 8 // group, 64, "bfloat16") for context in range(1, tokens + 1)]
    whole = prefill(batch=batch, tokens=tokens, heads=8, kv_heads=8 // group, head_dim=64)
    assert whole.flops == pytest.approx(sum(step.flops for step in steps))
    assert whole.bytes <= sum(step.bytes for step in steps)


def test_where_it_was_not_timed_half_the_datasheets_rate_is_taken_and_said() -> None:
    op = prefill(tokens=8192)
    timing = profile().seconds(op)
    assert timing.seconds == pytest.approx(op.flops / (0.5 * 9e14), rel=0.01)
    assert (timing.log_sd, timing.provenance_kind) == (DATASHEET_LOG_SD, "datasheet")
    assert timing.warning == "toy: prefill attention of bfloat16 was not timed: 50% of the device's peak flops"
    assert profile().launch_seconds(op) == 0.0


def test_timed_prefill_carries_its_error_domain_and_provenance(tmp_path: Path) -> None:
    model = {"source": "bench", "roofline": ROOFLINE, "report": REPORT, "domain": {"tokens": [1, 4096]}}
    timed = profile(prefill_attention={"bfloat16": model})
    inside, beyond = timed.seconds(prefill()), timed.seconds(prefill(tokens=8192))
    assert (inside.log_sd, inside.provenance_kind, inside.warning) == (0.04, "measured", None)
    assert beyond.warning
    assert "tokens above the largest timed, 4096" in beyond.warning
    assert timed.launch_seconds(prefill()) == 3e-6
    assert "prefill_attention:bfloat16" in timed.models()
    timed.save(tmp_path / "toy.json")
    assert load_profile(tmp_path / "toy.json") == timed
    slower = scale(timed, "slower", clock=0.5, memory_bandwidth=0.5)
    assert slower.seconds(prefill()).seconds == pytest.approx(2 * inside.seconds)
    with refused("context", error=ValueError):
        profile(prefill_attention={"bfloat16": model | {"domain": {"context": [1, 2]}}})


@given(
    timed=st.sampled_from(TIMED),
    heads=st.sampled_from(HEADS),
    head_dim=st.sampled_from([64, 128]),
    small=st.tuples(st.integers(1, 64), st.just(1) | st.integers(16, 16384)),  # no table has 2 to 15 tokens
    more=st.tuples(st.floats(1.0, 8.0), st.floats(1.0, 8.0)),
)
def test_a_larger_prefill_takes_longer_within_the_corrections_error(
    timed: tuple[str, str],
    heads: tuple[int, int],
    head_dim: int,
    small: tuple[int, int],
    more: tuple[float, float],
) -> None:
    name, dtype = timed
    found, shape = find_hardware(name), {"heads": heads[0], "kv_heads": heads[1], "head_dim": head_dim, "dtype": dtype}
    batch, tokens = small
    less = found.seconds(prefill(batch=batch, tokens=tokens, **shape))
    model = found.prefill_attention[dtype]
    for factors in ((more[0], 1.0), (1.0, more[1])):
        larger = prefill(batch=int(factors[0] * batch), tokens=int(factors[1] * tokens), **shape)
        timing = found.seconds(larger)
        assume(larger.tokens == 1 or larger.tokens >= 16)
        assume(less.warning is None and timing.warning is None)
        assert timing.seconds > less.seconds * (1.0 - TOLERANCE_SDS * model.log_sd)


@pytest.mark.parametrize(("name", "dtype"), TIMED)
def test_bundled_profiles_prefill_at_a_plausible_rate(name: str, dtype: str) -> None:
    found, op = find_hardware(name), prefill(batch=1, tokens=8192, dtype=dtype)
    timing = found.seconds(op)
    assert timing.warning is None
    assert 0.2 < op.flops / timing.seconds / found.device.peak_flops["bfloat16"] < 1.0
