"""The experts that a real router chooses for texts: one pass over each."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from calibration.pairs.measure.models import CausalModel
from ssdsim.tokens.pair_routing import Choices, Routing, counted

_NAMES = ("num_experts", "num_local_experts", "n_routed_experts")
_CHOSEN = ("num_experts_per_tok", "top_k_experts")


def has_experts(model: CausalModel) -> bool:
    """Say whether a model's router can be asked."""
    return _experts_of(model) is not None and hasattr(_config(model), "output_router_logits")


def count_experts(model: CausalModel, texts: Sequence[tuple[Sequence[int], int]]) -> Routing | None:
    """Count what the model's routers choose for the last tokens of texts (a text, and how many of its tokens count).

    None where the model has no experts, or its library does not tell the router's answers.
    """
    experts = _experts_of(model)
    if experts is None or not has_experts(model):
        return None
    count, per_token = experts
    return counted([_choices(model, text, last, per_token) for text, last in texts], count)


@torch.inference_mode()
def _choices(model: CausalModel, text: Sequence[int], last: int, per_token: int) -> Choices:
    """The experts with the largest of each router's logits, of the last tokens."""
    ids = torch.tensor([list(text)], dtype=torch.long, device=model.device)
    out = model.model(input_ids=ids, use_cache=False, output_router_logits=True, logits_to_keep=1)
    layers = [logits.reshape(len(text), -1)[-last:].float() for logits in out.router_logits]
    return np.stack([logits.topk(per_token, dim=1).indices.cpu().numpy() for logits in layers]).astype(np.int64)


def _config(model: CausalModel) -> object:
    return model.model.config.get_text_config()


def _experts_of(model: CausalModel) -> tuple[int, int] | None:
    """Numbers of experts that there are, and that a token uses."""
    config = _config(model)
    count = next((getattr(config, name) for name in _NAMES if getattr(config, name, None)), None)
    chosen = next((getattr(config, name) for name in _CHOSEN if getattr(config, name, None)), None)
    return (int(count), int(chosen)) if count and chosen else None
