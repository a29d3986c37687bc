"""TensorRT-LLM: iteration statistics (``enable_iter_perf_stats``, a JSON object a line), and answers' own counts.

``acceptanceLength`` of an iteration is that of its requests; over iterations it is pooled by counts. Ranks above 0 of
an attention-parallel server copy the first one's statistics.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ssdsim.base.documents import parse_records
from ssdsim.base.errors import InputError
from ssdsim.readers.acceptance.counts import Counts, EngineLog, ImportOptions, Source, of_length, of_totals
from ssdsim.readers.acceptance.fields import JsonObject, count, first, found_with, number

_STATISTICS = ("specDecodingStats", "spec_decoding_stats", "specDecStats", "spec_dec_stats")
_DRAFTED = ("numDraftTokens", "num_draft_tokens")
_ACCEPTED = ("numAcceptedTokens", "num_accepted_tokens")
_REQUESTS = ("numRequestsWithDraftTokens", "num_requests_with_draft_tokens")
_RANK = ("attentionDpRank", "attention_dp_rank")
_TOKENS = ("avgDecodedTokensPerIter", "avg_decoded_tokens_per_iter")
_ITERATIONS = ("decodingIter", "decoding_iter")
_REPORT = ("acceptance_length_percentiles",)


def read_one(source: Source, asked: ImportOptions) -> EngineLog:
    """The requests of a file."""
    records, where = parse_records(source.text, source.path), str(source.path)
    if any(True for _ in found_with(records, _STATISTICS)):
        return EngineLog("trtllm-iterations", [_iterations(records, where, asked)])
    if any(True for _ in found_with(records, _TOKENS)):
        first_token = f"{where}: iterations of an answer include the one of its first token"
        return EngineLog("trtllm-requests", _requests(records, where, asked), warnings=[first_token])
    for report in found_with(records, _REPORT):
        return EngineLog("trtllm-bench", [of_length(where, _length_of(report, where), asked.k)])
    raise InputError(
        f"{where}: no specDecodingStats in it: serve with enable_iter_perf_stats, and save /metrics meanwhile"
    )


def _iterations(records: Sequence[Any], where: str, asked: ImportOptions) -> Counts:
    drafted = accepted = rounds = 0
    for number_of, record in enumerate(found_with(records, _STATISTICS), 1):
        own = first(record, _STATISTICS)
        if not isinstance(own, dict) or (count(record, _RANK, where) or 0) > 0:
            continue
        line = f"{where}: iteration {number_of}"
        proposed, requests = count(own, _DRAFTED, line) or 0, count(own, _REQUESTS, line) or 0
        if proposed == 0 or requests == 0:
            continue
        drafted, rounds = drafted + proposed, rounds + requests
        accepted += count(own, _ACCEPTED, line) or 0
    if rounds == 0:
        raise InputError(f"{where}: no iteration in it drafted a token")
    return of_totals(where, rounds, accepted, drafted, asked.k)


def _requests(records: Sequence[Any], where: str, asked: ImportOptions) -> list[Counts]:
    counts = []
    for number_of, own in enumerate(found_with(records, _TOKENS), 1):
        line = f"{where}: request {number_of}"
        length, iterations = number(own, _TOKENS, line), count(own, _ITERATIONS, line)
        if length is None:
            continue
        if iterations:
            counts.append(of_totals(line, iterations, max(0.0, length - 1.0) * iterations, None, asked.k, True))
        else:
            counts.append(of_length(line, length, asked.k))
    return counts


def _length_of(report: JsonObject, where: str) -> float:
    percentiles = report["acceptance_length_percentiles"]
    length = number(percentiles, ("average", "avg"), where) if isinstance(percentiles, dict) else None
    if length is None:
        raise InputError(f"{where}: acceptance_length_percentiles has no average")
    return length


def trtllm_speculation(statistics: JsonObject, where: str) -> float | None:
    """Tokens that a round yielded, of ``decoding_stats`` in a report of ``trtllm-bench``; None where it has none."""
    return _length_of(statistics, where) if isinstance(statistics.get("acceptance_length_percentiles"), dict) else None
