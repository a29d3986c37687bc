"""Quantised checkpoints as the tools that make them describe them in config.json and hf_quant_config.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ssdsim.base.errors import InputError
from ssdsim.hardware.catalog import find_transformer
from ssdsim.transformer.forward import forward_pass
from ssdsim.transformer.operations import Gemm
from ssdsim.transformer.precision import Precision
from tests.refusals import refused

LAYERS = 2
CONFIG: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 1024,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 8,
    "intermediate_size": 4096,
    "vocab_size": 32000,
    "torch_dtype": "bfloat16",
}
FP8 = {"num_bits": 8, "type": "float", "strategy": "tensor"}
MLP = ("gate_proj", "up_proj", "down_proj")


def in_groups(weights: dict[str, Any], **more: Any) -> dict[str, Any]:
    """As compressed-tensors writes it."""
    group = {"targets": ["Linear"], "weights": weights}
    return {"quant_method": "compressed-tensors", "config_groups": {"group_0": group}, "ignore": ["lm_head"]} | more


def precision(folder: Path, quantisation: Any, beside: Any = None, name: str = "config.json") -> Precision:
    config = CONFIG if quantisation is None else CONFIG | {"quantization_config": quantisation}
    (folder / name).write_text(json.dumps(config))
    if beside is not None:
        (folder / name.replace("config", "hf_quant_config")).write_text(json.dumps({"quantization": beside}))
    return find_transformer(str(folder / name)).precision()


def blocks(weights: str, kv: str = "bfloat16", lm_head: str = "bfloat16") -> Precision:
    return Precision("bfloat16", weights, weights, lm_head, kv)


@pytest.mark.parametrize(
    ("quantisation", "expected"),
    [
        ({"quant_method": "fp8", "activation_scheme": "dynamic"}, blocks("float8")),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, blocks("float8-block")),
        ({"quant_method": "fp8", "modules_to_not_convert": ["model.norm"]}, blocks("float8")),
        ({"quant_method": "awq", "bits": 4, "group_size": 128}, blocks("int4")),
        ({"quant_method": "gptq", "bits": 4}, blocks("int4")),
        ({"quant_method": "gptq", "bits": 8}, blocks("int8")),
        ({"quant_method": "mxfp4"}, blocks("mxfp4")),
        (in_groups(FP8), blocks("float8")),
        (in_groups(FP8 | {"strategy": "block"}), blocks("float8-block")),
        (in_groups({"num_bits": 8, "type": "int"}), blocks("int8")),
        (in_groups({"num_bits": 4, "type": "int", "group_size": 128}), blocks("int4")),
        (in_groups({"num_bits": 4, "type": "float", "group_size": 16}), blocks("nvfp4")),
        (in_groups({"num_bits": 4, "type": "float", "group_size": 32}), blocks("mxfp4")),
        (in_groups(FP8, ignore=[]), blocks("float8", lm_head="float8")),
        (in_groups(FP8, ignore=["re:.*lm_head"]), blocks("float8")),
        (in_groups(FP8, kv_cache_scheme=FP8), blocks("float8", kv="float8")),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["lm_head"]}, blocks("nvfp4")),
        ({"quant_algo": "FP8", "kv_cache_scheme": "FP8", "ignore": ["lm_head"]}, blocks("float8", kv="float8")),
        ({"quant_method": "modelopt", "kv_cache_quant_algo": "FP8"}, blocks("bfloat16", kv="float8")),
        ({"quant_method": "modelopt", "quant_algo": None, "kv_cache_quant_algo": None}, blocks("bfloat16")),
        ({}, blocks("bfloat16")),
    ],
)
def test_each_method_is_read(tmp_path: Path, quantisation: dict[str, Any], expected: Precision) -> None:
    assert precision(tmp_path, quantisation) == expected


@pytest.mark.parametrize(
    "left_out",
    [
        ["lm_head", "model.layers.*.self_attn"],
        ["lm_head", "*self_attn*"],
        ["lm_head", "re:.*self_attn.*"],
        ["re:.*lm_head", r"re:^model\.layers\.(\d+)\.self_attn\.(?:q|k|v|o)_proj$"],
        ["re:^(?!.*(?:gate_proj|up_proj|down_proj|gate_up_proj)).*$"],
        ["lm_head", "self_attn"],
        ["lm_head", *(f"model.layers.{layer}.self_attn*" for layer in range(LAYERS))],
        ["lm_head", *(f"model.layers.{layer}.self_attn.{name}_proj" for layer in range(LAYERS) for name in "qkvo")],
    ],
)
def test_a_part_that_is_left_out_everywhere_stays_plain(tmp_path: Path, left_out: list[str]) -> None:
    formats = precision(tmp_path, in_groups(FP8, ignore=left_out))
    assert formats == Precision("bfloat16", "bfloat16", "float8", "bfloat16", "bfloat16")


def test_the_projection_after_the_attention_may_be_quantised_alone(tmp_path: Path) -> None:
    """As in DeepSeek-V3.1-NVFP4, whose projections before the attention stay in 16 bits; and the other way round."""
    before = [f"model.layers.{layer}.self_attn.{name}_proj*" for layer in range(LAYERS) for name in "qkv"]
    modelopt = {"quant_method": "modelopt", "quant_algo": "NVFP4"}
    formats = precision(tmp_path, modelopt | {"ignore": ["lm_head", *before]})
    assert formats == Precision("bfloat16", "bfloat16", "nvfp4", "bfloat16", "bfloat16", attention_out="nvfp4")
    assert formats.weights == "attention bfloat16, attention_out nvfp4, mlp nvfp4"
    card = find_transformer(str(tmp_path / "config.json"))
    counts = card.parameters_by_part
    assert card.weight_bytes() == pytest.approx(
        (counts["attention_out"] + counts["mlp"]) * (0.5 + 1 / 16)
        + 2 * (counts["attention"] + counts["lm_head"] + counts["activations"])
    )
    of_pass = {op.name: op.dtype for op, _ in forward_pass(card, batch=1, context=8).counted if isinstance(op, Gemm)}
    assert (of_pass["qkv"], of_pass["attention_out"]) == ("bfloat16", "nvfp4")
    formats = precision(tmp_path, modelopt | {"ignore": ["lm_head", "*.o_proj"]})
    assert formats == Precision("bfloat16", "nvfp4", "nvfp4", "bfloat16", "bfloat16", attention_out="bfloat16")


def test_layers_of_the_attention_that_are_left_out_in_part_are_refused(tmp_path: Path) -> None:
    said = "1 of 2 matrices of the attention_out are not quantised; all or none of a part is supported"
    with pytest.raises(InputError, match=said):
        precision(tmp_path, in_groups(FP8, ignore=["lm_head", "model.layers.0.self_attn.o_proj"]))


@pytest.mark.parametrize("key", ["ignore", "modules_to_not_convert", "exclude_modules"])
def test_lists_of_any_name_count(tmp_path: Path, key: str) -> None:
    mlp = [f"model.layers.{layer}.mlp.{name}" for layer in range(LAYERS) for name in MLP]
    formats = precision(tmp_path, {"quant_method": "fp8", key: ["lm_head", *mlp]})
    assert formats == Precision("bfloat16", "float8", "bfloat16", "bfloat16", "bfloat16")


def test_a_router_beside_the_matrices_leaves_them_quantised(tmp_path: Path) -> None:
    names = [f"model.layers.{layer}.{name}" for layer in range(LAYERS) for name in ("mlp.gate", "input_layernorm")]
    assert precision(tmp_path, {"quant_method": "fp8", "modules_to_not_convert": names}) == blocks("float8")


@pytest.mark.parametrize("name", ["config.json", "Some--Model_config.json"])
def test_the_file_beside_a_config_counts(tmp_path: Path, name: str) -> None:
    beside = {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8", "exclude_modules": ["lm_head"]}
    assert precision(tmp_path, None, beside, name) == blocks("float8", kv="float8")


def test_the_file_beside_a_config_completes_it(tmp_path: Path) -> None:
    beside = {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8", "exclude_modules": ["lm_head"]}
    config = {"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["lm_head"]}
    assert precision(tmp_path, config, beside) == blocks("nvfp4", kv="float8")


@pytest.mark.parametrize(
    ("quantisation", "why"),
    [
        (
            {"quant_method": "bitsandbytes"},
            "'bitsandbytes' is not supported.* Allowed: fp8, compressed-tensors, modelopt",
        ),
        ({"quant_method": "fb8"}, "did you mean 'fp8'"),
        ({"quant_method": ["fp8"]}, "quant_method"),
        ({"bits": 4}, "quant_method None is not supported"),
        ({"quant_method": "gptq", "bits": 3}, "weights of 3 bits are not supported; allowed: 4, 8"),
        ({"quant_method": "awq", "bits": "4"}, "weights of '4' bits"),
        ({"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION"}, "quant_algo 'MIXED_PRECISION'"),
        ({"quant_method": "modelopt", "quant_algo": 8}, "quant_algo 8"),
        (in_groups({"num_bits": 6, "type": "float"}), "6 bits of type 'float'"),
        (in_groups({"num_bits": [8], "type": "int"}), "bits are not supported"),
        ({"quant_method": "compressed-tensors"}, "config_groups must hold one scheme"),
        (
            in_groups(FP8) | {"config_groups": {"a": {"weights": FP8}, "b": {"weights": FP8 | {"num_bits": 4}}}},
            "one scheme of weights, got float8, nvfp4",
        ),
        (in_groups(FP8, kv_cache_scheme="INT8"), "kv_cache_scheme 'INT8' is not supported; allowed: FP8"),
        (in_groups(FP8, ignore="lm_head"), "must be a list of names, got 'lm_head'"),
        (in_groups(FP8, ignore=["re:("]), "is no regular expression"),
        (in_groups(FP8, ignore=["re:([a-z._0-9]+)+!"]), "may take hours"),
        (in_groups(FP8, ignore=["re:" + "(.*)" * 8 + "!"]), "may take hours"),
        (in_groups(FP8, ignore=["re:" + ".?" * 40 + "!"]), "may take hours"),
        (in_groups(FP8, ignore=["re:" + "(.|.)" * 40 + "!"]), "may take hours"),
        (in_groups(FP8, ignore=["re:" + "(" * 5000]), "may take hours"),
        (in_groups(FP8, ignore=["re:.*a.*b.*c!"] * 100), "may take hours"),
        (in_groups(FP8, ignore=["model.layers.0.mlp*"]), "3 of 6 matrices of the mlp are not quantised"),
        ([1], "quantization_config must be an object"),
    ],
)
def test_what_is_not_known_is_refused_in_one_line(tmp_path: Path, quantisation: Any, why: str) -> None:
    with pytest.raises(InputError, match=why) as raised:
        precision(tmp_path, quantisation)
    assert "config.json: " in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("text", ["[]", '{"quantization": 3}', "{"])
def test_a_broken_file_beside_a_config_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "hf_quant_config.json").write_text(text)
    with refused("hf_quant_config.json"):
        precision(tmp_path, None)
