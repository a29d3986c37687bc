"""Hugging Face configs of each family of models, as fields of a transformer card.

Sources: the ``configuration_*.py`` and ``modeling_*.py`` of transformers 5 for each ``model_type``; where a key is left
out, its default there is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ssdsim.base.errors import short_repr
from ssdsim.base.record import Record, field
from ssdsim.transformer.config_values import (
    ConfigValues,
    Fields,
    behind_dense,
    beside_dense,
    experts_of,
    latent_of,
    qwen_experts,
)
from ssdsim.transformer.latest_families import OF_V4, deepseek_v4, mimo_v2, step

MOST_LAYERS = 10_000
"""The most layers that are listed one by one; no model has as many."""


def gated_delta(config: ConfigValues, layers: int) -> Fields:
    kinds = layers_of_qwen(config)
    recurrent = {
        "rule": "gated-delta",
        "layers": kinds.count("recurrent"),
        "heads": config.whole("linear_num_value_heads"),
        "key_heads": config.whole("linear_num_key_heads"),
        "key_dim": config.whole("linear_key_head_dim"),
        "value_dim": config.whole("linear_value_head_dim"),
        "conv_width": config.whole("linear_conv_kernel_dim", 4),
        "state_dtype": config.text("mamba_ssm_dtype", "float32"),
    }
    if config.some("mtp_num_hidden_layers") and config.flag("mtp_use_dedicated_embeddings"):
        raise config.refuse("has an MTP head with embeddings of its own (mtp_use_dedicated_embeddings)")
    return {
        "recurrent": recurrent if recurrent["layers"] else None,
        "attention_gate": config.flag("attn_output_gate", True),
        "mtp_layers": config.some("mtp_num_hidden_layers") or config.some("num_nextn_predict_layers"),
    }


def layers_of_qwen(config: ConfigValues) -> list[str]:
    """Every ``full_attention_interval``-th layer attends, unless ``layer_types`` says it one by one."""
    layers, every = _number_of_layers(config), config.whole("full_attention_interval", 4)
    types = config.by_layer("layer_types", layers)
    if types is None:
        return ["recurrent" if (n + 1) % every else "attention" for n in range(layers)]
    known = {"linear_attention": "recurrent", "full_attention": "attention"}
    return [_kind(config, each, known, "layer_types") for each in types]


def _number_of_layers(config: ConfigValues) -> int:
    """The number of layers of a model that lists them one by one."""
    layers = config.whole("num_hidden_layers")
    if layers > MOST_LAYERS:
        raise config.refuse(f"has {layers} layers")
    return layers


def _kind(config: ConfigValues, said: Any, kinds: Mapping[str, str], key: str) -> str:
    if not isinstance(said, str) or said not in kinds:
        raise config.refuse(f"has layers of the type {short_repr(said)} ({key})")
    return kinds[said]


def gated_delta_moe(config: ConfigValues, layers: int) -> Fields:
    """Qwen3.5's configs leave out the dense width, which they have no layer for."""
    width = config.whole("intermediate_size", config.whole("moe_intermediate_size"))
    return gated_delta(config, layers) | qwen_experts(config, layers, width)


def kimi_linear(config: ConfigValues, layers: int) -> Fields:
    """KDA and latent attention (which has no rotary part, and is as wide), experts that may work on fewer values."""
    said = ConfigValues(config.file, config.object("linear_attn_config"))
    heads, dim = said.whole("num_heads"), said.whole("head_dim")
    fields = latent_of(config) | behind_dense(config, layers)
    fields["recurrent"] = {
        "rule": "kimi-delta",
        "layers": layers_of_kimi(config).count("recurrent"),
        "heads": heads,
        "key_heads": heads,
        "key_dim": dim,
        "value_dim": dim,
        "conv_width": said.whole("short_conv_kernel_size", 4),
        "gate_rank": None if said.flag("use_full_rank_gate") else dim,
    }
    if config.some("num_nextn_predict_layers"):
        raise config.refuse("has an MTP head of a shape that is not known (num_nextn_predict_layers)")
    if "experts" in fields and config.some("routed_expert_hidden_size"):
        fields["experts"]["latent_width"] = config.whole("routed_expert_hidden_size")
        fields["experts"]["latent_norm"] = config.flag("latent_moe_use_norm")
    if config.some("attn_res_block_size"):
        fields["residual_block"] = config.whole("attn_res_block_size")
    return fields | {"attention_gate": config.flag("mla_use_output_gate")}


