"""Formats of weights, activations and cache: what a pass is made of, and what it weighs."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssdsim.base.bundled import models_folder
from ssdsim.hardware.catalog import find_transformer, transformer_names
from ssdsim.transformer.card import Transformer, Weights, transformer_shaped
from ssdsim.transformer.forward import forward_pass
from ssdsim.transformer.heads import eagle_head
from ssdsim.transformer.operations import (
    DTYPE_BYTES,
    DTYPES,
    QUANTISED_BYTES,
    WEIGHT_BYTES,
    Attention,
    Collective,
    Elementwise,
    Gemm,
)
from ssdsim.transformer.precision import FORMATS, Precision
from tests.refusals import refused

sizes = st.integers(1, 40_000)
plain = st.sampled_from(DTYPES)
names = st.sampled_from([name for name in transformer_names() if find_transformer(name).weights == Weights()])


@given(m=sizes, n=sizes, k=sizes, dtype=plain)
def test_a_plain_product_moves_what_it_always_did(m: int, n: int, k: int, dtype: str) -> None:
    assert Gemm("x", m, n, k, dtype).bytes == float(DTYPE_BYTES[dtype]) * (m * k + k * n + m * n)


@given(batch=st.integers(1, 512), context=sizes, heads=st.sampled_from([1, 8, 64]), dtype=plain)
def test_plain_attention_moves_what_it_always_did(batch: int, context: int, heads: int, dtype: str) -> None:
    kv, io = 2.0 * batch * context * heads * 128, 2.0 * batch * 3 * heads * 128
    assert Attention("x", batch, 3, context, heads, heads, 128, dtype).bytes == DTYPE_BYTES[dtype] * (kv + io)


@given(name=names, tp=st.sampled_from([1, 2, 4, 7]), dtype=plain)
def test_a_plain_model_weighs_what_it_always_did(name: str, tp: int, dtype: str) -> None:
    card = find_transformer(name)
    whole = sum(card.whole_parameters.values())
    shared = -(-(card.parameters - whole) // tp)
    assert card.weight_bytes(tp, dtype) == (shared + whole) * DTYPE_BYTES[dtype]
    assert card.weight_bytes(tp) == card.weight_bytes(tp, card.dtype)


@given(dtype=plain)
def test_a_plain_dtype_is_of_the_whole_model(dtype: str) -> None:
    card = find_transformer("llama-3.1-8b").changed(weights=Weights(mlp="float8"), kv_dtype="float8")
    assert card.precision(dtype) == Precision.plain(dtype)
    shape = {"batch": 2, "queries": 3, "context": 64, "tp": 2, "dtype": dtype}
    mine, bundled = (list(forward_pass(each, **shape).operations()) for each in (card, find_transformer(card.name)))
    assert mine == bundled


@pytest.mark.parametrize("dtype", QUANTISED_BYTES)
def test_a_quantised_format_is_of_the_blocks_weights_alone(dtype: str) -> None:
    card = find_transformer("llama-3.1-70b")
    shape = {"batch": 4, "queries": 2, "context": 512, "tp": 4}
    bare = list(forward_pass(card, **shape).operations())
    ops = list(forward_pass(card, **shape, dtype=dtype).operations())
    for before, after in zip(bare, ops, strict=True):
        if isinstance(after, Gemm) and after.name != "lm_head":
            values = after.m * after.k + after.m * after.n
            assert (after.dtype, after.activations_dtype) == (dtype, "bfloat16")
            assert after.bytes == pytest.approx(2 * values + QUANTISED_BYTES[dtype] * after.n * after.k)
            assert after.flops == before.flops
        else:
            assert after == before


def test_a_cache_has_its_own_dtype() -> None:
    card = find_transformer("llama-3.1-8b")
    for dtype in (None, "bfloat16", "nvfp4"):
        forward = forward_pass(card, batch=4, context=1000, dtype=dtype, kv_dtype="float8")
        attention = next(op for op in forward.layer if isinstance(op, Attention))
        assert (attention.dtype, attention.cache_dtype) == ("bfloat16", "float8")
        assert attention.bytes == 2 * 4 * 1000 * 8 * 128 + 2 * (2 * 4 * 32 * 128)
    assert card.kv_bytes_per_token(1, "float8") * 2 == card.kv_bytes_per_token()


def test_a_pass_is_known_by_its_formats_however_they_were_said() -> None:
    card = find_transformer("llama-3.1-8b")
    quantised = card.changed(weights=Weights(attention="int4", mlp="int4"))
    one = forward_pass(card, batch=1, context=8, dtype="int4")
    assert forward_pass(card, batch=1, context=8, dtype="int4", kv_dtype="bfloat16") is one
    assert forward_pass(card, batch=1, context=8) is not one
    assert list(forward_pass(quantised, batch=1, context=8).operations()) == list(one.operations())
    assert len({*one.operations()}) == len({op.name for op in one.operations()})


@given(name=names, tp=st.sampled_from([1, 2, 4]), parts=st.tuples(*[st.sampled_from(FORMATS)] * 2))
def test_memory_never_grows_as_weights_shrink(name: str, tp: int, parts: tuple[str, str]) -> None:
    card = find_transformer(name)
    wide, narrow = sorted(parts, key=WEIGHT_BYTES.__getitem__, reverse=True)
    if wide not in DTYPES or narrow not in DTYPES:  # activations of quantised weights are in 16 bits
        wide = "bfloat16" if wide == "float32" else wide
    assert card.weight_bytes(tp, narrow) <= card.weight_bytes(tp, wide)


@pytest.mark.parametrize("name", [name for name in transformer_names() if find_transformer(name).experts is None])
def test_parts_sum_to_the_model(name: str) -> None:
    card = find_transformer(name)
    gemms: Counter[str] = Counter()
    for op, count in forward_pass(card, batch=1, context=1).counted:
        if isinstance(op, Gemm):
            gemms[op.name] += count * op.n * op.k
    parts = card.parameters_by_part
    assert parts["attention"] == gemms["qkv"]
    assert parts["attention_out"] == gemms["attention_out"]
    assert parts["mlp"] == gemms["gate_up"] + gemms["down"]
    assert parts["lm_head"] == gemms["lm_head"]
    assert parts.get("recurrent", 0) == gemms["recurrent_in"] + gemms["recurrent_out"]
    blocks = parts["attention"] + parts["attention_out"] + parts["mlp"] + parts.get("recurrent", 0)
    assert card.weight_bytes(1, "float8") == blocks + 2 * (parts["lm_head"] + parts["activations"])


def test_a_float32_card_is_quantised_with_activations_of_16_bits() -> None:
    card = transformer_shaped(1024, 2, dtype="float32")
    assert card.precision("int8") == Precision("bfloat16", "int8", "int8", "bfloat16", "bfloat16")


def test_a_card_says_its_formats_by_part(tmp_path: Path) -> None:
    text = (models_folder() / "transformers" / "llama-3.1-8b.toml").read_text()
    path = tmp_path / "mine.toml"
    path.write_text(f'{text}kv_dtype = "float8"\n[weights]\nattention = "float8"\nmlp = "nvfp4"\n')
    card = find_transformer(str(path))
    assert card.precision() == Precision("bfloat16", "float8", "nvfp4", "bfloat16", "float8")
    assert card.precision().weights == "attention float8, mlp nvfp4"
    assert card.precision("int4", "bfloat16") == Precision("bfloat16", "int4", "int4", "bfloat16", "bfloat16")
    ops = {op.name: op for op in forward_pass(card, batch=1, context=1, tp=2).operations()}
    assert [ops[name].dtype for name in ("qkv", "attention_out", "gate_up", "down", "lm_head")] == [
        *("float8", "float8", "nvfp4", "nvfp4", "bfloat16")
    ]
    for name in ("attention_all_reduce", "logits_all_gather", "input_norm"):
        assert isinstance(ops[name], Collective | Elementwise)
        assert ops[name].bytes == next(
            op.bytes
            for op in forward_pass(find_transformer("llama-3.1-8b"), batch=1, context=1, tp=2).operations()
            if op.name == name
        )


@pytest.mark.parametrize(
    ("lines", "names"),
    [
        ('[weights]\nmlp = "float16"', "weights.mlp, bfloat16"),
        ('[weights]\nmpl = "float8"', "mpl, mlp"),
        ('[weights]\nmlp = "int3"', "weights.mlp"),
        ('kv_dtype = "int4"', "kv_dtype"),
    ],
)
def test_a_card_with_wrong_formats_is_refused_in_one_line(tmp_path: Path, lines: str, names: str) -> None:
    text = (models_folder() / "transformers" / "llama-3.1-8b.toml").read_text()
    path = tmp_path / "mine.toml"
    path.write_text(f"{text}{lines}\n")
    with refused(*names.split(", ")):
        find_transformer(str(path))


def test_unknown_formats_are_refused() -> None:
    card = find_transformer("llama-3.1-8b")
    with refused("float9", "float8"):
        forward_pass(card, batch=1, context=1, dtype="float9")
    with refused("nvfp4"):
        forward_pass(card, batch=1, context=1, kv_dtype="nvfp4")


def test_what_makes_latents_lies_on_every_device_whole() -> None:
    """As engines load it, and as it is run: a shard of DeepSeek R1's ``qkv_down`` has all its rows."""
    card = find_transformer("deepseek-r1")
    made = 61 * 7168 * (512 + 64 + 1536)
    assert card.whole_parameters == {"attention": made, "mlp": 0, "activations": 0}
    assert 61 * run_of(card)["qkv_down"] == made
    head = eagle_head(find_transformer("llama-3.1-8b"))
    assert head.whole_parameters == {"attention": 0, "mlp": run_of(head)["fc"], "activations": 0}


def run_of(card: Transformer) -> dict[str, int]:
    """Weights of a device's matrices, of eight that share the model."""
    counted = forward_pass(card, batch=1, tp=8, context=64).counted
    return {op.name: op.n * op.k for op, _ in counted if isinstance(op, Gemm)}
