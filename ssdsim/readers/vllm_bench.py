"""``vllm bench serve --save-result``, and ``benchmarks/benchmark_serving.py`` before it: one JSON object a run.

Where the server speculates, vLLM differences its counters over the run into ``spec_decode_num_drafts``,
``spec_decode_draft_tokens`` and ``spec_decode_acceptance_length`` (bonus token included): vLLM 0.15 (January 2026) and
after it; for results without them give ``k`` and ``acceptance_length``.
"""

from __future__ import annotations

from ssdsim.readers.acceptance.vllm import speculation_of
from ssdsim.readers.bench import Format, Given, JsonObject, has, one, served_row
from ssdsim.readers.row import Row

_OWN_BACKENDS = ("vllm", "vllm-chat", "openai", "openai-chat", "openai-comp")  # the others are other engines


def row_of(record: JsonObject, given: Given, where: str) -> Row:
    """The row of one run; raises as :func:`served_row`."""
    backend = str(record.get("backend") or record.get("endpoint_type") or "vllm")
    engine = "vllm" if backend in _OWN_BACKENDS else backend
    return served_row(record, given, where, record.get("model_id"), engine, speculation_of(record, where))


FORMAT = Format("vllm bench serve", has("model_id", "total_output_tokens", "mean_tpot_ms"), one(row_of))
