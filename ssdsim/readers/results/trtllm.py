"""``trtllm-bench throughput --report_json`` of TensorRT-LLM 1.x."""

from __future__ import annotations

from ssdsim.readers.acceptance.trtllm import trtllm_speculation
from ssdsim.readers.bench import Format, JsonObject, Run, has, number, part_of, text
from ssdsim.readers.facts import Facts, RunSpeed
from ssdsim.readers.row import Metric


def _runs(record: JsonObject, where: str) -> tuple[Run]:
    """The run: with ``--streaming`` the time per output token, otherwise the output of all requests together.

    The batch is the mean number of requests in flight, at most the engine's.
    """
    engine, world = part_of(record, "engine", where), part_of(record, "world_info", where)
    requests = part_of(record, "request_info", where)
    stats = record.get("decoding_stats")
    length = trtllm_speculation(stats, where) if isinstance(stats, dict) else None
    running = number(requests, "avg_num_concurrent_requests", where)
    stages, cache, weights = world.get("pp_size", 1), engine.get("kv_cache_dtype"), engine.get("quantization")
    facts = Facts(
        engine="tensorrt-llm",
        engine_version=str(engine.get("version") or ""),
        model=text(engine, "model", where),
        weights=str(weights or engine.get("dtype")),
        kv_dtype=str(cache) if cache and str(cache).lower() != "auto" else None,
        gpus=int(number(world, "tp_size", where)) if stages == 1 else None,
        stages=stages,
        batch=max(1, round(min(running, number(world, "max_batch_size", where)))) if stages == 1 else None,
        speculated=True if length else None,
        acceptance_length=length,
    )
    tokens = (number(requests, f"avg_{which}_length", where) for which in ("input", "output"))
    return ((facts, RunSpeed(*_speed(record, where), *tokens)),)


def _speed(record: JsonObject, where: str) -> tuple[Metric, float]:
    if "streaming_metrics" in record:
        return "tpot_ms", number(part_of(record, "streaming_metrics", where), "avg_tpot_ms", where)
    return "tokens_per_s", number(part_of(record, "performance", where), "system_output_throughput_tok_s", where)


TRTLLM_BENCH = Format("trtllm-bench", has("engine", "world_info", "request_info", "performance"), _runs)
FORMATS = (TRTLLM_BENCH,)
