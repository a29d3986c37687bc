"""What engines and their load generators write: logs of acceptance, benchmarks, traces of requests; with mistakes."""

from __future__ import annotations

import gzip
import json
import tempfile
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Any

from ssdsim.readers.row import write_rows
from tests.mutations.files import changed_csv, changed_json
from tests.mutations.input import Input, command
from tests.mutations.values import as_json, changed_bytes, changed_document, changed_log
from tests.ssdsim.readers import test_readers as readers
from tests.ssdsim.readers.acceptance import logs
from tests.ssdsim.readers.acceptance.test_importers import SSD
from tests.ssdsim.readers.engines import measured, served
from tests.ssdsim.serving import test_logs as requests

_SERVED = Path(__file__).parents[1] / "ssdsim" / "readers" / "served"
_MADE = logs.requests(6, 20)


def changed_records(records: list[Any], rng: Random) -> bytes:
    """Records a line, of which one is changed."""
    records = list(records)
    at = rng.randrange(len(records))
    records[at] = changed_document(records[at], rng)
    content = "\n".join(map(as_json, records)).encode()
    return changed_bytes(content, rng) if rng.random() < 0.1 else content


def packed(content: bytes, rng: Random) -> bytes:
    """As it is, or by gzip, of which a byte may be another one."""
    if rng.random() < 0.9:
        return content
    content = gzip.compress(content, mtime=0)
    return changed_bytes(content, rng) if rng.random() < 0.3 else content


# acceptance


def _text(engine: str, text: str) -> Callable[[Random], tuple[str, bytes]]:
    return lambda rng: (engine, changed_log(text, rng))


def _records(engine: str, *records: Any) -> Callable[[Random], tuple[str, bytes]]:
    return lambda rng: (engine, changed_records(list(records), rng))


_LOGS: tuple[Callable[[Random], tuple[str, bytes]], ...] = (
    _text("vllm", logs.vllm_metrics(_MADE)),
    _text("vllm", "\n".join(map(logs.vllm_log_line, _MADE))),
    _text("vllm", "Counter(name='vllm:spec_decode_num_drafts', labels={'engine': '0'}, value=40)\n" * 3),
    _records("vllm", *map(logs.vllm_response, _MADE)),
    _records("vllm", logs.vllm_bench(_MADE)),
    _records("sglang", *map(logs.sglang_answer, _MADE)),
    _text("sglang", "Decode batch. #running-req: 4, accept len: 2.31, gen throughput (token/s): 90.1\n" * 4),
    _records("aiperf", *map(logs.aiperf_record, _MADE)),
    _records("trtllm", *map(logs.trtllm_iteration, _MADE)),
    _text("ssd", SSD),
    _text("llama-cpp", "\n".join(logs.llama_cpp_line(at, request) for at, request in enumerate(_MADE))),
    _text("llama-cpp", "\n".join(logs.old_llama_cpp_lines(at, request) for at, request in enumerate(_MADE))),
    _records("transformers", *_MADE),
)


def acceptance_log(rng: Random) -> Input:
    """A log of any engine, in any of its forms."""
    engine, content = rng.choice(_LOGS)(rng)
    extra = rng.choice(([], [], ["--k", "3"], ["--adaptive"], ["--json"]))
    arguments = ["import", "acceptance", engine, "log", "--since-start", "--sampled", "-o", "pair.json", *extra]
    return command("log of acceptance", arguments, {"log": packed(content, rng)})


# benchmarks


@lru_cache
def rows() -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.csv"
        write_rows([measured(served(batch=batch)) for batch in (1, 2, 4, 8, 16, 32, 64, 128)], path)
        return path.read_text()


_GUIDELLM = {
    "metadata": {"version": 2, "guidellm_version": "0.8.1"},
    "config": {"spec": {"backend": {"kind": "openai_http", "model": "meta-llama/Llama-3.1-8B-Instruct"}}},
    "benchmarks": [
        {
            "type_": "generative_benchmark",
            "metrics": {
                name: {"successful": {"mean": mean, "count": 4}, "errored": {"mean": 0.0}}
                for name, mean in (
                    ("inter_token_latency_ms", 10.5),
                    ("prompt_token_count", 94.0),
                    ("output_token_count", 16.0),
                    ("request_concurrency", 1.98),
                )
            },
        }
    ],
}


@lru_cache
def _results() -> list[Any]:
    """Result files of every engine; those that engines here wrote are among them."""
    written = [json.loads((_SERVED / name).read_text()) for name in ("ar-c2.json", "sd3-c2.json", "llama-bench.json")]
    batched = [json.loads(line) for line in (_SERVED / "batched.jsonl").read_text().splitlines()]
    return [*readers.RESULTS, _GUIDELLM, *written, batched]


def measured_rows(rng: Random) -> Input:
    """An engine's benchmark, as CSV rows or as its own result file, that is fitted or checked."""
    content = changed_csv(rows(), rng) if rng.random() < 0.4 else changed_json(rng.choice(_results()), rng)
    given = ["--hardware", "h100-sxm", *rng.choice(([], [], [], ["--model", "qwen3-32b", "--batch", "4"]))]
    fit = ["fit", "runtime", "rows", "-o", "card.toml", "--fields", "gemm"]
    arguments = rng.choice((fit, ["validate", "rows", "rows"]))
    return command("measured rows", [*arguments, *given], {"rows": content})


# requests

_TABLES = (requests.AZURE, requests.BURST_GPT, requests.VIDUR, requests.PLAIN)
_AIPERF = [
    {
        "metadata": {"request_start_ns": at * 10**9},
        "metrics": {
            "time_to_first_token": {"value": 30.0 + at, "unit": "ms"},
            "request_latency": {"value": 130.0, "unit": "ms"},
            "input_sequence_length": {"value": 50, "unit": "tokens"},
            "output_sequence_length": {"value": 11, "unit": "tokens"},
        },
        "error": None,
    }
    for at in range(4)
]
_JSON: tuple[list[Any], ...] = (
    list(requests.MOONCAKE),
    [requests.bench(start_times=[7.0, 8.5, 9.0])],
    [requests.bench(max_concurrency=2)],
    _AIPERF,
    requests.CONVERSATIONS,
)
_SERVE = "--target llama-3.1-8b --tp 1 --engine kernels --strategies ar,sd --quiet".split()


@lru_cache
def _tokenizer() -> Mapping[str, bytes]:
    with tempfile.TemporaryDirectory() as folder:
        return {"tokenizer.json": requests.words(Path(folder)).read_bytes()}


def workload(rng: Random) -> Input:
    """A log of requests that is served."""
    files: dict[str, bytes] = {}
    if rng.random() < 0.4:
        content = changed_csv(rng.choice(_TABLES), rng)
    else:
        content = changed_records(records := rng.choice(_JSON), rng)
        if records is requests.CONVERSATIONS:
            files |= _tokenizer()
    read = rng.choice((["--workload", "log"], ["--workload", "log", "--rate", "5"]))
    arguments = ["plan", *read]
    arguments += ["--tokenizer", "tokenizer.json"] if files else []
    if files and rng.random() < 0.3:
        files["tokenizer.json"] = changed_json(json.loads(files["tokenizer.json"]), rng)
    return command("requests", [*arguments, *_SERVE], {**files, "log": content})
