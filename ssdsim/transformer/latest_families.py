"""Hugging Face configs of DeepSeek-V4, MiMo-V2 and Step-3.7, as fields of a transformer card."""

from __future__ import annotations

from ssdsim.transformer.compressed import RATIOS, Branch
from ssdsim.transformer.config_values import ConfigValues, Fields, beside_dense, experts_of

OF_V4 = frozenset({"index_topk", "compress_ratios", "hc_mult"})
_BRANCHES: dict[int, Branch] = {ratio: branch for branch, ratio in RATIOS.items()}


def deepseek_v4(config: ConfigValues, layers: int) -> Fields:
    """Compressed attention, streams, and experts in every layer, the first of which route by a table.

    ``compress_ratios`` goes on after the last layer with the MTP layers, which see a window. A cache is kept in 8 bits:
    no engine has another.
    """
    predicts = config.some("num_nextn_predict_layers")
    ratios = config.by_layer("compress_ratios", layers + predicts) or []
    if unknown := next((each for each in ratios if each not in _BRANCHES), None):
        raise config.refuse(f"has an entry for every {unknown} tokens (compress_ratios)")
    if any(ratios[layers:]):
        raise config.refuse("has MTP layers that see more than a window (compress_ratios)")
    branches = [_BRANCHES[each] for each in ratios[:layers]]
    width = config.whole("moe_intermediate_size")
    compressed = {
        "rope_dim": config.whole("qk_rope_head_dim"),
        "query_rank": config.whole("q_lora_rank"),
        "out_groups": config.whole("o_groups"),
        "out_rank": config.whole("o_lora_rank"),
        "window": config.whole("sliding_window"),
        "csa_layers": branches.count("csa"),
        "hca_layers": branches.count("hca"),
        "index_heads": config.whole("index_n_heads"),
        "index_dim": config.whole("index_head_dim"),
        "chosen": config.whole("index_topk"),
    }
    experts = experts_of(config, layers, width, config.some("n_shared_experts") * width)
    return beside_dense(experts, width) | {
        "compressed": compressed,
        "streams": config.whole("hc_mult", 1),
        "mtp_layers": predicts,
        "kv_dtype": "float8",
    }


def mimo_v2(config: ConfigValues, layers: int) -> Fields:
    """Windows with key-value heads of their own, and experts in the layers that a list says.

    Keys are wider than values. Both are taken for as wide as their mean: weights, bytes and flops are the same.
    """
    windowed = sum(bool(each) for each in config.by_layer("hybrid_layer_pattern", layers) or [])
    routed = sum(bool(each) for each in config.by_layer("moe_layer_freq", layers) or [])
    width = (config.whole("head_dim") + config.whole("v_head_dim", config.whole("head_dim"))) // 2
    own = (config.whole("swa_head_dim", width) + config.whole("swa_v_head_dim", width)) // 2
    heads = config.whole("num_attention_heads")
    if config.whole("swa_num_attention_heads", heads) != heads:
        raise config.refuse("has another number of heads in layers with a window (swa_num_attention_heads)")
    window = {
        "tokens": config.whole("sliding_window"),
        "layers": windowed,
        "kv_heads": config.whole("swa_num_key_value_heads", config.whole("num_key_value_heads")),
        "head_dim": own,
    }
    experts = experts_of(config, routed, config.whole("moe_intermediate_size"))
    return beside_dense(experts, config.whole("intermediate_size")) | {
        "head_dim": width,
        "window": window if windowed else None,
        "mtp_layers": config.some("num_nextn_predict_layers"),
    }


def step(config: ConfigValues, layers: int) -> Fields:
    """Windows in some layers, and experts behind the first dense ones, with a shared one of a width of its own."""
    types = config.by_layer("layer_types", layers) or []
    windowed = types.count("sliding_attention")
    routed = layers - config.some("first_k_dense_replace")
    shared = config.some("n_shared_experts") * config.some("share_expert_dim")
    experts = experts_of(config, routed, config.whole("moe_intermediate_size"), shared)
    return beside_dense(experts, config.whole("intermediate_size")) | {
        "window": {"tokens": config.whole("sliding_window"), "layers": windowed} if windowed else None,
        "mtp_layers": config.some("num_nextn_predict_layers"),
    }
