"""SGLang: ``meta_info`` of answers, ``/server_info``, and what ``bench_serving`` saved.

Its counters were renamed on the way. ``spec_accept_length`` is ``completion_tokens / spec_verify_ct``, which counts the
token that the prefill made; the histogram counts accepted drafts, without bonus, and is preferred. Gauges of
``/metrics`` and lines of the log are of the last window only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ssdsim.base.documents import as_record, is_json, parse_json, parse_records
from ssdsim.base.errors import InputError
from ssdsim.base.record import replace
from ssdsim.readers.acceptance.counts import (
    Counts,
    EngineLog,
    ImportOptions,
    Source,
    check_accepted,
    of_histogram,
    of_length,
    of_totals,
)
from ssdsim.readers.acceptance.fields import (
    JsonObject,
    LogLine,
    WrittenAmount,
    WrittenCount,
    count,
    counts_by_index,
    first,
    found_with,
    number,
    prometheus,
    text_in,
    tokens,
)
from ssdsim.readers.agreement import agreed_k
from ssdsim.readers.console import sglang_reports
from ssdsim.readers.facts import Facts
from ssdsim.readers.strangers import stranger

_ROUNDS = ("spec_verify_ct",)
_ACCEPTED = (
    "spec_num_correct_drafts",
    "spec_accepted_drafts",
    "spec_accept_token_num",
    "spec_accepted_tokens",
)
_DRAFTED = (
    "spec_num_proposed_drafts",
    "spec_proposed_drafts",
    "spec_draft_token_num",
    "spec_draft_tokens",
)
_HISTOGRAM = ("spec_correct_drafts_histogram", "spec_accept_histogram")
_LENGTH = ("spec_accept_length",)
_REQUEST = (*_ROUNDS, *_HISTOGRAM, *_ACCEPTED)
_SERVER = ("avg_spec_accept_length",)
_BENCH = ("accept_length",)
_WINDOW = "sglang:spec_accept_length"
_TREE_ROUNDS = 20
"""Rounds that accepted as much as any did: with none beyond, more was never possible."""
_BATCH = "Decode batch"
_RUNNING, _ACCEPT = re.compile(r"#running-req: (\d+)"), re.compile(r"accept(?:ed)? len: ([\d.]+)")
_ACCEPT_RATE = re.compile(r"accept(?:ed|ance)? rate: ([\d.]+)")


class _Window(LogLine):
    """A line of the log."""

    running: WrittenCount
    length: WrittenAmount
    rate: WrittenAmount | None = None


def read_one(source: Source, asked: ImportOptions) -> EngineLog:
    """The requests of a file."""
    if not is_json(source.text):
        if (reports := sglang_reports(source.text, str(source.path))) != []:
            return _bench(reports, source, asked)
        if _FINISHED.search(source.text) and (answers := list(_request_log(source.text))):
            return _requests(answers, source, asked)
        return _windows(source, asked)
    records = parse_records(source.text, source.path)
    if any(True for _ in found_with(records, _REQUEST)):
        return _requests(records, source, asked)
    forged = list(found_with(records, ("num_draft_tokens",)))
    if forged and any("metrics" in each for each in forged):
        return _forged(forged, source)
    servers = list(found_with(records, _SERVER))
    benches = [record for record in records if isinstance(record, dict) and "accept_length" in record]
    if benches:
        return _bench(benches, source, asked)
    if servers:
        return _server(records, source, asked)
    said = stranger(records) or "nothing of SGLang's speculation in it"
    raise InputError(
        f"{source.path}: {said}; wanted: spec_verify_ct of answers, avg_spec_accept_length of the server, or "
        "accept_length of bench_serving"
    )


_FINISHED = re.compile(r"Finish: obj=")
_FIELD = re.compile(r"'(spec_\w+|completion_tokens)': (-?[\d.]+|\[[\d, ]*\])")


def _request_log(text: str) -> Iterator[JsonObject]:
    """The fields of rounds in the lines by which ``--log-requests`` ends requests: Python's, not JSON."""
    for line in text.splitlines():
        if _FINISHED.search(line) is None:
            continue
        written = {name: parse_json(value, "request log") for name, value in _FIELD.findall(line)}
        if "spec_verify_ct" in written:
            yield written


