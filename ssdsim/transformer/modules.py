"""Names that checkpoints have for the matrices of each part of a model."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ssdsim.base.record import Record, replace
from ssdsim.transformer.hybrids import MOST_LAYERS

_ATTENTION = tuple(f"self_attn.{name}_proj" for name in "qkv")
_LATENT_ATTENTION = ("self_attn.q_a_proj", "self_attn.kv_a_proj_with_mqa", "self_attn.kv_b_proj")
_MLP = ("gate_proj", "up_proj", "down_proj")


def modules_of(card: dict[str, Any], kinds: list[str] | None = None) -> dict[str, list[str]]:
    """Names of the modules of each part of the fields of a card, as checkpoints have them (an expert for all).

    ``kinds``: of each layer in order, where a model has several
    (:attr:`ssdsim.transformer.families.Family.kinds`).
    """
    by_part = _of_kinds(card, kinds or ["attention"] * min(card["layers"], MOST_LAYERS))
    return {part: names for part, names in by_part.items() if names}


def mtp_places(layers: int) -> tuple[str, str]:
    """Places that the first MTP layer may have: in a folder of its own, or after the last of so many layers."""
    return "mtp.layers.0", f"model.layers.{layers}"


class _Places(Record):
    """The places where a family has its parts: the layers' folder, and what comes after a layer's number."""

    folder: str
    attention: tuple[str, ...]
    attention_out: str
    recurrent: tuple[str, ...]
    dense: str
    shared: str
    experts: str
    mlp: tuple[str, ...] = _MLP


_USUAL = _Places(
    "model.layers", _ATTENTION, "self_attn.o_proj", (), "mlp", "mlp.shared_experts", "mlp.experts.0.gate_proj"
)
_QWEN = replace(
    _USUAL,
    recurrent=("linear_attn.in_proj_qkv", "linear_attn.in_proj_z", "linear_attn.out_proj"),
    shared="mlp.shared_expert",
)
_BLOCK_SPARSE = replace(_USUAL, experts="block_sparse_moe.experts.0.gate_proj")
_PLACES = {
    "gemma4": replace(_USUAL, experts="experts.0.gate_proj"),
    "qwen2_moe": replace(_USUAL, shared="mlp.shared_expert"),
    "llama4": replace(_USUAL, shared="feed_forward.shared_expert", experts="feed_forward.experts.0.gate_proj"),
    **dict.fromkeys(("mixtral", "minimax_m2"), _BLOCK_SPARSE),
    **dict.fromkeys(("deepseek_v2", "deepseek_v3", "kimi_k2"), replace(_USUAL, attention=_LATENT_ATTENTION)),
    "qwen3_5": _QWEN,
    "qwen3_next": replace(_QWEN, recurrent=("linear_attn.in_proj_qkvz", "linear_attn.out_proj")),
    "kimi_linear": replace(
        _USUAL,
        attention=_LATENT_ATTENTION,
        recurrent=(*_ATTENTION, "self_attn.o_proj"),
        shared="block_sparse_moe.shared_experts",
        experts="block_sparse_moe.experts.0.w1",
    ),
    "nemotron_h": _Places(
        "backbone.layers",
        tuple(f"mixer.{name}_proj" for name in "qkv"),
        "mixer.o_proj",
        ("mixer.in_proj", "mixer.out_proj"),
        "mixer",
        "mixer.shared_experts",
        "mixer.experts.0.up_proj",
        ("up_proj", "down_proj"),
    ),
}


def _of_kinds(card: dict[str, Any], kinds: list[str]) -> dict[str, list[str]]:
    """Names of each part of a model with layers of these kinds; a mixer may have a feed-forward after it."""
    names, experts = _PLACES.get(card["architecture"], _USUAL), card.get("experts")
    alone, beside = bool(card.get("mlp_alone")), bool(experts and experts.get("beside_mlp"))
    first = len(kinds) - min(len(kinds), experts["layers"]) if experts else len(kinds)
    has_experts = [kind == "experts" if alone else n >= first for n, kind in enumerate(kinds)]
    is_dense = [kind == "mlp" if alone else beside or n < first for n, kind in enumerate(kinds)]

    def of(chosen: Iterable[bool], *modules: str) -> list[str]:
        return [f"{names.folder}.{n}.{module}" for n, here in enumerate(chosen) if here for module in modules]

    shared = of(has_experts, *(f"{names.shared}.{name}" for name in names.mlp))
    return {
        "attention": of((kind == "attention" for kind in kinds), *names.attention),
        "attention_out": of((kind == "attention" for kind in kinds), names.attention_out),
        "recurrent": of((kind == "recurrent" for kind in kinds), *names.recurrent),
        "mlp": of(is_dense, *(f"{names.dense}.{name}" for name in names.mlp))
        + (shared if experts and experts["shared_width"] else []),
        "experts": of(has_experts, names.experts),
    }
