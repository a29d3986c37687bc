"""vLLM: snapshots of its counters, statistics of requests, its log, and what ``vllm bench serve`` saved.

Counters and rates by position are of *all* rounds that drafted; steps that drafted nothing are in none of them, and
follow from what else vLLM counts. Counters grow from the server's start on, so that two snapshots are needed. The log
of the old engine (V0) counts tokens that were accepted after a rejected one: what it emitted is right.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise, zip_longest
from typing import Annotated, Any

from msgspec import Meta

from ssdsim.base.documents import as_record, is_json, parse_records
from ssdsim.base.errors import InputError
from ssdsim.readers.acceptance.counts import (
    Counts,
    EngineLog,
    ImportOptions,
    Source,
    joined,
    of_length,
    of_positions,
    of_totals,
    with_steps,
)
from ssdsim.readers.acceptance.fields import (
    MOST_TOKENS,
    JsonObject,
    LogLine,
    Printed,
    WrittenAmount,
    WrittenCount,
    WrittenTokens,
    count,
    first,
    found_with,
    number,
    text_in,
)
from ssdsim.readers.acceptance.statistics import STATISTICS, counts_of_all
from ssdsim.readers.acceptance.vllm_counters import is_snapshot, of_snapshots
from ssdsim.readers.console import vllm_reports
from ssdsim.readers.facts import Facts
from ssdsim.readers.strangers import stranger

_LINE = re.compile(r"SpecDecoding metrics:")
_OLD_LINE = re.compile(r"Speculative metrics:\s*(.*)")
_BENCH = "spec_decode_num_drafts"
_OF_BENCH = {_BENCH, "spec_decode_acceptance_length"}


def read(sources: Sequence[Source], asked: ImportOptions) -> EngineLog:
    """One set of requests."""
    if all(is_snapshot(source.text) for source in sources):
        return of_snapshots(sources, asked)
    return joined([_one(source, asked) for source in sources])


def _one(source: Source, asked: ImportOptions) -> EngineLog:
    if _LINE.search(source.text):
        return _log(source)
    if _OLD_LINE.search(source.text):
        return EngineLog("vllm-log", [_old_log(source)])
    if _EXAMPLE["rounds"].search(source.text):
        return EngineLog("vllm-example", [_example(source)])
    if is_json(source.text):
        records = parse_records(source.text, source.path)
    elif not (records := vllm_reports(source.text, str(source.path))):
        raise InputError(
            f"{source.path}: {stranger(source.text) or 'nothing of vLLM in it'}; wanted: counters "
            "(vllm:spec_decode_...), a log line 'SpecDecoding metrics: ...', or the result of vllm bench serve"
        )
    bench = [record for record in records if isinstance(record, dict) and _OF_BENCH & record.keys()]
    if bench:
        counts = [_bench(record, str(source.path), asked) for record in bench]
        return EngineLog("vllm-bench", counts, Facts(model=text_in(first(bench[0], ("model_id", "model")))))
    return _requests(records, source)


# requests


def _requests(records: Sequence[object], source: Source) -> EngineLog:
    answers: list[tuple[JsonObject, str]] = []
    silent, targets = 0, dict[str, None]()
    for where, request in source.numbered("request", records):
        own = list(found_with(request, ("speculative_decoding", *STATISTICS)))
        if isinstance(request, dict) and (target := text_in(request.get("model"))):
            targets[target] = None
        statistic = [each.get("speculative_decoding", each) for each in own]
        answers += [(each, where) for each in statistic if isinstance(each, Mapping)]
        silent += bool(own) and not any(isinstance(each, Mapping) for each in statistic)
    counts = counts_of_all(answers)
    if not counts:
        if (said := stranger(records)) is not None:
            raise InputError(f"{source.path}: {said}")
        raise InputError(
            f"{source.path}: no statistics of speculation in it (metrics.speculative_decoding); start vLLM with "
            "--per-request-spec-decode-metrics summary, and ask for one answer a request (n = 1)"
        )
    if len(targets) > 1:
        raise InputError(f"{source.path}: requests of {len(targets)} models ({', '.join(targets)}); a pair is of one")
    notes = [f"{silent} records without statistics (n above 1, or no drafts) are left out"] if silent else []
    return EngineLog("vllm-requests", counts, Facts(model=next(iter(targets), None)), notes=notes)


# the log


def _log(source: Source) -> EngineLog:
    """The sum of all intervals, a line each (or several, as write-ups break them); those without drafts are left out.

    Rounds are not printed: they follow from the length, exactly where every round drafted as many tokens.
    """
    rounds, drafted, accepted, survived = 0.0, 0, 0, [0.0]
    where = str(source.path)
    starts = [match.start() for match in _LINE.finditer(source.text)]
    line = 1 + source.text.count("\n", 0, starts[0])
    for start, end in pairwise((*starts, len(source.text))):
        interval = _interval(source.text[start : min(end, start + _LONGEST)], f"{where}: line {line}")
        line += source.text.count("\n", start, end)
        if interval is None:
            continue
        own_rounds, own_drafted, own_accepted, own_survived = interval
        rounds, drafted, accepted = rounds + own_rounds, drafted + own_drafted, accepted + own_accepted
        survived = [a + b for a, b in zip_longest(survived, own_survived, fillvalue=0.0)]
    if drafted == 0:
        raise InputError(f"{where}: no line of metrics in which tokens were drafted")
    if any(survived) or accepted == 0:
        counts = of_positions(where, rounds, accepted, drafted, survived)
    else:
        counts = of_totals(where, rounds, accepted, drafted)
    made = _generated(source.text)
    steps = 0.0 if made is None else made - accepted
    if steps <= rounds * (1.0 + _FIRST_TOKENS):
        return EngineLog("vllm-log", [counts])
    note = (
        f"{made:.0f} tokens were generated, and {accepted + rounds:.0f} of them in rounds that drafted: in the other "
        f"steps, which the log does not count among its rounds, nothing was"
    )
    return EngineLog("vllm-log", [with_steps(counts, steps)], notes=[note])


_LONGEST = 2000  # characters of an interval's metrics
_FIRST_TOKENS = 0.15
"""Of the rounds: tokens that prompts made, and a rate's rounding, are no steps without drafts."""
_THROUGHPUT = re.compile(r"generation throughput: ([\d.]+) tokens/s")
_CLOCK = re.compile(r"\b(\d\d):(\d\d):(\d\d)\b[^\n]{0,200}?generation throughput: ")
_USUAL_S = 10.0  # between two lines, where the log has no other times


