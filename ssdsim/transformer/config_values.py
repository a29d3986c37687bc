"""The values of a Hugging Face ``config.json``, each checked as it is read."""

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
        return self._whole(key, self._given(key, otherwise), 1)

    def some(self, key: str) -> int:
        """A whole number of at least 0; 0 where the key is missing."""
        return self._whole(key, self._given(key, 0), 0)

    def any_of(self, *keys: str, otherwise: int | None = None) -> int:
        """The whole number under the first of the keys that is there; ``otherwise`` where none is, if that is given."""
        return self.whole(next((key for key in keys if self.values.get(key) is not None), keys[0]), otherwise)

    def text(self, key: str, otherwise: str) -> str:
        value = self._given(key, otherwise)
        if not isinstance(value, str):
            raise InputError(f"{self.file}: {key} must be text, got {short_repr(value)}")
        return value

    def flag(self, key: str, otherwise: bool = False) -> bool:
        value = self._given(key, otherwise)
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

    def _given(self, key: str, otherwise: Any) -> Any:
        value = self.values.get(key)
        if value is not None:
            return value
        if otherwise is None:
            raise InputError(f"{self.file}: lacks the key '{key}'{nearest(key, self.values)}")
        return otherwise
