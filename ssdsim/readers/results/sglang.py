"""``python -m sglang.bench_serving``: its saved result (``--output-file``), and the report that it prints."""

from __future__ import annotations

from ssdsim.base.record import replace
from ssdsim.readers.acceptance.sglang import server_of, sglang_speculation
from ssdsim.readers.bench import Format, JsonObject, Run, has, in_flight, served
from ssdsim.readers.console import sglang_reports


def _runs(record: JsonObject, where: str) -> tuple[Run]:
    """The run of SGLang 0.5, which names no model but in the server's settings, where it has kept them.

    ``accept_length`` are the tokens that a round yielded (bonus token included), which the server averages since its
    start, not over the run.
    """
    backend = str(record.get("backend") or "sglang")
    length = sglang_speculation(record, where)
    facts = replace(
        server_of(record, where),
        engine="sglang" if backend.startswith("sglang") else backend,
        speculated=True if length else None,
        acceptance_length=length,
        **in_flight(record, where),
    )
    return ((facts, served(record, where)),)


SGLANG_BENCH = Format(
    "sglang.bench_serving", has("total_output_tokens_retokenized", "mean_tpot_ms"), _runs, sglang_reports
)
FORMATS = (SGLANG_BENCH,)
