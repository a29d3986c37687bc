"""DeepSeek-V4: configs, weights, caches, and the operations of a pass; MiMo-V2 and Step-3.7, read beside it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssdsim.hardware.catalog import find_transformer
from ssdsim.transformer.card import Transformer
from ssdsim.transformer.compressed import (
    CompressedAttention,
    CompressedIndexer,
    CompressedProjections,
    PrefillCompressed,
    over_prompts,
)
from ssdsim.transformer.forward import forward_pass
from ssdsim.transformer.heads import block_head, cache_reader, eagle3_head, mtp_head
from ssdsim.transformer.huggingface import load_config
from ssdsim.transformer.hyper_connections import HyperConnection
from ssdsim.transformer.operations import Collective
from ssdsim.transformer.prefill import Chunk, mixed_pass, prefill_pass
from tests.refusals import refused

FP8: dict[str, Any] = {"quant_method": "fp8", "weight_block_size": [128, 128], "activation_scheme": "dynamic"}
V4_FLASH: dict[str, Any] = {
    "model_type": "deepseek_v4", "hidden_size": 4096, "num_hidden_layers": 43, "num_attention_heads": 64,
    "num_key_value_heads": 1, "head_dim": 512, "qk_rope_head_dim": 64, "q_lora_rank": 1024, "o_lora_rank": 1024,
    "o_groups": 8, "sliding_window": 128, "index_n_heads": 64, "index_head_dim": 128, "index_topk": 512,
    "hc_mult": 4, "n_routed_experts": 256, "n_shared_experts": 1, "num_experts_per_tok": 6,
    "moe_intermediate_size": 2048, "num_nextn_predict_layers": 1, "vocab_size": 129280,
    "max_position_embeddings": 1048576, "compress_ratios": [0, 0, *[4, 128] * 20, 4, 0], "expert_dtype": "fp4",
    "torch_dtype": "bfloat16", "quantization_config": FP8,
}  # fmt: skip
MIMO_V2: dict[str, Any] = {
    "model_type": "mimo_v2_flash", "hidden_size": 4096, "num_hidden_layers": 48, "num_attention_heads": 64,
    "num_key_value_heads": 4, "head_dim": 192, "v_head_dim": 128, "intermediate_size": 16384,
    "moe_intermediate_size": 2048, "n_routed_experts": 256, "num_experts_per_tok": 8, "sliding_window": 128,
    "swa_num_attention_heads": 64, "swa_num_key_value_heads": 8, "swa_head_dim": 192, "swa_v_head_dim": 128,
    "hybrid_layer_pattern": [0 if n in (0, 5, 11, 17, 23, 29, 35, 41, 47) else 1 for n in range(48)],
    "moe_layer_freq": [0] + [1] * 47, "vocab_size": 152576,
}  # fmt: skip
STEP: dict[str, Any] = {
    "model_type": "step3p7", "hidden_size": 4096, "num_hidden_layers": 45, "num_attention_heads": 64,
    "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 11264, "sliding_window": 512,
    "layer_types": ["sliding_attention" if n % 4 else "full_attention" for n in range(45)], "num_experts": 288,
    "first_k_dense_replace": 3, "num_experts_per_tok": 8, "moe_intermediate_size": 1280, "share_expert_dim": 1280,
    "n_shared_experts": 1, "num_nextn_predict_layers": 3, "vocab_size": 128896,
}  # fmt: skip


def read(config: dict[str, Any], folder: Path) -> Transformer:
    path = folder / "config.json"
    path.write_text(json.dumps(config))
    return load_config(path)


@pytest.mark.parametrize(
    ("config", "total", "active"), [(V4_FLASH, 284, 13.8), (MIMO_V2, 309, 15.4), (STEP, 196, 11)],
    ids=["V4-Flash", "MiMo-V2-Flash", "Step-3.7-Flash"],
)  # fmt: skip
def test_models_have_the_weights_that_are_published(
    config: dict[str, Any], total: float, active: float, tmp_path: Path
) -> None:
    card = read(config, tmp_path)
    assert card.parameters / 1e9 == pytest.approx(total, rel=0.005)
    assert card.active_parameters / 1e9 == pytest.approx(active, rel=0.02)


def test_the_bundled_cards_are_the_configs(tmp_path: Path) -> None:
    bundled, told = find_transformer("deepseek-v4-flash"), read(V4_FLASH, tmp_path)
    assert bundled.experts is not None
    own = {"experts": bundled.experts.changed(skew=0.75), "family": "", "checkpoint": ""}
    assert bundled.changed(**own, name=told.name, source=told.source) == told
    assert find_transformer("deepseek-v4-pro").parameters / 1e12 == pytest.approx(1.573, rel=0.001)


def test_each_part_has_the_format_that_the_checkpoint_says(tmp_path: Path) -> None:
    listed = {f"layers.{n}.ffn.experts": {"quant_algo": "NVFP4", "group_size": 16} for n in range(43)}
    again = FP8 | {"quant_algo": "MIXED_PRECISION", "quantized_layers": listed, "ignore": ["*.attn.*", "head"]}
    formats = {
        "fp4": ("mxfp4", V4_FLASH),
        "fp8": ("float8-block", V4_FLASH | {"expert_dtype": None, "model_type": "deepseek_ref"}),
        "nvfp4": ("nvfp4", V4_FLASH | {"quantization_config": again}),
    }
    for experts, config in formats.values():
        card = read(config, tmp_path)
        weights = card.weights
        assert (weights.attention, weights.mlp, weights.experts) == ("float8-block", "float8-block", experts)
        assert (card.precision().lm_head, card.kv_dtype, card.mtp_plain) == ("bfloat16", "float8", False)


def test_what_a_config_says_otherwise_is_refused(tmp_path: Path) -> None:
    ratios = V4_FLASH["compress_ratios"]
    for changed, why in (
        ({"compress_ratios": [16, *ratios[1:]]}, "entry for every 16 tokens"),
        ({"compress_ratios": [*ratios[:-1], 4]}, "MTP layers that see more than a window"),
        ({"compress_ratios": ratios[:-1]}, "a list of 44"),
    ):
        with refused(why):
            read(V4_FLASH | changed, tmp_path)
    with refused("another number of heads in layers with a window"):
        read(MIMO_V2 | {"swa_num_attention_heads": 32}, tmp_path)


def test_a_pass_has_each_kind_of_layer_and_its_streams() -> None:
    card = find_transformer("deepseek-v4-pro")
    work = forward_pass(card, batch=2, queries=3, context=10_000, tp=8)
    ((indexer, times),) = work.those(CompressedIndexer)
    assert (indexer.context, indexer.chosen, indexer.heads, times) == (2500, 1024, 64, 30)
    of = {op.ratio: (op.seen, op.chosen, op.heads, count) for op, count in work.those(CompressedAttention)}
    assert of == {4: (128 + 1024, 1024, 16, 30), 128: (128 + 78, 0, 16, 31)}
    assert sum(count for _, count in work.those(CompressedProjections)) == 61
    assert sum(count for _, count in work.those(HyperConnection)) == 4 * 61
    assert {(op.way, op.tokens, op.streams) for op, _ in work.those(HyperConnection)} == {("pre", 6, 4), ("post", 6, 4)}
    assert sum(count for op, count in work.those(Collective) if op.kind == "all_reduce") == 1 + 2 * 61
    with refused("tp 32"):
        forward_pass(card, batch=1, context=1, tp=32)  # of 16 groups of outputs


def test_devices_share_what_has_heads_and_hold_the_rest() -> None:
    card = find_transformer("deepseek-v4-pro")

    def weights(tp: int) -> int:
        ops = forward_pass(card, batch=1, context=1, tp=tp).those(CompressedProjections)
        return sum(op.weights * count for op, count in ops)

    whole = card.whole_parameters["attention"]
    assert weights(8) == whole + (weights(1) - whole) // 8
    parts = card.parameters_by_part
    assert weights(1) == parts["attention"] + parts["attention_out"]


def test_a_cache_is_entries_a_window_and_what_will_be_entries() -> None:
    card = find_transformer("deepseek-v4-pro")
    entry, key = 448 + 128 + 8, 132
    a_token = 30 * (entry + key) / 4 + 31 * entry / 128
    assert card.kv_bytes_per_token(8) == card.kv_bytes_per_token() == int(a_token) + 1
    states = 30 * 8 * (2048 + 512) * 4 + 31 * 128 * 1024 * 4
    assert card.cache_bytes(100_000) == pytest.approx(61 * 128 * entry + states + 100_000 * a_token, abs=1)
    assert card.cache_bytes(10) - card.cache_bytes(9) == pytest.approx(61 * entry + a_token, abs=1)
    of_v32 = find_transformer("deepseek-v3.2").kv_bytes_per_token(dtype="bfloat16")
    assert card.kv_bytes_per_token(dtype="bfloat16") < of_v32 / 7


def test_its_own_heads_see_a_window_and_others_are_dense() -> None:
    pro = find_transformer("deepseek-v4-pro")
    mtp, dspark, eagle = mtp_head(pro), block_head(pro, "dspark", "markov"), eagle3_head(pro)
    assert (mtp.layers, dspark.layers) == (1, 3)
    for head in (mtp, dspark):
        work = [forward_pass(head, batch=1, context=context).flops for context in (1000, 1_000_000)]
        assert work[0] == work[1]
        assert head.expert_layers == head.layers
    assert mtp.parameters / 1e9 == pytest.approx(25.8, rel=0.01)
    assert eagle.compressed is None
    assert eagle.streams == 1
    with refused("compressed entries"):
        cache_reader(pro, "glide", None, False)


def test_cards_that_mix_kinds_of_attention_are_refused() -> None:
    card = find_transformer("deepseek-v4-pro")
    assert card.compressed is not None
    for changes in ({"kv_heads": 2}, {"compressed": card.compressed.changed(csa_layers=31)}):
        with pytest.raises(ValueError, match=r"compressed|entries"):
            card.changed(**changes).__post_init__()


@given(tokens=st.integers(1, 600), prefix=st.integers(0, 600), chosen=st.integers(1, 100))
def test_a_prompt_sees_what_each_of_its_tokens_may_see(tokens: int, prefix: int, chosen: int) -> None:
    of = (1, 1, 1200, 64, 4, chosen, 8, 512, 64, "bfloat16")
    pairs = over_prompts(CompressedAttention("compressed_attention", *of), tokens, prefix).pairs
    seen = [prefix + n + 1 for n in range(tokens)]
    assert pairs == pytest.approx(sum(min(64, each) + min(chosen, each / 4) for each in seen))
    indexer = over_prompts(CompressedIndexer("indexer", 1, 1, 300, 64, 128, chosen, "bfloat16"), tokens, prefix)
    assert indexer.pairs == pytest.approx(sum(each / 4 for each in seen))
    assert indexer.choosing == sum(each > 4 * chosen for each in seen)


def test_prompts_and_mixed_passes_have_their_own_operations() -> None:
    card = find_transformer("deepseek-v4-flash")
    work = prefill_pass(card, batch=2, tokens=8192)
    assert work.over_prompts
    assert {(op.part, op.kernel, times) for op, times in work.those(PrefillCompressed)} == {
        ("prefill_indexer", "prefill_indexer", 21), ("prefill_attention", "prefill_compressed_attention", 21),
        ("prefill_attention", "prefill_compressed_attention", 20),
        ("prefill_attention", "prefill_compressed_attention", 2),
    }  # fmt: skip
    both = mixed_pass(card, (Chunk(512, 1024),), batch=4, queries=2, context=100)
    assert {(op.batch, op.queries) for op, _ in both.those(CompressedIndexer)} == {(4, 2)}
    assert {(op.tokens, op.prefix) for op, _ in both.those(PrefillCompressed)} == {(512, 1024)}
    assert {op.tokens for op, _ in both.those(CompressedProjections)} == {4 * 2 + 512}
