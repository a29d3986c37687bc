"""Sparse attention's laws: what queries of a sequence share, whose kernels are read, what other devices are given."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssdsim.hardware.catalog import find_hardware, find_transformer
from ssdsim.hardware.profile import OF_ENGINES, HardwareProfile, provenance_summary
from ssdsim.hardware.runtime_catalog import find_runtime
from ssdsim.hardware.what_if import scale
from ssdsim.pricing.passes import cost_of_operations
from ssdsim.question.configuration import configure
from ssdsim.transformer.block_sparse import BlockAttention, BlockChoice
from ssdsim.transformer.forward import forward_pass
from ssdsim.transformer.sparse import Indexer, PrefillSparse, SparseAttention, SparseStep, key_bytes, over_prompts

TIMED = ("h100-sxm", "h200-sxm", "b200-sxm", "b300-sxm")
ENGINES = ("vllm", "sglang")


def indexer(batch: int = 8, queries: int = 1, context: int = 32768, projections: str = "float8-block") -> Indexer:
    return Indexer("indexer", batch, queries, context, 64, 128, 2048, "bfloat16", projections)


def attention(
    batch: int = 8, queries: int = 1, context: int = 32768, heads: int = 16, kv: str = "float8"
) -> SparseAttention:
    return SparseAttention(
        "sparse_attention", batch, queries, context, 2048, heads, 512, 64, "bfloat16", kv, "float8-block"
    )


def block_choice(batch: int = 8, queries: int = 1, context: int = 32768) -> BlockChoice:
    return BlockChoice("block_choice", batch, queries, context, 1, 128, 128, 16, "bfloat16")


def block_attention(batch: int = 8, queries: int = 1, context: int = 32768) -> BlockAttention:
    return BlockAttention("block_attention", batch, queries, context, 128, 16, 8, 1, 128, "bfloat16")


def seconds(profile: HardwareProfile, op: SparseStep | PrefillSparse) -> float:
    return profile.seconds(op).seconds


@pytest.mark.parametrize("name", TIMED)
@pytest.mark.parametrize("engine", ENGINES)
def test_a_choice_grows_with_the_context_and_attention_does_not(name: str, engine: str) -> None:
    profile = find_hardware(name).of_engine(engine)
    for choice, key in ((indexer, key_bytes(128)), (block_choice, 256)):
        short, long = choice(64, context=8192), choice(64, context=131072)
        read_s = 64 * (131072 - 8192) * key / profile.device.memory_bandwidth
        assert read_s < seconds(profile, long) - seconds(profile, short) < 2.5 * read_s
    for of in (attention, block_attention):
        assert seconds(profile, of(64, context=131072)) == seconds(profile, of(64, context=8192))


@pytest.mark.parametrize("name", TIMED)
@pytest.mark.parametrize("engine", ENGINES)
def test_queries_of_a_sequence_share_the_reading_of_keys_alone(name: str, engine: str) -> None:
    profile = find_hardware(name).of_engine(engine)
    for choice, of in ((indexer, attention), (block_choice, block_attention)):
        shapes = ((32, 1), (32, 4), (128, 1))
        one, four, apart = (seconds(profile, choice(batch, queries, 131072)) for batch, queries in shapes)
        assert one < four < apart
        assert seconds(profile, of(32, 4)) == pytest.approx(seconds(profile, of(128, 1)), rel=1e-9)


@given(
    batch=st.integers(1, 512),
    queries=st.integers(1, 8),
    context=st.integers(1, 200_000),
    name=st.sampled_from(TIMED),
    engine=st.sampled_from(ENGINES),
)
def test_more_of_anything_takes_no_less(batch: int, queries: int, context: int, name: str, engine: str) -> None:
    profile = find_hardware(name).of_engine(engine)
    for of in (indexer, attention, block_choice, block_attention):
        at = seconds(profile, of(batch, queries, context))
        assert at > 0.0
        for more in ((batch + 1, queries, context), (batch, queries + 1, context), (batch, queries, context + 1)):
            assert seconds(profile, of(*more)) >= at


@pytest.mark.parametrize("name", TIMED)
def test_a_pass_takes_the_kernels_of_its_engine(name: str) -> None:
    """A block of DeepSeek's in SGLang 0.5.14 took 0.4 to 0.7 of its time in vLLM 0.24 up to 16k tokens, on each GPU."""
    profile = find_hardware(name)
    work = forward_pass(find_transformer("deepseek-v3.2"), batch=8, context=8192, tp=8, kv_dtype="float8")
    steps = [(op, times) for op, times in work.counted if isinstance(op, SparseStep)]
    took = {each: cost_of_operations(steps, profile, find_runtime(each)).seconds for each in ("vllm", "sglang-v2")}
    assert 0.2 < took["sglang-v2"] / took["vllm"] < 0.7
    alone = cost_of_operations(steps, profile)
    assert alone.seconds == took["vllm"]  # without an engine, what comes first
    of_blocks = forward_pass(find_transformer("minimax-m3"), batch=8, context=8192, tp=8)
    for op, _ in of_blocks.counted:
        if isinstance(op, SparseStep):
            assert profile.of_engine("sglang").seconds(op).warning is None


