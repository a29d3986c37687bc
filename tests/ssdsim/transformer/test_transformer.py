"""Cards and the forward pass, checked against published parameter counts and the 2·N FLOP rule."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssdsim.base.errors import InputError
from ssdsim.hardware.catalog import find_transformer, transformer_names
from ssdsim.transformer.card import transformer_shaped
from ssdsim.transformer.forward import forward_pass
from ssdsim.transformer.operations import Attention, Collective, Elementwise, Gemm
from tests.refusals import refused

# as the model hubs count them
PARAMETERS = {
    "llama-3.1-70b": 70_553_706_496,
    "llama-3.3-70b": 70_553_706_496,
    "llama-3.1-8b": 8_030_261_248,
    "llama-3.2-3b": 3_212_749_824,
    "llama-3.2-1b": 1_235_814_400,
    "llama-2-70b": 68_976_648_192,
    "llama-2-13b": 13_015_864_320,
    "llama-2-7b": 6_738_415_616,
    "qwen2-7b": 7_615_616_512,
    "qwen3-32b": 32_762_123_264,
    "qwen3-8b": 8_190_735_360,
    "qwen3-1.7b": 1_720_574_976,
    "qwen3-0.6b": 596_049_920,
}


# as their authors round them, in billions; no hub counts a mixture without its quantised experts' scales
MIXTURES = {
    "deepseek-r1": 671.0,
    "deepseek-v3": 671.0,
    "deepseek-v3.2": 671.9,  # 671 and indexers
    "deepseek-v4-flash": 284.3,
    "deepseek-v4-pro": 1573.0,
    "glm-5.2": 743.4,
    "gpt-oss-120b": 116.8,
    "gpt-oss-20b": 20.9,
    "kimi-k3": 2779.1,
    "llama-4-scout": 107.8,  # 109 with what sees
    "minimax-m2.5": 228.7,
    "minimax-m3": 426.2,  # 428 with what sees
    "nemotron-3-nano": 31.6,
    "nemotron-3-super": 120.7,
    "qwen3-235b-a22b": 235.1,
    "qwen3-30b-a3b": 30.5,
    "qwen3.5-122b-a10b": 122.1,
    "qwen3.5-122b-a10b-nvfp4": 122.1,
    "qwen3.5-35b-a3b": 34.7,
    "qwen3.5-397b-a17b": 396.3,
}
DENSE_HYBRIDS = {"qwen3.5-27b": 26.9}  # likewise


def test_every_bundled_card_is_checked() -> None:
    assert set(PARAMETERS) | set(MIXTURES) | set(DENSE_HYBRIDS) == set(transformer_names())


@pytest.mark.parametrize(("name", "billions"), (MIXTURES | DENSE_HYBRIDS).items())
def test_mixtures_have_the_published_parameters(name: str, billions: float) -> None:
    assert find_transformer(name).parameters / 1e9 == pytest.approx(billions, abs=0.05)


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameter_counts_are_the_published_ones(name: str) -> None:
    assert find_transformer(name).parameters == PARAMETERS[name]


@pytest.mark.parametrize("name", PARAMETERS)
def test_gemm_flops_are_two_per_matrix_weight_and_token(name: str) -> None:
    card = find_transformer(name)
    forward = forward_pass(card, batch=3, queries=5, context=100)
    gemm_flops = sum(op.flops * n for op, n in forward.counted if isinstance(op, Gemm))
    norms = card.layers * (2 * card.hidden_size + (2 * card.head_dim if card.qk_norm else 0)) + card.hidden_size
    # the embedding is looked up, not multiplied; tied or not, the LM head is multiplied
    lookup = 0 if card.tied_embeddings else card.vocab_size * card.hidden_size
    biases = card.layers * (card.heads + 2 * card.kv_heads) * card.head_dim if card.attention_bias else 0
    matrix_weights = card.parameters - norms - biases - lookup
    assert gemm_flops == 2 * 15 * matrix_weights


def test_attention_flops_are_four_per_query_head_dimension_and_cached_token() -> None:
    card = find_transformer("llama-3.1-8b")
    forward = forward_pass(card, batch=3, queries=5, context=100)
    flops = sum(op.flops * n for op, n in forward.counted if isinstance(op, Attention))
    assert flops == 4 * 15 * 100 * card.heads * card.head_dim * card.layers


@given(tp=st.sampled_from([1, 2, 4, 8]), batch=st.integers(1, 64), queries=st.integers(1, 12))
def test_tensor_parallel_shards_add_up_to_the_whole(tp: int, batch: int, queries: int) -> None:
    card = find_transformer("llama-3.1-70b")
    one = forward_pass(card, batch=batch, queries=queries, context=1000)
    shard = forward_pass(card, batch=batch, queries=queries, context=1000, tp=tp)
    assert shard.flops * tp == pytest.approx(one.flops)


def test_a_sharded_layer_reduces_twice_and_a_single_device_never() -> None:
    card = find_transformer("llama-3.1-70b")
    sharded = [op for op in forward_pass(card, batch=1, context=1, tp=4).operations() if isinstance(op, Collective)]
    reduces = [op for op in sharded if op.kind == "all_reduce"]
    assert len(reduces) == 2 * card.layers + 1  # and one for the sharded embedding
    assert all(op.message_bytes == card.hidden_size * 2 for op in reduces)
    assert not [op for op in forward_pass(card, batch=1, context=1).operations() if isinstance(op, Collective)]


def test_the_proposals_graph_has_its_four_gemms_and_one_all_reduce() -> None:
    card = transformer_shaped(1024, 3)
    ops = list(forward_pass(card, batch=2, queries=3, context=64, tp=2).operations())
    shapes = [(op.m, op.k, op.n) for op in ops if isinstance(op, Gemm)]
    assert shapes[:4] == [(6, 1024, 3 * 512), (6, 512, 1024), (6, 1024, 2048), (6, 2048, 1024)]
    assert len(shapes) == 12
    assert sum(isinstance(op, Collective) for op in ops) == 3
    assert not any(isinstance(op, Elementwise) for op in ops)


def test_branches_are_marked_as_masked_attention() -> None:
    card = find_transformer("llama-3.2-1b")
    ops = forward_pass(card, batch=1, queries=24, context=10, masked=True).operations()
    assert all(op.masked for op in ops if isinstance(op, Attention))


@pytest.mark.parametrize(("name", "tp"), [("llama-3.1-70b", 3), ("llama-3.2-3b", 16), ("llama-3.1-8b", 0)])
def test_uneven_tensor_parallelism_is_refused(name: str, tp: int) -> None:
    with refused(f"tp {tp}", f"{name}", "1, 2"):
        forward_pass(find_transformer(name), batch=1, context=1, tp=tp)


@pytest.mark.parametrize("wrong", [{"batch": 0}, {"queries": 0}, {"context": 0}])
def test_counts_must_be_positive(wrong: dict[str, int]) -> None:
    counts = {"batch": 1, "queries": 1, "context": 1} | wrong
    with pytest.raises(InputError, match="at least 1"):
        forward_pass(find_transformer("llama-3.2-1b"), **counts)
