"""Read a Hugging Face ``config.json`` as a transformer card, or refuse it by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from os.path import isdir, isfile
from pathlib import Path
from typing import Any

from ssdsim.documents import as_record, read_json
from ssdsim.errors import InputError, nearest, told
from ssdsim.transformer.card import Transformer
from ssdsim.transformer.quantisation import quantised

# model_type -> what the config leaves unsaid
_ARCHITECTURES: dict[str, dict[str, bool]] = {
    "llama": {"qk_norm": False, "attention_bias": False},
    "mistral": {"qk_norm": False, "attention_bias": False},
    "qwen2": {"qk_norm": False, "attention_bias": True},
    "qwen3": {"qk_norm": True, "attention_bias": False},
}
_EXPERT_KEYS = ("num_local_experts", "num_experts", "n_routed_experts", "moe_intermediate_size")
_DTYPES = ("bfloat16", "float16", "float32")
_DEFAULT_CONTEXT = 4096


def is_config(path: Path) -> bool:
    """Whether ``path`` is a ``config.json`` file or a folder that holds one."""
    return (isdir(path) and isfile(path / "config.json")) or (isfile(path) and path.suffix == ".json")


def load_config(path: Path) -> Transformer:
    """The card of a Hugging Face config (file or folder).

    Raises
    ------
    InputError : unreadable JSON, a missing key, a value of the wrong kind, or an architecture that the operations here
        do not describe (mixture of experts, multi-head latent attention, sliding windows, unknown model types), or a
        quantisation that :func:`ssdsim.transformer.quantisation.quantised` does not know.
    """
    file = path / "config.json" if isdir(path) else path
    values = read_json(file, "config.json")
    if not isinstance(values, dict):
        raise InputError(f"{file}: a config.json must be an object, got {told(values)}")
    config = _Config(file, values)
    _refuse_unsupported(config)
    return _to_card(config)


@dataclass(frozen=True)
class _Config:
    """The values of a file; a key that is null counts as missing, as it does to transformers."""

    file: Path
    values: Mapping[str, Any]

    def whole(self, key: str, otherwise: int | None = None) -> int:
        """A whole number of at least 1; ``otherwise`` where the key is missing, if that is given."""
        value = self._given(key, otherwise)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise InputError(f"{self.file}: {key} must be a whole number of at least 1, got {told(value)}")
        return value

    def text(self, key: str, otherwise: str) -> str:
        value = self._given(key, otherwise)
        if not isinstance(value, str):
            raise InputError(f"{self.file}: {key} must be text, got {told(value)}")
        return value

    def flag(self, key: str) -> bool:
        value = self._given(key, False)
        if not isinstance(value, bool):
            raise InputError(f"{self.file}: {key} must be true or false, got {told(value)}")
        return value

    def _given(self, key: str, otherwise: Any) -> Any:
        value = self.values.get(key)
        if value is not None:
            return value
        if otherwise is None:
            raise InputError(f"{self.file}: lacks the key '{key}'{nearest(key, self.values)}")
        return otherwise


def _refuse_unsupported(config: _Config) -> None:
    file, values = config.file, config.values
    model_type = config.text("model_type", "unnamed")
    if any(values.get(key) for key in _EXPERT_KEYS):
        raise InputError(f"{file}: {model_type} is a mixture of experts, which is not supported (dense models only)")
    if values.get("kv_lora_rank"):
        raise InputError(f"{file}: {model_type} uses multi-head latent attention, which is not supported")
    if values.get("sliding_window") and values.get("use_sliding_window", True):
        window = told(values["sliding_window"])
        raise InputError(f"{file}: {model_type} uses a sliding window of {window} tokens, which is not supported")
    if model_type not in _ARCHITECTURES:
        hint = nearest(model_type, _ARCHITECTURES)
        allowed = ", ".join(_ARCHITECTURES)
        raise InputError(f"{file}: model_type {told(model_type)} is not supported{hint} Allowed: {allowed}")


def _to_card(config: _Config) -> Transformer:
    file, model_type = config.file, config.values["model_type"]
    dtype = config.text("torch_dtype", config.text("dtype", "bfloat16"))
    if dtype not in _DTYPES:
        raise InputError(f"{file}: dtype {told(dtype)} is not supported; allowed: {', '.join(_DTYPES)}")
    hidden, heads = config.whole("hidden_size"), config.whole("num_attention_heads")
    card = {
        "name": config.text("_name_or_path", "") or file.resolve().parent.name,
        "architecture": model_type,
        "hidden_size": hidden,
        "layers": config.whole("num_hidden_layers"),
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
    kept = quantised(_object(config, "quantization_config"), _beside(file), card["layers"], file)
    return as_record(Transformer, card | _ARCHITECTURES[model_type] | kept, file, "card")


def _object(config: _Config, key: str) -> dict[str, Any]:
    value = config.values.get(key) or {}
    if not isinstance(value, dict):
        raise InputError(f"{config.file}: {key} must be an object, got {told(value)}")
    return value


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
    return _object(_Config(path, values), "quantization")
