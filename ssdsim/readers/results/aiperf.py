"""AIPerf's ``profile_export_aiperf.json``, schema 1.0 to 1.5."""

from __future__ import annotations

from ssdsim.base.errors import InputError, short_repr
from ssdsim.readers.bench import Format, JsonObject, Run, has, number, part_of
from ssdsim.readers.facts import Facts, RunSpeed


def _runs(record: JsonObject, where: str) -> tuple[Run]:
    """The run's mean time between tokens, which is the mean of ``(latency - TTFT) / (tokens - 1)``.

    Only the blocks of statistics are read: where the model and the concurrency stand among the options differs between
    versions.
    """
    if "inter_token_latency" not in record:
        raise InputError(f"{where}: has no inter_token_latency; run aiperf with --streaming")
    unit = part_of(record, "inter_token_latency", where).get("unit")
    if unit != "ms":
        raise InputError(f"{where}: inter_token_latency must be in ms, got {short_repr(unit)}")
    names = ("inter_token_latency", "input_sequence_length", "output_sequence_length")
    means = (number(part_of(record, name, where), "avg", f"{where}: {name}") for name in names)
    return ((Facts(), RunSpeed("tpot_ms", *means)),)


AIPERF = Format("aiperf", has("request_latency", "output_sequence_length"), _runs)
FORMATS = (AIPERF,)
