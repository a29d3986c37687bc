"""Sparse attention's laws: what queries of a sequence share, what was timed, and what other devices are given."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssdsim.hardware.catalog import find_hardware
from ssdsim.hardware.profile import HardwareProfile
from ssdsim.hardware.what_if import scale
from ssdsim.transformer.sparse import Indexer, PrefillSparse, SparseAttention, key_bytes

TIMED = ("h100-sxm", "h200-sxm", "b200-sxm", "b300-sxm")


def indexer(batch: int = 8, queries: int = 1, context: int = 32768, projections: str = "float8-block") -> Indexer:
    return Indexer("indexer", batch, queries, context, 64, 128, 2048, "bfloat16", projections)


def attention(
    batch: int = 8, queries: int = 1, context: int = 32768, heads: int = 16, kv: str = "float8"
) -> SparseAttention:
    return SparseAttention(
        "sparse_attention", batch, queries, context, 2048, heads, 512, 64, "bfloat16", kv, "float8-block"
    )


def seconds(profile: HardwareProfile, op: Indexer | SparseAttention) -> float:
    return profile.seconds(op).seconds


@pytest.mark.parametrize("name", TIMED)
def test_the_indexer_grows_with_the_context_and_attention_does_not(name: str) -> None:
    profile = find_hardware(name)
    short, long = indexer(64, context=8192), indexer(64, context=131072)
    read_s = 64 * (131072 - 8192) * key_bytes(128) / profile.device.memory_bandwidth
    assert read_s < seconds(profile, long) - seconds(profile, short) < 2.5 * read_s
    assert seconds(profile, attention(64, context=131072)) == seconds(profile, attention(64, context=8192))


@pytest.mark.parametrize("name", TIMED)
def test_queries_of_a_sequence_share_the_reading_of_keys_alone(name: str) -> None:
    profile = find_hardware(name)
    one, four, apart = (
        seconds(profile, indexer(batch, queries, 131072)) for batch, queries in ((32, 1), (32, 4), (128, 1))
    )
    assert one < four < apart
    assert seconds(profile, attention(32, 4)) == pytest.approx(seconds(profile, attention(128, 1)), rel=1e-9)


@given(
    batch=st.integers(1, 512), queries=st.integers(1, 8), context=st.integers(1, 200_000), name=st.sampled_from(TIMED)
)
def test_more_of_anything_takes_no_less(batch: int, queries: int, context: int, name: str) -> None:
    profile = find_hardware(name)
    for of in (indexer, attention):
        at = seconds(profile, of(batch, queries, context))
        assert at > 0.0
        for more in ((batch + 1, queries, context), (batch, queries + 1, context), (batch, queries, context + 1)):
            assert seconds(profile, of(*more)) >= at


def test_what_was_not_timed_is_said() -> None:
    profile = find_hardware("b200-sxm")
    for op in (indexer(), indexer(queries=4), attention(), attention(context=64)):
        assert profile.seconds(op).warning is None
    for other, said in (
        (indexer(context=500_000), "context above the largest timed"),
        (indexer(projections="nvfp4"), "beside nvfp4 projections"),
        (attention(queries=4), "one query a sequence was timed"),
        (attention(heads=256), "heads above"),
    ):
        timing = profile.seconds(other)
        assert timing.warning is not None
        assert said in timing.warning
        assert timing.log_sd > profile.seconds(attention()).log_sd
    prompts = PrefillSparse("indexer", 1, 8192, 0, 8192, 16384.0, 132, ("float8", "bfloat16"))
    assert profile.seconds(prompts).provenance_kind == "datasheet"
    assert profile.seconds(prompts).seconds > prompts.flops / profile.device.peak_flops["float8"]


@pytest.mark.parametrize("name", TIMED)
def test_a_device_without_a_table_is_scaled_and_says_so(name: str) -> None:
    own = find_hardware(name)
    bare = own.changed(indexer={}, sparse_attention={})
    for op in (indexer(64), attention(64), indexer(1), attention(1)):
        timing = bare.seconds(op)
        assert timing.provenance_kind == "datasheet"
        assert timing.log_sd >= 0.25
        assert timing.warning is not None
        assert "scaled from that of an H100" in timing.warning
        assert 0.5 < timing.seconds / seconds(own, op) < 2.0
    assert find_hardware("a100-sxm").seconds(indexer()).seconds > 0.0


def test_a_faster_memory_shortens_long_contexts() -> None:
    profile = find_hardware("b200-sxm")
    twice = scale(profile, "twice", memory_bandwidth=2.0)
    for long, share in ((indexer(256, context=131072), 0.75), (attention(1), 1.01)):
        assert seconds(twice, long) < share * seconds(profile, long)
