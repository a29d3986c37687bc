"""Read a Hugging Face ``config.json`` as a transformer card, or refuse it by name."""

from __future__ import annotations

from os.path import isdir, isfile
from pathlib import Path
from typing import Any

from ssdsim.documents import as_record, read_json
from ssdsim.errors import InputError, nearest, told
from ssdsim.transformer.card import Transformer
from ssdsim.transformer.config_values import ConfigValues
from ssdsim.transformer.families import FAMILIES, WITH_A_TEXT_PART
from ssdsim.transformer.heads import EAGLE3_FEATURES
from ssdsim.transformer.quantisation import quantised

_DTYPES = ("bfloat16", "float16", "float32")
_DEFAULT_CONTEXT = 4096
_OUTSIDE = ("torch_dtype", "dtype", "quantization_config", "tie_word_embeddings", "_name_or_path")
"""What a model with a text part may say of all its parts."""


def is_config(path: Path) -> bool:
    """Whether ``path`` is a ``config.json`` file or a folder that holds one."""
    return (isdir(path) and isfile(path / "config.json")) or (isfile(path) and path.suffix == ".json")


def load_config(path: Path) -> Transformer:
    """The card of a Hugging Face config (file or folder).

    Raises
    ------
    InputError : unreadable JSON, a missing key, a value of the wrong kind, an architecture that the operations here do
        not describe (state spaces, linear or sparse attention, unknown model types), or a quantisation that
        :func:`ssdsim.transformer.quantisation.quantised` does not know.
    """
    file = path / "config.json" if isdir(path) else path
    values = read_json(file, "config.json")
    if not isinstance(values, dict):
        raise InputError(f"{file}: a config.json must be an object, got {told(values)}")
    return _to_card(_of_text(ConfigValues(file, values)))


def _of_text(config: ConfigValues) -> ConfigValues:
    """The part of the model that decodes, with what the config says of all parts."""
    values = config.object("text_config")
    if not values or config.model_type not in WITH_A_TEXT_PART:
        return config
    outside = {key: config.values[key] for key in _OUTSIDE if config.values.get(key) is not None}
    return ConfigValues(config.file, {**outside, **{key: value for key, value in values.items() if value is not None}})


def _to_card(config: ConfigValues) -> Transformer:
    file, model_type = config.file, config.model_type
    if model_type not in FAMILIES:
        hint = nearest(model_type, FAMILIES)
        raise InputError(f"{file}: model_type {told(model_type)} is not supported{hint} Allowed: {', '.join(FAMILIES)}")
    dtype = config.text("torch_dtype", config.text("dtype", "bfloat16"))
    if dtype not in _DTYPES:
        raise InputError(f"{file}: dtype {told(dtype)} is not supported; allowed: {', '.join(_DTYPES)}")
    family, layers = FAMILIES[model_type], config.whole("num_hidden_layers")
    hidden, heads = config.whole("hidden_size"), config.whole("num_attention_heads")
    card = {
        "name": _name(config),
        "architecture": family.architecture,
        "hidden_size": hidden,
        "layers": layers,
        "heads": heads,
        "kv_heads": config.whole("num_key_value_heads", heads),
        "head_dim": config.whole("head_dim", hidden // heads or None),
        "intermediate_size": config.whole("intermediate_size"),
        "vocab_size": config.whole("vocab_size"),
        "tied_embeddings": config.flag("tie_word_embeddings"),
        "max_context": config.whole("max_position_embeddings", _DEFAULT_CONTEXT),
        "dtype": dtype,
        "source": f"Hugging Face config {file.name}",
    }
    card |= family.unsaid | family.own(config, layers) | _eagle3(config)
    modules = modules_of(card)
    kept = quantised(config.object("quantization_config"), _beside(file), modules, file)
    weights = kept.get("weights", {})
    if "mlp" not in modules and "experts" in weights:
        weights["mlp"] = weights["experts"]  # the model has no others
    if "attention" in weights and weights.setdefault("attention_out", card["dtype"]) == weights["attention"]:
        del weights["attention_out"]  # as the others of the attention
    return as_record(Transformer, card | kept, file, "card")


def _eagle3(config: ConfigValues) -> dict[str, Any]:
    """What a checkpoint of EAGLE-3 says of its own: the short vocabulary of its LM head, the width of its target."""
    short = config.some("draft_vocab_size")
    if not short:
        return {}
    width = config.some("target_hidden_size") or config.whole("hidden_size")
    head = {"features": EAGLE3_FEATURES, "feature_size": width, "reads": "beside", "own_lm_head": True}
    return {"vocab_size": short, "head": head}


def _name(config: ConfigValues) -> str:
    """What the config calls itself, else its file; a file that is called nothing else, its folder."""
    own = config.text("_name_or_path", "")
    if own.startswith((".", "/", "~")):  # where it lay on somebody's disk
        own = Path(own).name
    of_file = config.file.name.removesuffix(".json").removesuffix("config").rstrip("_-.")
    return own or of_file or config.file.resolve().parent.name


_ATTENTION = tuple(f"self_attn.{name}_proj" for name in "qkv")
_LATENT_ATTENTION = ("self_attn.q_a_proj", "self_attn.kv_a_proj_with_mqa", "self_attn.kv_b_proj")
_MLP = ("gate_proj", "up_proj", "down_proj")
_MOST_LAYERS = 10_000  # looked for by name; no model has as many


def modules_of(card: dict[str, Any]) -> dict[str, list[str]]:
    """Names of the modules of each part of the fields of a card, as checkpoints have them (an expert for all)."""
    layers, experts = min(card["layers"], _MOST_LAYERS), card.get("experts")
    attention = _LATENT_ATTENTION if "latent" in card else _ATTENTION
    dense, shared = range(layers), range(0)
    if experts is not None:
        first = layers - min(layers, experts["layers"])
        shared = range(first, layers) if experts["shared_width"] else range(0)
        dense = range(layers) if experts.get("beside_mlp") else range(first)
    inside = {"qwen2_moe": "mlp.shared_expert", "llama4": "feed_forward.shared_expert"}
    of_shared = inside.get(card["architecture"], "mlp.shared_experts")
    found = {
        "attention": [f"model.layers.{layer}.{name}" for layer in range(layers) for name in attention],
        "attention_out": [f"model.layers.{layer}.self_attn.o_proj" for layer in range(layers)],
        "mlp": [f"model.layers.{layer}.mlp.{name}" for layer in dense for name in _MLP]
        + [f"model.layers.{layer}.{of_shared}.{name}" for layer in shared for name in _MLP],
    }
    if experts is not None:
        within = {"minimax_m2": "block_sparse_moe.", "mixtral": "block_sparse_moe.", "llama4": "feed_forward."}
        where = "" if experts.get("beside_mlp") else within.get(card["architecture"], "mlp.")
        of_experts = range(layers - min(layers, experts["layers"]), layers)
        found["experts"] = [f"model.layers.{layer}.{where}experts.0.gate_proj" for layer in of_experts]
    return {part: names for part, names in found.items() if names}


def quantisation_file(file: Path) -> Path:
    """Where ModelOpt says how it quantised the model of a config: beside it, with the same prefix."""
    return file.with_name(f"{file.name.removesuffix('config.json')}hf_quant_config.json")


def _beside(file: Path) -> dict[str, Any]:
    """The ``quantization`` of the file beside a config; empty where there is none."""
    path = quantisation_file(file)
    if not isfile(path):
        return {}
    values = read_json(path, "hf_quant_config.json")
    if not isinstance(values, dict):
        raise InputError(f"{path}: must be an object, got {told(values)}")
    return ConfigValues(path, values).object("quantization")
