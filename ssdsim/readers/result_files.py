"""Files of measured rows, told by what is in them: CSV rows, or what an engine's own benchmark writes or prints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ssdsim.base.documents import parse_records, read_text, within
from ssdsim.base.errors import InputError, short_repr
from ssdsim.readers.acceptance.sglang import sglang_speculation
from ssdsim.readers.acceptance.trtllm import trtllm_speculation
from ssdsim.readers.acceptance.vllm import vllm_speculation
from ssdsim.readers.bench import (
    Format,
    JsonObject,
    RowDefaults,
    bench_row,
    has,
    model_in,
    number,
    one,
    part_of,
    served_row,
    speculation,
)
from ssdsim.readers.row import Row, check_columns, read_rows
from ssdsim.readers.ssd_engine_rows import bench_output_rows, is_bench_output

_OWN_BACKENDS = ("vllm", "vllm-chat", "openai", "openai-chat", "openai-comp")  # the others are other engines


def vllm_row(record: JsonObject, given: RowDefaults, where: str) -> Row:
    """The row of a run of ``vllm bench serve --save-result``, or of ``benchmark_serving.py`` before it.

    Where the server speculates, vLLM (0.15 on) differences its counters over the run into ``spec_decode_num_drafts``,
    ``spec_decode_draft_tokens`` and ``spec_decode_acceptance_length`` (bonus token included). For results without them
    give ``k`` and ``acceptance_length``.
    """
    backend = str(record.get("backend") or record.get("endpoint_type") or "vllm")
    engine = "vllm" if backend in _OWN_BACKENDS else backend
    return served_row(record, given, where, record.get("model_id"), engine, vllm_speculation(record, where))


VLLM_BENCH = Format("vllm bench serve", has("model_id", "total_output_tokens", "mean_tpot_ms"), one(vllm_row))


def sglang_row(record: JsonObject, given: RowDefaults, where: str) -> Row:
    """The row of a run of ``python -m sglang.bench_serving --output-file`` (SGLang 0.5), which names no model.

    ``accept_length`` are the tokens that a round yielded (bonus token included), which the server averages since its
    start, not over the run; how many were drafted is not said.
    """
    backend = str(record.get("backend") or "sglang")
    engine = "sglang" if backend.startswith("sglang") else backend
    return served_row(record, given, where, None, engine, (None, sglang_speculation(record, where)))


SGLANG_BENCH = Format("sglang.bench_serving", has("total_output_tokens_retokenized", "mean_tpot_ms"), one(sglang_row))


_QUANTISED = {"FP8": "float8", "NVFP4": "nvfp4"}
_CACHE = {"FP8": "float8"}


def trtllm_row(record: JsonObject, given: RowDefaults, where: str) -> Row:
    """The row of a run of ``trtllm-bench throughput --report_json`` (TensorRT-LLM 1.x).

    With ``--streaming`` it has the time per output token, otherwise the output of all requests together. The degree,
    the dtype and the engine's version are said; the batch is the mean number of requests in flight, at most the
    engine's.
    """
    engine, world = part_of(record, "engine", where), part_of(record, "world_info", where)
    requests = part_of(record, "request_info", where)
    if world.get("pp_size", 1) != 1:
        raise InputError(
            f"{where}: pipeline stages are not modelled, pp_size must be 1, got {short_repr(world['pp_size'])}"
        )
    stats = record.get("decoding_stats")
    length = trtllm_speculation(stats, where) if isinstance(stats, dict) else None
    running = number(requests, "avg_num_concurrent_requests", where)
    fields = {
        "model": model_in(engine.get("model"), given, where),
        "tp": int(number(world, "tp_size", where)),
        "batch": max(1, round(min(running, number(world, "max_batch_size", where)))),
        "input_tokens": number(requests, "avg_input_length", where),
        "output_tokens": number(requests, "avg_output_length", where),
        **_trtllm_speed(record, where),
        "engine": "tensorrt-llm",
        "engine_version": str(engine.get("version") or ""),
        **_trtllm_formats(engine, given, where),
        **speculation(None, length, given, where),
    }
    return bench_row(fields, given, where)


def _trtllm_speed(record: JsonObject, where: str) -> dict[str, Any]:
    if "streaming_metrics" in record:
        return {"metric": "tpot_ms", "value": number(part_of(record, "streaming_metrics", where), "avg_tpot_ms", where)}
    total = number(part_of(record, "performance", where), "system_output_throughput_tok_s", where)
    return {"metric": "tokens_per_s", "value": total}


def _trtllm_formats(engine: JsonObject, given: RowDefaults, where: str) -> dict[str, Any]:
    """Formats of weights and cache; a quantisation of another name must be given."""
    weights, cache = engine.get("quantization"), engine.get("kv_cache_dtype")
    dtype = _QUANTISED.get(str(weights), given.get("dtype")) if weights else engine.get("dtype")
    if dtype is None:
        raise InputError(f"{where}: the weights are {short_repr(weights)}; give their format by --dtype")
    return {"dtype": dtype, "kv_dtype": _CACHE.get(str(cache))}


TRTLLM_BENCH = Format("trtllm-bench", has("engine", "world_info", "request_info", "performance"), one(trtllm_row))


def aiperf_row(record: JsonObject, given: RowDefaults, where: str) -> Row:
    """The row of a run of AIPerf (``profile_export_aiperf.json``, schema 1.0 to 1.5): the mean time between tokens.

    Only the blocks of statistics are read: where the model and the concurrency stand among the options differs between
    versions, so both are given. A streamed run has ``inter_token_latency``, the mean of ``(latency - TTFT) /
    (tokens - 1)``.
    """
    if "inter_token_latency" not in record:
        raise InputError(f"{where}: has no inter_token_latency; run aiperf with --streaming")
    if "batch" not in given:
        raise InputError(f"{where}: does not say how many sequences were in flight; give them by --batch")
    fields = {
        "model": model_in(None, given, where),
        "batch": given["batch"],
        "input_tokens": _aiperf_mean(record, "input_sequence_length", where),
        "output_tokens": _aiperf_mean(record, "output_sequence_length", where),
        "metric": "tpot_ms",
        "value": _aiperf_milliseconds(record, where),
        "engine": given.get("engine", ""),
        **speculation(None, None, given, where),
    }
    return bench_row(fields, given, where)


def _aiperf_mean(record: JsonObject, name: str, where: str) -> float:
    return number(part_of(record, name, where), "avg", f"{where}: {name}")


def _aiperf_milliseconds(record: JsonObject, where: str) -> float:
    unit = part_of(record, "inter_token_latency", where).get("unit")
    if unit != "ms":
        raise InputError(f"{where}: inter_token_latency must be in ms, got {short_repr(unit)}")
    return _aiperf_mean(record, "inter_token_latency", where)


AIPERF = Format("aiperf", has("request_latency", "output_sequence_length"), one(aiperf_row))


def is_guidellm_report(record: JsonObject) -> bool:
    """Say whether a record is such a report."""
    return isinstance(record.get("benchmarks"), list) and within(record, "metadata", "guidellm_version") is not None


def guidellm_rows(record: JsonObject, given: RowDefaults, where: str) -> Sequence[Row]:
    """A row a benchmark of guidellm's report (0.8), at the mean number of requests that were in flight.

    ``inter_token_latency_ms`` is (latency - time to the first token) / (tokens - 1). Rounds are not counted.
    """
    model = guidellm_model(record)
    return [
        _guidellm_row(each, model, given, f"{where}: benchmark {n}")
        for n, each in enumerate(guidellm_benchmarks(record), 1)
    ]


def guidellm_benchmarks(record: JsonObject) -> Sequence[JsonObject]:
    """The benchmarks of a report."""
    return [each for each in record["benchmarks"] if isinstance(each, dict)]


def guidellm_model(record: JsonObject) -> object:
    """The name that the model was served by."""
    return within(record, "config", "spec", "backend", "model")


def _guidellm_row(benchmark: JsonObject, model: object, given: RowDefaults, where: str) -> Row:
    metrics = part_of(benchmark, "metrics", where)

    def mean(name: str) -> float:
        """The mean over the requests that succeeded."""
        each = part_of(metrics, name, where)
        return number(part_of(each, "successful", where), "mean", f"{where}: {name}")

    if not within(metrics, "inter_token_latency_ms", "successful", "count"):
        raise InputError(f"{where}: no time between tokens; have guidellm stream the answers")
    fields = {
        "model": model_in(model, given, where),
        "batch": max(1, round(mean("request_concurrency"))),
        "input_tokens": mean("prompt_token_count"),
        "output_tokens": mean("output_token_count"),
        "metric": "tpot_ms",
        "value": mean("inter_token_latency_ms"),
        **speculation(None, None, given, where),
    }
    return bench_row(fields, given, where)


GUIDELLM = Format("guidellm", is_guidellm_report, guidellm_rows)


def llama_bench_rows(record: JsonObject, given: RowDefaults, where: str) -> Sequence[Row]:
    """The row of a test of ``llama-bench -o json`` that generated tokens (``tg``), also after a prompt (``pg``).

    There is none of a prompt alone. Neither of llama.cpp's benchmarks samples, uses HTTP, speculates, or names the
    model but by its file.
    """
    if not record["n_gen"]:
        return ()
    tokens, seconds = number(record, "n_gen", where), 1e-9 * number(record, "avg_ns", where)
    depth, prompt = (number(record, name, where) if record.get(name) else 0.0 for name in ("n_depth", "n_prompt"))
    build = record.get("build_number")
    fields: dict[str, Any] = {
        "model": model_in(None, given, where),
        "batch": 1,
        "input_tokens": depth + prompt,
        "output_tokens": tokens,
        "metric": "step_ms",
        "value": 1e3 * seconds / tokens,
        "engine": "llama.cpp",
        "engine_version": f"b{build}" if build else "",
    }
    if prompt:  # the prompt's seconds are in it
        fields |= {"metric": "latency_s", "value": seconds, "output_tokens": tokens + 1.0}
    return (bench_row(fields, given, where),)


def llama_batched_rows(record: JsonObject, given: RowDefaults, where: str) -> Sequence[Row]:
    """The row of one batch of ``llama-batched-bench --output-format jsonl``: the mean time of its steps."""
    tokens = number(record, "tg", where)
    fields = {
        "model": model_in(None, given, where),
        "batch": int(number(record, "pl", where)),
        "input_tokens": number(record, "pp", where),
        "output_tokens": tokens,
        "metric": "step_ms",
        "value": 1e3 * number(record, "t_tg", where) / tokens,
        "engine": "llama.cpp",
    }
    return (bench_row(fields, given, where),)


LLAMA_BENCH = Format("llama-bench", has("n_prompt", "n_gen", "avg_ns", "model_filename"), llama_bench_rows)
LLAMA_BATCHED_BENCH = Format("llama-batched-bench", has("pp", "tg", "pl", "t_pp", "t_tg"), llama_batched_rows)


FORMATS = (
    VLLM_BENCH,
    SGLANG_BENCH,
    TRTLLM_BENCH,
    AIPERF,
    GUIDELLM,
    LLAMA_BENCH,
    LLAMA_BATCHED_BENCH,
)
"""Engines' files, asked in this order whether a record is theirs."""


