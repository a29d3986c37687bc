"""A request's statistics of speculation, as vLLM writes them (0.29 on) and AIPerf keeps them.

vLLM writes them with ``--per-request-spec-decode-metrics``; AIPerf in ``profile_export.jsonl`` (``--export-level
records``), and in its summary as one histogram of all requests.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from ssdsim.base.documents import as_record, parse_records
from ssdsim.base.errors import InputError
from ssdsim.readers.acceptance.counts import (
    WHOLE_DRAFTS,
    Counts,
    EngineLog,
    ImportOptions,
    Source,
    check_accepted,
    of_each_round,
    of_histogram,
    of_steps,
    of_totals,
)
from ssdsim.readers.acceptance.fields import (
    Index,
    JsonObject,
    count,
    counts_by_index,
    first,
    found_with,
    number,
    tokens,
    tokens_by_round,
)

STATISTICS = ("acceptance_histogram", "num_spec_steps", "mean_acceptance_length")
_BY_DRAFTED = "acceptance_histogram_by_draft_length"


def counts_of_all(records: Sequence[tuple[JsonObject, str]]) -> list[Counts]:
    """The counts of each request (a record and where it is) but for those that never drafted.

    Where all requests together drafted K tokens a step but for a few at the ends of answers, every step counts as K.
    """
    steps, drafted = 0, 0
    for record, where in records:
        k = tokens(record, ("num_spec_tokens",), where) or 0
        steps += k * (count(record, ("num_spec_steps",), where) or 0)
        drafted += count(record, ("num_draft_tokens",), where) or 0
    whole = steps > 0 and abs(drafted / steps - 1.0) <= WHOLE_DRAFTS
    counts = [counts_of({**record, "num_draft_tokens": None} if whole else record, where) for record, where in records]
    return [each for each in counts if each is not None]


def counts_of(record: JsonObject, where: str) -> Counts | None:
    """The counts of one request; None of one that never drafted.

    Steps without drafts are in no histogram, and drafts that a grammar killed are not counted as drafted.
    """
    steps = count(record, ("num_spec_steps",), where)
    if steps == 0:
        return None
    accepted = count(record, ("num_accepted_draft_tokens",), where)
    counts = _by_step(record, where) or _by_drafted(record, where) or _histogram(record, where)
    if counts is not None:
        if steps is not None and counts.rounds != steps:
            raise InputError(f"{where}: the histogram counts {counts.rounds:g} rounds, but there were {steps} steps")
        check_accepted(counts, accepted)
        return counts
    length = number(record, ("mean_acceptance_length",), where)
    drafted = count(record, ("num_draft_tokens",), where)
    k = tokens(record, ("num_spec_tokens",), where) or None
    if accepted is None and length is not None and steps is not None:
        accepted = round((length - 1.0) * steps)
    if accepted is None or steps is None:
        raise InputError(f"{where}: neither a histogram nor the numbers of steps and of accepted tokens")
    return of_totals(where, steps, accepted, drafted, k, is_request=True)


def _histogram(record: JsonObject, where: str) -> Counts | None:
    histogram = counts_by_index(record, ("acceptance_histogram",), where)
    if histogram is None or not any(histogram):
        return None
    k = tokens(record, ("num_spec_tokens",), where) or None
    return of_histogram(where, histogram, k, count(record, ("num_draft_tokens",), where))


def _by_step(record: JsonObject, where: str) -> Counts | None:
    accepted = tokens_by_round(record, ("per_step_accepted",), where)
    drafted = tokens_by_round(record, ("per_step_drafted",), where)
    return of_each_round(where, drafted, accepted) if accepted and drafted else None


def _by_drafted(record: JsonObject, where: str) -> Counts | None:
    by_drafted = record.get(_BY_DRAFTED)
    if not by_drafted:
        return None
    rounds: Counter[tuple[int, int]] = Counter()
    for drafted, own in as_record(
        dict[Index, Any], by_drafted, f"{where}: {_BY_DRAFTED}", "object", written=True
    ).items():
        name = f"after a draft of {drafted}"
        for accepted, number_of in enumerate(counts_by_index({name: own}, (name,), f"{where}: {_BY_DRAFTED}") or ()):
            rounds[drafted, accepted] += number_of
    return of_steps(where, rounds) if any(drafted for (drafted, _), n in rounds.items() if n) else None


_RECORD = "spec_decode_acceptance"
_POOLED = "pooled_spec_decode_acceptance_histogram"


def read_aiperf(sources: Sequence[Source], asked: ImportOptions) -> EngineLog:
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
        own_counts = counts_of_all(numbered)
        if not own_counts:
            raise InputError(
                f"{source.path}: no {_RECORD} in it: run aiperf with --export-level records against a server that "
                "reports it (vLLM: --per-request-spec-decode-metrics summary; Dynamo strips it)"
            )
        counts += own_counts
        notes += [f"{silent} records without statistics are left out"] if silent else []
    engine = ", ".join(dict.fromkeys(filter(None, engines)))
    notes += [f"the engine was {engine}"] if engine else []
    return EngineLog("aiperf", counts, notes=notes)


def _pooled(record: object, source: Source, asked: ImportOptions) -> Counts:
    """The counts of all requests together: how they differ is lost."""
    assert isinstance(record, dict)
    where = str(source.path)
    histogram = counts_by_index(record, (_POOLED,), where)
    if histogram is None or not any(histogram):
        raise InputError(f"{where}: {_POOLED} counts no round")
    return of_histogram(where, histogram, asked.k, None, is_request=False)