def layers_of_kimi(config: ConfigValues) -> list[str]:
    """Kinds of the layers, which are told by their numbers from 1 on; each must be one or the other."""
    said = ConfigValues(config.file, config.object("linear_attn_config"))
    states, full = set(said.layers_in("kda_layers")), set(said.layers_in("full_attn_layers"))
    numbers = range(1, _number_of_layers(config) + 1)
    if states & full or states | full != set(numbers):
        raise config.refuse("has layers that are neither of kda_layers nor of full_attn_layers, or of both")
    return ["recurrent" if number in states else "attention" for number in numbers]


_NEMOTRON = {"M": "recurrent", "*": "attention", "-": "mlp", "E": "experts"}
_NEMOTRON_TYPES = {"mamba": "recurrent", "attention": "attention", "mlp": "mlp", "moe": "experts"}


def layers_of_nemotron(config: ConfigValues) -> list[str]:
    """Kinds of the layers, by a letter or a word each; a layer is one of the four and nothing else."""
    return _nemotron_blocks(config, "hybrid_override_pattern", "layers_block_type")


def _nemotron_blocks(config: ConfigValues, pattern: str, types: str) -> list[str]:
    given = config.values.get(types)
    if given is None:
        return [_kind(config, letter, _NEMOTRON, pattern) for letter in config.text(pattern, "")]
    return [_kind(config, word, _NEMOTRON_TYPES, types) for word in (given if isinstance(given, list) else [given])]


def nemotron_h(config: ConfigValues, layers: int) -> Fields:
    kinds = layers_of_nemotron(config)
    if len(kinds) != layers:
        raise config.refuse(f"has {layers} layers and says the types of {len(kinds)}")
    if not {"mlp", "experts"} & set(kinds):
        raise config.refuse("has no feed-forwards")
    act = config.text("mlp_hidden_act", "relu2")
    if act not in ("relu2", "relu"):
        raise config.refuse(f"has feed-forwards of {act} (mlp_hidden_act)")
    fields: Fields = {
        "mlp_alone": kinds.count("mlp") + kinds.count("experts"),
        "gated_mlp": False,
        "head_dim": config.any_of("head_dim", "attention_head_dim"),
        "attention_bias": config.flag("attention_bias"),
        "mtp_layers": _nemotron_mtp(config),
        "recurrent": {
            "rule": "mamba2",
            "layers": kinds.count("recurrent"),
            "heads": config.whole("mamba_num_heads"),
            "key_heads": config.whole("n_groups"),
            "key_dim": config.whole("ssm_state_size"),
            "value_dim": config.whole("mamba_head_dim"),
            "conv_width": config.whole("conv_kernel", 4),
            "state_dtype": config.text("mamba_ssm_cache_dtype", "float32"),
        },
    }
    if "experts" in kinds:
        shared = config.some("n_shared_experts") * config.some("moe_shared_expert_intermediate_size")
        width = config.whole("moe_intermediate_size")
        fields["experts"] = experts_of(config, kinds.count("experts"), width, shared)
        if config.some("moe_latent_size"):
            fields["experts"]["latent_width"] = config.whole("moe_latent_size")
    return fields


