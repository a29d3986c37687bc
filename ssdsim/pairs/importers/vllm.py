"""vLLM: snapshots of its counters, statistics of requests, its log, and what ``vllm bench serve`` saved.

Counters and rates by position are of *all* rounds that drafted; steps that drafted nothing are in none of them, and
follow from what else vLLM counts. Counters grow from the server's start on, so that two snapshots are needed. The log
of the old engine (V0) counts tokens that were accepted after a rejected one: what it emitted is right.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, zip_longest
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from ssdsim.base.documents import as_record, parse_json, parse_records
from ssdsim.base.errors import InputError, nearest
from ssdsim.pairs.importers import statistics
from ssdsim.pairs.importers.counts import (
    Asked,
    Counts,
    Log,
    Source,
    joined,
    of_length,
    of_positions,
    of_totals,
    with_steps,
)
from ssdsim.pairs.importers.fields import (
    MOST_TOKENS,
    Index,
    Line,
    Record,
    Sample,
    WrittenAmount,
    WrittenCount,
    WrittenTokens,
    count,
    first,
    found_with,
    number,
    prometheus,
    text_in,
)

_PREFIX = "vllm:spec_decode_num_"
_COUNTERS = ("drafts", "draft_tokens", "accepted_tokens", "emitted_tokens")
_PER_POSITION = "accepted_tokens_per_pos"
_BESIDE = {
    "vllm:generation_tokens": "generated",
    "vllm:request_success": "finished",
    "vllm:inter_token_latency_seconds_count": "steps",
    "vllm:time_per_output_token_seconds_count": "older_steps",
}
"""Counters beside rounds, of all that a server did. A step of a request has one time between outputs in any case."""
_IN_PROCESS = re.compile(
    r"name=['\"](vllm:spec_decode_\w+)['\"],\s*labels=(\{[^{}]*\}),\s*values?=(\[[^\[\]]*\]|[\d.e+]+)\s*\)"
)
_LABEL = re.compile(r"['\"]\b(\w+)['\"]:\s*['\"]([^'\"]*)['\"]")
_LINE = re.compile(r"SpecDecoding metrics:\s*(.*)")
_OLD_LINE = re.compile(r"Speculative metrics:\s*(.*)")
_BENCH = "spec_decode_num_drafts"


def is_snapshot(text: str) -> bool:
    """Whether a file is a snapshot of counters, which needs another one."""
    return any(sample.name.startswith(("vllm:", "vllm_")) for sample in prometheus(text)) or bool(_in_process(text))


def read(sources: Sequence[Source], asked: Asked) -> Log:
    """One set of requests.

    Raises
    ------
    InputError : a file of no known kind, or one whose numbers cannot be trusted.
    """
    if all(is_snapshot(source.text) for source in sources):
        return _metrics(sources, asked)
    return joined([_one(source, asked) for source in sources])


def _one(source: Source, asked: Asked) -> Log:
    if _LINE.search(source.text):
        return Log("vllm-log", [_log(source)])
    if _OLD_LINE.search(source.text):
        return Log("vllm-log", [_old_log(source)])
    if not source.text.lstrip().startswith(("{", "[", "data:")):
        raise InputError(
            f"{source.path}: nothing of vLLM's speculation in it: neither counters (vllm:spec_decode_...), a log line "
            "'SpecDecoding metrics: ...', nor JSON"
        )
    records = parse_records(source.text, source.path)
    bench = [record for record in records if isinstance(record, dict) and _is_bench(record)]
    if bench:
        counts = [_bench(record, str(source.path), asked) for record in bench]
        return Log("vllm-bench", counts, target=text_in(first(bench[0], ("model_id", "model"))))
    return _requests(records, source)


# requests


def _requests(records: Sequence[object], source: Source) -> Log:
    answers: list[tuple[Record, str]] = []
    silent, target = 0, None
    for number_of, record in enumerate(records, 1):
        where = f"{source.path}: request {number_of}"
        own = list(found_with(record, ("speculative_decoding", *statistics.NAMES)))
        if isinstance(record, dict):
            target = target or text_in(record.get("model"))
        statistic = [each.get("speculative_decoding", each) for each in own]
        answers += [(each, where) for each in statistic if isinstance(each, Mapping)]
        silent += bool(own) and not any(isinstance(each, Mapping) for each in statistic)
    counts = statistics.counts_of_all(answers)
    if not counts:
        raise InputError(
            f"{source.path}: no statistics of speculation in it (metrics.speculative_decoding); start vLLM with "
            "--per-request-spec-decode-metrics summary, and ask for one answer a request (n = 1)"
        )
    notes = [f"{silent} records without statistics (n above 1, or no drafts) are left out"] if silent else []
    return Log("vllm-requests", counts, target=target, notes=notes)


# counters


@dataclass
class _Counters:
    """One model's counters at one moment, each by the engine's label, so that none may fall unseen."""

    by_engine: dict[tuple[str, str], float] = field(default_factory=dict)

    def total(self, name: str) -> float | None:
        values = [value for (counter, _), value in self.by_engine.items() if counter == name]
        return sum(values) if values else None

    @property
    def speculates(self) -> bool:
        return any(name in _COUNTERS for name, _ in self.by_engine)

    @property
    def steps(self) -> float | None:
        """Steps of all requests. Without their times: what was generated but by prompts, less what was accepted.

        That is too few by what was accepted beyond the ends of answers, which is counted and thrown away.
        """
        timed = self.total("steps") or self.total("older_steps")
        generated, finished, accepted = (self.total(name) for name in ("generated", "finished", "accepted_tokens"))
        if timed is not None or generated is None or finished is None:
            return timed
        return generated - finished - (accepted or 0.0)

    @property
    def positions(self) -> list[float]:
        places = [int(name.removeprefix(_PER_POSITION + ":")) for name, _ in self.by_engine if ":" in name]
        return [self.total(f"{_PER_POSITION}:{place}") or 0.0 for place in range(max(places, default=-1) + 1)]


def _metrics(sources: Sequence[Source], asked: Asked) -> Log:
    if len(sources) == 1 and not asked.since_start:
        raise InputError(
            f"{sources[0].path}: one snapshot of counters that grow since the server's start: give one from before the "
            "work and one from after it (or --since-start where the server did nothing else)"
        )
    models: dict[str, None] = {}
    snapshots = []
    for source in sources:
        by_model = _by_model(_in_process(source.text) or prometheus(source.text))
        models |= dict.fromkeys(by_model)
        snapshots.append(by_model)
    model = _chosen(tuple(models), asked.model, str(sources[0].path))
    taken = [snapshot.get(model, _Counters()) for snapshot in snapshots]
    for (before, earlier), (after, later) in pairwise(zip(sources, taken, strict=True)):
        _check_rising(earlier, later, before, after)
    difference = taken[-1] if len(taken) == 1 else _difference(taken[0], taken[-1])
    where = " - ".join(str(source.path) for source in (sources[-1], sources[0])[: len(sources)])
    return Log("vllm-metrics", [_of_counters(difference, where, asked)], target=model or None)


def between(before: Source, after: Source, served: str) -> Counts | None:
    """What was counted of a model between two snapshots; None of a server that does not speculate.

    Raises
    ------
    InputError : counters that fall, or contradict each other.
    """
    taken = [_by_model(prometheus(source.text)).get(served) for source in (before, after)]
    earlier, later = taken
    if later is None:
        return None
    earlier = earlier or _Counters()
    _check_rising(earlier, later, before, after)
    moved = _difference(earlier, later)
    return _of_counters(moved, str(after.path), Asked()) if moved.total("drafts") else None


def _by_model(samples: Sequence[Sample]) -> dict[str, _Counters]:
    by_model: dict[str, _Counters] = {}
    for sample in samples:
        name = _own_name(sample)
        if name is None:
            continue
        counters = by_model.setdefault(sample.labels.get("model_name", ""), _Counters())
        counter = (name, sample.labels.get("engine", ""))
        counters.by_engine[counter] = counters.by_engine.get(counter, 0.0) + sample.value
    return {model: counters for model, counters in by_model.items() if counters.speculates}


def _own_name(sample: Sample) -> str | None:
    """What a counter is called here; None of one that says nothing of rounds."""
    name = sample.name.replace("vllm_spec", "vllm:spec", 1).removesuffix("_total")
    if not name.startswith(_PREFIX):
        return _BESIDE.get(name)
    name = name.removeprefix(_PREFIX)
    if name == _PER_POSITION:
        return f"{name}:{as_record(Index, sample.labels.get('position', '0'), sample.name, 'position')}"
    return name if name in _COUNTERS else None


class _Metric(BaseModel):
    """A counter of ``llm.get_metrics()``: a number, or a vector by position."""

    model_config = ConfigDict(frozen=True)
    name: str
    labels: dict[str, str] = {}
    value: WrittenAmount | None = None
    values: Annotated[list[WrittenAmount], Field(max_length=MOST_TOKENS)] | None = None

    def samples(self) -> Iterator[Sample]:
        if self.value is not None:
            yield Sample(self.name, self.labels, self.value)
        for position, value in enumerate(self.values or ()):
            yield Sample(self.name, {**self.labels, "position": str(position)}, value)


def _in_process(text: str) -> list[Sample]:
    """``llm.get_metrics()``, printed or saved as JSON: names without ``_total``, positions in a vector."""
    if _PREFIX not in text:
        return []
    printed: list[Mapping[str, Any]] = []
    for name, labels, value in _IN_PROCESS.findall(text):
        numbers = (
            {"values": value[1:-1].split(",") if value[1:-1].strip() else []} if "[" in value else {"value": value}
        )
        printed.append({"name": name, "labels": dict(_LABEL.findall(labels)), **numbers})
    if not printed and text.lstrip().startswith(("[", "{")):
        try:
            named = list(found_with(parse_json(text, "metrics"), ("name",)))
        except InputError:  # lines of JSON, which are no counters
            return []
        printed += [record for record in named if str(record["name"]).startswith(_PREFIX)]
    metrics = [as_record(_Metric, record, "llm.get_metrics()", "metric") for record in printed]
    return [sample for metric in metrics for sample in metric.samples()]


def _chosen(models: Sequence[str], asked: str | None, where: str) -> str:
    if not models:
        raise InputError(f"{where}: no counters of speculation (vllm:spec_decode_...): the server does not speculate")
    if asked is not None and asked not in models:
        raise InputError(f"{where}: no model '{asked}' in it{nearest(asked, models)} Allowed: {', '.join(models)}")
    if asked is None and len(models) > 1:
        raise InputError(f"{where}: counts {len(models)} models ({', '.join(models)}); choose one by --served")
    return asked if asked is not None else models[0]


def _check_rising(earlier: _Counters, later: _Counters, before: Source, after: Source) -> None:
    for place, value in earlier.by_engine.items():
        if later.by_engine.get(place, 0.0) < value:
            raise InputError(
                f"{after.path}: {place[0]} fell from {value:g} to {later.by_engine.get(place, 0.0):g} since "
                f"{before.path}: the server was restarted, or the files are in the wrong order"
            )


def _difference(earlier: _Counters, later: _Counters) -> _Counters:
    return _Counters({place: value - earlier.by_engine.get(place, 0.0) for place, value in later.by_engine.items()})


def _of_counters(counters: _Counters, where: str, asked: Asked) -> Counts:
    drafted, accepted = counters.total("draft_tokens"), counters.total("accepted_tokens")
    emitted, rounds = counters.total("emitted_tokens"), counters.total("drafts")
    if not drafted or accepted is None:
        raise InputError(f"{where}: no token was drafted between the snapshots")
    if rounds is None:
        if asked.k is None:
            raise InputError(f"{where}: counts no drafts (an older vLLM); give the tokens a round by --k")
        rounds = drafted / asked.k
    if emitted is not None and counters.total("drafts") is None:  # the old engine, which counts accepted ones otherwise
        return of_length(where, emitted / rounds, asked.k, rounds)
    if counters.positions:
        counts = of_positions(where, rounds, accepted, drafted, counters.positions)
    else:
        counts = of_totals(where, rounds, accepted, drafted)
    return with_steps(counts, counters.steps)


# the log


def _log(source: Source) -> Counts:
    """The sum of all lines, which are of one interval each; those without drafts are left out.

    Rounds are not printed: they follow from the length, exactly where every round drafted as many tokens.
    """
    rounds, drafted, accepted, survived = 0.0, 0, 0, [0.0]
    for number_of, line in enumerate(source.text.splitlines(), 1):
        match = _LINE.search(line)
        if match is None or (interval := _interval(match[1], f"{source.path}: line {number_of}")) is None:
            continue
        rounds += interval.rounds
        drafted += interval.drafted
        accepted += interval.accepted
        survived = [a + b for a, b in zip_longest(survived, interval.survived, fillvalue=0.0)]
    where = str(source.path)
    if drafted == 0:
        raise InputError(f"{where}: no line of metrics in which tokens were drafted")
    if any(survived) or accepted == 0:
        return of_positions(where, rounds, accepted, drafted, survived)
    return of_totals(where, rounds, accepted, drafted)


@dataclass(frozen=True)
class _Interval:
    rounds: float
    drafted: int
    accepted: int
    survived: Sequence[float]


class _Printed(Line):
    """What is read of a line of metrics."""

    drafted: WrittenCount
    accepted: WrittenCount
    length: WrittenAmount = 1.0
    shares: Annotated[tuple[WrittenAmount, ...], Field(max_length=MOST_TOKENS)] = ()


_PRINTED = {
    "drafted": re.compile(r"Drafted: (\d+)"),
    "accepted": re.compile(r"Accepted: (\d+)"),
    "length": re.compile(r"Mean acceptance length: ([\d.]+)"),
    "shares": re.compile(r"Per-position acceptance rate:\s*([\d., ]+)"),
}


def _interval(line: str, where: str) -> _Interval | None:
    said: dict[str, Any] = {name: match[1] for name, pattern in _PRINTED.items() if (match := pattern.search(line))}
    if "shares" in said:
        said["shares"] = said["shares"].replace(",", " ").split()
    printed = as_record(_Printed, said, where, "line of metrics")
    drafted, accepted, length, positions = printed.drafted, printed.accepted, printed.length, printed.shares
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
    return _Interval(rounds, drafted, accepted, [share * rounds for share in positions])


class _OldPrinted(Line):
    """What is read of a line of the old engine's."""

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
    for number_of, line in enumerate(source.text.splitlines(), 1):
        if (match := _OLD_LINE.search(line)) is None:
            continue
        where = f"{source.path}: line {number_of}"
        said = {name: matched[1] for name, pattern in _OLD_PRINTED.items() if (matched := pattern.search(match[1]))}
        printed = as_record(_OldPrinted, said, where, "line of metrics")
        if printed.emitted is not None and printed.emitted < (last.emitted or 0):
            raise InputError(
                f"{where}: emitted tokens fell from {last.emitted} to {printed.emitted}: the server was restarted"
            )
        last = printed
    k, drafted, emitted = last.k, last.drafted, last.emitted
    if not k or not drafted or emitted is None:
        raise InputError(f"{where}: says not how many tokens were speculated, drafted and emitted")
    return of_length(where, emitted * k / drafted, k, drafted / k)


