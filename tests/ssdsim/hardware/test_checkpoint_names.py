"""Checkpoints' names: the card that one means, the format of its weights, and never another size or family."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from ssdsim.base.errors import InputError
from ssdsim.cli.main import cli
from ssdsim.hardware.catalog import find_transformer, format_named, transformer_meant, transformer_names
from ssdsim.question.configuration import configure
from ssdsim.transformer.checkpoint_names import OF_CONFIGS, CheckpointName
from ssdsim.transformer.operations import QUANTISED_BYTES
from tests.refusals import refused


@pytest.mark.parametrize(
    ("said", "card", "kept"),
    [
        ("Qwen/Qwen3-32B-FP8", "qwen3-32b", "float8-block"),
        ("qwen3-32b-fp8-dynamic", "qwen3-32b", "float8"),
        ("RedHatAI/Qwen3-32B-FP8", "qwen3-32b", "float8"),
        ("nvidia/Llama-3.3-70B-Instruct-FP8", "llama-3.3-70b", "float8"),
        ("RedHatAI/Llama-3.3-70B-Instruct-quantized.w4a16", "llama-3.3-70b", "int4"),
        ("hugging-quants/Meta-Llama-3.1-70B-Instruct-AWQ-INT4", "llama-3.1-70b", "int4"),
        ("qwen3-235b-fp8", "qwen3-235b-a22b", "float8-block"),
        ("Qwen3-235B-A22B-Instruct-2507", "qwen3-235b-a22b", None),
        ("Qwen/Qwen3-235B-A22B-Thinking-2507-FP8", "qwen3-235b-a22b", "float8-block"),
        ("deepseek-ai/DeepSeek-R1-0528", "deepseek-r1", None),
        ("nvidia/DeepSeek-R1-0528-NVFP4-v2", "deepseek-r1", "nvfp4"),
        ("DeepSeek-V3.1", "deepseek-v3", None),
        ("MiniMaxAI/MiniMax-M3-MXFP8", "minimax-m3", "float8-block"),
        ("unsloth/gpt-oss-20b-BF16", "gpt-oss-20b", "bfloat16"),
        ("nvidia/Qwen3.5-122B-A10B-NVFP4", "qwen3.5-122b-a10b-nvfp4", None),
        ("RedHatAI/Llama-4-Scout-17B-16E-Instruct-FP8-dynamic", "llama-4-scout", "float8"),
    ],
)
def test_a_checkpoints_name_says_its_card_and_its_format(said: str, card: str, kept: str | None) -> None:
    found, base = find_transformer(said), find_transformer(card)
    assert found.name == card
    assert format_named(said) == kept
    assert found.precision() == base.precision(kept)
    assert found.parameters_by_part == base.parameters_by_part


@pytest.mark.parametrize(
    ("said", "attention", "experts", "cache"),
    [
        ("sgl-project/DeepSeek-V4-Pro-FP8", "float8-block", "float8-block", "float8"),
        ("nvidia/DeepSeek-V4-Flash-NVFP4", "float8-block", "nvfp4", "float8"),
        ("nvidia/DeepSeek-V3.2-NVFP4", "bfloat16", "nvfp4", "float8"),
        ("nvidia/GLM-5.2-NVFP4", "bfloat16", "nvfp4", "float8"),
        ("nvidia/MiniMax-M3-NVFP4", "float8-block", "nvfp4", "bfloat16"),
        ("zai-org/GLM-5.2", "bfloat16", "bfloat16", "bfloat16"),
        ("zai-org/GLM-5.2-FP8", "float8-block", "float8-block", "bfloat16"),
    ],
)
def test_a_checkpoint_whose_config_says_more_than_its_name_is_read_as_that(
    said: str, attention: str, experts: str, cache: str
) -> None:
    """Which parts are quantised, and the cache, are the makers' choice: the name says neither."""
    found = find_transformer(said).precision()
    assert (found.of("attention"), found.of("experts"), found.kv) == (attention, experts, cache)
    assert found.lm_head == "bfloat16"
    assert format_named(said) in (None, found.weights)


