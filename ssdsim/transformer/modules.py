"""Names that checkpoints have for the matrices of each part of a model."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from ssdsim.base.record import record
from ssdsim.transformer.families import MOST_LAYERS

_ATTENTION = tuple(f"self_attn.{name}_proj" for name in "qkv")
_LATENT_ATTENTION = ("self_attn.q_a_proj", "self_attn.kv_a_proj_with_mqa", "self_attn.kv_b_proj")
_MLP = ("gate_proj", "up_proj", "down_proj")


def modules_of(card: dict[str, Any], kinds: list[str] | None = None) -> dict[str, list[str]]:
    """Names of the modules of each part of the fields of a card, as checkpoints have them (an expert for all).

    ``kinds``: of each layer in order, where a model has several
    (:attr:`ssdsim.transformer.families.Family.kinds`).
    """
    by_part = _of_kinds(card, kinds) if kinds else _of_layers(card)
    return {part: names for part, names in by_part.items() if names}


def mtp_places(layers: int) -> tuple[str, str]:
    """Places that the first MTP layer may have: in a folder of its own, or after the last of so many layers."""
    return "mtp.layers.0", f"model.layers.{layers}"


def _of_layers(card: dict[str, Any]) -> dict[str, list[str]]:
    """Names of each part of a model whose layers all attend."""
    layers, experts = min(card["layers"], MOST_LAYERS), card.get("experts")
    attention = _LATENT_ATTENTION if "latent" in card else _ATTENTION
    dense, shared = range(layers), range(0)
    if experts is not None:
        first = layers - min(layers, experts["layers"])
        shared = range(first, layers) if experts["shared_width"] else range(0)
        dense = range(layers) if experts.get("beside_mlp") else range(first)
    inside = {"qwen2_moe": "mlp.shared_expert", "llama4": "feed_forward.shared_expert"}
    of_shared = inside.get(card["architecture"], "mlp.shared_experts")
    by_part = {
        "attention": [f"model.layers.{layer}.{name}" for layer in range(layers) for name in attention],
        "attention_out": [f"model.layers.{layer}.self_attn.o_proj" for layer in range(layers)],
        "mlp": [f"model.layers.{layer}.mlp.{name}" for layer in dense for name in _MLP]
        + [f"model.layers.{layer}.{of_shared}.{name}" for layer in shared for name in _MLP],
    }
    if experts is not None:
        within = {"minimax_m2": "block_sparse_moe.", "mixtral": "block_sparse_moe.", "llama4": "feed_forward."}
        where = "" if experts.get("beside_mlp") else within.get(card["architecture"], "mlp.")
        of_experts = range(layers - min(layers, experts["layers"]), layers)
        by_part["experts"] = [f"model.layers.{layer}.{where}experts.0.gate_proj" for layer in of_experts]
    return by_part


@record
class _Hybrid:
    """The places where a family has its parts: the layers' folder, and what comes after a layer's number."""

    folder: str
    attention: tuple[str, ...]
    attention_out: str
    recurrent: tuple[str, ...]
    dense: str
    shared: str
    experts: str
    mlp: tuple[str, ...] = _MLP


_QWEN = _Hybrid(
    "model.layers",
    _ATTENTION,
    "self_attn.o_proj",
    ("linear_attn.in_proj_qkv", "linear_attn.in_proj_z", "linear_attn.out_proj"),
    "mlp",
    "mlp.shared_expert",
    "mlp.experts.0.gate_proj",
)
_HYBRIDS = {
    "qwen3_5": _QWEN,
    "qwen3_next": replace(_QWEN, recurrent=("linear_attn.in_proj_qkvz", "linear_attn.out_proj")),
    "kimi_linear": _Hybrid(
        "model.layers",
        _LATENT_ATTENTION,
        "self_attn.o_proj",
        (*_ATTENTION, "self_attn.o_proj"),
        "mlp",
        "block_sparse_moe.shared_experts",
        "block_sparse_moe.experts.0.w1",
    ),
    "nemotron_h": _Hybrid(
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
    """Names of each part of a model with layers of several kinds; a mixer may have a feed-forward after it."""
    names, experts = _HYBRIDS[card["architecture"]], card.get("experts")
    alone = bool(card.get("mlp_alone"))
    first = len(kinds) - experts["layers"] if experts else len(kinds)
    has_experts = [kind == "experts" if alone else n >= first for n, kind in enumerate(kinds)]
    is_dense = [kind == "mlp" if alone else n < first for n, kind in enumerate(kinds)]

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