def test_an_engine_whose_kernels_nobody_timed_takes_others_and_says_so() -> None:
    profile = find_hardware("b200-sxm")
    own, other, unknown = (profile.of_engine(each).seconds(attention()) for each in ("sglang", "tensorrt-llm", "mine"))
    assert other.seconds == own.seconds  # SGLang calls TensorRT-LLM's there
    assert other.warning is not None
    assert "tensorrt-llm's kernels were not timed, sglang's were" in other.warning
    assert other.log_sd > 0.5 > own.log_sd
    assert unknown.seconds == profile.seconds(attention()).seconds
    assert unknown.warning is not None
    assert "vllm's were" in unknown.warning
    assert profile.of_engine("sglang") is profile.of_engine("sglang")
    assert profile.of_engine("none") is profile


def test_an_answer_says_which_timings_it_read() -> None:
    profile, formats = find_hardware("h100-sxm"), {"bfloat16", "float8", "float8-block"}
    of_tokens = frozenset({"indexer", "sparse_attention"})
    plain, vllm = provenance_summary(profile, formats, 8), provenance_summary(profile, formats, 8, rare=of_tokens)
    sglang = provenance_summary(profile.of_engine("sglang"), formats, 8, rare=of_tokens)
    assert not any(field in plain for field in OF_ENGINES)
    assert "sparse_attention float8-block" in vllm
    assert "block_" not in vllm
    assert sglang != vllm


@pytest.mark.parametrize(
    ("target", "hardware", "said"),
    [
        (
            "deepseek-v4-pro",
            "b200-sxm",
            ("compressed attention float8-block 3.9%", "hyper_connection pre 4.3%", "indexer float8-block"),
        ),
        ("deepseek-r1", "h200-sxm", ("latent float8-block",)),
        ("glm-5.2", "b200-sxm", ("indexer float8-block", "sparse_attention float8-block")),
        ("qwen3-8b", "b200-sxm", ()),
    ],
)
def test_an_answer_names_the_timings_of_the_attention_that_its_model_has(
    target: str, hardware: str, said: tuple[str, ...]
) -> None:
    (told,) = configure(target=target, hardware=hardware, strategies=["ar"], tp=8).provenance
    assert all(each in told["summary"] for each in said)
    rare = ("latent", "compressed", "hyper_connection", "indexer", "sparse_attention")
    assert {each for each in rare if each in told["summary"]} == {each.split()[0] for each in said}
    assert "prefill" not in told["summary"]


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
    assert profile.of_engine("sglang").seconds(indexer(1, context=200_000)).warning is None
    few, many = (over_prompts(attention(1, heads=heads), 8192, 0) for heads in (16, 64))
    assert seconds(profile, few) == pytest.approx(seconds(profile, many))  # the kernel pads its heads
    assert few.flops < many.flops / 3
    prompts = PrefillSparse("indexer", 1, 8192, 0, 8192, 16384.0, 132, ("float8", "bfloat16"))
    assert profile.seconds(prompts).provenance_kind == "datasheet"
    assert profile.seconds(prompts).seconds > prompts.flops / profile.device.peak_flops["float8"]


@pytest.mark.parametrize("name", TIMED)
@pytest.mark.parametrize("engine", ENGINES)
def test_a_device_without_a_table_is_scaled_and_says_so(name: str, engine: str) -> None:
    own = find_hardware(name)
    bare = own.changed(**{field: {} for field in OF_ENGINES}).of_engine(engine)
    blocks: list[tuple[SparseStep, ...]] = [(indexer(batch), attention(batch)) for batch in (1, 64)]
    for block in (*blocks, (block_choice(), block_attention())):
        timings = [bare.seconds(op) for op in block]
        for timing in timings:
            assert timing.provenance_kind == "datasheet"
            assert timing.log_sd >= 0.25
            assert timing.warning is not None
            assert f"scaled from that of {'b200' if 'b' in name else 'h100'}-sxm" in timing.warning
        measured = sum(seconds(own.of_engine(engine), op) for op in block)
        assert 0.7 < sum(timing.seconds for timing in timings) / measured < 1.4
    for older in ("a100-sxm", "v100-sxm2-32gb"):
        assert find_hardware(older).seconds(indexer()).seconds > seconds(own, indexer())


def test_a_faster_memory_shortens_long_contexts() -> None:
    profile = find_hardware("b200-sxm")
    twice = scale(profile, "twice", memory_bandwidth=2.0)
    for long, share in ((indexer(256, context=131072), 0.75), (block_choice(256, context=131072), 0.75)):
        assert seconds(twice, long) < share * seconds(profile, long)
    assert seconds(twice, attention(1)) < 1.01 * seconds(profile, attention(1))
