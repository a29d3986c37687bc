"""AIPerf: ``profile_export.jsonl`` (``--export-level records``), and the pooled histogram of its summary."""

from __future__ import annotations

from collections.abc import Sequence

from ssdsim.base.documents import parse_records
from ssdsim.base.errors import InputError
from ssdsim.readers.acceptance import statistics
from ssdsim.readers.acceptance.counts import Asked, Counts, Log, Source, of_histogram
from ssdsim.readers.acceptance.fields import counts_by_index, first, found_with

_RECORD = "spec_decode_acceptance"
_POOLED = "pooled_spec_decode_acceptance_histogram"


def read(sources: Sequence[Source], asked: Asked) -> Log:
    """One set of requests."""
    counts: list[Counts] = []
    notes: list[str] = []
    engines: list[str] = []
    for source in sources:
        records = parse_records(source.text, source.path)
        pooled = list(found_with(records, (_POOLED,)))
        if pooled:
            counts.append(_pooled(pooled[0], source, asked))
            continue
        numbered, silent = [], 0
        for where, record in source.numbered("record", records):
            own = next(iter(found_with(record, (_RECORD,))), None)
            statistic = None if own is None else first(own, (_RECORD,))
            if isinstance(statistic, dict):
                engines.append(str(statistic.get("engine") or ""))
                numbered.append((statistic, where))
            else:
                silent += 1
        own_counts = statistics.counts_of_all(numbered)
        if not own_counts:
            raise InputError(
                f"{source.path}: no {_RECORD} in it: run aiperf with --export-level records against a server that "
                "reports it (vLLM: --per-request-spec-decode-metrics summary; Dynamo strips it)"
            )
        counts += own_counts
        notes += [f"{silent} records without statistics are left out"] if silent else []
    engine = next((each for each in engines if each), None)
    notes += [f"the engine was {engine}"] if engine else []
    return Log("aiperf", counts, notes=notes)


def _pooled(record: object, source: Source, asked: Asked) -> Counts:
    """The counts of all requests together: how they differ is lost."""
    assert isinstance(record, dict)
    where = str(source.path)
    histogram = counts_by_index(record, (_POOLED,), where)
    if histogram is None or not any(histogram):
        raise InputError(f"{where}: {_POOLED} counts no round")
    return of_histogram(where, histogram, asked.k, None, is_request=False)