# vllm bench serve


def _is_bench(record: Record) -> bool:
    return _BENCH in record or "spec_decode_acceptance_length" in record


def _bench(record: Record, where: str, asked: Asked) -> Counts:
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


def _steps_of_bench(record: Record, accepted: float, where: str) -> float | None:
    """Steps of all requests, from their tokens, and of a detailed result from the times between its messages.

    Either may be too few: what was accepted beyond the end of an answer is counted, and messages may hold two steps.
    """
    generated, completed = count(record, ("total_output_tokens",), where), count(record, ("completed",), where)
    if generated is None or completed is None:
        return None
    times = record.get("itls")
    messages = sum(len(each) for each in times if isinstance(each, list)) if isinstance(times, list) else 0
    return max(generated - completed - accepted, messages)


def speculation_of(record: Record, where: str) -> tuple[int | None, float | None]:
    """Tokens drafted a round and tokens that a step yielded, of ``vllm bench serve``; None where it has none.

    Steps that drafted nothing count, and tokens that were cut at the ends of answers do not: they took no time.

    Raises
    ------
    InputError : numbers that contradict each other.
    """
    if not record.get(_BENCH):
        return None, None
    counts = _bench(record, where, Asked())
    mean = (counts.drafted or 0.0) / (counts.rounds or 1.0)
    k = counts.k or max(1, round(mean))
    if counts.undrafted is None or counts.rounds is None:
        return k, counts.length
    put_out = record["total_output_tokens"] - record["completed"]
    return k, max(1.0, put_out / (counts.rounds + counts.undrafted))