def read_measured(path: str | Path, **given: Any) -> list[Row]:
    """The rows of a file: CSV, JSON of an engine's benchmark (one object, a list of them, or one a line), or its text.

    ``given`` are values of columns for what the file does not say (``hardware``, ``tp``, ``batch``, ...); it overrides
    nothing that the file says. None counts as not given.
    """
    check_columns(given)
    filled = {name: value for name, value in given.items() if value is not None}
    path = Path(path)
    text = read_text(path, "file of measurements")
    if is_bench_output(text):
        return bench_output_rows(text, filled, str(path))
    if not text.lstrip().startswith(("{", "[")):
        return read_rows(path, filled)
    records = parse_records(text, path)
    several = len(records) > 1
    rows = [
        row
        for number, record in enumerate(records, 1)
        for row in _rows_of_record(record, filled, f"{path}: result {number}" if several else str(path))
    ]
    if not rows:
        raise InputError(f"{path}: no test in it that generated tokens")
    return rows


def _rows_of_record(record: Any, given: Mapping[str, Any], where: str) -> Sequence[Row]:
    if isinstance(record, Mapping):
        for form in FORMATS:
            if form.knows(record):
                return form.rows_of(record, given, where)
    known = ", ".join((*(form.name for form in FORMATS), "the SSD engine's bench.py"))
    raise InputError(f"{where}: no result that is known here (those of {known}, or a CSV file of rows)")


def rows_of_files(files: Iterable[str | Path], given: Mapping[str, Any]) -> list[Row]:
    """All rows of the files; raises as :func:`read_measured`."""
    return [row for file in files for row in read_measured(file, **given)]