def _forged(runs: Sequence[JsonObject], source: Source) -> EngineLog:
    """SpecForge's ``bench_eagle3``: a run for each setting, of which those without steps drafted nothing."""
    counts, warnings = [], []
    for where, run in source.numbered("run", runs):
        k, topk = tokens(run, ("steps",), where), tokens(run, ("topk",), where)
        for each in run.get("metrics") or () if k else ():
            length = number(each, _BENCH, where) if isinstance(each, dict) else None
            if length:
                seconds, speed = number(each, ("latency",), where), number(each, ("output_throughput",), where)
                counts.append(of_length(where, length, k, (seconds or 0.0) * (speed or 0.0) / length or None))
        if k and topk and topk > 1:
            warnings.append(f"{where}: a tree of drafts (top-k {topk}): a rate holds for levels, not for a chain")
    if not counts:
        raise InputError(f"{source.path}: no run of SpecForge's in it that drafted")
    return EngineLog("specforge", counts, warnings=warnings)


# answers


def _requests(records: Sequence[Any], source: Source, asked: ImportOptions) -> EngineLog:
    counts, silent = [], 0
    for where, record in source.numbered("request", records):
        for own in found_with(record, _REQUEST):
            if (count(own, _ROUNDS, where) or 0) == 0 and first(own, _HISTOGRAM) is None:
                silent += 1
                continue
            counts.append(_request(own, where, asked))
    if not counts:
        raise InputError(f"{source.path}: no request in it was decoded by speculation (spec_verify_ct is 0)")
    notes = [f"{silent} requests without a round of speculation are left out"] if silent else []
    counts, warnings = _with_one_lookahead(counts, str(source.path))
    return EngineLog("sglang-requests", counts, warnings=warnings, notes=notes)


_RATE = ("spec_accept_rate",)
_MOST_SAID = 64  # tokens of a chain that anybody drafts
_SLACK = 0.04  # of a K that follows from a rate of three digits


def lookaheads(length: float, rate: float, digits: float = 0.005) -> set[int]:
    """The K at which a mean length has such a rate, by either convention.

    SGLang divided the length by the tokens verified, K + 1; later versions divide accepted by drafted tokens.
    """
    if rate <= 0.0 or length < 1.0:
        return set()
    own = range(1, _MOST_SAID + 1)
    older = {k for k in own if abs(length / (k + 1) - rate) <= digits * (1.0 + 1.0 / (k + 1)) + 1e-9}
    return older | {k for k in own if abs((length - 1.0) / k - rate) <= digits * (1.0 + 1.0 / k) + 1e-9}


def of_request(own: JsonObject, where: str, k: int | None = None) -> Counts | None:
    """The rounds of one request, of its ``meta_info``; None where it had none."""
    return _request(own, where, ImportOptions(k)) if count(own, _ROUNDS, where) else None


def _request(own: JsonObject, where: str, asked: ImportOptions) -> Counts:
    rounds, accepted = count(own, _ROUNDS, where), count(own, _ACCEPTED, where)
    drafted, histogram = count(own, _DRAFTED, where), counts_by_index(own, _HISTOGRAM, where)
    if histogram is not None and any(histogram):
        if rounds is not None and sum(histogram) != rounds:
            raise InputError(f"{where}: the histogram counts {sum(histogram)} rounds, but spec_verify_ct is {rounds}")
        counts = of_histogram(where, histogram, asked.k if drafted is None else None, drafted)
        check_accepted(counts, accepted)
        return counts
    if rounds is None:
        raise InputError(f"{where}: no spec_verify_ct in it")
    if accepted is None:
        accepted = _accepted_of_completion(own, rounds, where)
    rate = number(own, _RATE, where)
    if drafted is None and rate and accepted and rounds:
        k = accepted / rounds / rate
        drafted = round(k) * rounds if abs(k - round(k)) <= _SLACK * k else None
    return of_totals(where, rounds, accepted, drafted, asked.k, is_request=True)


