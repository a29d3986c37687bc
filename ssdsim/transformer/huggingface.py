"""Read a Hugging Face ``config.json`` as a transformer card, or refuse it by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

from ssdsim.errors import InputError
from ssdsim.transformer.card import DType, Transformer

# model_type -> what the config leaves unsaid
_ARCHITECTURES: dict[str, dict[str, bool]] = {
    "llama": {"qk_norm": False, "attention_bias": False},
    "mistral": {"qk_norm": False, "attention_bias": False},
    "qwen2": {"qk_norm": False, "attention_bias": True},
    "qwen3": {"qk_norm": True, "attention_bias": False},
}
_EXPERT_KEYS = ("num_local_experts", "num_experts", "n_routed_experts", "moe_intermediate_size")
_TORCH_DTYPES = {"bfloat16", "float16", "float32"}


def is_config(path: Path) -> bool:
    """Whether ``path`` is a ``config.json`` file or a folder that holds one."""
    return (path.is_dir() and (path / "config.json").is_file()) or (path.is_file() and path.suffix == ".json")


def load_config(path: Path) -> Transformer:
    """The card of a Hugging Face config (file or folder).

    Raises
    ------
    InputError : unreadable JSON, a missing key, or an architecture that the operations here do not describe
        (mixture of experts, multi-head latent attention, sliding windows, unknown model types).
    """
    file = path / "config.json" if path.is_dir() else path
    try:
        config: dict[str, Any] = json.loads(file.read_text())
    except (OSError, json.JSONDecodeError) as error:
        raise InputError(f"{file}: not a readable config.json ({error})") from None
    _refuse_unsupported(file, config)
    return _to_card(file, config)


def _refuse_unsupported(file: Path, config: dict[str, Any]) -> None:
    model_type = config.get("model_type", "unnamed")
    if any(config.get(key) for key in _EXPERT_KEYS):
        raise InputError(f"{file}: {model_type} is a mixture of experts, which is not supported (dense models only)")
    if config.get("kv_lora_rank"):
        raise InputError(f"{file}: {model_type} uses multi-head latent attention, which is not supported")
    if config.get("sliding_window") and config.get("use_sliding_window", True):
        raise InputError(
            f"{file}: {model_type} uses a sliding window of {config['sliding_window']} tokens, which is not supported"
        )
    if config.get("quantization_config"):
        raise InputError(f"{file}: quantised weights are not supported; use the config of the unquantised model")
    if model_type not in _ARCHITECTURES:
        allowed = ", ".join(_ARCHITECTURES)
        raise InputError(f"{file}: model_type '{model_type}' is not supported; allowed: {allowed}")


def _to_card(file: Path, config: dict[str, Any]) -> Transformer:
    model_type = config["model_type"]
    try:
        hidden, heads = int(config["hidden_size"]), int(config["num_attention_heads"])
        dtype = str(config.get("torch_dtype") or config.get("dtype") or "bfloat16")
        if dtype not in _TORCH_DTYPES:
            raise InputError(f"{file}: dtype '{dtype}' is not supported; allowed: {', '.join(sorted(_TORCH_DTYPES))}")
        return Transformer(
            name=str(config.get("_name_or_path") or file.resolve().parent.name),
            architecture=model_type,
            hidden_size=hidden,
            layers=int(config["num_hidden_layers"]),
            heads=heads,
            kv_heads=int(config.get("num_key_value_heads") or heads),
            head_dim=int(config.get("head_dim") or hidden // heads),
            intermediate_size=int(config["intermediate_size"]),
            vocab_size=int(config["vocab_size"]),
            tied_embeddings=bool(config.get("tie_word_embeddings", False)),
            max_context=int(config.get("max_position_embeddings", 4096)),
            dtype=cast(DType, dtype),
            source=f"Hugging Face config {file.name}",
            **_ARCHITECTURES[model_type],
        )
    except KeyError as error:
        raise InputError(f"{file}: {model_type} config lacks the key {error}") from None
