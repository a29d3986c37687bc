"""Configs of families of models as cards: parameters as their names say, caches by formulas written out here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ssdsim.hardware.catalog import find_transformer
from ssdsim.transformer.card import Transformer
from ssdsim.transformer.forward import ForwardPass, forward_pass
from ssdsim.transformer.heads import mtp_head
from ssdsim.transformer.operations import Attention, Collective, ExpertMlp, Gemm, LatentAttention
from ssdsim.transformer.parallel_degrees import legal_tensor_parallel
from tests.refusals import refused

B = 10**9
DEEPSEEK_V3: dict[str, Any] = {
    "model_type": "deepseek_v3", "hidden_size": 7168, "num_hidden_layers": 61, "num_attention_heads": 128,
    "num_key_value_heads": 128, "intermediate_size": 18432, "moe_intermediate_size": 2048, "n_routed_experts": 256,
    "n_shared_experts": 1, "num_experts_per_tok": 8, "first_k_dense_replace": 3, "moe_layer_freq": 1,
    "kv_lora_rank": 512, "q_lora_rank": 1536, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
    "num_nextn_predict_layers": 1, "vocab_size": 129280, "max_position_embeddings": 163840,
}  # fmt: skip
QWEN3_30B: dict[str, Any] = {
    "model_type": "qwen3_moe", "hidden_size": 2048, "num_hidden_layers": 48, "num_attention_heads": 32,
    "num_key_value_heads": 4, "head_dim": 128, "intermediate_size": 6144, "moe_intermediate_size": 768,
    "num_experts": 128, "num_experts_per_tok": 8, "decoder_sparse_step": 1, "mlp_only_layers": [],
    "vocab_size": 151936,
}  # fmt: skip
GPT_OSS: dict[str, Any] = {
    "model_type": "gpt_oss", "hidden_size": 2880, "num_hidden_layers": 36, "num_attention_heads": 64,
    "num_key_value_heads": 8, "head_dim": 64, "intermediate_size": 2880, "num_local_experts": 128,
    "num_experts_per_tok": 4, "sliding_window": 128, "vocab_size": 201088,
    "layer_types": ["sliding_attention", "full_attention"] * 18,
    "quantization_config": {
        "quant_method": "mxfp4",
        "modules_to_not_convert": ["model.layers.*.self_attn", "model.layers.*.mlp.router", "lm_head"],
    },
}  # fmt: skip
LLAMA_4: dict[str, Any] = {
    "model_type": "llama4",
    "torch_dtype": "bfloat16",
    "text_config": {
        "model_type": "llama4_text", "hidden_size": 5120, "num_hidden_layers": 48, "num_attention_heads": 40,
        "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 8192, "intermediate_size_mlp": 16384,
        "num_local_experts": 16, "num_experts_per_tok": 1, "interleave_moe_layer_step": 1,
        "attention_chunk_size": 8192, "vocab_size": 202048,
    },
}  # fmt: skip
GEMMA_4: dict[str, Any] = {
    "model_type": "gemma4",
    "tie_word_embeddings": True,
    "text_config": {
        "model_type": "gemma4_text", "hidden_size": 2816, "num_hidden_layers": 30, "num_attention_heads": 16,
        "num_key_value_heads": 8, "head_dim": 256, "num_global_key_value_heads": 2, "global_head_dim": 512,
        "attention_k_eq_v": True, "intermediate_size": 2112, "enable_moe_block": True, "moe_intermediate_size": 704,
        "num_experts": 128, "top_k_experts": 8, "sliding_window": 1024, "vocab_size": 262144,
        "layer_types": (["sliding_attention"] * 5 + ["full_attention"]) * 5,
    },
}  # fmt: skip


def mixtral() -> dict[str, Any]:
    return {
        "model_type": "mixtral", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
        "num_key_value_heads": 8, "intermediate_size": 14336, "num_local_experts": 8, "num_experts_per_tok": 2,
        "sliding_window": None, "vocab_size": 32000,
    }  # fmt: skip


def maverick() -> dict[str, Any]:
    text = LLAMA_4["text_config"] | {"interleave_moe_layer_step": 2, "num_local_experts": 128}
    return LLAMA_4 | {"text_config": text}


def kimi_k2() -> dict[str, Any]:
    of_text = DEEPSEEK_V3 | {
        "model_type": "kimi_k2", "num_attention_heads": 64, "num_key_value_heads": 64, "first_k_dense_replace": 1,
        "n_routed_experts": 384, "num_nextn_predict_layers": 0, "vocab_size": 163840,
    }  # fmt: skip
    return {"model_type": "kimi_k25", "dtype": "bfloat16", "text_config": of_text}


def minimax_m2() -> dict[str, Any]:
    return {
        "model_type": "minimax_m2", "hidden_size": 3072, "num_hidden_layers": 62, "num_attention_heads": 48,
        "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 1536, "num_local_experts": 256,
        "num_experts_per_tok": 8, "use_qk_norm": True, "use_mtp": True, "num_mtp_modules": 3, "vocab_size": 200064,
    }  # fmt: skip


def qwen2_moe() -> dict[str, Any]:
    """Qwen1.5-MoE-A2.7B."""
    return {
        "model_type": "qwen2_moe", "hidden_size": 2048, "num_hidden_layers": 24, "num_attention_heads": 16,
        "num_key_value_heads": 16, "intermediate_size": 5632, "moe_intermediate_size": 1408,
        "shared_expert_intermediate_size": 5632, "num_experts": 60, "num_experts_per_tok": 4, "vocab_size": 151936,
    }  # fmt: skip


def deepseek_v2_lite() -> dict[str, Any]:
    return DEEPSEEK_V3 | {
        "model_type": "deepseek_v2", "hidden_size": 2048, "num_hidden_layers": 27, "num_attention_heads": 16,
        "num_key_value_heads": 16, "intermediate_size": 10944, "moe_intermediate_size": 1408, "n_routed_experts": 64,
        "n_shared_experts": 2, "num_experts_per_tok": 6, "first_k_dense_replace": 1, "q_lora_rank": None,
        "num_nextn_predict_layers": None, "vocab_size": 102400,
    }  # fmt: skip


def glm_45() -> dict[str, Any]:
    return {
        "model_type": "glm4_moe", "hidden_size": 5120, "num_hidden_layers": 92, "num_attention_heads": 96,
        "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 12288, "moe_intermediate_size": 1536,
        "n_routed_experts": 160, "n_shared_experts": 1, "num_experts_per_tok": 8, "first_k_dense_replace": 3,
        "use_qk_norm": True, "attention_bias": True, "num_nextn_predict_layers": 1, "vocab_size": 151552,
    }  # fmt: skip


def read(config: dict[str, Any], folder: Path) -> Transformer:
    path = folder / "some-model_config.json"
    path.write_text(json.dumps(config))
    return find_transformer(str(path))


@pytest.mark.parametrize(
    ("config", "total", "active"),
    [
        (mixtral(), 46.7, 12.9),
        (QWEN3_30B, 30.5, 3.3),
        (GPT_OSS, 117, 5.7),  # 5.1 without the input embedding of 0.58
        (LLAMA_4, 109, 17),  # with what sees
        (maverick(), 400, 17),
        (DEEPSEEK_V3, 671, 37),
        (kimi_k2(), 1026, 32.9),
        (minimax_m2(), 230, 11),
        (GEMMA_4, 25.2, 3.8),
        (qwen2_moe(), 14.3, 2.7),
        (deepseek_v2_lite(), 15.7, 2.7),  # 2.4 without embeddings
        (glm_45(), 355, 33.6),  # 32 without embeddings
    ],
    ids=lambda value: value.get("model_type") if isinstance(value, dict) else None,
)
def test_a_model_has_the_parameters_that_its_name_says(
    config: dict[str, Any], total: float, active: float, tmp_path: Path
) -> None:
    card = read(config, tmp_path)
    assert card.parameters == pytest.approx(total * B, rel=0.02)
    assert card.active_parameters == pytest.approx(active * B, rel=0.05)
    assert card.name == "some-model"


def test_caches_are_what_their_formulas_say(tmp_path: Path) -> None:
    """Heads, windows and a latent, in 16 bits."""
    qwen, oss, gemma, deepseek = (read(config, tmp_path) for config in (QWEN3_30B, GPT_OSS, GEMMA_4, DEEPSEEK_V3))
    assert qwen.cache_bytes(1000) == 1000 * 48 * 2 * 4 * 128 * 2
    assert oss.cache_bytes(1000, more=5) == 18 * 2 * 8 * 64 * 2 * (1005 + 128 + 5)
    assert oss.cache_bytes(100) == 18 * 2 * 8 * 64 * 2 * (100 + 100)
    assert gemma.cache_bytes(5000) == (5 * 2 * 2 * 512 * 5000 + 25 * 2 * 8 * 256 * 1024) * 2
    assert deepseek.cache_bytes(1000) == deepseek.cache_bytes(1000, tp=8) == 61 * (512 + 64) * 2 * 1000
    assert oss.cache_bytes(1000, tp=8) == oss.cache_bytes(1000) / 8


def test_layers_are_of_the_kinds_that_the_config_says(tmp_path: Path) -> None:
    llama, gemma, deepseek = (read(config, tmp_path) for config in (maverick(), GEMMA_4, DEEPSEEK_V3))
    assert (llama.expert_layers, llama.dense_layers, llama.windowed_layers) == (24, 24, 36)
    assert (gemma.expert_layers, gemma.dense_layers, gemma.windowed_layers) == (30, 30, 25)
    assert (deepseek.expert_layers, deepseek.dense_layers, deepseek.mtp_layers) == (58, 3, 1)
    every_other = read(QWEN3_30B | {"decoder_sparse_step": 2, "mlp_only_layers": [1]}, tmp_path)
    assert (every_other.expert_layers, every_other.dense_layers) == (23, 25)
    some = read(QWEN3_30B | {"model_type": "qwen3", "use_sliding_window": True, "sliding_window": 64,
                             "max_window_layers": 40}, tmp_path)  # fmt: skip
    assert (some.windowed_layers, some.experts) == (8, None)
    assert read({**QWEN3_30B, "model_type": "mistral", "sliding_window": 64}, tmp_path).windowed_layers == 48


def test_quantised_experts_leave_the_rest_as_it_is(tmp_path: Path) -> None:
    precision = read(GPT_OSS, tmp_path).precision()
    assert (precision.attention, precision.of("experts"), precision.lm_head, precision.kv) == (
        "bfloat16",
        "mxfp4",
        "bfloat16",
        "bfloat16",
    )
    block = {"quant_method": "fp8", "weight_block_size": [128, 128]}
    whole = read(DEEPSEEK_V3 | {"quantization_config": block}, tmp_path).precision()
    assert (whole.attention, whole.mlp, whole.of("experts"), whole.lm_head) == (*["float8-block"] * 3, "bfloat16")
    ignored = [
        *(f"language_model.model.layers.{layer}.self_attn*" for layer in range(61)),
        *(f"language_model.model.layers.{layer}.mlp.shared_experts*" for layer in range(1, 61)),
        "language_model.model.layers.0*",
        "language_model.lm_head",
    ]
    scheme = {"weights": {"num_bits": 4, "type": "float", "group_size": 16}}
    nvfp4 = {"quant_method": "modelopt", "config_groups": {"group_0": scheme}, "ignore": ignored}
    kimi = kimi_k2()
    kimi["quantization_config"] = nvfp4
    precision = read(kimi, tmp_path).precision()
    assert {precision.attention, precision.mlp, precision.lm_head} == {"bfloat16"}
    assert precision.of("experts") == "nvfp4"


def operations(config: dict[str, Any], folder: Path, **of_pass: Any) -> ForwardPass:
    return forward_pass(read(config, folder), **{"batch": 2, "queries": 3, "context": 5000, **of_pass})


def test_an_mtp_layer_that_is_left_out_by_its_number_is_not_quantised(tmp_path: Path) -> None:
    """As NVIDIA's of DeepSeek-V3.2 leaves it out: layer 61 of a model of 61."""
    fp4 = {"quant_method": "modelopt", "quant_algo": "NVFP4"}
    left_out = [fp4 | {"ignore": ["lm_head", f"model.layers.{layer}*"]} for layer in (61, 610)]
    plain, quantised = (read(DEEPSEEK_V3 | {"quantization_config": each}, tmp_path) for each in left_out)
    assert mtp_head(plain).precision().of("experts") == "bfloat16"
    assert mtp_head(quantised).precision().of("experts") == plain.precision().of("experts") == "nvfp4"