def _accepted_of_completion(own: JsonObject, rounds: int, where: str) -> int:
    """The accepted tokens of an answer, of which the first is the prefill's and each round has a bonus token."""
    made = count(own, ("completion_tokens",), where)
    if made is None:
        length = number(own, _LENGTH, where)
        if length is None:
            raise InputError(f"{where}: says neither what was accepted nor how many tokens the answer has")
        made = round(length * rounds)
    return max(0, made - 1 - rounds)


def _with_one_lookahead(counts: Sequence[Counts], where: str) -> tuple[list[Counts], list[str]]:
    """The lookahead of all requests, with what must be said of it.

    A histogram may end at the most that its request accepted, so the longest speaks for all where nothing else does.
    Of a tree of drafts more tokens are verified than can be accepted. Requests that drafted different numbers of tokens
    are those of an adaptive server, which keeps no round's own.
    """
    if any(each.lengths is None for each in counts):
        return list(counts), []
    longest = max(j for each in counts for j, rounds in enumerate(each.lengths or ()) if rounds)
    if all(each.drafted is None for each in counts):
        k = max(each.k or 0 for each in counts)
        return [_again(each, k) for each in counts], []
    if len({each.k for each in counts}) > 1:
        return [replace(each, k=None, survived=None, tried=None, lengths=None, varied=True) for each in counts], []
    said = counts[0].k or longest
    full = sum((each.lengths or ())[longest] for each in counts)
    if said <= longest or full < _TREE_ROUNDS:
        return list(counts), []
    warning = (
        f"{where}: {said} tokens were verified a round, yet never more than {longest} accepted, as {full} rounds did: "
        f"a tree of drafts, read as a chain of {longest}"
    )
    return [_again(each, longest) for each in counts], [warning]


def _again(counts: Counts, k: int) -> Counts:
    return of_histogram(counts.where, (counts.lengths or ())[: k + 1], k, None)


# the server's mean


def _server(records: Sequence[Any], source: Source, asked: ImportOptions) -> EngineLog:
    """``/server_info``: the mean since the start, of each scheduler; with a disaggregated prefill under ``decode``."""
    means = [
        mean
        for own in found_with(records, _SERVER)
        if (mean := number(own, _SERVER, str(source.path))) is not None and mean > 0.0
    ]
    if not means:
        raise InputError(
            f"{source.path}: avg_spec_accept_length is null: the server does not speculate, or has not yet"
        )
    settings = _arguments(records)
    k = _lookahead(settings, source) or asked.k
    warnings = [f"{source.path}: the mean since the server's start, of its schedulers' intervals"]
    if (topk := settings.get("speculative_eagle_topk")) and topk != 1:
        warnings.append(f"{source.path}: a tree of drafts (top-k {topk}): a rate holds for levels, not for a chain")
    counts = of_length(str(source.path), float(np.mean(means)), k)
    return EngineLog("sglang-server", [counts], _facts(settings, str(source.path)), warnings=warnings)


def _arguments(value: Any) -> JsonObject:
    return next(iter(found_with(value, ("speculative_num_steps", "speculative_num_draft_tokens"))), {})


def server_of(record: JsonObject, where: str) -> Facts:
    """What ``bench_serving`` has kept of its server's settings; nothing of a version that kept none."""
    settings = next(iter(found_with(record.get("server_info"), ("model_path",))), {})
    return _facts(settings, where)


_DRAFTERS = {"EAGLE3": "eagle3", "NEXTN": "mtp", "NGRAM": "ngram", "STANDALONE": "model", "DFLASH": "dflash"}
"""Algorithms that one drafter alone has; ``EAGLE`` runs MTP layers, too."""


def _facts(settings: JsonObject, where: str) -> Facts:
    dcp = count(settings, ("dcp_size",), where) or 1
    return Facts(
        model=text_in(settings.get("model_path")),
        draft=text_in(settings.get("speculative_draft_model_path")),
        drafter=_DRAFTERS.get(str(settings.get("speculative_algorithm")).upper()),
        weights=text_in(settings.get("quantization")),
        kv_dtype={"fp8_e4m3": "float8", "fp8_e5m2": "float8"}.get(str(settings.get("kv_cache_dtype"))),
        gpus=count(settings, ("tp_size",), where),
        k=lookahead_of(settings, where),
        options={"dcp": dcp} if dcp > 1 else {},
    )


