"""``trtllm-bench throughput --report_json`` (TensorRT-LLM 1.x): one JSON object a run.

With ``--streaming`` it has the time per output token, otherwise the output of all requests together. The degree, the
dtype and the engine's version are said; the batch is the mean number of requests in flight, at most the engine's.
"""

from __future__ import annotations

from typing import Any

from ssdsim.base.errors import InputError, told
from ssdsim.readers.acceptance.trtllm import speculation_of
from ssdsim.readers.bench import Format, Given, JsonObject, bench_row, has, model_in, number, one, part_of, speculation
from ssdsim.readers.row import Row

_QUANTISED = {"FP8": "float8", "NVFP4": "nvfp4"}
_CACHE = {"FP8": "float8"}


def row_of(record: JsonObject, given: Given, where: str) -> Row:
    """The row of one run."""
    engine, world = part_of(record, "engine", where), part_of(record, "world_info", where)
    requests = part_of(record, "request_info", where)
    if world.get("pp_size", 1) != 1:
        raise InputError(f"{where}: pipeline stages are not modelled, pp_size must be 1, got {told(world['pp_size'])}")
    stats = record.get("decoding_stats")
    length = speculation_of(stats, where) if isinstance(stats, dict) else None
    running = number(requests, "avg_num_concurrent_requests", where)
    fields = {
        "model": model_in(engine.get("model"), given, where),
        "tp": int(number(world, "tp_size", where)),
        "batch": max(1, round(min(running, number(world, "max_batch_size", where)))),
        "input_tokens": number(requests, "avg_input_length", where),
        "output_tokens": number(requests, "avg_output_length", where),
        **_speed(record, where),
        "engine": "tensorrt-llm",
        "engine_version": str(engine.get("version") or ""),
        **_formats(engine, given, where),
        **speculation(None, length, given, where),
    }
    return bench_row(fields, given, where)


def _speed(record: JsonObject, where: str) -> dict[str, Any]:
    if "streaming_metrics" in record:
        return {"metric": "tpot_ms", "value": number(part_of(record, "streaming_metrics", where), "avg_tpot_ms", where)}
    total = number(part_of(record, "performance", where), "system_output_throughput_tok_s", where)
    return {"metric": "tokens_per_s", "value": total}


def _formats(engine: JsonObject, given: Given, where: str) -> dict[str, Any]:
    """Formats of weights and cache; a quantisation of another name must be given."""
    weights, cache = engine.get("quantization"), engine.get("kv_cache_dtype")
    dtype = _QUANTISED.get(str(weights), given.get("dtype")) if weights else engine.get("dtype")
    if dtype is None:
        raise InputError(f"{where}: the weights are {told(weights)}; give their format by --dtype")
    return {"dtype": dtype, "kv_dtype": _CACHE.get(str(cache))}


FORMAT = Format("trtllm-bench", has("engine", "world_info", "request_info", "performance"), one(row_of))
