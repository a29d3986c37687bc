"""Compressed attention's and hyper-connections' laws: what grows, what was timed, and what other devices are given."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssdsim.hardware.catalog import find_hardware, find_transformer
from ssdsim.hardware.profile import HardwareProfile
from ssdsim.hardware.what_if import scale
from ssdsim.pricing.passes import cost_of_operations
from ssdsim.transformer.compressed import CompressedAttention, CompressedIndexer, over_prompts
from ssdsim.transformer.forward import forward_pass
from ssdsim.transformer.hyper_connections import HyperConnection
from ssdsim.transformer.operations import Operation
from ssdsim.transformer.prefill import prefill_pass

TIMED = ("h100-sxm", "h200-sxm", "b200-sxm", "b300-sxm")
KINDS = (CompressedAttention, CompressedIndexer, HyperConnection)


def indexer(batch: int = 8, queries: int = 1, context: int = 8192) -> CompressedIndexer:
    return CompressedIndexer("indexer", batch, queries, context, 64, 128, 1024, "bfloat16", "float8-block")


def attention(batch: int = 8, queries: int = 1, context: int = 32768, ratio: int = 4) -> CompressedAttention:
    chosen = 1024 if ratio == 4 else 0
    of = batch, queries, context, 128, ratio, chosen, 16, 512, 64, "bfloat16", "float8", "float8-block"
    return CompressedAttention("compressed_attention", *of)


def mixing(tokens: int, way: str = "pre") -> HyperConnection:
    return HyperConnection(f"streams_{way}", way, tokens, 4, 7168, "bfloat16")  # type: ignore[arg-type]


def seconds(profile: HardwareProfile, op: Operation) -> float:
    return profile.seconds(op).seconds


@pytest.mark.parametrize("name", TIMED)
def test_chosen_entries_do_not_grow_with_the_context_and_others_do(name: str) -> None:
    profile = find_hardware(name)
    assert seconds(profile, attention(64, context=131072)) == seconds(profile, attention(64, context=8192))
    assert seconds(profile, attention(64, 1, 131072, 128)) > seconds(profile, attention(64, 1, 8192, 128))
    assert seconds(profile, indexer(64, context=32768)) > seconds(profile, indexer(64, context=2048))


@pytest.mark.parametrize("name", TIMED)
def test_streams_take_a_floor_then_their_bytes(name: str) -> None:
    profile = find_hardware(name)
    for way in ("pre", "post"):
        few, many = seconds(profile, mixing(1, way)), seconds(profile, mixing(16384, way))
        assert seconds(profile, mixing(16, way)) == pytest.approx(few, rel=0.2)
        assert many > mixing(16384, way).bytes / profile.device.memory_bandwidth
    assert 4e-6 < few < seconds(profile, mixing(1)) < 1.5e-5


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


@given(tokens=st.integers(16, 40_000), name=st.sampled_from((*TIMED, "a100-sxm")))
def test_longer_prompts_take_longer(tokens: int, name: str) -> None:
    profile, card = find_hardware(name), find_transformer("deepseek-v4-flash")
    short, long = (
        cost_of_operations(prefill_pass(card, batch=1, tokens=each, tp=8).counted, profile).seconds
        for each in (tokens, tokens + tokens // 8 + 1)
    )
    assert short < long < 2.0 * short


def test_what_was_not_timed_is_said() -> None:
    profile = find_hardware("b200-sxm")
    for op in (indexer(), attention(), attention(context=64), mixing(64)):
        assert profile.seconds(op).warning is None
    for other, said in (
        (indexer(context=500_000), "seen above the largest timed"),
        (attention(queries=4), "one query a sequence was timed"),
        (mixing(10**6), "tokens above"),
    ):
        timing = profile.seconds(other)
        assert timing.warning is not None
        assert said in timing.warning


@pytest.mark.parametrize("name", TIMED)
def test_a_device_without_tables_is_scaled_and_says_so(name: str) -> None:
    own = find_hardware(name)
    bare = own.changed(compressed={}, hyper_connection={})
    card = find_transformer("deepseek-v4-pro")
    for work in (forward_pass(card, batch=64, context=8192, tp=8), prefill_pass(card, batch=1, tokens=8192, tp=8)):
        ops = [op for op, _ in work.counted if "compressed" in type(op).__name__.lower() or isinstance(op, KINDS)]
        for op in ops:
            timing = bare.seconds(op)
            assert timing.provenance_kind == "datasheet"
            assert timing.warning is not None
            assert 0.4 < timing.seconds / seconds(own, op) < 2.5, op


def test_a_faster_memory_shortens_the_weights_of_a_block() -> None:
    profile = find_hardware("b200-sxm")
    twice = scale(profile, "twice", memory_bandwidth=2.0)
    work = forward_pass(find_transformer("deepseek-v4-pro"), batch=1, context=8192, tp=1)
    projections = next(op for op, _ in work.counted if op.kernel == "compressed_projections")
    assert seconds(twice, projections) < 0.6 * seconds(profile, projections)


@pytest.mark.parametrize("name", ["h100-sxm", "h200-sxm", "b200-sxm", "b300-sxm"])
def test_an_engine_has_blocks_of_its_own(name: str) -> None:
    """SGLang's take as much as vLLM's until an indexer chooses, and a half more from there on."""
    vllm, sglang = (find_hardware(name).of_engine(engine) for engine in ("vllm", "sglang"))

    def block_s(profile: HardwareProfile, context: int) -> float:
        work = forward_pass(find_transformer("deepseek-v4-pro"), batch=8, context=context, tp=8)
        kinds = (CompressedAttention, CompressedIndexer)
        return sum(count * profile.seconds(op).seconds for op, count in work.counted if isinstance(op, kinds))

    near, far = (block_s(sglang, context) / block_s(vllm, context) for context in (1024, 32768))
    assert 0.9 < near < 1.3
    assert 1.2 < far < 1.9
    assert far > near


def test_what_an_engine_was_not_timed_in_is_anothers_and_wider() -> None:
    profile = find_hardware("b200-sxm")
    prompt = over_prompts(attention(), 512, 0)
    own, others = (profile.of_engine(engine).seconds(prompt) for engine in ("vllm", "sglang"))
    assert own.seconds == others.seconds
    assert others.warning is not None
    assert "sglang's kernels were not timed, vllm's were" in others.warning
    assert others.log_sd > 0.25 > own.log_sd
