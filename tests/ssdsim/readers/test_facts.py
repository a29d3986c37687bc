"""What a file says of its run is heard: it agrees with what is given, or is asked for, or is refused in one line.

A reader has a file here (``told/NAME.ending``, by the name of its :class:`Format`), and is held to all of this by it.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ssdsim.base.errors import InputError
from ssdsim.readers.agreement import row_of
from ssdsim.readers.facts import Facts, RunSpeed
from ssdsim.readers.priced_row import work_of
from ssdsim.readers.result_files import formats, read_measured
from ssdsim.readers.row import REQUIRED, Row
from tests.refusals import refused
from tests.ssdsim.cli.in_process import asked

TOLD = sorted((Path(__file__).parent / "told").iterdir())
FILES = {path.name: path for path in TOLD}
ASKED: dict[str, Any] = {
    "hardware": "a100-sxm",
    "model": "llama-3.1-8b",
    "batch": 8,
    "k": 3,
    "acceptance-length": 2.0,
    "dtype": "int4",
    "drafter": "eagle3",
}
"""What somebody would answer where a file does not say it."""


def heard(path: Path, **given: Any) -> list[Row] | str:
    """The rows, or the line that says why there are none."""
    try:
        return read_measured(path, **given)
    except InputError as error:
        return str(error)


def told(path: Path, **given: Any) -> tuple[list[Row], dict[str, Any]]:
    """The rows, and what had to be given for them, one after another as it was asked for."""
    for _ in ASKED:
        rows = heard(path, **given)
        if not isinstance(rows, str):
            return rows, given
        asked = re.search(r"by --([\w-]+)$|give --(drafter) ", rows)
        assert asked is not None, rows
        name = asked[1] or asked[2]
        given[name.replace("-", "_")] = ASKED[name]
    raise AssertionError(f"asked for something twice: {rows}")


def test_every_reader_has_a_file_here() -> None:
    names = {re.sub(r"\W+", "-", form.name) for form in formats()}
    assert names == {re.sub(r"\W+", "-", path.stem) for path in TOLD}


@pytest.mark.parametrize("name", FILES)
def test_facts_are_filled_or_asked_for(name: str) -> None:
    rows, _ = told(FILES[name])
    assert rows
    for row in rows:
        assert all(getattr(row, column) is not None for column in REQUIRED)
        assert row.k is None or row.drafter or row.draft


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_cut_short_shuffled_or_empty_is_one_line_or_rows(name: str, tmp_path: Path) -> None:
    text, path = FILES[name].read_text(), tmp_path / name
    _, given = told(FILES[name])
    lines = text.splitlines(keepends=True)
    mixed = [random.Random(seed).sample(lines, len(lines)) for seed in range(5)]
    cut = [text[: len(text) * part // 20] for part in range(20)]
    for damaged in ("", " \n", *cut, *map("".join, mixed), text.replace("\n", "\x1b[31m\n"), "\x1b[1m" + text):
        path.write_text(damaged)
        rows = heard(path, **given)
        assert rows
        assert not isinstance(rows, str) or not re.search(r"\x1b|\n|Field required|Input should", rows)


OTHERS: dict[str, Any] = {
    "hardware": "v100-sxm2-16gb",
    "model": "qwen3-32b",
    "dtype": "float32",
    "tp": 7,
    "batch": 77,
    "k": 9,
    "acceptance_length": 9.5,
    "draft": "llama-3.2-3b",
    "drafter": "medusa",
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("option", OTHERS)
def test_no_option_contradicts_a_file_in_silence(name: str, option: str) -> None:
    """What is given is refused, or the answer has it, or there is nothing of the kind in the run."""
    before, given = told(FILES[name])
    rows = heard(FILES[name], **given | {option: OTHERS[option]})
    if isinstance(rows, str):
        assert "--" in rows
        return
    for row, own in zip(rows, before, strict=True):
        drafts = option in ("k", "acceptance_length", "draft", "drafter")
        assert getattr(row, option) == OTHERS[option] or (drafts and own.k is None)


def _record(text: str) -> tuple[dict[str, Any], Callable[[dict[str, Any]], str]]:
    """The last record of a file of JSON, and the file with another in its place."""
    read = json.loads(text)
    return (read[-1], lambda record: json.dumps([*read[:-1], record])) if isinstance(read, list) else (read, json.dumps)


CHANGES: dict[str, list[tuple[str, Any]]] = {
    "llama-bench.json": [
        ("model_type", "llama 8B Q8_0"),
        ("model_type", "llama 8B all F32"),
        ("model_size", 16060522496),
        ("model_n_params", 32762123264),
        ("model_filename", "Qwen3-32B-Q4_K_M.gguf"),
        ("gpu_info", "NVIDIA H100 80GB HBM3"),
        ("gpu_info", "NVIDIA A100-SXM4-40GB"),
        ("gpu_info", "NVIDIA A100-SXM4-80GB, NVIDIA A100-SXM4-80GB"),
        ("backends", "Metal,BLAS"),
        ("backends", "CPU"),
        ("n_gpu_layers", 16),
        ("n_gpu_layers", 32),
        ("type_k", "q8_0"),
        ("type_v", "q4_0"),
        ("build_number", 7000),
    ],
    "vllm bench serve.json": [
        ("model_id", "Qwen/Qwen3-32B"),
        ("model_id", "RedHatAI/Meta-Llama-3.1-8B-Instruct-FP8"),
        ("model_id", "/data/somebodys-70B"),
        ("max_concurrency", 16),
        ("backend", "tgi"),
        ("tensor_parallel_size", 4),
        ("spec_decode_draft_tokens", 4 * 6554),
        ("spec_decode_acceptance_length", 2.6),
    ],
    "sglang.bench_serving.json": [
        ("accept_length", 3.0),
        ("max_concurrency", 32),
        ("backend", "vllm"),
        ("server_info.model_path", "Qwen/Qwen3-32B"),
        ("server_info.tp_size", 4),
        ("server_info.dcp_size", 2),
        ("server_info.speculative_num_steps", 5),
        ("server_info.speculative_algorithm", "NGRAM"),
        ("server_info.quantization", "fp8"),
    ],
    "trtllm-bench.json": [
        ("engine.model", "Qwen/Qwen3-32B"),
        ("engine.quantization", "NVFP4"),
        ("engine.kv_cache_dtype", "bfloat16"),
        ("engine.version", "1.1.0"),
        ("world_info.tp_size", 8),
        ("world_info.pp_size", 2),
        ("request_info.avg_num_concurrent_requests", 12.0),
    ],
    "guidellm.json": [("config.spec.backend.model", "Qwen/Qwen3-32B")],
}


@pytest.mark.parametrize(
    ("name", "key", "value"), [(name, key, value) for name, each in CHANGES.items() for key, value in each]
)
def test_a_fact_that_changes_changes_the_answer_or_is_refused(name: str, key: str, value: Any, tmp_path: Path) -> None:
    before, given = told(FILES[name], hardware="a100-sxm", model="llama-3.1-8b")
    record, written = _record(FILES[name].read_text())
    *folders, last = key.split(".")
    inner = record
    for folder in folders:
        inner = inner[folder]
    inner[last] = value
    path = tmp_path / name
    path.write_text(written(record))
    assert heard(path, **given) != before


# files of llama.cpp


@pytest.mark.parametrize("ending", ["json", "csv", "md"])
def test_llama_bench_says_model_format_and_gpu_in_each_of_its_forms(ending: str) -> None:
    (row,), given = told(FILES[f"llama-bench.{ending}"])
    assert given == ({"model": "llama-3.1-8b"} if ending == "md" else {})
    assert (row.model, row.hardware, row.dtype, row.engine_version) == ("llama-3.1-8b", "a100-sxm", "int4", "b6000")
    assert row.value == pytest.approx(1e3 / 141.5, rel=1e-3)
    assert 1e3 * work_of(row).cost.seconds < 8.0  # in 16 bits it takes 11.4 ms


def test_bits_of_a_weight_are_held_against_the_format_given() -> None:
    with refused("Q4_K - Medium, 4.9 bits a weight", "--dtype says bfloat16", "--dtype int4"):
        read_measured(FILES["llama-bench.json"], dtype="bfloat16")
    assert read_measured(FILES["llama-bench.json"], dtype="nvfp4")[0].dtype == "nvfp4"


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"n_gpu_layers": 16}, "16 of 33 layers were on the GPU"),
        ({"gpu_info": "Apple M2 Ultra", "backends": "Metal,BLAS"}, "it ran on Apple M2 Ultra by Metal,BLAS"),
        ({"model_type": "llama 8B Q5_K - Medium", "model_size": 5.73e9}, "5.7 bits a weight, which is not priced"),
        ({"model_filename": "x.gguf", "model_n_params": 3.2e10, "model_size": 1.8e10}, "32 billion weights"),
        ({"gpu_info": "NVIDIA A100-SXM4-80GB, NVIDIA A100-SXM4-80GB"}, "2 pipeline stages"),
        ({"type_v": "q4_0"}, "the cache is kept in f16/q4_0"),
    ],
)
def test_what_is_not_the_gpus_own_row_is_refused(changed: dict[str, Any], said: str, tmp_path: Path) -> None:
    record, written = _record(FILES["llama-bench.json"].read_text())
    (tmp_path / "bench.json").write_text(written(record | changed))
    with pytest.raises(InputError) as error:
        read_measured(tmp_path / "bench.json", model="llama-3.1-8b", hardware="a100-sxm")
    assert said in str(error.value)


def test_the_screen_says_formats_and_engine_that_were_taken() -> None:
    done = asked("validate", "rows", str(FILES["llama-bench.json"]))
    assert "Taken: weights in int4, cache in float16 (1)." in done.stdout
    assert "Run by another engine than the card's: llama.cpp (1)." in done.stdout


# files of vLLM and SGLang


def test_a_console_report_is_the_row_of_the_saved_result() -> None:
    given = {"hardware": "h100-sxm", "drafter": "eagle3"}
    assert read_measured(FILES["vllm bench serve.txt"], **given) == read_measured(
        FILES["vllm bench serve.json"], **given
    )
    (printed,) = read_measured(FILES["sglang.bench_serving.txt"], model="llama-3.1-8b", tp=2, k=3, **given)
    assert [printed] == read_measured(FILES["sglang.bench_serving.json"], hardware="h100-sxm")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "speculated, but not with what; give --drafter"),
        ({"model": "qwen3-32b"}, "says meta-llama/Llama-3.1-8B-Instruct"),
        ({"k": 5}, "says k 3; --k says 5"),
        ({"batch": 4}, "says batch 8; --batch says 4"),
    ],
)
def test_what_contradicts_a_result_is_one_line(given: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as error:
        read_measured(FILES["vllm bench serve.json"], hardware="h100-sxm", **given)
    assert said in str(error.value)


@pytest.mark.parametrize("owner", ["Qwen/", "", "/data/models/"])
def test_a_served_name_says_the_format(owner: str, tmp_path: Path) -> None:
    record, written = _record(FILES["vllm bench serve.json"].read_text())
    path = tmp_path / "fp8.json"
    path.write_text(written(record | {"model_id": f"{owner}Qwen3-32B-FP8"}))
    with refused("Qwen3-32B-FP8", "--model says qwen3-32b", "--dtype"):
        read_measured(path, hardware="h100-sxm", drafter="eagle3", model="qwen3-32b")
    (row,) = read_measured(path, hardware="h100-sxm", drafter="eagle3")
    plain = row.changed(model="qwen3-32b")
    assert work_of(row).cost.seconds < 0.8 * work_of(plain).cost.seconds
    path.write_text(written(record | {"model_id": "somebodys-own-8B-FP8"}))
    assert read_measured(path, hardware="h100-sxm", drafter="eagle3", model="llama-3.1-8b")[0].dtype == "float8"
    path.write_text(written(record | {"model_id": "somebodys-own-32B"}))
    with refused("32 billion weights by its name", "--model says llama-3.1-8b"):
        read_measured(path, hardware="h100-sxm", drafter="eagle3", model="llama-3.1-8b")


def test_a_console_report_of_another_server_is_that_servers(tmp_path: Path) -> None:
    """Its backend stands among the command's arguments alone, and it was taken for vLLM's."""
    printed = FILES["vllm bench serve.txt"].read_text().replace("backend='openai'", "backend='tgi'")
    (tmp_path / "report.txt").write_text(printed)
    assert read_measured(tmp_path / "report.txt", hardware="h100-sxm", drafter="eagle3")[0].engine == "tgi"


@pytest.mark.parametrize(("format_", "way"), [("NVFP4", "--dtype says int4"), ("FP8", "--dtype says int8")])
def test_formats_of_as_many_bits_are_not_one(format_: str, way: str, tmp_path: Path) -> None:
    record, written = _record(FILES["trtllm-bench.json"].read_text())
    record["engine"]["quantization"] = format_
    (tmp_path / "report.json").write_text(written(record))
    with refused(f"says {format_}", way):
        read_measured(tmp_path / "report.json", hardware="h100-sxm", dtype=way.split()[-1])


def test_a_run_that_speculated_and_says_not_how_is_asked_for_it() -> None:
    """It was priced as AR."""
    measured = RunSpeed("tpot_ms", 9.0, 100.0, 100.0)
    with refused("speculated, but not how many tokens a round", "--k"):
        row_of(Facts(batch=1, speculated=True), measured, {"model": "llama-3.1-8b", "hardware": "h100-sxm"}, "file")


def test_a_row_of_csv_that_names_no_drafter_says_which_was_taken() -> None:
    row = Row(model="llama-3.1-8b", hardware="h100-sxm", batch=1, input_tokens=9.0, output_tokens=9.0, metric="step_ms",
              value=9.0, k=3)  # fmt: skip
    assert work_of(row).assumed == ("drafter eagle3",)
    assert work_of(row.changed(drafter="eagle3")).assumed == ()


# what no reader reads


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("\x1b[4mGPU0\tGPU1\x1b[0m\nGPU0\t X \tPIX\nGPU1\tPIX\t X \n", "a topology of GPUs (nvidia-smi topo -m)"),
        ("INFO SpecDecoding metrics: Mean acceptance length: 2.0", "ssdsim import acceptance vllm reads it"),
        ("[2026-01-05 10:00:01 TP0] Decode batch. #running-req: 1, accept len: 1.9", "import acceptance sglang"),
        ("Metric,avg,min,max\nRequest Latency (ms),1,2,3\n", "profile_export_aiperf.json"),
        ('{"architectures": ["LlamaForCausalLM"]}', "a model's config.json: give it by --model"),
        ("# nThread 1 nGpus 8 minBytes 8\n", "ssdsim import nccl-tests reads it"),
        ("once upon a time", "no rows in it: those of"),
    ],
)
def test_a_file_of_another_kind_is_refused_by_what_it_is(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text(text)
    with pytest.raises(InputError) as error:
        read_measured(tmp_path / "file", hardware="h100-sxm")
    assert said in str(error.value)
    assert "\x1b" not in str(error.value)
