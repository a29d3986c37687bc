"""``vllm bench serve``: its saved result, and the report that it prints."""

from __future__ import annotations

from ssdsim.readers.acceptance.vllm import vllm_speculation
from ssdsim.readers.bench import Format, JsonObject, Run, has, in_flight, served, text
from ssdsim.readers.console import vllm_reports
from ssdsim.readers.facts import Facts

_OWN_BACKENDS = ("vllm", "vllm-chat", "openai", "openai-chat", "openai-comp")  # the others are other engines


def _runs(record: JsonObject, where: str) -> tuple[Run]:
    """The run of ``--save-result``, or of ``benchmark_serving.py`` before it.

    Where the server speculates, vLLM (0.15 on) differences its counters over the run into ``spec_decode_num_drafts``,
    ``spec_decode_draft_tokens`` and ``spec_decode_acceptance_length`` (bonus token included).
    """
    backend = str(record.get("backend") or record.get("endpoint_type") or "vllm")
    k, length = vllm_speculation(record, where)
    degree = record.get("tensor_parallel_size")
    facts = Facts(
        engine="vllm" if backend in _OWN_BACKENDS else backend,
        model=text(record, "model_id", where),
        gpus=degree if isinstance(degree, int) else None,
        speculated=True if k else None,
        k=k,
        acceptance_length=length,
        **in_flight(record, where),
    )
    return ((facts, served(record, where)),)


VLLM_BENCH = Format("vllm bench serve", has("model_id", "total_output_tokens", "mean_tpot_ms"), _runs, vllm_reports)
FORMATS = (VLLM_BENCH,)
