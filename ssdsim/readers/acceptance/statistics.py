"""A request's statistics as vLLM writes them (0.29 on, ``--per-request-spec-decode-metrics``) and AIPerf keeps them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from ssdsim.base.documents import as_record
from ssdsim.base.errors import InputError
from ssdsim.readers.acceptance.counts import (
    WHOLE_DRAFTS,
    Counts,
    check_accepted,
    of_each_round,
    of_histogram,
    of_steps,
    of_totals,
)
from ssdsim.readers.acceptance.fields import Index, JsonObject, count, counts_by_index, number, tokens, tokens_by_round

NAMES = ("acceptance_histogram", "num_spec_steps", "mean_acceptance_length")
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
    for drafted, own in as_record(dict[Index, Any], by_drafted, f"{where}: {_BY_DRAFTED}", "object").items():
        name = f"after a draft of {drafted}"
        for accepted, number_of in enumerate(counts_by_index({name: own}, (name,), f"{where}: {_BY_DRAFTED}") or ()):
            rounds[drafted, accepted] += number_of
    return of_steps(where, rounds) if any(drafted for (drafted, _), n in rounds.items() if n) else None
