"""Block-sparse attention of MiniMax-M3: configs, weights, caches, and the operations of a pass."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssdsim.hardware.catalog import find_transformer
from ssdsim.transformer.block_sparse import BlockAttention, BlockChoice
from ssdsim.transformer.card import Transformer
from ssdsim.transformer.forward import forward_pass
from ssdsim.transformer.heads import eagle3_head
from ssdsim.transformer.huggingface import load_config
from ssdsim.transformer.layers import SlidingWindow
from ssdsim.transformer.operations import Attention, Gemm
from ssdsim.transformer.prefill import prefill_pass
from ssdsim.transformer.sparse import PrefillSparse
from tests.refusals import refused

DENSE, ROUTED = 3, 57
TEXT: dict[str, Any] = {
    "hidden_size": 6144, "num_hidden_layers": 60, "num_attention_heads": 64, "num_key_value_heads": 4, "head_dim": 128,
    "intermediate_size": 3072, "dense_intermediate_size": 12288, "shared_intermediate_size": 3072,
    "num_local_experts": 128, "num_experts_per_tok": 4, "n_shared_experts": 1, "vocab_size": 200064,
    "max_position_embeddings": 1048576, "use_qk_norm": True, "attention_output_gate": False, "num_mtp_modules": 7,
    "tie_word_embeddings": False, "moe_layer_freq": [0] * DENSE + [1] * ROUTED,
    "sparse_attention_config": {
        "use_sparse_attention": True, "sparse_attention_freq": [0] * DENSE + [1] * ROUTED, "sparse_block_size": 128,
        "sparse_index_dim": 128, "sparse_num_index_heads": 4, "sparse_topk_blocks": 16, "sparse_score_type": "max",
    },
}  # fmt: skip
M3 = TEXT | {"model_type": "minimax_m3", "torch_dtype": "bfloat16"}


def read(config: dict[str, Any], folder: Path) -> Transformer:
    path = folder / "config.json"
    path.write_text(json.dumps(config))
    return load_config(path)


def m3() -> Transformer:
    return find_transformer("minimax-m3")


def test_the_config_is_the_card_and_has_the_published_weights(tmp_path: Path) -> None:
    told, card = read(M3, tmp_path), m3()
    assert told.block_sparse == card.block_sparse
    assert told.parameters == card.parameters
    assert card.parameters / 1e9 == pytest.approx(428, rel=0.005)
    embeddings = 2 * card.vocab_size * card.hidden_size
    assert (card.active_parameters - embeddings) / 1e9 == pytest.approx(23, rel=0.03)
    dense = read(M3 | {"sparse_attention_config": {}}, tmp_path)
    assert dense.block_sparse is None
    assert told.parameters - dense.parameters == ROUTED * 6144 * (4 + 1) * 128
    assert told.mtp_layers == 0  # no checkpoint has the weights of what its config tells of


def test_the_part_that_decodes_may_leave_its_type_to_the_whole(tmp_path: Path) -> None:
    layers = range(DENSE, DENSE + ROUTED)
    attention = [f"self_attn.{name}_proj" for name in "qkvo"]
    scheme = {"quant_algo": "MXFP8"}
    places = [f"{n}.{name}" for n in range(60) for name in attention]
    places += [f"{n}.mlp.{name}_proj" for n in range(DENSE) for name in ("gate", "up", "down")]
    places += [f"{n}.block_sparse_moe.shared_experts.{m}_proj" for n in layers for m in ("gate", "up", "down")]
    listed: dict[str, Any] = {f"language_model.model.layers.{place}": scheme for place in places}
    for n in layers:
        listed[f"language_model.model.layers.{n}.block_sparse_moe.experts.0.w1"] = {"quant_algo": "NVFP4"}
    quantised = {"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION", "quantized_layers": listed}
    outer = {"model_type": "minimax_m3_vl", "text_config": TEXT, "quantization_config": quantised}
    card = read(outer, tmp_path)
    assert card.architecture == "minimax_m3"
    assert card.weights.experts == "nvfp4"
    assert card.weights.attention == card.weights.mlp == "float8-block"


def test_other_ways_to_score_blocks_are_refused(tmp_path: Path) -> None:
    said = TEXT["sparse_attention_config"] | {"sparse_score_type": "mean"}
    with refused("scores blocks by other than their best token"):
        read(M3 | {"sparse_attention_config": said}, tmp_path)
    with refused("attends to a sparse choice of blocks"):
        read(M3 | {"model_type": "minimax_m2"}, tmp_path)


@pytest.mark.parametrize(("tp", "groups"), [(1, 4), (2, 2), (4, 1), (8, 1)])
def test_layers_choose_blocks_or_attend_to_all(tp: int, groups: int) -> None:
    work = forward_pass(m3(), batch=2, queries=3, context=10_000, tp=tp)
    heads = 64 // tp
    assert work.those(BlockChoice) == [
        (BlockChoice("block_choice", 2, 3, 10_000, groups, 128, 128, 16, "bfloat16"), ROUTED)
    ]
    assert work.those(BlockAttention) == [
        (BlockAttention("block_attention", 2, 3, 10_000, 128, 16, heads, groups, 128, "bfloat16"), ROUTED)
    ]
    assert [(op.context, times) for op, times in work.those(Attention)] == [(10_000, DENSE)]
    columns = {times: op.n for op, times in work.those(Gemm) if op.name == "qkv"}
    assert columns == {DENSE: (heads + 2 * groups) * 128, ROUTED: (heads + 2 * groups + groups + 1) * 128}


def test_a_token_takes_keys_values_and_index_keys() -> None:
    card = m3()
    assert card.kv_bytes_per_token() == 60 * 2 * 4 * 128 * 2 + ROUTED * 128 * 2
    assert card.kv_bytes_per_token(8) == 60 * 2 * 128 * 2 + ROUTED * 128 * 2  # of all groups, on every device
    assert card.kv_bytes_per_token(4, "float8") == 60 * 2 * 128 + ROUTED * 128 * 2
    assert card.weight_bytes(4) - card.weight_bytes(8) < card.weight_bytes(8)


@given(queries=st.integers(1, 9), context=st.integers(1, 300_000))
def test_each_query_has_blocks_of_its_own_and_shares_the_keys(queries: int, context: int) -> None:
    def step(of: type[BlockChoice] | type[BlockAttention], queries: int) -> Any:
        return next(op for op, _ in forward_pass(m3(), batch=4, queries=queries, context=context, tp=4).those(of))

    one, all_of_them = step(BlockChoice, 1), step(BlockChoice, queries)
    assert all_of_them.streamed_bytes == one.streamed_bytes == 4 * context * 256
    assert all_of_them.scores == queries * one.scores
    assert all_of_them.chooses == (context > 2048)
    one, all_of_them = step(BlockAttention, 1), step(BlockAttention, queries)
    assert all_of_them.gathered_bytes == queries * one.gathered_bytes == 4 * queries * min(context, 2048) * 512
    assert all_of_them.flops == queries * one.flops


def test_prompts_score_all_that_came_before_and_attend_to_blocks() -> None:
    work = prefill_pass(m3(), batch=2, tokens=8192)
    steps = {op.name: (op, times) for op, times in work.those(PrefillSparse)}
    assert {name: (op.most, times) for name, (op, times) in steps.items()} == {
        "block_choice": (8192, ROUTED), "block_attention": (2048, ROUTED),
    }  # fmt: skip
    assert steps["block_choice"][0].pairs == 8192 * 8193 / 2


def test_a_head_that_drafts_attends_to_all() -> None:
    assert eagle3_head(m3()).block_sparse is None


def test_it_stands_beside_neither_windows_nor_more_layers_than_there_are() -> None:
    card = m3()
    assert card.block_sparse is not None
    window = SlidingWindow(tokens=128, layers=1)
    for changes in ({"window": window}, {"block_sparse": card.block_sparse.changed(layers=61)}):
        with pytest.raises(ValueError, match="block_sparse"):
            card.changed(**changes).__post_init__()