def test_a_pass_has_every_layer_once(tmp_path: Path) -> None:
    for config in (QWEN3_30B, GPT_OSS, LLAMA_4, GEMMA_4, DEEPSEEK_V3, mixtral()):
        forward = operations(config, tmp_path, tp=2)
        counted = forward.counted
        attention = [count for op, count in counted if isinstance(op, Attention | LatentAttention)]
        assert sum(attention) == forward.layers
        assert sum(1 for _ in forward.operations()) == sum(count for _, count in counted)
        reduced = [count for op, count in counted if isinstance(op, Collective) and op.kind == "all_reduce"]
        assert sum(reduced) >= 2 * forward.layers + 1


def test_windows_shorten_attention_and_latents_are_read_once(tmp_path: Path) -> None:
    contexts = {op.context for op, _ in operations(GPT_OSS, tmp_path).counted if isinstance(op, Attention)}
    assert contexts == {5000, 128}
    for tp in (1, 8):
        counted = operations(DEEPSEEK_V3, tmp_path, tp=tp).counted
        (latent,) = {op for op, _ in counted if isinstance(op, LatentAttention)}
        assert latent.heads == 128 // tp
        cache = 2 * 2 * 5000 * (512 + 64)
        assert latent.bytes == pytest.approx(cache + 2 * 2 * 3 * latent.heads * (2 * 512 + 64))


