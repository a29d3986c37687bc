"""What a Hugging Face config of each family of models says, as fields of a transformer card.

Sources: the ``configuration_*.py`` and ``modeling_*.py`` of transformers 5 for each ``model_type``; where a key is left
out, its default there is taken.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ssdsim.transformer.config_values import ConfigValues

Fields = dict[str, Any]


@dataclass(frozen=True)
class Family:
    """How one ``model_type`` is read: fields that configs leave unsaid, and those that they say in their own way."""

    architecture: str
    unsaid: Fields = field(default_factory=dict)
    own: Callable[[ConfigValues, int], Fields] = lambda config, layers: {}


# windows


def _windows(config: ConfigValues, layers: int, windowed: int | None = None) -> Fields:
    """Sliding windows: in the layers that ``layer_types`` says, else in ``windowed`` of them (all by default)."""
    if config.values.get("sliding_window") is None or not config.flag("use_sliding_window", True):
        return {}
    tokens = config.whole("sliding_window")
    types = config.by_layer("layer_types", layers)
    count = windowed if types is None else types.count("sliding_attention")
    count = layers if count is None else count
    return {"window": {"tokens": tokens, "layers": count}} if count else {}


def _qwen2(config: ConfigValues, layers: int) -> Fields:
    if config.values.get("use_sliding_window") is None:
        return {}
    return _windows(config, layers, max(0, layers - config.some("max_window_layers")))


def _gemma4(config: ConfigValues, layers: int) -> Fields:
    """Layers with a window have heads of their own; the others may keep one projection for keys and values."""
    for key, what in (
        ("hidden_size_per_layer_input", "has embeddings by layer"),
        ("num_kv_shared_layers", "shares caches between layers"),
    ):
        if config.some(key):
            raise config.refuse(what)
    if config.flag("use_double_wide_mlp"):
        raise config.refuse("has MLPs of two widths")
    kv_heads, head_dim = config.whole("num_key_value_heads"), config.whole("head_dim")
    found: Fields = {
        "kv_heads": config.whole("num_global_key_value_heads", kv_heads),
        "head_dim": config.whole("global_head_dim", head_dim),
        "keys_are_values": config.flag("attention_k_eq_v"),
    }
    windows = _windows(config, layers)
    if windows:
        windows["window"] |= {"kv_heads": kv_heads, "head_dim": head_dim}
    if config.flag("enable_moe_block"):
        experts = _experts(config, layers, config.whole("moe_intermediate_size"))
        found["experts"] = experts | {"beside_mlp": True}
    return found | windows


# experts


def _experts(config: ConfigValues, layers: int, width: int, shared_width: int = 0) -> Fields:
    return {
        "count": config.any_of("num_experts", "num_local_experts", "n_routed_experts"),
        "per_token": config.any_of("num_experts_per_tok", "experts_per_token", "top_k_experts"),
        "width": width,
        "layers": layers,
        "shared_width": shared_width,
    }


def _beside_dense(experts: Fields, dense_width: int) -> Fields:
    """Experts in some layers; a model without any other layers has no dense MLP, whatever width its config says."""
    if not experts["layers"]:
        return {}
    return {"experts": experts, "intermediate_size": dense_width}


def _mixtral(config: ConfigValues, layers: int) -> Fields:
    width = config.whole("intermediate_size")
    return _windows(config, layers) | _beside_dense(_experts(config, layers, width), width)


def _qwen_moe(config: ConfigValues, layers: int) -> Fields:
    step, dense = config.whole("decoder_sparse_step", 1), set(config.layers_in("mlp_only_layers"))
    sparse = [layer for layer in range(layers) if layer not in dense and (layer + 1) % step == 0]
    shared = config.some("shared_expert_intermediate_size")
    experts = _experts(config, len(sparse), config.whole("moe_intermediate_size"), shared)
    windows = _qwen2(config, layers)
    return windows | _beside_dense(experts, config.whole("intermediate_size"))


def _gpt_oss(config: ConfigValues, layers: int) -> Fields:
    """Every second layer has a window; attention sinks are a value a head, which costs nothing."""
    width = config.whole("intermediate_size")
    return _windows(config, layers, (layers + 1) // 2) | _beside_dense(_experts(config, layers, width), width)


def _llama4(config: ConfigValues, layers: int) -> Fields:
    """Local layers attend within chunks; experts are interleaved with dense layers of another width."""
    step, width = config.whole("interleave_moe_layer_step", 1), config.whole("intermediate_size")
    listed = config.layers_in("moe_layers") or list(range(step - 1, layers, step))
    found = _beside_dense(
        _experts(config, len({layer for layer in listed if 0 <= layer < layers}), width, shared_width=width),
        config.whole("intermediate_size_mlp"),
    )
    local = _local_layers(config, layers)
    if local and config.values.get("attention_chunk_size") is not None:
        found["window"] = {"tokens": config.whole("attention_chunk_size"), "layers": local}
    return found


def _local_layers(config: ConfigValues, layers: int) -> int:
    types = config.by_layer("layer_types", layers)
    if types is not None:
        return types.count("chunked_attention")
    with_rope = config.values.get("no_rope_layers")  # 1 marks a layer with rotary embedding, which is local
    if with_rope:
        return sum(bool(one) for one in config.by_layer("no_rope_layers", layers) or [])
    return layers - layers // 4


def _glm4_moe(config: ConfigValues, layers: int) -> Fields:
    return _behind_dense(config, layers) | {
        "qk_norm": config.flag("use_qk_norm"),
        "attention_bias": config.flag("attention_bias"),
        "mtp_layers": config.some("num_nextn_predict_layers"),
    }


def _behind_dense(config: ConfigValues, layers: int) -> Fields:
    """Experts in all layers but the first few (of every so many), shared ones as wide as several."""
    width, every = config.whole("moe_intermediate_size"), config.whole("moe_layer_freq", 1)
    sparse = [n for n in range(config.some("first_k_dense_replace"), layers) if n % every == 0]
    shared = config.some("n_shared_experts") * width
    return _beside_dense(_experts(config, len(sparse), width, shared), config.whole("intermediate_size"))


def _minimax(config: ConfigValues, layers: int) -> Fields:
    width = config.whole("intermediate_size")
    experts = _experts(config, layers, width, config.some("shared_intermediate_size"))
    predicts = config.flag("use_mtp")
    return _beside_dense(experts, width) | {
        "qk_norm": config.flag("use_qk_norm"),
        "mtp_layers": config.some("num_mtp_modules") if predicts else 0,
    }


# latent attention


def _deepseek(config: ConfigValues, layers: int) -> Fields:
    if config.values.get("index_topk"):
        raise config.refuse("attends to a sparse choice of tokens (index_topk)")
    latent = {
        "rank": config.whole("kv_lora_rank"),
        "rope_dim": config.whole("qk_rope_head_dim"),
        "nope_dim": config.whole("qk_nope_head_dim"),
        "value_dim": config.whole("v_head_dim"),
    }
    if config.values.get("q_lora_rank") is not None:
        latent["query_rank"] = config.whole("q_lora_rank")
    return _behind_dense(config, layers) | {
        "latent": latent,
        "head_dim": latent["nope_dim"] + latent["rope_dim"],
        "mtp_layers": config.some("num_nextn_predict_layers"),
    }


_NO_NORM: Fields = {"qk_norm": False, "attention_bias": False}
_QK_NORM: Fields = {"qk_norm": True, "attention_bias": False}
_BIAS: Fields = {"qk_norm": False, "attention_bias": True}


def _mimo(config: ConfigValues, layers: int) -> Fields:
    return _qwen2(config, layers) | {"mtp_layers": config.some("num_nextn_predict_layers")}


FAMILIES: dict[str, Family] = {
    "llama": Family("llama", _NO_NORM),
    "mistral": Family("mistral", _NO_NORM, _windows),
    "qwen2": Family("qwen2", _BIAS, _qwen2),
    "qwen3": Family("qwen3", _QK_NORM, _qwen2),
    "qwen3_vl_text": Family("qwen3", _QK_NORM, _qwen2),
    "mimo": Family("mimo", _BIAS, _mimo),
    "gemma4_text": Family("gemma4", _QK_NORM, _gemma4),
    "mixtral": Family("mixtral", _NO_NORM, _mixtral),
    "qwen2_moe": Family("qwen2_moe", _BIAS, _qwen_moe),
    "qwen3_moe": Family("qwen3_moe", _QK_NORM, _qwen_moe),
    "qwen3_vl_moe_text": Family("qwen3_moe", _QK_NORM, _qwen_moe),
    "gpt_oss": Family("gpt_oss", _BIAS, _gpt_oss),
    "llama4_text": Family("llama4", _NO_NORM, _llama4),
    "glm4_moe": Family("glm4_moe", _NO_NORM, _glm4_moe),
    "minimax_m2": Family("minimax_m2", _NO_NORM, _minimax),
    "deepseek_v2": Family("deepseek_v2", _NO_NORM, _deepseek),
    "deepseek_v3": Family("deepseek_v3", _NO_NORM, _deepseek),
    "kimi_k2": Family("kimi_k2", _NO_NORM, _deepseek),
}
"""By ``model_type``; that of the text part for models that see and hear too."""

WITH_A_TEXT_PART = ("qwen3_vl", "qwen3_vl_moe", "llama4", "gemma4", "kimi_k25", "mistral3", "llava")
"""Models whose ``text_config`` is what decodes."""