def test_every_checkpoint_that_is_known_by_its_config_has_a_card() -> None:
    for said in OF_CONFIGS:
        assert find_transformer(said).checkpoint == said
        assert find_transformer(said.upper()).precision() == find_transformer(said).precision()


@pytest.mark.parametrize("kept", QUANTISED_BYTES)
@pytest.mark.parametrize("card", [name for name in transformer_names() if not CheckpointName.of(name).said])
def test_a_format_in_a_name_is_priced_as_its_option(card: str, kept: str) -> None:
    if format_named(f"{card}-{kept}") is not None:
        assert find_transformer(f"{card}-{kept}").precision() == find_transformer(card).precision(kept)


@pytest.mark.parametrize(
    "said",
    [
        "deepseek-ai/DeepSeek-R1-0528-Qwen3-8B",
        "deepseek-ai/DeepSeek-R1-Distill-Llama-70B",
        "deepseek-ai/DeepSeek-V3.2-Exp",
        "nvidia/Llama-3.1-Nemotron-70B-Instruct-HF",
        "Qwen/Qwen3-4B-FP8",
        "Qwen/Qwen2.5-7B-Instruct-AWQ",
        "fp8",
    ],
)
def test_no_name_means_a_model_of_another_size_or_family(said: str) -> None:
    with refused("transformer", said):
        find_transformer(said)


@pytest.mark.parametrize(
    ("said", "near"),
    [
        ("glm-5.3", "glm-5.2"),
        ("zai-org/GLM-5.3", "glm-5.2"),
        ("deepseek-ai/DeepSeek-V4.1-Flash", "deepseek-v4-flash"),
        ("minimax-m2.7", "minimax-m2.5"),
        ("kimi-k2.5", None),
        ("qwen3-14b", None),
        ("llama-5-8b", None),
    ],
)
def test_a_refusal_names_the_nearest_version_of_a_model_and_no_other(said: str, near: str | None) -> None:
    with pytest.raises(InputError) as refusal:
        find_transformer(said)
    assert ("until then the nearest is" in str(refusal.value)) == (near is not None)
    assert near is None or f"the nearest is {near}, which may differ" in str(refusal.value)


def test_one_note_says_the_card_and_the_format_that_a_name_means() -> None:
    asked = ["predict", "--target", "Qwen/Qwen3-32B-FP8", "--strategies", "ar", "--tp", "2"]
    done = CliRunner().invoke(cli, asked)
    noted = [line for line in done.stderr.splitlines() if line.startswith("note: ")]
    assert noted == ["note: --target Qwen/Qwen3-32B-FP8 is taken for qwen3-32b with weights in float8-block"]
    assert transformer_meant("not/there/config.json") == "not/there/config.json"
    assert transformer_meant("meta-llama/Llama-3.1-70B-Instruct") == "meta-llama/Llama-3.1-70B-Instruct"


def test_another_dtype_than_a_name_says_is_priced_and_said() -> None:
    named = configure(target="Qwen/Qwen3-32B-FP8", strategies=["ar"])
    assert (named.settings["dtype"], named.settings.source("dtype")) == ("float8-block", "the target's name")
    assert named.warnings == configure(target="qwen3-32b", dtype="float8-block", strategies=["ar"]).warnings
    other = configure(target="Qwen/Qwen3-32B-FP8", dtype="bfloat16", strategies=["ar"])
    assert "priced in --dtype bfloat16, where the name Qwen/Qwen3-32B-FP8 says float8-block" in other.warnings


def test_a_checkpoint_in_another_format_drafts_as_the_model_does() -> None:
    options = {"drafter": "eagle3", "strategies": ["sd"], "tp": 2}
    named = configure(target="Qwen/Qwen3-32B-FP8", **options)
    assert named.settings["draft"] == configure(target="qwen3-32b", **options).settings["draft"]
