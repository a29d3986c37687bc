"""Engines' result files as rows: told by what is in them, and what they leave out is asked for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ssdsim.base.errors import InputError
from ssdsim.readers.result_files import read_measured
from ssdsim.readers.row import Row
from tests.ssdsim.readers.engines import measured, served, vllm_result

GIVEN = {"hardware": "h100-sxm", "tp": 2}
OF_FOUR = {"hardware": "h100-sxm", "tp": 4}
VLLM = vllm_result(measured(served(batch=8, tp=2)))
SPECULATED = vllm_result(served(batch=8, k=3, acceptance_length=2.5))
SGLANG = {
    "backend": "sglang",
    "dataset_name": "random",
    "request_rate": float("inf"),
    "max_concurrency": 16,
    "completed": 100,
    "total_input_tokens": 100_000,
    "total_output_tokens": 20_000,
    "total_output_tokens_retokenized": 19_990,
    "mean_tpot_ms": 9.5,
    "accept_length": None,
}
TRTLLM: dict[str, Any] = {
    "engine": {
        "model": "meta-llama/Llama-3.1-8B-Instruct",
        "version": "1.0.0",
        "dtype": "bfloat16",
        "quantization": None,
        "kv_cache_dtype": "FP8",
    },
    "world_info": {"tp_size": 4, "pp_size": 1, "max_batch_size": 64},
    "request_info": {"avg_num_concurrent_requests": 31.7, "avg_input_length": 1000.0, "avg_output_length": 100.0},
    "performance": {"system_output_throughput_tok_s": 2500.0},
}
AIPERF: dict[str, Any] = {
    "schema_version": "1.5",
    "request_latency": {"unit": "ms", "avg": 2620.7},
    "inter_token_latency": {"unit": "ms", "avg": 11.5},
    "input_sequence_length": {"unit": "tokens", "avg": 1000.0},
    "output_sequence_length": {"unit": "tokens", "avg": 200.0},
}
RESULTS = (VLLM, SPECULATED, SGLANG, TRTLLM, AIPERF)


def read(tmp_path: Path, *records: Any, **given: Any) -> list[Row]:
    path = tmp_path / "result"
    path.write_text("\n".join(json.dumps(record) for record in records))
    return read_measured(path, **given)


def test_a_result_of_vllm(tmp_path: Path) -> None:
    (row,) = read(tmp_path, VLLM, **GIVEN)
    assert row == measured(served(batch=8, tp=2)).changed(engine="vllm")


def test_a_result_of_vllm_that_speculated_says_its_lookahead_and_length(tmp_path: Path) -> None:
    (row,) = read(tmp_path, SPECULATED, **GIVEN, k=3, acceptance_length=2.51, draft="llama-3.2-1b")
    assert (row.k, row.acceptance_length, row.draft) == (3, 2.5, "llama-3.2-1b")
    (row,) = read(tmp_path, VLLM, **GIVEN, draft="llama-3.2-1b")
    assert (row.k, row.draft) == (None, None)
    told: dict[str, Any] = {"k": 2, "acceptance_length": 1.5, "drafter": "eagle3"}
    (row,) = read(tmp_path, VLLM, **GIVEN, **told)  # an older vLLM, which does not say
    assert (row.k, row.acceptance_length) == (2, 1.5)


def test_results_of_sglang(tmp_path: Path) -> None:
    speculation: dict[str, Any] = {**SGLANG, "accept_length": 2.9}
    plain, speculated = read(tmp_path, SGLANG, speculation, model="qwen3-32b", k=4, **GIVEN,
                             acceptance_length=2.9, drafter="eagle3")  # fmt: skip
    assert (plain.engine, plain.batch, plain.input_tokens, plain.output_tokens) == ("sglang", 16, 1000.0, 200.0)
    assert (plain.metric, plain.value, plain.model) == ("tpot_ms", 9.5, "qwen3-32b")
    assert (speculated.k, speculated.acceptance_length) == (4, 2.9)


def test_a_report_of_trtllm(tmp_path: Path) -> None:
    (row,) = read(tmp_path, TRTLLM, hardware="h100-sxm", tp=4)
    assert (row.model, row.tp, row.batch, row.dtype, row.kv_dtype) == ("llama-3.1-8b", 4, 32, "bfloat16", "float8")
    assert (row.metric, row.value, row.engine_version) == ("tokens_per_s", 2500.0, "1.0.0")
    streamed = {**TRTLLM, "streaming_metrics": {"avg_tpot_ms": 12.0}}
    (row,) = read(tmp_path, streamed, hardware="h100-sxm")
    assert (row.metric, row.value) == ("tpot_ms", 12.0)


def test_an_export_of_aiperf(tmp_path: Path) -> None:
    (row,) = read(tmp_path, AIPERF, model="qwen3-32b", batch=8, **GIVEN)
    assert (row.batch, row.value, row.input_tokens, row.output_tokens) == (8, 11.5, 1000.0, 200.0)


def test_no_more_run_at_once_than_there_are_requests(tmp_path: Path) -> None:
    (row,) = read(tmp_path, {**VLLM, "max_concurrency": 500}, **GIVEN)
    assert row.batch == VLLM["completed"]


def without(record: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in record.items() if name != key}


@pytest.mark.parametrize(
    ("record", "given", "said"),
    [
        (VLLM, {}, "does not say the hardware; give its profile by --hardware"),
        (without(VLLM, "max_concurrency"), GIVEN, "(it has no max_concurrency); give them by --batch"),
        ({**VLLM, "max_concurrency": None}, GIVEN, "(it has no max_concurrency); give them by --batch"),
        ({**VLLM, "request_rate": 4.0}, GIVEN, "(requests came at 4.0/s); give them by --batch"),
        ({**VLLM, "completed": 0}, GIVEN, "completed must be a number above 0, got 0"),
        ({**VLLM, "mean_tpot_ms": "7"}, GIVEN, "mean_tpot_ms must be a number above 0, got '7'"),
        ({**VLLM, "model_id": ["m"]}, GIVEN, "model_id must be text, got ['m']"),
        ({**TRTLLM, "engine": {**TRTLLM["engine"], "model": 3}}, GIVEN, "model must be text, got 3"),
        ({**VLLM, "model_id": "my-own"}, GIVEN, "no card is called 'my-own'; give one by --model"),
        (VLLM, {**GIVEN, "k": 3}, "give them by --acceptance-length"),
        (VLLM, {"hardwear": "h100-sxm"}, "unknown column 'hardwear'; did you mean 'hardware'?"),
        (SGLANG, GIVEN, "does not say the model; give its card by --model"),
        ({**SGLANG, "accept_length": 2.0}, {**GIVEN, "model": "qwen3-32b"}, "give them by --k"),
        ({**TRTLLM, "world_info": {"pp_size": 2}}, GIVEN, "ran in 2 pipeline stages, which are not modelled"),
        ({**TRTLLM, "engine": {**TRTLLM["engine"], "quantization": "W4A8"}}, OF_FOUR, "give their format by --dtype"),
        ({**TRTLLM, "engine": 1}, GIVEN, "engine must be an object, got 1"),
        (AIPERF, {**GIVEN, "model": "qwen3-32b"}, "give them by --batch"),
        (without(AIPERF, "inter_token_latency"), GIVEN, "run aiperf with --streaming"),
        ({"a": 1}, GIVEN, "no result that is known here"),
        (3, GIVEN, "no result that is known here"),
    ],
)
def test_what_is_missing_is_said_with_how_to_give_it(
    record: Any, given: dict[str, Any], said: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError) as error:
        read(tmp_path, [record], **given)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_given_values_complete_what_the_file_does_not_say(tmp_path: Path) -> None:
    (row,) = read(tmp_path, {**VLLM, "request_rate": 4.0, "model_id": "my-own"}, model="qwen3-32b", batch=3, **GIVEN)
    assert (row.batch, row.model) == (3, "qwen3-32b")


@pytest.mark.parametrize("text", ["{", '{"a": 1}\n{"b"', "[]", "[", "\0"])
def test_what_is_no_file_of_results_is_one_line(text: str, tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    path.write_text(text)
    with pytest.raises(InputError) as error:
        read_measured(path, **GIVEN)
    assert str(path) in str(error.value)
