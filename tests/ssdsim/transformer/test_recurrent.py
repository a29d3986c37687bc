"""Models with states in place of attention: Gated DeltaNet, KDA and Mamba2, as their configs describe them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ssdsim.base.errors import InputError
from ssdsim.hardware.catalog import find_transformer
from ssdsim.transformer.card import Transformer
from ssdsim.transformer.forward import forward_pass
from ssdsim.transformer.heads import eagle_head, mtp_head
from ssdsim.transformer.operations import Attention, ExpertMlp, Gemm, LatentAttention
from ssdsim.transformer.parallel_degrees import legal_tensor_parallel
from ssdsim.transformer.prefill import Chunk, mixed_pass, prefill_pass
from ssdsim.transformer.recurrences import Convolution, PrefillRecurrence, RecurrentStep
from tests.refusals import refused

B = 10**9
MB = 10**6
_GATED_DELTA = {
    "linear_num_key_heads": 16, "linear_key_head_dim": 128, "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4,
    "full_attention_interval": 4, "head_dim": 256, "max_position_embeddings": 262144,
}  # fmt: skip
QWEN3_NEXT: dict[str, Any] = _GATED_DELTA | {
    "model_type": "qwen3_next", "hidden_size": 2048, "num_hidden_layers": 48, "num_attention_heads": 16,
    "num_key_value_heads": 2, "intermediate_size": 5120, "linear_num_value_heads": 32, "decoder_sparse_step": 1,
    "moe_intermediate_size": 512, "num_experts": 512, "num_experts_per_tok": 10,
    "shared_expert_intermediate_size": 512, "vocab_size": 151936,
}  # fmt: skip
QWEN_122B: dict[str, Any] = {
    "model_type": "qwen3_5_moe",
    "tie_word_embeddings": False,
    "text_config": _GATED_DELTA | {
        "model_type": "qwen3_5_moe_text", "hidden_size": 3072, "num_hidden_layers": 48, "num_attention_heads": 32,
        "num_key_value_heads": 2, "linear_num_value_heads": 64, "attn_output_gate": True, "moe_intermediate_size": 1024,
        "num_experts": 256, "num_experts_per_tok": 8, "shared_expert_intermediate_size": 1024, "vocab_size": 248320,
        "layer_types": ["linear_attention", "linear_attention", "linear_attention", "full_attention"] * 12,
        "mtp_num_hidden_layers": 1, "mtp_use_dedicated_embeddings": False, "mamba_ssm_dtype": "float32",
    },
}  # fmt: skip
QWEN_27B: dict[str, Any] = {
    "model_type": "qwen3_5",
    "text_config": _GATED_DELTA | {
        "model_type": "qwen3_5_text", "hidden_size": 5120, "num_hidden_layers": 64, "num_attention_heads": 24,
        "num_key_value_heads": 4, "linear_num_value_heads": 48, "attn_output_gate": True, "intermediate_size": 17408,
        "vocab_size": 248320, "mtp_num_hidden_layers": 1,
    },
}  # fmt: skip
_KIMI: dict[str, Any] = {
    "model_type": "kimi_linear", "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
    "v_head_dim": 128, "mla_use_nope": True, "first_k_dense_replace": 1, "moe_layer_freq": 1, "vocab_size": 163840,
    "num_nextn_predict_layers": 0, "tie_word_embeddings": False,
}  # fmt: skip
_LINEAR_FULL = [4, 8, 12, 16, 20, 24, 27]
KIMI_LINEAR: dict[str, Any] = _KIMI | {
    "hidden_size": 2304, "num_hidden_layers": 27, "num_attention_heads": 32, "num_key_value_heads": 32,
    "intermediate_size": 9216, "head_dim": 72, "model_max_length": 1048576, "q_lora_rank": None,
    "num_experts": 256, "num_experts_per_token": 8, "num_shared_experts": 1, "moe_intermediate_size": 1024,
    "linear_attn_config": {
        "kda_layers": [n for n in range(1, 28) if n not in _LINEAR_FULL], "full_attn_layers": _LINEAR_FULL,
        "num_heads": 32, "head_dim": 128, "short_conv_kernel_size": 4,
    },
}  # fmt: skip
_K3_FULL = [*range(4, 93, 4), 93]
KIMI_K3: dict[str, Any] = {
    "model_type": "kimi_k3",
    "text_config": _KIMI | {
        "hidden_size": 7168, "num_hidden_layers": 93, "num_attention_heads": 96, "num_key_value_heads": 96,
        "intermediate_size": 33792, "q_lora_rank": 1536, "mla_use_output_gate": True, "attn_res_block_size": 12,
        "num_experts": 896, "num_experts_per_token": 16, "num_shared_experts": 2, "moe_intermediate_size": 3072,
        "routed_expert_hidden_size": 3584, "latent_moe_use_norm": True,
        "linear_attn_config": {
            "kda_layers": [n for n in range(1, 94) if n not in _K3_FULL], "full_attn_layers": _K3_FULL,
            "num_heads": 96, "head_dim": 128, "short_conv_kernel_size": 4, "use_full_rank_gate": True,
        },
    },
}  # fmt: skip
_NEMOTRON: dict[str, Any] = {
    "model_type": "nemotron_h", "mamba_head_dim": 64, "n_groups": 8, "conv_kernel": 4, "mlp_hidden_act": "relu2",
    "head_dim": 128, "vocab_size": 131072, "n_shared_experts": 1, "ssm_state_size": 128,
    "mamba_ssm_cache_dtype": "float32",
}  # fmt: skip
NANO: dict[str, Any] = _NEMOTRON | {
    "hybrid_override_pattern": "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME", "hidden_size": 2688,
    "num_hidden_layers": 52, "num_attention_heads": 32, "num_key_value_heads": 2, "intermediate_size": 1856,
    "mamba_num_heads": 64, "moe_intermediate_size": 1856, "moe_shared_expert_intermediate_size": 3712,
    "n_routed_experts": 128, "num_experts_per_tok": 6,
}  # fmt: skip
SUPER: dict[str, Any] = _NEMOTRON | {
    "layers_block_type": (["mamba", "moe"] * 3 + ["mamba", "attention", "moe"]) * 8 + ["mamba", "moe"] * 8,
    "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 2, "intermediate_size": 2688,
    "mamba_num_heads": 128, "moe_intermediate_size": 2688, "moe_shared_expert_intermediate_size": 5376,
    "n_routed_experts": 512, "num_experts_per_tok": 22, "moe_latent_size": 1024, "num_nextn_predict_layers": 1,
    "mtp_hybrid_override_pattern": "*E",
}  # fmt: skip
NEMOTRON_56B: dict[str, Any] = _NEMOTRON | {
    "hybrid_override_pattern": "M-M-M-M*-" + "M-M-M-M-M*-" * 9 + "M-M-M-M-M-", "hidden_size": 8192,
    "num_hidden_layers": 118, "num_attention_heads": 64, "num_key_value_heads": 8, "intermediate_size": 32768,
    "mamba_num_heads": 256, "ssm_state_size": 256, "head_dim": None, "attention_head_dim": 128, "mtp_layers": 0,
}  # fmt: skip
CONFIGS = {
    "next": QWEN3_NEXT, "122b": QWEN_122B, "27b": QWEN_27B, "linear": KIMI_LINEAR, "k3": KIMI_K3, "nano": NANO,
    "super": SUPER, "56b": NEMOTRON_56B,
}  # fmt: skip


def read(name: str, folder: Path, **changes: Any) -> Transformer:
    config = CONFIGS[name]
    config = config | {"text_config": config["text_config"] | changes} if "text_config" in config else config | changes
    path = folder / f"{name}_config.json"
    path.write_text(json.dumps(config))
    return find_transformer(str(path))


@pytest.mark.parametrize(
    ("name", "total", "active"),
    [
        ("next", 79.67, 3.88),
        ("122b", 122.11, 9.77),
        ("27b", 26.90, 26.90),
        ("linear", 49.12, 3.48),
        ("k3", 2779, 105),
        ("nano", 31.58, 3.58),
        ("super", 120.67, 12.77),
        ("56b", 56.32, 56.32),
    ],
)
def test_a_model_has_the_published_parameters(name: str, total: float, active: float, tmp_path: Path) -> None:
    card = read(name, tmp_path)
    assert card.parameters == pytest.approx(total * B, rel=0.002)
    assert card.active_parameters == pytest.approx(active * B, rel=0.005)


@pytest.mark.parametrize(
    ("name", "recurrent", "attention", "state", "kv"),
    [
        ("next", 36, 12, 75.5, 24.6),
        ("122b", 36, 12, 151, 24.6),
        ("27b", 48, 16, 151, 65.5),
        ("linear", 20, 7, 42, 8.1),
        ("k3", 69, 24, 434, 27.6),
        ("nano", 23, 6, 48, 6.1),
        ("super", 40, 8, 168, 8.2),
        ("56b", 54, 10, 906, 41),
    ],
)
def test_states_and_caches_are_the_published_ones(
    name: str, recurrent: int, attention: int, state: float, kv: float, tmp_path: Path
) -> None:
    """MB of states (without convolutions) a sequence and kB of keys and values a token, in bfloat16."""
    card = read(name, tmp_path)
    assert (card.recurrent_layers, card.attention_layers) == (recurrent, attention)
    assert card.recurrent is not None
    assert recurrent * card.recurrent.state_bytes() == pytest.approx(state * MB, rel=0.01)
    assert card.kv_bytes_per_token() == pytest.approx(kv * 1e3, rel=0.01)
    assert card.state_bytes() == pytest.approx(state * MB, rel=0.04)
    assert card.state_bytes(tp=4) == card.state_bytes() / 4


@pytest.mark.parametrize("name", CONFIGS)
def test_a_pass_has_every_layer_once(name: str, tmp_path: Path) -> None:
    """And its matrices are those that the card counts: two flops a weight and token."""
    card = read(name, tmp_path)
    counted = forward_pass(card, batch=2, queries=3, context=500).counted
    steps = [(op, times) for op, times in counted if isinstance(op, RecurrentStep)]
    attention = [times for op, times in counted if isinstance(op, Attention | LatentAttention)]
    assert sum(times for _, times in steps) == card.recurrent_layers
    assert sum(attention) == card.attention_layers
    assert sum(times for op, times in counted if op.name in ("up", "gate_up", "router")) == card.mlps
    ((step, _),) = steps
    assert card.recurrent is not None
    assert step.state_bytes == card.recurrent.state_bytes()
    matrices = sum(times * op.n * op.k for op, times in counted if isinstance(op, Gemm))
    of_card = card.parameters_by_part
    routers = 0 if card.experts is None else card.expert_layers * card.experts.count * card.hidden_size
    dense = sum(of_card[part] for part in ("attention", "attention_out", "recurrent", "mlp", "lm_head"))
    gates = card.expert_layers * card.hidden_size if card.experts and card.experts.shared_gate else 0
    beside = card.recurrent_layers * card.recurrent.small_parameters(card.hidden_size)
    assert matrices == dense + routers + gates + beside


def test_two_layers_of_one_part_each_are_one_to_the_host(tmp_path: Path) -> None:
    """Nano has 52: 23 states and 6 of attention, and 23 of experts after 23 of them."""
    assert forward_pass(read("nano", tmp_path), batch=1, context=100).layers == 26
    assert forward_pass(read("122b", tmp_path), batch=1, context=100).layers == 48


def test_verification_writes_a_state_for_every_token_unless_it_replays(tmp_path: Path) -> None:
    card = read("122b", tmp_path)

    def moved(queries: int, keeping: Any, masked: bool = False) -> float:
        work = forward_pass(card, batch=4, queries=queries, context=100, states=keeping, masked=masked)
        (step,) = {op for op, _ in work.counted if isinstance(op, RecurrentStep)}
        return step.streamed_bytes / (4 * step.state_bytes)

    assert [moved(q, "each") / moved(1, "each") for q in (2, 4, 8)] == [1.5, 2.5, 4.5]
    assert [moved(q, "copied") - moved(q, "each") for q in (1, 2, 8)] == [0, 2, 2]
    assert all(1.0 < moved(q, "replayed") < 1.5 for q in (1, 2, 4, 8))
    assert moved(4, "each", masked=True) == 8  # each branch reads a state and writes its own


def test_prompts_go_through_in_chunks_and_in_proportion_to_their_tokens(tmp_path: Path) -> None:
    card = read("super", tmp_path)
    short, long = (prefill_pass(card, batch=1, tokens=tokens) for tokens in (1000, 4000))
    of = [next(op for op, _ in each.counted if isinstance(op, PrefillRecurrence)) for each in (short, long)]
    assert of[1].flops == 4 * of[0].flops
    assert not any(isinstance(op, RecurrentStep) for op, _ in long.counted)
    both = mixed_pass(card, (Chunk(100, 50), Chunk(10)), batch=8, queries=2, context=500).counted
    assert sorted(op.tokens for op, _ in both if isinstance(op, PrefillRecurrence)) == [10, 100]
    assert [(op.batch, op.queries) for op, _ in both if isinstance(op, RecurrentStep)] == [(8, 2)]
    assert sorted(op.batch * op.queries for op, _ in both if isinstance(op, Convolution)) == [10, 16, 100]


def test_latent_experts_are_narrower_and_have_two_matrices(tmp_path: Path) -> None:
    card = read("super", tmp_path)
    counted = forward_pass(card, batch=1, context=100, tp=2).counted
    (experts,) = {op for op, _ in counted if isinstance(op, ExpertMlp)}
    assert (experts.hidden, experts.width, experts.matrices) == (1024, 2688 // 2, 2)
    assert experts.expert_bytes == 2 * 1024 * 2688 // 2 * 2
    around = {op.name: (op.n, op.k) for op, _ in counted if isinstance(op, Gemm) and op.name.startswith("latent")}
    assert around == {"latent_down": (1024, 4096), "latent_up": (4096, 1024)}
    whole = 2 * 40 * 1024 * 4096  # on every device, as it is run
    assert card.weight_bytes(8) == 2 * (whole + (card.parameters - whole) // 8)


def test_devices_share_states_by_heads(tmp_path: Path) -> None:
    card = read("122b", tmp_path)
    assert legal_tensor_parallel(card) == (1, 2, 4, 8, 16, 32)
    assert 6 not in legal_tensor_parallel(read("27b", tmp_path))
    with refused("tp 3", "64 recurrent heads"):
        forward_pass(card, batch=1, context=100, tp=3)


@pytest.mark.parametrize(("name", "billions"), [("122b", 2.52), ("27b", 0.43), ("super", 2.94)])
def test_the_mtp_head_attends_and_has_no_state(name: str, billions: float, tmp_path: Path) -> None:
    head = mtp_head(read(name, tmp_path))
    assert head.parameters == pytest.approx(billions * B, abs=6e6)
    counted = forward_pass(head, batch=1, context=100).counted
    assert [times for op, times in counted if isinstance(op, Attention)] == [1]
    assert not any(isinstance(op, RecurrentStep | Convolution) for op, _ in counted)
    assert read("next", tmp_path, num_nextn_predict_layers=1).mtp_layers == 1
    plain = eagle_head(read(name, tmp_path))
    assert (plain.recurrent, plain.attention_gate, plain.layers) == (None, False, 1)


@pytest.mark.parametrize(
    ("name", "changes", "why"),
    [
        ("122b", {"layer_types": ["linear_attention"] * 47 + ["windowed"]}, "layers of the type 'windowed'"),
        ("122b", {"layer_types": [["linear_attention"]] * 48}, "layers of the type"),
        ("122b", {"num_hidden_layers": 10**9, "layer_types": None}, "1000000000 layers"),
        ("122b", {"mtp_use_dedicated_embeddings": True}, "embeddings of its own"),
        ("122b", {"mamba_ssm_dtype": "float8"}, "state_dtype"),
        ("122b", {"moe_latent_size": 64}, "experts that work on fewer values .moe_latent_size."),
        ("linear", {"num_nextn_predict_layers": 1}, "MTP head of a shape that is not known"),
        ("linear", {"num_hidden_layers": 28}, "neither of kda_layers nor of full_attn_layers"),
        ("k3", {"hc_mult": 4}, "several residual streams .hc_mult."),
        ("nano", {"hybrid_override_pattern": "MX" * 26}, "layers of the type 'X' .hybrid_override_pattern."),
        ("nano", {"layers_block_type": [{"mamba": 1}]}, "layers of the type"),
        ("nano", {"layers_block_type": ["mamba"] * 52}, "no feed-forwards"),
        ("nano", {"num_hidden_layers": 50}, "50 layers and says the types of 52"),
        ("nano", {"mlp_hidden_act": "silu"}, "feed-forwards of silu"),
        ("super", {"mtp_hybrid_override_pattern": "ME"}, "MTP head of recurrent and experts layers"),
        ("super", {"index_topk": 2048}, "sparse choice of tokens .index_topk."),
    ],
)
def test_what_is_not_priced_is_refused_by_name(name: str, changes: dict[str, Any], why: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=why):
        read(name, tmp_path, **changes)


def test_checkpoints_leave_parts_out_or_tell_the_format_of_each_layer(tmp_path: Path) -> None:
    """As NVIDIA's of Qwen3.5-122B (experts alone, the MTP head plain) and Qwen3.6-27B (layer by layer)."""
    left_out = ["lm_head", "*.mlp.shared_expert.*", "mtp*"]
    left_out += [f"model.language_model.layers.{n}.linear_attn*" for n in range(48)]
    left_out += [f"model.language_model.layers.{n}.self_attn*" for n in range(3, 48, 4)]
    scheme = {"weights": {"num_bits": 4, "type": "float", "group_size": 16}}
    some = {"quant_method": "modelopt", "config_groups": {"group_0": scheme}, "ignore": left_out}
    card = read("122b", tmp_path, quantization_config=some)
    precision = card.precision()
    assert (precision.attention, precision.of("recurrent"), precision.mlp, precision.of("experts")) == (
        *["bfloat16"] * 3,
        "nvfp4",
    )
    assert mtp_head(card).precision().of("experts") == "bfloat16"
    listed = {f"model.layers.{n}.mlp.{name}_proj": "NVFP4" for n in range(64) for name in ("gate", "up", "down")}
    inside = ("in_proj_qkv", "in_proj_z", "out_proj")
    listed |= {f"model.layers.{n}.linear_attn.{name}": "FP8" for n in range(64) for name in inside}
    each = {"quant_algo": "MIXED_PRECISION", "quantized_layers": {k: {"quant_algo": v} for k, v in listed.items()}}
    mixed = read("27b", tmp_path, quantization_config={"quant_method": "modelopt", **each}).precision()
    assert (mixed.attention, mixed.of("recurrent"), mixed.mlp) == ("bfloat16", "float8", "nvfp4")
    del each["quantized_layers"]["model.layers.5.mlp.up_proj"]
    with refused("mlp", "nvfp4"):
        read("27b", tmp_path, quantization_config={"quant_method": "modelopt", **each})


def test_a_card_of_published_sizes_has_them() -> None:
    """Kimi-K3: what its makers and engines say of it, none of which its card was fitted to but 2,779 and 105 G."""
    card = find_transformer("kimi-k3")
    assert card.recurrent is not None
    of_state = card.recurrent.parameters(card.hidden_size) + card.recurrent.small_parameters(card.hidden_size)
    of_attention = sum(card.parameters_by_part[part] for part in ("attention", "attention_out")) / card.attention_layers
    assert card.active_parameters / 1e9 == pytest.approx(105, rel=0.005)
    assert of_state / 1e6 == pytest.approx(444, rel=0.005)
    assert of_attention / 1e6 == pytest.approx(232, rel=0.005)
    assert card.kv_bytes_per_token() == pytest.approx(27_600, rel=0.005)
    assert card.recurrent.layers * card.recurrent.state_bytes() / 1e6 == pytest.approx(434, rel=0.005)
