"""Read a Hugging Face ``config.json`` as a transformer card, or refuse it by name."""

from __future__ import annotations

from os.path import isdir, isfile
from pathlib import Path
from typing import Any

from ssdsim.base.documents import as_record, read_json
from ssdsim.base.errors import InputError, nearest, short_repr
from ssdsim.transformer.card import Transformer
from ssdsim.transformer.config_values import ConfigValues
from ssdsim.transformer.families import FAMILIES, TELL_TALES, WITH_A_TEXT_PART
from ssdsim.transformer.heads import EAGLE3_FEATURES
from ssdsim.transformer.operations import DTYPES
from ssdsim.transformer.quantisation import modules_of, mtp_places, quantised

_DEFAULT_CONTEXT = 4096
_OUTSIDE = ("torch_dtype", "dtype", "quantization_config", "tie_word_embeddings", "_name_or_path")
"""What a model with a text part may say of all its parts."""


def is_config(path: Path) -> bool:
    """Tell whether ``path`` is a ``config.json`` file or a folder that holds one."""
    return (isdir(path) and isfile(path / "config.json")) or (isfile(path) and path.suffix == ".json")


def load_config(path: Path) -> Transformer:
    """The card of a Hugging Face config (file or folder)."""
    file = path / "config.json" if isdir(path) else path
    return card_of(_of_text(_values(file, "config.json")))


def _values(file: Path, what: str) -> ConfigValues:
    values = read_json(file, what)
    if not isinstance(values, dict):
        raise InputError(f"{file}: a {what} must be an object, got {short_repr(values)}")
    return ConfigValues(file, values)


def _of_text(config: ConfigValues) -> ConfigValues:
    """The part of the model that decodes, with what the config says of all parts."""
    values = config.object("text_config")
    if not values or config.model_type not in WITH_A_TEXT_PART:
        return config
    outside = {key: config.values[key] for key in _OUTSIDE if config.values.get(key) is not None}
    text = {key: value for key, value in values.items() if value is not None}
    return ConfigValues(config.file, {"model_type": config.model_type, **outside, **text})


def card_of(config: ConfigValues) -> Transformer:
    file, model_type = config.file, config.model_type
    family = FAMILIES.get(model_type)
    reads = family.reads if family else frozenset()
    if unknown := next((key for key in TELL_TALES if config.values.get(key) and key not in reads), None):
        raise config.refuse(f"{TELL_TALES[unknown]} ({unknown})")
    if family is None:
        hint = nearest(model_type, FAMILIES)
        raise InputError(
            f"{file}: model_type {short_repr(model_type)} is not supported{hint} Allowed: {', '.join(FAMILIES)}"
        )
    dtype = config.text("torch_dtype", config.text("dtype", "bfloat16"))
    if dtype not in DTYPES:
        raise InputError(f"{file}: dtype {short_repr(dtype)} is not supported; allowed: {', '.join(DTYPES)}")
    kinds = family.kinds(config) if family.kinds else None
    layers = config.whole("num_hidden_layers", len(kinds) if kinds else None)
    hidden, heads = config.whole("hidden_size"), config.whole("num_attention_heads")
    card = {
        "name": _name(config),
        "architecture": family.architecture,
        "hidden_size": hidden,
        "layers": layers,
        "heads": heads,
        "kv_heads": config.whole("num_key_value_heads", heads),
        "head_dim": config.whole("head_dim", hidden // heads or None),
        "intermediate_size": config.any_of("intermediate_size", "moe_intermediate_size"),
        "vocab_size": config.whole("vocab_size"),
        "tied_embeddings": config.flag("tie_word_embeddings"),
        "max_context": config.any_of("max_position_embeddings", "model_max_length", otherwise=_DEFAULT_CONTEXT),
        "dtype": dtype,
        "source": f"Hugging Face config {file.name}",
    }
    card |= family.unsaid | family.own(config, layers) | _eagle3(config)
    modules = modules_of(card, kinds)
    kept = quantised(config.object("quantization_config"), _beside(file), modules, mtp_places(layers), file)
    weights = kept.get("weights", {})
    if config.values.get("expert_dtype") == "fp4" and weights.get("experts") == "float8-block":
        weights["experts"] = "mxfp4"  # with what else it says of its weights it means the others
    if "mlp" not in modules and "experts" in weights:
        weights["mlp"] = weights["experts"]  # the model has no others
    for part in ("attention_out", "recurrent"):
        if "attention" in weights and part in modules and weights.setdefault(part, dtype) == weights["attention"]:
            del weights[part]  # as the attention's others
    return as_record(Transformer, card | kept, file, "card")


def _eagle3(config: ConfigValues) -> dict[str, Any]:
    """Fields that only a checkpoint of EAGLE-3 has: the short vocabulary of its LM head, the width of its target."""
    short = config.some("draft_vocab_size")
    if not short:
        return {}
    width = config.some("target_hidden_size") or config.whole("hidden_size")
    head = {"features": EAGLE3_FEATURES, "feature_size": width, "reads": "beside", "own_lm_head": True}
    head["vocabulary"] = config.whole("vocab_size")
    return {"vocab_size": short, "head": head}


def _name(config: ConfigValues) -> str:
    """The name that the config gives itself, else its file's; of a file that is called nothing else, its folder's."""
    own = config.text("_name_or_path", "")
    if own.startswith((".", "/", "~")):  # where it lay on somebody's disk
        own = Path(own).name
    of_file = config.file.name.removesuffix(".json").removesuffix("config").rstrip("_-.")
    return own or of_file or config.file.resolve().parent.name


def quantisation_file(file: Path) -> Path:
    """The file in which ModelOpt says how it quantised the model of a config: beside it, with the same prefix."""
    return file.with_name(f"{file.name.removesuffix('config.json')}hf_quant_config.json")


def _beside(file: Path) -> dict[str, Any]:
    """The ``quantization`` of the file beside a config; empty where there is none."""
    path = quantisation_file(file)
    return _values(path, "hf_quant_config.json").object("quantization") if isfile(path) else {}
