"""Finding cards: names, aliases, files and Hugging Face configs, and the one line a mistake gets."""

from __future__ import annotations

import gc
import json
from pathlib import Path
from typing import Any

import pytest

from ssdsim.base.bundled import models_folder
from ssdsim.base.errors import InputError
from ssdsim.hardware.catalog import called, find_hardware, find_transformer
from ssdsim.hardware.what_if import scale
from ssdsim.transformer.operations import Gemm
from tests.refusals import refused

LLAMA_8B: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}


def config_folder(folder: Path, **changes: Any) -> Path:
    (folder / "config.json").write_text(json.dumps(LLAMA_8B | changes))
    return folder


@pytest.mark.parametrize("alias", ["llama-3.1-70b", "Llama-3.1-70B", "meta-llama/Meta-Llama-3.1-70B-Instruct"])
def test_aliases_find_the_card(alias: str) -> None:
    assert find_transformer(alias).name == "llama-3.1-70b"


@pytest.mark.parametrize("alias", ["h200_sxm", "H200_SXM", "h200-sxm"])
def test_an_underscore_in_a_name_is_read_as_a_dash(alias: str) -> None:
    assert find_hardware(alias).name == "h200-sxm"
    assert find_transformer("llama_3.1_70b").name == "llama-3.1-70b"
    with refused("hardware", "h200_sxn", "h200-sxm"):
        find_hardware("h200_sxn")


@pytest.mark.parametrize(
    ("name", "like", "file"),
    [
        ("h20", "h100-sxm", "h20.json"),
        ("gb10", "gb200", "gb10.json"),
        ("b100", "b200-sxm", "b100.json"),
        ("RTX 4070", "rtx-3090", "rtx-4070.json"),
        ("mi325x", "mi300x", "mi325x.json"),
        ("\U0001f600", "h100-sxm", "mine.json"),
    ],
)
def test_a_gpu_that_is_not_here_is_shown_the_road_and_no_name_of_like_letters(name: str, like: str, file: str) -> None:
    with refused(
        f"'{name}'. Allowed: a100-40gb", f"ssdsim hardware new --like {like} --memory GIB", f"-o {file}"
    ) as why:
        find_hardware(name)
    assert "did you mean" not in str(why.value)


def test_a_slip_of_a_gpus_name_is_told_the_name_alone() -> None:
    with refused("unknown hardware 'h100-smx'; did you mean 'h100-sxm'?") as why:
        find_hardware("h100-smx")
    assert "hardware new" not in str(why.value)
    assert find_hardware("RTX PRO 6000") == find_hardware("rtx-pro-6000")


@pytest.mark.parametrize(("name", "hub"), [("opt-30b", "OWNER/NAME"), ("facebook/opt-30b", "facebook/opt-30b")])
def test_a_model_that_is_not_here_is_had_by_its_config(name: str, hub: str) -> None:
    with refused(f"unknown transformer '{name}'. Allowed:", f"hf download {hub} config.json --local-dir DIR"):
        find_transformer(name)


def test_a_model_of_another_size_is_not_suggested() -> None:
    with refused("unknown transformer 'qwen3-4b'. Allowed:"):
        find_transformer("qwen3-4b")
    with refused("unknown transformer 'qwn3-8b'; did you mean 'qwen3-8b'?"):
        find_transformer("qwn3-8b")


def test_a_hugging_face_folder_or_file_is_a_card(tmp_path: Path) -> None:
    folder = config_folder(tmp_path)
    card = find_transformer(str(folder))
    assert card.parameters == find_transformer("llama-3.1-8b").parameters
    assert find_transformer(str(folder / "config.json")) == card


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"model_type": "nemotron_h"}, "nemotron_h has 32 layers and says the types of 0"),
        ({"model_type": "deepseek_v33"}, "'deepseek_v33' is not supported; did you mean 'deepseek_v3"),
        ({"model_type": "deepseek_v3", "index_topk": 2048}, "attends to a sparse choice of tokens"),
        ({"model_type": "gemma4_text", "num_kv_shared_layers": 20}, "shares caches between layers"),
        ({"quantization_config": {"quant_method": "bitsandbytes"}}, "quant_method 'bitsandbytes' is not supported"),
        ({"torch_dtype": "float64"}, "dtype 'float64'"),
    ],
)
def test_unsupported_architectures_are_refused_by_name(tmp_path: Path, changes: dict[str, Any], why: str) -> None:
    with pytest.raises(InputError, match=why):
        find_transformer(str(config_folder(tmp_path, **changes)))


def test_a_config_without_a_key_names_it(tmp_path: Path) -> None:
    config = {key: value for key, value in LLAMA_8B.items() if key != "num_hidden_layers"}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with refused("num_hidden_layers"):
        find_transformer(str(tmp_path))


def test_an_unknown_card_suggests_the_nearest() -> None:
    with refused("lama-3.1-70b", "llama-3.1-70b"):
        find_transformer("lama-3.1-70b")


def test_a_misspelt_key_in_a_card_suggests_the_right_one(tmp_path: Path) -> None:
    text = (models_folder() / "transformers" / "llama-3.2-1b.toml").read_text()
    card = tmp_path / "mine.toml"
    card.write_text(text.replace("hidden_size", "hiden_size"))
    with pytest.raises(InputError, match=r"hiden_size.*did you mean 'hidden_size'|hidden_size"):
        find_transformer(str(card))


def test_a_truncated_card_is_one_line(tmp_path: Path) -> None:
    card = tmp_path / "mine.toml"
    card.write_text('name = "x"\nlayers = ')
    with refused("mine.toml"):
        find_transformer(str(card))


def test_unknown_hardware_suggests_the_nearest() -> None:
    with refused("h100-sxn", "h100-sxm"):
        find_hardware("h100-sxn")
    with refused("absent.json"):
        find_hardware("absent.json")


def test_a_card_is_read_again_when_its_file_has_changed(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    find_hardware("h100-sxm").changed(name="first").save(path)
    first = find_hardware(str(path))
    assert find_hardware(str(path)) is first
    first.changed(name="second").save(path)
    assert find_hardware(str(path)).name == "second"


def test_a_copied_profile_does_not_take_prices_over() -> None:
    profile, op = find_hardware("h100-sxm"), Gemm("w", 1, 8192, 8192, "bfloat16")
    assert profile.seconds(op).seconds > 0.0
    with refused("bfloat16 gemm"):
        profile.changed(gemm={}).seconds(op)


@pytest.mark.long
def test_a_profile_of_no_file_is_found_by_its_name_while_it_is_held() -> None:
    faster = scale(find_hardware("h100"), "h100-sxm", memory_bandwidth=1.1)
    name = called("h100, memory x 1.1", faster)
    assert find_hardware(name) is faster
    del faster
    gc.collect()
    with pytest.raises(InputError):
        find_hardware(name)