def _nemotron_mtp(config: ConfigValues) -> int:
    """The number of MTP heads, each of which is a layer with attention and one with experts."""
    heads = config.some("num_nextn_predict_layers")
    if not heads:
        return 0
    kinds = _nemotron_blocks(config, "mtp_hybrid_override_pattern", "mtp_layers_block_type")
    if kinds != ["attention", "experts"]:
        raise config.refuse(f"has an MTP head of {' and '.join(kinds)} layers")
    return heads


class ConfigReader(Record):
    """Reader of one ``model_type``: fields that configs leave unsaid, and those that they say in their own way."""

    architecture: str
    unsaid: Fields = field(default_factory=dict)
    own: Callable[[ConfigValues, int], Fields] = lambda config, layers: {}
    kinds: Callable[[ConfigValues], list[str]] | None = None
    """Kinds of the layers in order, where there are several: ``attention``, ``recurrent``, ``mlp`` or ``experts``."""
    reads: frozenset[str] = frozenset()
    """Keys of :data:`TELL_TALES` that it understands."""


TELL_TALES: dict[str, str] = {
    "index_topk": "attends to a sparse choice of tokens",
    "sparse_attention_config": "attends to a sparse choice of blocks",
    "compress_ratios": "attends to compressed tokens",
    "hc_mult": "has several residual streams",
    "attn_res_block_size": "has attention residuals",
    "linear_attn_config": "has linear attention",
    "linear_num_value_heads": "has linear attention",
    "mamba_num_heads": "has state space layers",
    "attn_output_gate": "gates its attention",
    "mla_use_output_gate": "gates its attention",
    "moe_latent_size": "has experts that work on fewer values",
    "routed_expert_hidden_size": "has experts that work on fewer values",
    "block_configs": "has layers of many shapes",
}
"""Keys that change what a layer does: a family that does not read one of them cannot be priced where it is there."""


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
    fields: Fields = {
        "kv_heads": config.whole("num_global_key_value_heads", kv_heads),
        "head_dim": config.whole("global_head_dim", head_dim),
        "keys_are_values": config.flag("attention_k_eq_v"),
    }
    windows = _windows(config, layers)
    if windows:
        windows["window"] |= {"kv_heads": kv_heads, "head_dim": head_dim}
    if config.flag("enable_moe_block"):
        experts = experts_of(config, layers, config.whole("moe_intermediate_size"))
        fields["experts"] = experts | {"beside_mlp": True}
    return fields | windows


# experts


def _mixtral(config: ConfigValues, layers: int, windowed: int | None = None) -> Fields:
    width = config.whole("intermediate_size")
    return _windows(config, layers, windowed) | beside_dense(experts_of(config, layers, width), width)


def _qwen_moe(config: ConfigValues, layers: int) -> Fields:
    return _qwen2(config, layers) | qwen_experts(config, layers, config.whole("intermediate_size"))


