"""Traces of rounds: what a wrapped ``CandidateGenerator`` of transformers wrote, or anyone else.

transformers reports nothing of its assisted generation. The documentation has a wrapper of
``update_candidate_strategy(input_ids, scores, num_matches)``, which is called once a round.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ssdsim.base.documents import as_record, is_json, parse_csv, parse_records
from ssdsim.base.errors import InputError
from ssdsim.readers.acceptance.counts import Counts, EngineLog, ImportOptions, Source, of_each_round, of_histogram
from ssdsim.readers.acceptance.fields import LogLine, WrittenTokens, tokens_by_round

_ACCEPTED = ("accepted", "num_matches", "per_step_accepted")
_DRAFTED = ("drafted", "num_candidates", "per_step_drafted")


class _Round(LogLine):
    """A row of CSV."""

    accepted: WrittenTokens
    drafted: WrittenTokens | None = None


def read_traces(sources: Sequence[Source], asked: ImportOptions) -> EngineLog:
    """One set of requests: JSON lines, each a list of accepted tokens a round or an object with it; or CSV."""
    counts = []
    for source in sources:
        for where, (accepted, drafted) in source.numbered("request", _requests(source)):
            if drafted:
                counts.append(of_each_round(where, drafted, accepted))
            elif accepted:
                histogram = np.bincount(accepted).tolist()
                counts.append(of_histogram(where, histogram, None, None))
        if not counts:
            raise InputError(f"{source.path}: no accepted lengths in it")
    return EngineLog("trace", _of_one_lookahead(counts))


def _of_one_lookahead(counts: Sequence[Counts]) -> list[Counts]:
    """Take the most that any round accepted as what all drafted, where drafted tokens are not said."""
    if any(each.drafted is not None or each.lengths is None for each in counts):
        return list(counts)
    k = max(each.k or 0 for each in counts)
    return [of_histogram(each.where, each.lengths or (), k, None) for each in counts]


def _requests(source: Source) -> list[tuple[list[int], list[int]]]:
    if not is_json(source.text):
        return _csv_requests(source)
    records = parse_records(source.text, source.path)
    if all(isinstance(record, int) for record in records):
        records = [records]
    return [_json_request(record, where) for where, record in source.numbered("request", records)]


def _json_request(record: Any, where: str) -> tuple[list[int], list[int]]:
    record = {"accepted": record} if isinstance(record, list) else record
    if not isinstance(record, dict):
        raise InputError(f"{where}: must be a list of accepted lengths, or an object with 'accepted'")
    return tokens_by_round(record, _ACCEPTED, where), tokens_by_round(record, _DRAFTED, where)


def _csv_requests(source: Source) -> list[tuple[list[int], list[int]]]:
    requests: dict[str, tuple[list[int], list[int]]] = {}
    if "accepted" not in source.text.lstrip().partition("\n")[0]:
        raise InputError(f"{source.path}: needs a column 'accepted', or JSON lines with lists of accepted tokens")
    for where, row in source.numbered("row", parse_csv(source.text, source.path)):
        cells = {name: cell for name in ("accepted", "drafted") if (cell := row.get(name, "").strip())}
        round_ = as_record(_Round, cells, where, "round", written=True)
        accepted, drafted = requests.setdefault(row.get("request", ""), ([], []))
        accepted.append(round_.accepted)
        if round_.drafted is not None:
            drafted.append(round_.drafted)
    return list(requests.values())
