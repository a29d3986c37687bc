"""Hugging Face configs of models with recurrent layers, as fields of a transformer card.

Sources: as of :mod:`ssdsim.transformer.families`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ssdsim.base.errors import short_repr
from ssdsim.transformer.config_values import ConfigValues
from ssdsim.transformer.family_parts import Fields, behind_dense, experts_of, latent_of, qwen_experts

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
