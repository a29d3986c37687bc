"""A draft fits its target: one vocabulary, or an error; cards know their family and what to serve."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ssdsim import InputError, configure, export, predict
from ssdsim.answers.grid import evaluate
from ssdsim.cli.main import cli
from ssdsim.hardware.catalog import draft_in_family, find_transformer, may_share, one_vocabulary, transformer_names
from tests.refusals import refused

CARDS = [find_transformer(name) for name in transformer_names()]
QWEN = {"target": "qwen3-32b", "tp": 2, "hardware": "h200-sxm"}


@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.name)
def test_every_card_knows_its_family_and_its_checkpoint(card: Any) -> None:
    assert re.fullmatch(r"[\w.-]+/[\w.-]+", card.checkpoint)
    assert {other.vocab_size for other in CARDS if other.family == card.family} == {card.vocab_size}
    assert find_transformer(card.checkpoint.removesuffix("-chat-hf")) == card


@pytest.mark.parametrize(
    ("target", "draft"),
    [("qwen3-32b", "qwen3-0.6b"), ("llama-3.1-70b", "llama-3.2-1b"), ("llama-2-70b", "llama-2-7b")],
)
def test_the_default_draft_is_the_familys(target: str, draft: str) -> None:
    assert configure(target=target, hardware="b200-sxm", dtype="bfloat16").site.draft.name == draft  # type: ignore[union-attr]
    assert all(one_vocabulary(find_transformer(draft), card) for card in CARDS if card.name == target)


def test_where_a_family_has_no_draft_the_line_says_what_is_known() -> None:
    assert draft_in_family(find_transformer("gpt-oss-120b")) is None
    with pytest.raises(InputError, match=r"no draft model of the gpt-oss family .* --drafter eagle3 \(eagle3-gpt-oss"):
        configure(target="gpt-oss-120b", drafter="model")
    assert "ar" in configure(target="gpt-oss-120b", strategies="ar").scenarios


def test_a_pair_that_engines_refuse_is_an_error_unless_asked_for() -> None:
    mixed = {**QWEN, "draft": "llama-3.2-1b"}
    with pytest.raises(
        InputError, match=r"has 128256 tokens, qwen3-32b 151936.*give --draft qwen3-0\.6b or .* or --any-voca"
    ):
        configure(**mixed)
    for format in ("vllm", "csv"):
        with pytest.raises(InputError, match="one vocabulary"):
            export(format, **mixed, b=1)
    assert "one vocabulary" in evaluate([mixed])["error"][0]
    asked = configure(**mixed, any_vocabulary=True, strategies="sd")
    assert any("priced all the same" in warning for warning in asked.warnings)
    assert not any("vocabulary" in warning for warning in configure(**QWEN).warnings)
    with refused("--any-vocabulary"):
        predict(**QWEN, any_vocabulary=True)
    called = CliRunner().invoke(cli, ["predict", "--model", "qwen3-32b", "--draft", "llama-3.2-1b", "--quiet"])
    said = str(called.exception)
    assert "most engines refuse such pairs (vLLM's use_heterogeneous_vocab" in said
    assert "transformers takes an assistant_tokenizer" in said


def test_a_config_is_held_to_the_size_of_its_vocabulary(tmp_path: Path) -> None:
    config = {
        "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
        "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256, "torch_dtype": "bfloat16",
        "architectures": ["LlamaForCausalLM"],
    }  # fmt: skip
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    assert configure(target=str(path), tp=1).site.draft.name == "llama-3.2-1b"  # type: ignore[union-attr]
    path.write_text(json.dumps({**config, "vocab_size": 777}))
    with refused("777"):
        configure(target=str(path), tp=1)


def test_a_siblings_acceptance_is_taken_when_asked_for_and_said() -> None:
    eagle = {**QWEN, "drafter": "eagle3", "k": 3, "strategies": ("ar", "sd")}
    by_default = configure(**eagle)
    assert by_default.settings["alpha"] == 0.624
    (said,) = (w for w in by_default.warnings if "was published here" in w)
    assert "alpha 0.624 (0.252-0.913) is a placeholder, prior: eagle3-qwen3-8b, of qwen3-8b, on MT-Bench" in said
    sibling = configure(**eagle, draft="eagle3-qwen3-8b")
    assert sibling.settings["alpha"] == (0.6541, 0.6105, 0.5059)
    assert by_default.inputs[0].within[1] - by_default.inputs[0].within[0] > 0.4  # type: ignore[index]
    assert sibling.settings.source("alpha").startswith("published: for another model, qwen3-8b")
    assert any(
        "published for another model: eagle3-qwen3-8b, of qwen3-8b and not of qwen3-32b" in w for w in sibling.warnings
    )
    assert sibling.site.draft.hidden_size == 5120  # type: ignore[union-attr]  # the target's own head's
    with refused("qwen3-8b", "llama-3.1-8b"):
        configure(target="llama-3.1-8b", tp=1, drafter="eagle3", draft="eagle3-qwen3-8b")


@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.name)
def test_a_card_that_is_not_read_for_a_draft_is_of_another_vocabulary(card: Any) -> None:
    unread = [other for other in CARDS if not may_share(other.name, card)]
    assert len(unread) > len(CARDS) / 2
    assert not any(one_vocabulary(other, card) for other in unread)


def test_vllm_drafts_greedily_from_another_vocabulary() -> None:
    """Its probabilistic sampling of drafts does not go with ``use_heterogeneous_vocab``."""
    mixed = {
        **QWEN,
        "draft": "llama-3.2-1b",
        "any_vocabulary": True,
        "alpha": 0.8,
        "strategies": "sd",
        "temperature": 1.0,
    }
    said = json.loads(export("vllm", **mixed, b=1, k=3).text)
    assert said["use_heterogeneous_vocab"]
    assert "draft_sample_method" not in said