def _generated(text: str) -> float | None:
    """Tokens that the server generated while it logged; None where it says no rates."""
    rates = [float(rate) for rate in _THROUGHPUT.findall(text) if rate.count(".") <= 1]
    if not rates:
        return None
    clocks = [3600 * int(hours) + 60 * int(minutes) + int(seconds) for hours, minutes, seconds in _CLOCK.findall(text)]
    apart = sorted(later - earlier for earlier, later in pairwise(clocks) if later > earlier)
    middle = float(apart[len(apart) // 2]) if apart else _USUAL_S
    return sum(rates) * (middle if middle <= _USUAL_S else _USUAL_S)


_PRINTED = {
    "drafted": re.compile(r"Drafted: (\d+)"),
    "accepted": re.compile(r"Accepted: (\d+)"),
    "length": re.compile(r"Mean acceptance length: ([\d.]+)"),
    "shares": re.compile(r"Per-position acceptance rate:\s*([\d., ]+)"),
}


def _interval(line: str, where: str) -> tuple[float, int, int, list[float]] | None:
    """Rounds, drafted and accepted tokens, and rounds that came to each position; None where nothing was drafted."""
    said: dict[str, Any] = {name: match[1] for name, pattern in _PRINTED.items() if (match := pattern.search(line))}
    if "shares" in said:
        said["shares"] = said["shares"].replace(",", " ").split()
    printed = as_record(Printed, said, where, "line of metrics", written=True)
    drafted, accepted, length, positions = printed.drafted, printed.accepted, printed.length or 1.0, printed.shares
    if drafted == 0:
        return None
    if accepted > 0 and length > 1.0:
        rounds, slack = accepted / (length - 1.0), 0.005 / (length - 1.0) + 0.01
    elif positions:
        rounds, slack = drafted / len(positions), 0.01
    else:
        raise InputError(f"{where}: does not say how many tokens a round yielded: give two snapshots of its counters")
    k = max(1, round(drafted / rounds))
    if abs(drafted / rounds - k) <= slack * k:
        rounds = drafted / k
    return rounds, drafted, accepted, [share * rounds for share in positions]


class _OldPrinted(LogLine):
    """Fields of a line of metrics of the old engine."""

    k: WrittenTokens | None = None
    drafted: WrittenCount | None = None
    emitted: WrittenCount | None = None


_OLD_PRINTED = {
    "k": re.compile(r"speculative tokens: (\d+)"),
    "drafted": re.compile(r"draft tokens: (\d+)"),
    "emitted": re.compile(r"emitted tokens: (\d+)"),
}


def _old_log(source: Source) -> Counts:
    """The last line, which counts since the start."""
    last, where = _OldPrinted(), str(source.path)
    for at, line in source.numbered("line", source.text.splitlines()):
        if (match := _OLD_LINE.search(line)) is None:
            continue
        where = at
        said = {name: matched[1] for name, pattern in _OLD_PRINTED.items() if (matched := pattern.search(match[1]))}
        printed = as_record(_OldPrinted, said, where, "line of metrics", written=True)
        if printed.emitted is not None and printed.emitted < (last.emitted or 0):
            raise InputError(
                f"{where}: emitted tokens fell from {last.emitted} to {printed.emitted}: the server was restarted"
            )
        last = printed
    k, drafted, emitted = last.k, last.drafted, last.emitted
    if not k or not drafted or emitted is None:
        raise InputError(f"{where}: says not how many tokens were speculated, drafted and emitted")
    return of_length(where, emitted * k / drafted, k, drafted / k)


# examples/offline_inference/spec_decode.py


class _Printout(LogLine):
    """Counts that the example prints; ``shares`` are of all drafts, by position."""

    rounds: WrittenCount
    drafted: WrittenCount
    accepted: WrittenCount
    tokens: WrittenCount | None = None
    shares: Annotated[tuple[WrittenAmount, ...], Meta(max_length=MOST_TOKENS)] = ()


_EXAMPLE = {
    "rounds": re.compile(r"^[^\w\n]*num_drafts: (\d+)", re.M),
    "drafted": re.compile(r"^[^\w\n]*num_draft_tokens: (\d+)", re.M),
    "accepted": re.compile(r"^[^\w\n]*num_accepted_tokens: (\d+)", re.M),
    "tokens": re.compile(r"^[^\w\n]*total_num_output_tokens: (\d+)", re.M),
}
_AT_TOKEN = re.compile(r"^[^\w\n]*acceptance at token \d+: ([\d.]+)", re.M)


def _example(source: Source) -> Counts:
    where = str(source.path)
    said: dict[str, Any] = {name: match[1] for name, each in _EXAMPLE.items() if (match := each.search(source.text))}
    printed = as_record(_Printout, said | {"shares": _AT_TOKEN.findall(source.text)}, where, "example", written=True)
    if not printed.rounds:
        raise InputError(f"{where}: the example drafted nothing (num_drafts is 0)")
    positions = [share * printed.rounds for share in printed.shares]
    if positions:
        counts = of_positions(where, printed.rounds, printed.accepted, printed.drafted, positions)
    else:
        counts = of_totals(where, printed.rounds, printed.accepted, printed.drafted)
    steps = (printed.tokens or 0) - printed.accepted
    return with_steps(counts, steps) if steps > printed.rounds * (1.0 + _FIRST_TOKENS) else counts


# vllm bench serve


def _bench(record: JsonObject, where: str, asked: ImportOptions) -> Counts:
    rounds, drafted = count(record, (_BENCH,), where), count(record, ("spec_decode_draft_tokens",), where)
    accepted = count(record, ("spec_decode_accepted_tokens",), where)
    shares = first(record, ("spec_decode_per_position_acceptance_rates",))
    length = number(record, ("spec_decode_acceptance_length",), where)
    if rounds == 0:
        raise InputError(f"{where}: the server drafted nothing during the run")
    if (rounds is None or accepted is None) and length is None:
        raise InputError(f"{where}: no spec_decode_acceptance_length in it")
    if rounds is None:
        return of_length(where, length or 0.0, asked.k)
    if accepted is None:
        accepted = round(((length or 1.0) - 1.0) * rounds)
    if length is not None and abs(1.0 + accepted / rounds - length) > 0.02:
        raise InputError(
            f"{where}: {accepted} accepted tokens in {rounds} rounds are {1.0 + accepted / rounds:.3f} a round with "
            f"the bonus, but spec_decode_acceptance_length is {length:.3f}"
        )
    steps = _steps_of_bench(record, accepted, where)
    if isinstance(shares, list) and shares:
        positions = [(number({"share": share}, ("share",), f"{where}: rates by position") or 0.0) for share in shares]
        if max(positions) > 1.0:
            raise InputError(f"{where}: a rate by position is {max(positions):g}; they are shares of 1, no percent")
        counts = of_positions(where, rounds, accepted, drafted, [share * rounds for share in positions])
    else:
        counts = of_totals(where, rounds, accepted, drafted)
    return with_steps(counts, steps)


def _steps_of_bench(record: JsonObject, accepted: float, where: str) -> float | None:
    """Steps of all requests, from their tokens, and of a detailed result from the times between its messages.

    Either may be too few: what was accepted beyond the end of an answer is counted, and messages may hold two steps.
    """
    generated, completed = count(record, ("total_output_tokens",), where), count(record, ("completed",), where)
    if generated is None or completed is None:
        return None
    times = record.get("itls")
    messages = sum(len(each) for each in times if isinstance(each, list)) if isinstance(times, list) else 0
    return max(generated - completed - accepted, messages)


def vllm_speculation(record: JsonObject, where: str) -> tuple[int | None, float | None]:
    """Tokens drafted a round and tokens that a step yielded, of ``vllm bench serve``; None where it has none.

    Steps that drafted nothing count, and tokens that were cut at the ends of answers do not: they took no time.
    """
    if not record.get(_BENCH):
        return None, None
    counts = _bench(record, where, ImportOptions())
    mean = (counts.drafted or 0.0) / (counts.rounds or 1.0)
    k = counts.k or max(1, round(mean))
    if counts.undrafted is None or counts.rounds is None:
        return k, counts.length
    put_out = record["total_output_tokens"] - record["completed"]
    return k, max(1.0, put_out / (counts.rounds + counts.undrafted))