def _gpt_oss(config: ConfigValues, layers: int) -> Fields:
    """Every second layer has a window; attention sinks are a value a head, which costs nothing."""
    return _mixtral(config, layers, (layers + 1) // 2)


def _llama4(config: ConfigValues, layers: int) -> Fields:
    """Local layers attend within chunks; experts are interleaved with dense layers of another width."""
    step, width = config.whole("interleave_moe_layer_step", 1), config.whole("intermediate_size")
    listed = config.layers_in("moe_layers") or list(range(step - 1, layers, step))
    fields = beside_dense(
        experts_of(config, len({layer for layer in listed if 0 <= layer < layers}), width, shared_width=width),
        config.whole("intermediate_size_mlp"),
    )
    local = _local_layers(config, layers)
    if local and config.values.get("attention_chunk_size") is not None:
        fields["window"] = {"tokens": config.whole("attention_chunk_size"), "layers": local}
    return fields


def _local_layers(config: ConfigValues, layers: int) -> int:
    types = config.by_layer("layer_types", layers)
    if types is not None:
        return types.count("chunked_attention")
    with_rope = config.values.get("no_rope_layers")  # 1 marks a layer with rotary embedding, which is local
    if with_rope:
        return sum(bool(one) for one in config.by_layer("no_rope_layers", layers) or [])
    return layers - layers // 4


def _glm4_moe(config: ConfigValues, layers: int) -> Fields:
    return behind_dense(config, layers) | {
        "qk_norm": config.flag("use_qk_norm"),
        "attention_bias": config.flag("attention_bias"),
        "mtp_layers": config.some("num_nextn_predict_layers"),
    }


def _minimax(config: ConfigValues, layers: int) -> Fields:
    width = config.whole("intermediate_size")
    experts = experts_of(config, layers, width, config.some("shared_intermediate_size"))
    predicts = config.flag("use_mtp")
    return beside_dense(experts, width) | {
        "qk_norm": config.flag("use_qk_norm"),
        "mtp_layers": config.some("num_mtp_modules") if predicts else 0,
    }


def _minimax_m3(config: ConfigValues, layers: int) -> Fields:
    """Dense layers first, then experts; MTP modules are told of, and no checkpoint has their weights."""
    listed = config.by_layer("moe_layer_freq", layers)
    routed = layers - config.some("first_k_dense_replace") if listed is None else sum(map(bool, listed))
    shared = config.some("n_shared_experts") * config.some("shared_intermediate_size")
    experts = experts_of(config, routed, config.whole("intermediate_size"), shared)
    fields = beside_dense(experts, config.whole("dense_intermediate_size"))
    fields |= {"qk_norm": config.flag("use_qk_norm"), "attention_gate": config.flag("attention_output_gate")}
    said = ConfigValues(config.file, config.object("sparse_attention_config"))
    if not said.flag("use_sparse_attention"):
        return fields
    freq = said.by_layer("sparse_attention_freq", layers)
    if said.text("sparse_score_type", "max") != "max":
        raise config.refuse("scores blocks by other than their best token (sparse_score_type)")
    return fields | {
        "block_sparse": {
            "heads": said.whole("sparse_num_index_heads"),
            "dim": said.whole("sparse_index_dim"),
            "block": said.whole("sparse_block_size"),
            "chosen": said.whole("sparse_topk_blocks"),
            "layers": layers if freq is None else sum(map(bool, freq)),
        }
    }


# latent attention


def _deepseek(config: ConfigValues, layers: int) -> Fields:
    return latent_of(config) | behind_dense(config, layers) | {"mtp_layers": config.some("num_nextn_predict_layers")}


def _dsa(config: ConfigValues, layers: int) -> Fields:
    """Latent attention to a choice of tokens, which some layers of GLM-5.2 take from a layer before."""
    types = config.by_layer("indexer_types", layers)
    every, offset = config.whole("index_topk_freq", 1), config.some("index_skip_topk_offset")
    if types is None:
        own = sum(max(n - offset + 1, 0) % every == 0 for n in range(min(layers, MOST_LAYERS)))
    else:
        kinds = {"full": "own", "shared": "shared"}
        own = [_kind(config, each, kinds, "indexer_types") for each in types].count("own")
    sparse = {
        "heads": config.whole("index_n_heads"),
        "dim": config.whole("index_head_dim"),
        "chosen": config.whole("index_topk"),
        "layers": own,
    }
    return _deepseek(config, layers) | {"sparse": sparse}


_NO_NORM: Fields = {"qk_norm": False, "attention_bias": False}
_QK_NORM: Fields = {"qk_norm": True, "attention_bias": False}
_BIAS: Fields = {"qk_norm": False, "attention_bias": True}


def _mimo(config: ConfigValues, layers: int) -> Fields:
    return _qwen2(config, layers) | {"mtp_layers": config.some("num_nextn_predict_layers")}


_OF_QWEN = frozenset({"linear_num_value_heads", "attn_output_gate"})
_OF_KIMI = frozenset({"linear_attn_config", "mla_use_output_gate", "routed_expert_hidden_size", "attn_res_block_size"})
_OF_DSA = frozenset({"index_topk"})
_OF_MSA = frozenset({"sparse_attention_config"})
_OF_NEMOTRON = frozenset({"mamba_num_heads", "moe_latent_size"})

FAMILIES: dict[str, ConfigReader] = {
    "llama": ConfigReader("llama", _NO_NORM),
    "mistral": ConfigReader("mistral", _NO_NORM, _windows),
    "qwen2": ConfigReader("qwen2", _BIAS, _qwen2),
    "qwen3": ConfigReader("qwen3", _QK_NORM, _qwen2),
    "qwen3_vl_text": ConfigReader("qwen3", _QK_NORM, _qwen2),
    "mimo": ConfigReader("mimo", _BIAS, _mimo),
    "gemma4_text": ConfigReader("gemma4", _QK_NORM, _gemma4),
    "mixtral": ConfigReader("mixtral", _NO_NORM, _mixtral),
    "qwen2_moe": ConfigReader("qwen2_moe", _BIAS, _qwen_moe),
    "qwen3_moe": ConfigReader("qwen3_moe", _QK_NORM, _qwen_moe),
    "qwen3_vl_moe_text": ConfigReader("qwen3_moe", _QK_NORM, _qwen_moe),
    "gpt_oss": ConfigReader("gpt_oss", _BIAS, _gpt_oss),
    "llama4_text": ConfigReader("llama4", _NO_NORM, _llama4),
    "glm4_moe": ConfigReader("glm4_moe", _NO_NORM, _glm4_moe),
    "minimax_m2": ConfigReader("minimax_m2", _NO_NORM, _minimax),
    **dict.fromkeys(("minimax_m3", "minimax_m3_vl"), ConfigReader("minimax_m3", _NO_NORM, _minimax_m3, reads=_OF_MSA)),
    "deepseek_v2": ConfigReader("deepseek_v2", _NO_NORM, _deepseek),
    "deepseek_v3": ConfigReader("deepseek_v3", _NO_NORM, _deepseek),
    "deepseek_v32": ConfigReader("deepseek_v32", _NO_NORM, _dsa, reads=_OF_DSA),
    "glm_moe_dsa": ConfigReader("glm_moe_dsa", _NO_NORM, _dsa, reads=_OF_DSA),
    "deepseek_v4": ConfigReader("deepseek_v4", _NO_NORM, deepseek_v4, reads=OF_V4),
    "deepseek_ref": ConfigReader("deepseek_v4", _NO_NORM, deepseek_v4, reads=OF_V4),
    "mimo_v2_flash": ConfigReader("mimo_v2", _NO_NORM, mimo_v2),
    "step3p7": ConfigReader("step3", _NO_NORM, step),
    "kimi_k2": ConfigReader("kimi_k2", _NO_NORM, _deepseek),
    "qwen3_next": ConfigReader("qwen3_next", _QK_NORM, gated_delta_moe, layers_of_qwen, _OF_QWEN),
    "qwen3_5_text": ConfigReader("qwen3_5", _QK_NORM, gated_delta, layers_of_qwen, _OF_QWEN),
    "qwen3_5_moe_text": ConfigReader("qwen3_5", _QK_NORM, gated_delta_moe, layers_of_qwen, _OF_QWEN),
    "kimi_linear": ConfigReader("kimi_linear", _NO_NORM, kimi_linear, layers_of_kimi, _OF_KIMI),
    "nemotron_h": ConfigReader("nemotron_h", _NO_NORM, nemotron_h, layers_of_nemotron, _OF_NEMOTRON),
}
"""Families by ``model_type``; that of the text part for models that see and hear too."""

WITH_A_TEXT_PART = (
    "qwen3_vl",
    "qwen3_vl_moe",
    "qwen3_5",
    "qwen3_5_moe",
    "llama4",
    "gemma4",
    "kimi_k25",
    "kimi_k3",
    "minimax_m3_vl",
    "mistral3",
    "llava",
)
"""Models whose ``text_config`` is what decodes."""
