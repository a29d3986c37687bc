"""llama.cpp's own benchmarks: ``llama-bench -o json`` and ``llama-batched-bench --output-format jsonl``.

Both time a model without sampling or HTTP. Neither names the model but by its file, nor speculates.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ssdsim.readers.bench import Format, Given, JsonObject, bench_row, has, model_in, number
from ssdsim.readers.row import Row


def rows_of(record: JsonObject, given: Given, where: str) -> Sequence[Row]:
    """The row of a test that generated tokens (``tg``), also after a prompt (``pg``); none of one of a prompt alone."""
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


def batched_rows_of(record: JsonObject, given: Given, where: str) -> Sequence[Row]:
    """The row of one batch: the mean time of its steps; raises as :func:`rows_of`."""
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


FORMAT = Format("llama-bench", has("n_prompt", "n_gen", "avg_ns", "model_filename"), rows_of)
BATCHED = Format("llama-batched-bench", has("pp", "tg", "pl", "t_pp", "t_tg"), batched_rows_of)