def test_experts_that_all_tokens_use_are_a_dense_mlp(tmp_path: Path) -> None:
    """With as many experts a token as there are, bytes of weights and flops are those of one wide MLP."""
    all_of_them = QWEN3_30B | {"num_experts": 4, "num_experts_per_tok": 4, "moe_intermediate_size": 1536}
    dense = QWEN3_30B | {"model_type": "qwen3", "intermediate_size": 4 * 1536}
    (experts,) = {op for op, _ in operations(all_of_them, tmp_path).counted if isinstance(op, ExpertMlp)}
    gemms = [op for op, _ in operations(dense, tmp_path).counted if isinstance(op, Gemm)]
    mlp = [op for op in gemms if op.name in ("gate_up", "down")]
    assert experts.flops == sum(op.flops for op in mlp)
    assert experts.touched * experts.expert_bytes == sum(2.0 * op.n * op.k for op in mlp)
    one = QWEN3_30B | {"num_experts": 1, "num_experts_per_tok": 1}
    assert read(one, tmp_path).active_parameters == read(one, tmp_path).parameters


def test_more_verified_tokens_read_more_experts_and_take_no_less(tmp_path: Path) -> None:
    moved = [operations(DEEPSEEK_V3, tmp_path, queries=k + 1).moved_bytes for k in range(8)]
    assert moved == sorted(moved)
    assert moved[3] / moved[0] > 1.4  # of a dense model it is 1.0


def test_devices_share_experts_and_heads_evenly(tmp_path: Path) -> None:
    assert legal_tensor_parallel(read(GPT_OSS, tmp_path)) == (1, 2, 4, 8, 16, 32)
    with refused("tp 3", "expert 768"):
        operations(QWEN3_30B, tmp_path, tp=3)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"num_experts_per_tok": 200}, "per_token"),
        ({"moe_intermediate_size": "wide"}, "moe_intermediate_size"),
        ({"mlp_only_layers": ["first"]}, "mlp_only_layers"),
        ({"num_experts": None}, "num_experts"),
    ],
)
def test_a_wrong_value_is_named(changes: dict[str, Any], why: str, tmp_path: Path) -> None:
    with refused(why):
        read(QWEN3_30B | changes, tmp_path)
    with refused("layer_types", "36"):
        read(GPT_OSS | {"layer_types": ["full_attention"]}, tmp_path)
