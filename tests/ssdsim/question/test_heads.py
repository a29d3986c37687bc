"""A draft head's config is no target and no model that drafts alone, and a head has its target's vocabulary."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ssdsim import predict
from tests.refusals import refused

HEAD: dict[str, Any] = {
    "architectures": ["LlamaForCausalLMEagle3"],
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 12288,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "num_hidden_layers": 1,
    "max_position_embeddings": 40960,
    "torch_dtype": "bfloat16",
    "vocab_size": 128256,
    "draft_vocab_size": 32000,
}
AT: dict[str, Any] = {"hardware": "h100-sxm", "tp": 1}


@pytest.fixture
def head(tmp_path: Path) -> str:
    path = tmp_path / "head.json"
    path.write_text(json.dumps(HEAD))
    return str(path)


@pytest.mark.parametrize("strategies", ["ar", "sd"])
def test_a_head_is_no_target(head: str, strategies: str) -> None:
    with refused("--target", "is a draft head"):
        predict(target=head, strategies=strategies, draft="llama-3.2-1b", **AT)


def test_a_head_is_no_model_that_drafts(head: str) -> None:
    with refused("is a draft head", "--drafter eagle3"):
        predict(target="llama-3.1-8b", drafter="model", draft=head, **AT)


@pytest.mark.parametrize("short", [32000, None])
def test_a_head_has_its_targets_vocabulary(short: int | None, tmp_path: Path) -> None:
    """Whether its config says that it is a head, or only its shape does."""
    path = tmp_path / "head.json"
    path.write_text(json.dumps({name: value for name, value in HEAD.items() if short or name != "draft_vocab_size"}))
    asked: dict[str, Any] = {"drafter": "eagle3", "draft": str(path), "strategies": "sd", **AT}
    assert predict(target="llama-3.1-8b", **asked)
    with refused("128256 tokens", "qwen3-8b 151936"):
        predict(target="qwen3-8b", **asked)
    assert predict(target="qwen3-8b", any_vocabulary=True, **asked)