def lookahead_of(settings: JsonObject, where: str) -> int | None:
    """Tokens that a server drafts a round by its settings; None where it does not speculate, or adapts them."""
    steps = tokens(settings, ("speculative_num_steps",), where)
    verified = tokens(settings, ("speculative_num_draft_tokens",), where)
    one_less = verified - 1 if verified and verified > 1 else None  # one verified token is the target's own
    return None if settings.get("speculative_adaptive") else steps or one_less


def _lookahead(settings: JsonObject, source: Source) -> int | None:
    """The :func:`lookahead_of` a server that does not adapt it: of one that does no rate follows."""
    if settings.get("speculative_adaptive"):
        raise InputError(
            f"{source.path}: the server's steps are adaptive, so that no rate follows from a mean length; turn them "
            "off, or import its requests, whose length is kept"
        )
    return lookahead_of(settings, str(source.path))


# bench_serving


def _bench(records: Sequence[JsonObject], source: Source, asked: ImportOptions) -> EngineLog:
    counts = []
    for where, record in source.numbered("result", records):
        length = number(record, _BENCH, where)
        if length is None:
            raise InputError(f"{where}: accept_length is null: the server does not speculate")
        settings = _arguments(record.get("server_info"))
        counts.append(of_length(where, length, _lookahead(settings, source) or asked.k))
    warnings = [f"{source.path}: accept_length is the mean since the server's start, not of the run"]
    last = counts[-1:]  # cumulative: the last has seen all that those before it saw
    named = text_in(first(records[-1], ("model_id", "model")))
    facts = server_of(records[-1], str(source.path))
    return EngineLog("sglang-bench", last, facts if named is None else replace(facts, model=named), warnings=warnings)


def sglang_speculation(record: JsonObject, where: str) -> float | None:
    """Tokens that a round yielded, of a result of ``bench_serving``; None where it did not speculate."""
    return number(record, _BENCH, where) or None


# windows


def _windows(source: Source, asked: ImportOptions) -> EngineLog:
    """Gauges and log lines, which are of the last window: only as samples of the whole."""
    windows = list(_sampled(source))
    if not windows:
        said = stranger(source.text) or "nothing of SGLang's speculation in it"
        raise InputError(
            f"{source.path}: {said}; wanted: {_WINDOW}, log lines 'Decode batch. ... accept len: ...', answers, or the "
            "result of bench_serving"
        )
    if not asked.sampled or len(windows) < 2:
        raise InputError(
            f"{source.path}: gauges and log lines tell of the last window only: import answers (meta_info), "
            "/server_info or bench_serving's result, or say by --sampled that many windows cover the work"
        )
    running = np.array([window.running for window in windows])
    mean = float(running @ np.array([window.length for window in windows]) / running.sum())
    rated = [lookaheads(window.length, window.rate) for window in windows if window.rate]
    k = agreed_k(set.intersection(*rated) if rated else (), asked.k, str(source.path))
    warning = f"{source.path}: the mean of {len(windows)} windows, by their running requests"
    return EngineLog("sglang-windows", [of_length(str(source.path), mean, k)], warnings=[warning])


def _sampled(source: Source) -> Iterator[_Window]:
    """Each window in which the server speculated."""
    for sample in prometheus(source.text):
        if sample.name == _WINDOW and sample.value >= 1.0:
            yield _Window(running=1, length=sample.value)
    yield from (window for window in _logged(source) if window.running > 0 and window.length >= 1.0)


def _logged(source: Source) -> Iterator[_Window]:
    """The lines of decoded batches with a length."""
    if _BATCH not in source.text:
        return
    for where, line in source.numbered("line", source.text.splitlines()):
        if (start := line.find(_BATCH)) < 0 or (running := _RUNNING.search(line, start)) is None:
            continue
        if (length := _ACCEPT.search(line, running.end())) is not None:
            rate = _ACCEPT_RATE.search(line, length.end())
            said = {"running": running[1], "length": length[1], "rate": None if rate is None else rate[1]}
            yield as_record(_Window, said, where, "line", written=True)
