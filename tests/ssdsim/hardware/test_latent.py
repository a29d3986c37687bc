"""Attention over a latent cache: a law fitted to whole blocks, and what devices without a table are given."""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibration.importers.latent import _block, import_latent
from ssdsim.hardware.catalog import find_hardware
from ssdsim.hardware.latent import SCALED, LatentCosts, LatentModel
from ssdsim.hardware.profile import HardwareProfile
from ssdsim.hardware.what_if import scale
from ssdsim.transformer.operations import LatentAttention

HIDDEN = LatentCosts(
    launch_s=3e-5, per_doubling_s=2e-6, per_row_doubling_s=1e-6, per_token_s=5e-8, per_row_s=1e-9,
    per_unfilled_row_s=2e-9, bandwidth=3e12, peak_flops=7e14, sharpness=3.0,
)  # fmt: skip
WEIGHTS = {"bfloat16": "bfloat16", "fp8_block": "float8-block"}


@cache
def bare() -> HardwareProfile:
    """The H100 as if nobody had timed a latent cache on it."""
    return find_hardware("h100-sxm").changed(latent={})


def block_s(profile: HardwareProfile, heads: int, batch: int, context: int, weights: str) -> float:
    return sum(profile.seconds(op).seconds for op in _block(heads, batch, context, "bfloat16", weights))


def table(noise: float) -> pd.DataFrame:
    """Blocks whose kernels cost what is known, beside the products that the profile prices."""
    rng, rows = np.random.default_rng(0), []
    for theirs, weights in WEIGHTS.items():
        for heads in (8, 16, 32, 64, 128):
            for batch in (1, 4, 16, 64, 256):
                for context in (2, 64, 1024, 8192, 65536):
                    ops = _block(heads, batch, context, "bfloat16", weights)
                    kernel = next(op for op in ops if isinstance(op, LatentAttention))
                    own = float(HIDDEN.seconds(batch, 1, heads, kernel.streamed_bytes, kernel.row_flops))
                    own += sum(bare().seconds(op).seconds for op in ops if op is not kernel)
                    rows.append(("bfloat16", theirs, heads, batch, 1, context, own * np.exp(noise * rng.normal())))
    columns = ["kv_cache_dtype", "gemm_type", "num_heads", "batch_size", "isl", "step", "seconds"]
    return pd.DataFrame(rows, columns=columns)


@cache
def fitted(noise: float) -> dict[str, LatentModel]:
    return import_latent(table(noise), bare(), "gemm_perf")["bfloat16"]


def test_the_costs_behind_blocks_are_found_beside_either_products() -> None:
    for weights in ("bfloat16", "float8-block"):
        costs, report = fitted(0.0)[weights].costs, fitted(0.0)[weights].report
        assert costs.bandwidth == pytest.approx(HIDDEN.bandwidth, rel=0.02)
        assert costs.peak_flops == pytest.approx(HIDDEN.peak_flops, rel=0.05)
        # of eight heads and more: a launch and three doublings of rows are told apart by fewer
        assert costs.floor_s(1, 8) == pytest.approx(HIDDEN.floor_s(1, 8), rel=0.1)
        assert report is not None
        assert report.p95_error < 0.01


def test_a_priced_block_is_the_timed_one_and_its_error_that_of_rows_held_out() -> None:
    found = fitted(0.04)
    profile = bare().changed(latent={"bfloat16": found})
    rows = table(0.0)
    for theirs, weights in WEIGHTS.items():
        report = found[weights].report
        assert report is not None
        assert 0.015 < report.median_error < 0.045  # the median of a normal error of 4 % is 2.7 %
        own = rows[(rows["gemm_type"] == theirs) & (rows["num_heads"] == 32)]
        for _, row in own[::7].iterrows():
            priced = block_s(profile, 32, int(row["batch_size"]), int(row["step"]), weights)
            assert priced == pytest.approx(row["seconds"], rel=0.04)


@given(
    batch=st.integers(1, 256),
    queries=st.integers(1, 8),
    heads=st.sampled_from([8, 16, 64, 128]),
    context=st.integers(1, 100_000),
)
def test_more_of_anything_takes_no_less(batch: int, queries: int, heads: int, context: int) -> None:
    def seconds(batch: int, queries: int, heads: int, context: int) -> float:
        op = LatentAttention("attention", batch, queries, context, heads, 512, 64, "bfloat16")
        return find_hardware("h200-sxm").seconds(op).seconds

    at = seconds(batch, queries, heads, context)
    assert seconds(batch, queries + 1, heads, context) >= 0.999 * at
    assert seconds(batch + 1, queries, heads, context) >= at
    assert seconds(batch, queries, heads, 2 * context) >= at
    assert at >= seconds(batch, queries, heads, context) > 0.0


def test_what_was_not_timed_is_said() -> None:
    profile = bare().changed(latent={"bfloat16": fitted(0.04)})
    one = LatentAttention("attention", 4, 1, 1024, 16, 512, 64, "bfloat16")
    verified = LatentAttention("attention", 4, 4, 1024, 16, 512, 64, "bfloat16")
    narrow = LatentAttention("attention", 4, 1, 1024, 16, 512, 64, "bfloat16", kv_dtype="float8")
    per_tensor = LatentAttention("attention", 4, 1, 1024, 16, 512, 64, "bfloat16", projections="float8")
    assert profile.seconds(one).warning is None
    for op, said in ((verified, "one query"), (narrow, "a float8 cache"), (per_tensor, "beside float8 projections")):
        timing = profile.seconds(op)
        assert timing.warning is not None
        assert said in timing.warning
        assert timing.log_sd > profile.seconds(one).log_sd


def test_a_device_without_a_table_is_scaled_and_says_so() -> None:
    op = LatentAttention("attention", 64, 1, 16384, 16, 512, 64, "bfloat16")
    for name in ("b200-sxm", "a100-sxm"):
        profile = find_hardware(name)
        timing = profile.seconds(op)
        assert timing.provenance_kind == "datasheet"
        assert timing.log_sd >= 0.25
        assert timing.warning is not None
        assert "scaled from that of H100 and H200" in timing.warning
        reading_s = op.streamed_bytes / profile.device.memory_bandwidth
        assert reading_s < timing.seconds < 1.6 * reading_s + SCALED[False, False].launch_s
    own = find_hardware("h200-sxm").seconds(op).seconds
    scaled = find_hardware("h200-sxm").changed(latent={}).seconds(op).seconds
    assert scaled == pytest.approx(own, rel=0.1)


def test_a_faster_memory_shortens_long_contexts() -> None:
    profile = find_hardware("h100-sxm")
    twice = scale(profile, "twice", memory_bandwidth=2.0)
    long = LatentAttention("attention", 64, 1, 65536, 16, 512, 64, "bfloat16")
    short = LatentAttention("attention", 1, 1, 64, 16, 512, 64, "bfloat16")
    assert twice.seconds(long).seconds < 0.6 * profile.seconds(long).seconds
    assert twice.seconds(short).seconds == pytest.approx(profile.seconds(short).seconds, rel=0.05)
