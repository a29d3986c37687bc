"""The GGUF file as an ordinary Hugging Face model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM


def load_target(gguf: Path, device: str) -> tuple[LlamaForCausalLM, Any]:
    """The model in float32 and its tokenizer.

    A model that came from a GGUF file does not save: its numbers go into a fresh one of the same config.
    """
    found: Any = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float32)
    model = LlamaForCausalLM(plain(found.config))
    model.load_state_dict(found.state_dict())
    return model.eval().to(device), AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)


def plain(config: Any, **changed: Any) -> LlamaConfig:
    """The config without where it came from."""
    values = {key: value for key, value in config.to_dict().items() if key != "quantization_config"}
    return LlamaConfig(**{**values, **changed})


def save(model: LlamaForCausalLM, tokenizer: Any, folder: Path) -> None:
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
