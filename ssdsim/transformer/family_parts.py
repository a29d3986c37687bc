"""Readers of what several families have in common: experts in some layers, latent attention."""

from __future__ import annotations

from typing import Any

from ssdsim.transformer.config_values import ConfigValues

Fields = dict[str, Any]


def experts_of(config: ConfigValues, layers: int, width: int, shared_width: int = 0) -> Fields:
    """Fields of experts of ``width`` in so many layers."""
    return {
        "count": config.any_of("num_experts", "num_local_experts", "n_routed_experts"),
        "per_token": config.any_of(
            "num_experts_per_tok", "experts_per_token", "num_experts_per_token", "top_k_experts"
        ),
        "width": width,
        "layers": layers,
        "shared_width": shared_width,
    }


def beside_dense(experts: Fields, dense_width: int) -> Fields:
    """Experts in some layers; a model without any other layers has no dense MLP, whatever width its config says."""
    if not experts["layers"]:
        return {}
    return {"experts": experts, "intermediate_size": dense_width}


def qwen_experts(config: ConfigValues, layers: int, dense_width: int) -> Fields:
    """Experts in every so many layers but those that are dense."""
    step, dense = config.whole("decoder_sparse_step", 1), set(config.layers_in("mlp_only_layers"))
    sparse = sum(layer not in dense and (layer + 1) % step == 0 for layer in range(layers))
    shared = config.some("shared_expert_intermediate_size")
    experts = experts_of(config, sparse, config.whole("moe_intermediate_size"), shared) | {"shared_gate": shared > 0}
    return beside_dense(experts, dense_width)


def behind_dense(config: ConfigValues, layers: int) -> Fields:
    """Experts in all layers but the first few (of every so many), shared ones as wide as several."""
    width, every = config.whole("moe_intermediate_size"), config.whole("moe_layer_freq", 1)
    sparse = [n for n in range(config.some("first_k_dense_replace"), layers) if n % every == 0]
    shared = (config.some("n_shared_experts") or config.some("num_shared_experts")) * width
    return beside_dense(experts_of(config, len(sparse), width, shared), config.whole("intermediate_size"))


def latent_of(config: ConfigValues) -> Fields:
    """Fields of a latent cache."""
    latent = {
        "rank": config.whole("kv_lora_rank"),
        "rope_dim": config.whole("qk_rope_head_dim"),
        "nope_dim": config.whole("qk_nope_head_dim"),
        "value_dim": config.whole("v_head_dim"),
    }
    if config.values.get("q_lora_rank") is not None:
        latent["query_rank"] = config.whole("q_lora_rank")
    return {"latent": latent, "head_dim": latent["nope_dim"] + latent["rope_dim"]}
