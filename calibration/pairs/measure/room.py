"""A cache with room for what is written: a token is put beside those before it, which are not copied for it."""

from __future__ import annotations

from typing import Any

import torch
from transformers.cache_utils import DynamicCache, DynamicLayer


def cache_with_room(config: Any, tokens: int) -> DynamicCache:
    """The cache of a model's config, for at most ``tokens`` tokens a text.

    Layers that keep everything take their room at once; those of another kind are transformers' own.
    """
    cache = DynamicCache(config=config)
    cache.layers = [_RoomyLayer(tokens) if type(layer) is DynamicLayer else layer for layer in cache.layers]
    return cache


class _RoomyLayer(DynamicLayer):  # type: ignore[no-untyped-call]
    """Keys and values, shape ``(texts, heads, tokens so far, head_dim)``, are the beginnings of two larger tensors."""

    def __init__(self, tokens: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._tokens = tokens

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        super().lazy_initialization(key_states, value_states)
        self._rooms = [
            each.new_empty((*each.shape[:-2], self._tokens, each.shape[-1])) for each in (key_states, value_states)
        ]

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Append, and return all keys and values so far."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        before = self.get_seq_length()
        end = before + key_states.shape[-2]
        for room, new in zip(self._rooms, (key_states, value_states), strict=True):
            room[..., before:end, :] = new
        self.keys, self.values = (room[..., :end, :] for room in self._rooms)
        return self.keys, self.values
