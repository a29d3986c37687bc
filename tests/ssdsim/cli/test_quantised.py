"""Quantised weights and caches from the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from ssdsim import export, predict, sweep
from ssdsim.cli.options import several_of
from ssdsim.hardware.catalog import find_transformer
from ssdsim.question.options import ALL
from tests.refusals import refused
from tests.ssdsim.cli.in_process import asked
from tests.ssdsim.transformer.test_quantisation import CONFIG, FP8, in_groups

LARGE = "predict --tp 2 --b 64 --context 4096"


def answer(command: str) -> dict[str, Any]:
    done = asked(*command.split(), "--json")
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def refusal(command: str) -> str:
    done = asked(*command.split())
    assert done.returncode == 2, done.stdout
    assert "Traceback" not in done.stderr
    return " ".join(done.stderr.split())


@pytest.mark.parametrize(
    ("formats", "largest"),
    [("", 10), ("--dtype bf16", 10), ("--dtype float8", 60), ("--dtype fp8_block", 60), ("--kv-dtype fp8", 20)],
)
def test_what_does_not_fit_names_the_batch_that_does(formats: str, largest: int) -> None:
    said = refusal(f"{LARGE} {formats}")
    assert f"the largest batch that fits is {largest}" in said


def test_a_quantised_model_and_cache_fit_where_16_bits_do_not() -> None:
    shown = answer(f"{LARGE} --dtype float8 --kv-dtype float8")
    scenario = shown["scenario"]
    assert (scenario["dtype"]["value"], scenario["kv_dtype"]["value"]) == ("float8", "float8")
    fits = answer("predict --tp 2 --b 10 --context 4096")
    assert shown["strategies"]["ar"]["tokens_per_second"] > 2 * fits["strategies"]["ar"]["tokens_per_second"]
    assert "draft_dtype" not in scenario


def test_fewer_bytes_are_faster_and_say_what_they_rest_on() -> None:
    speeds = {}
    for dtype in ("bfloat16", "float8", "int4"):
        shown = answer(f"predict --b 1 --dtype {dtype}")
        speeds[dtype] = shown["strategies"]["ar"]["tokens_per_second"]
        guessed = any("no int4 GEMMs were timed" in warning for warning in shown["warnings"])
        assert guessed == (dtype == "int4")
    assert speeds["bfloat16"] < speeds["float8"] < speeds["int4"]


def test_the_drafts_format_is_its_own() -> None:
    own = answer("predict --b 1 --k 6 --draft-dtype int4")["strategies"]
    both = answer("predict --b 1 --k 6 --dtype int4")["strategies"]
    plain = answer("predict --b 1 --k 6")["strategies"]
    parts = [each["sd"]["breakdown_ms"] for each in (plain, own, both)]
    assert parts[0]["draft"] > parts[1]["draft"] == pytest.approx(parts[2]["draft"])
    assert parts[0]["verify"] == parts[1]["verify"] > parts[2]["verify"]
    # a model may draft for itself in fewer bits
    same = answer("predict --b 1 --target llama-3.1-8b --draft llama-3.1-8b --tp 1 --k 6 --draft-dtype int4")[
        "strategies"
    ]
    assert same["sd"]["breakdown_ms"]["draft"] < 6 * same["ar"]["breakdown_ms"]["verify"] * 0.7


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("predict --dtype float9", "'float9' is not one of"),
        ("predict --kv-dtype int4", "'int4' is not one of 'bfloat16', 'float16', 'float8'"),
        ("predict --t-sd 0.2 --p-hit 0.8 --kv-dtype float8", "--kv-dtype has no effect with --t-sd"),
        ("predict --t-sd 0.2 --p-hit 0.8 --draft-dtype float8", "--draft-dtype has no effect with --t-sd"),
        (
            "predict --hardware v100-sxm2-32gb --target llama-3.1-8b --tp 2 --dtype float16 --kv-dtype bfloat16",
            "no bfloat16 attention timings",
        ),
        ("calibrate --device cpu --dtype float8", "float8"),
        ("validate --dtype nvfp4", "'nvfp4' is not one of"),
    ],
)
def test_a_wrong_format_gets_one_line(command: str, why: str) -> None:
    assert why in refusal(command)


def test_other_spellings_mean_the_same_alone_and_in_a_list() -> None:
    dtype, cache = ALL["dtype"], ALL["kv_dtype"]
    assert several_of(dtype).convert("bf16,FP8,fp8_block,half,int4", None, None) == [
        *("bfloat16", "float8", "float8-block", "float16", "int4")
    ]
    assert [dtype.checked(word) for word in ("fp8", "BF16", "fp16")] == ["float8", "bfloat16", "float16"]
    assert cache.checked("fp8") == "float8"
    with refused("--kv-dtype", "fp8_block"):
        cache.checked("fp8_block")
    frame = sweep(b=1, dtype=["bfloat16", "float8"], kv_dtype=["bfloat16", "float8"], strategies=["ar"], context=8192)
    speed = frame.set_index(["dtype", "kv_dtype"])["ar_tokens_per_second"]
    assert speed["bfloat16", "bfloat16"] < speed["bfloat16", "float8"] < speed["float8", "float8"]


@pytest.mark.long
@pytest.mark.parametrize("formats", [{"dtype": "int4"}, {"draft_dtype": "nvfp4"}, {"kv_dtype": "float8"}])
def test_an_export_says_which_formats_were_priced(formats: dict[str, str]) -> None:
    (name, dtype), *_ = formats.items()
    notes = export("vllm", b=[1], context=[1024], k=[4], f=3, alpha=0.8, **formats).notes
    assert any(f"priced with --{name.replace('_', '-')} {dtype}" in note for note in notes)
    notes = export("vllm", b=[1], context=[1024], k=[4], f=3, alpha=0.8, dtype="bfloat16").notes
    assert not any("priced with" in note for note in notes)


@pytest.mark.long
def test_a_recommendation_and_a_window_take_formats() -> None:
    plain, quantised = (
        answer(f"recommend --b 4 --gpus 4 --k 4 --alpha 0.8 {formats}")
        for formats in ("", "--dtype fp8 --kv-dtype fp8")
    )
    best = [each["answers"][0]["best"]["tokens_per_second"] for each in (plain, quantised)]
    assert best[0] < best[1]
    assert "gemm float8" in quantised["provenance"][0]["summary"]
    window = answer("window --tp 2 --b 64 --k 3 --dtype int4 --kv-dtype float8")  # bfloat16 does not fit there
    assert window["rows"][0]["budget"] > 0


def test_a_checkpoint_brings_its_formats(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(
        json.dumps(CONFIG | {"quantization_config": in_groups(FP8, kv_cache_scheme=FP8)})
    )
    card = find_transformer(str(tmp_path))
    shown = answer(f"models show {tmp_path}")["transformer"]
    assert shown["weights"] == {"attention": "float8", "mlp": "float8", "lm_head": "bfloat16"}
    assert (shown["dtype"], shown["kv_dtype"]) == ("bfloat16", "float8")
    said = asked("models", "show", str(tmp_path)).stdout
    assert "attention float8, mlp float8, lm_head bfloat16" in said
    scenario = answer(f"predict --target {tmp_path} --draft {tmp_path} --tp 1")["scenario"]
    assert scenario["dtype"] == {"value": "float8", "source": "the target card's"}
    assert scenario["kv_dtype"] == {"value": "float8", "source": "the target card's"}
    assert card.weight_bytes() < card.weight_bytes(1, "bfloat16")


def test_the_roofline_of_quantised_weights_counts_their_bytes() -> None:
    tables = {
        dtype: {
            row["operation"]: row
            for row in answer(f"roofline --strategy ar --b 1 --dtype {dtype} --kv-dtype float8")["operations"]
        }
        for dtype in ("bfloat16", "int4")
    }
    wide, narrow = (tables[dtype]["gate_up"] for dtype in ("bfloat16", "int4"))
    assert narrow["bytes"] == pytest.approx(wide["bytes"] * (0.5 + 2 / 128) / 2, rel=0.01)
    assert narrow["flops"] == wide["flops"]
    assert narrow["bound"] == "memory"
    assert narrow["memory_s"] < wide["memory_s"]
    assert tables["int4"]["lm_head"] == tables["bfloat16"]["lm_head"] | {
        "share_of_pass": tables["int4"]["lm_head"]["share_of_pass"]
    }


V100: dict[str, Any] = {"hardware": "v100-sxm2-32gb", "tp": 2, "strategies": ["ar", "sd"], "k": 3}


@pytest.mark.parametrize("target", ["llama-3.1-8b", "awq"])
def test_quantised_weights_have_the_activations_that_a_device_has(target: str, tmp_path: Path) -> None:
    """A V100 has no bfloat16: engines serve four-bit weights there with all else in float16, as of a float16 model."""
    plain = find_transformer("llama-3.1-8b")
    if target == "awq":  # a checkpoint that says its format itself
        card = plain.changed(weights=plain.weights.changed(attention="int4", mlp="int4", lm_head="bfloat16"))
    else:
        card = plain
    paths = {name: tmp_path / f"{name}.toml" for name in ("own", "half")}
    for name, each in (("own", card), ("half", card.computed_in("float16"))):
        paths[name].write_text(tomli_w.dumps(each.as_dict(without_none=True)))
    asked = V100 | ({} if target == "awq" else {"dtype": "int4"}) | {"draft": "llama-3.2-1b"}
    own, half = (predict(target=str(path), **asked) for path in paths.values())
    said = "v100-sxm2-32gb has no bfloat16 timings: beside int4 weights all is float16"
    assert said in own.configuration.warnings
    assert said not in half.configuration.warnings
    for strategy in ("ar", "sd"):
        assert own.estimates[strategy].tokens_per_second == half.estimates[strategy].tokens_per_second
