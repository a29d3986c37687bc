"""Values of a Hugging Face config, and the parts of a model that several families describe alike."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ssdsim.base.errors import InputError, nearest, short_repr
from ssdsim.base.record import Record


class ConfigValues(Record):
    """The values of a file; a key that is null counts as missing, as it does to transformers.

    Every method raises :class:`InputError` at a value of another kind.
    """

    file: Path
    values: Mapping[str, Any]

    @property
    def model_type(self) -> str:
        return self.text("model_type", "unnamed")

    def whole(self, key: str, otherwise: int | None = None) -> int:
        """A whole number of at least 1; ``otherwise`` where the key is missing, if that is given."""
        return self._whole(key, self._value_or(key, otherwise), 1)

    def some(self, key: str) -> int:
        """A whole number of at least 0; 0 where the key is missing."""
        return self._whole(key, self._value_or(key, 0), 0)

    def any_of(self, *keys: str, otherwise: int | None = None) -> int:
        """The whole number under the first of the keys that is there; ``otherwise`` where none is, if that is given."""
        return self.whole(next((key for key in keys if self.values.get(key) is not None), keys[0]), otherwise)

    def text(self, key: str, otherwise: str) -> str:
        value = self._value_or(key, otherwise)
        if not isinstance(value, str):
            raise InputError(f"{self.file}: {key} must be text, got {short_repr(value)}")
        return value

    def flag(self, key: str, otherwise: bool = False) -> bool:
        value = self._value_or(key, otherwise)
        if not isinstance(value, bool):
            raise InputError(f"{self.file}: {key} must be true or false, got {short_repr(value)}")
        return value

    def object(self, key: str) -> dict[str, Any]:
        """An object; an empty one where the key is missing."""
        value = self.values.get(key) or {}
        if not isinstance(value, dict):
            raise InputError(f"{self.file}: {key} must be an object, got {short_repr(value)}")
        return value

    def by_layer(self, key: str, layers: int) -> list[Any] | None:
        """A list with an entry a layer; None where the key is missing."""
        value = self.values.get(key)
        if value is None:
            return None
        if not isinstance(value, list) or len(value) != layers:
            raise InputError(f"{self.file}: {key} must be a list of {layers}, one a layer, got {short_repr(value)}")
        return value

    def layers_in(self, key: str) -> list[int]:
        """A list of layers' numbers; empty where the key is missing."""
        value = self.values.get(key) or []
        if not isinstance(value, list) or not all(isinstance(n, int) and not isinstance(n, bool) for n in value):
            raise InputError(f"{self.file}: {key} must be a list of layers' numbers, got {short_repr(value)}")
        return value

    def refuse(self, why: str) -> InputError:
        return InputError(f"{self.file}: {self.model_type} {why}, which is not supported")

    def _whole(self, key: str, value: Any, least: int) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise InputError(f"{self.file}: {key} must be a whole number of at least {least}, got {short_repr(value)}")
        return value

    def _value_or(self, key: str, otherwise: Any) -> Any:
        value = self.values.get(key)
        if value is not None:
            return value
        if otherwise is None:
            raise InputError(f"{self.file}: lacks the key '{key}'{nearest(key, self.values)}")
        return otherwise


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
