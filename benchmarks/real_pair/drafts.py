"""Drafts without training: the target's first layers, and a head that a ridge regression gives in closed form."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from transformers import LlamaForCausalLM

from benchmarks.real_pair.target import plain
from calibration.pairs.measure.models import CausalModel

_BATCH = 64
_RIDGE = 1e-3  # of the mean variance of a state


def answers_of(target: LlamaForCausalLM, tokenizer: Any, prompts: Sequence[str], new_tokens: int) -> list[torch.Tensor]:
    """Token ids of prompts with the target's own answers, sampled at temperature 0.7: what a draft has to guess."""
    writer = CausalModel("target", target, tokenizer, target.config.vocab_size)
    chats = ([{"role": "user", "content": prompt}] for prompt in prompts)
    asked = [tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_dict=False) for chat in chats]
    tensors = []
    for at in range(0, len(asked), _BATCH):
        some = asked[at : at + _BATCH]
        written = writer.write(some, new_tokens, writer.end, 0.7, range(at, at + len(some)))
        tensors += [torch.tensor([*p, *answer], device=target.device) for p, answer in zip(some, written, strict=True)]
    return tensors


@torch.inference_mode()
def ridge_head(target: LlamaForCausalLM, texts: Iterable[torch.Tensor], layers: int) -> tuple[torch.Tensor, float]:
    """The head over the normed state after ``layers`` layers that comes nearest to the target's, shape ``(V, hidden)``.

    A state x of the early layer is mapped to that of the last one by W = (X'X + lambda)^-1 X'Y; its logits are then
    ``head W' x``, one matrix. Also returns the share of Y's variance that W leaves, on the texts that gave it.
    """
    hidden, device = target.config.hidden_size, target.device
    xx, xy = (torch.zeros(hidden, hidden, dtype=torch.float64, device=device) for _ in range(2))
    yy, y_sum, count = 0.0, torch.zeros(hidden, dtype=torch.float64, device=device), 0
    for ids in texts:
        states = target.model(ids[None], output_hidden_states=True, use_cache=False).hidden_states
        x, y = target.model.norm(states[layers])[0].double(), states[-1][0].double()  # the last one is normed already
        xx, xy, yy = xx + x.T @ x, xy + x.T @ y, yy + float((y * y).sum())
        y_sum, count = y_sum + y.sum(0), count + len(y)
    ridge = _RIDGE * xx.diagonal().mean() * torch.eye(hidden, dtype=torch.float64, device=device)
    weights = torch.linalg.solve(xx + ridge, xy)
    left = yy - 2.0 * float((weights * xy).sum()) + float((weights * (xx @ weights)).sum())
    variance = yy - float((y_sum @ y_sum) / count)
    return (target.lm_head.weight.double() @ weights.T).float(), left / variance


def first_layers(target: LlamaForCausalLM, layers: int, head: torch.Tensor) -> LlamaForCausalLM:
    """A model of its own: embedding, so many layers and the norm of the target, and the head."""
    config = plain(target.config, num_hidden_layers=layers, tie_word_embeddings=False)
    draft = LlamaForCausalLM(config)
    known = {name: value for name, value in target.state_dict().items() if name in draft.state_dict()}
    draft.load_state_dict({**known, "lm_head.weight": head.to(target.device)})
    return draft.eval()
