"""``python -m sglang.bench_serving --output-file``: a JSON object a line, one a run (SGLang 0.5).

It names no model. ``accept_length`` are the tokens that a round yielded (bonus token included), which the server
averages since its start, not over the run; how many were drafted is not said.
"""

from __future__ import annotations

from ssdsim.readers.acceptance.sglang import speculation_of
from ssdsim.readers.bench import Format, Given, JsonObject, has, one, served_row
from ssdsim.readers.row import Row


def row_of(record: JsonObject, given: Given, where: str) -> Row:
    """The row of one run; raises as :func:`served_row`."""
    backend = str(record.get("backend") or "sglang")
    engine = "sglang" if backend.startswith("sglang") else backend
    return served_row(record, given, where, None, engine, (None, speculation_of(record, where)))


FORMAT = Format("sglang.bench_serving", has("total_output_tokens_retokenized", "mean_tpot_ms"), one(row_of))
