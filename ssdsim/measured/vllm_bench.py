"""``vllm bench serve --save-result``, and ``benchmarks/benchmark_serving.py`` before it: one JSON object a run.

Where the server speculates, vLLM differences its counters over the run into ``spec_decode_num_drafts``,
``spec_decode_draft_tokens`` and ``spec_decode_acceptance_length`` (bonus token included): vLLM 0.15 (January 2026) and
after it; for results without them give ``k`` and ``acceptance_length``.
"""

from __future__ import annotations

from ssdsim.measured.bench import (
    Format,
    Given,
    Record,
    bench_row,
    in_flight,
    mean_tokens,
    model_in,
    number,
    speculation,
)
from ssdsim.measured.row import Row
from ssdsim.pairs.importers.vllm import speculation_of

_OWN_BACKENDS = ("vllm", "vllm-chat", "openai", "openai-chat", "openai-comp")  # the others are other engines


def knows(record: Record) -> bool:
    """Whether a record is such a result."""
    return "model_id" in record and "total_output_tokens" in record and "mean_tpot_ms" in record


def row_of(record: Record, given: Given, where: str) -> Row:
    """The row of one run: the mean time per output token at its concurrency.

    Raises
    ------
    InputError : something is missing that is not given either.
    """
    backend = str(record.get("backend") or record.get("endpoint_type") or "vllm")
    found = {
        "model": model_in(record.get("model_id"), given, where),
        "batch": in_flight(record, given, where),
        **mean_tokens(record, where),
        "metric": "tpot_ms",
        "value": number(record, "mean_tpot_ms", where),
        "engine": "vllm" if backend in _OWN_BACKENDS else backend,
        **_speculation(record, given, where),
    }
    return bench_row(found, given, where)


def _speculation(record: Record, given: Given, where: str) -> dict[str, object]:
    return speculation(*speculation_of(record, where), given, where)


FORMAT = Format("vllm bench serve", knows, row_of)
