"""vLLM's counters: snapshots of its metrics, printed or saved, which grow from the server's start on."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from ssdsim.base.card import Excerpt
from ssdsim.base.documents import as_record, is_json, parse_json
from ssdsim.base.errors import InputError, nearest
from ssdsim.base.record import MutableRecord, field
from ssdsim.readers.acceptance.counts import (
    Counts,
    EngineLog,
    ImportOptions,
    Source,
    of_length,
    of_positions,
    of_totals,
    with_steps,
)
from ssdsim.readers.acceptance.fields import MOST_TOKENS, Index, Sample, WrittenAmount, found_with, prometheus
from ssdsim.readers.facts import Facts

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


def is_snapshot(text: str) -> bool:
    """Say whether a file is a snapshot of counters, which needs another one."""
    return any(sample.name.startswith(("vllm:", "vllm_")) for sample in prometheus(text)) or bool(_in_process(text))


class _Counters(MutableRecord):
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


def of_snapshots(sources: Sequence[Source], asked: ImportOptions) -> EngineLog:
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
    return EngineLog("vllm-metrics", [_of_counters(difference, where, asked)], facts=Facts(model=model or None))


def between(before: Source, after: Source, served: str) -> Counts | None:
    """Subtract a model's counters: what was counted between two snapshots; None of a server that does not speculate."""
    taken = [_by_model(prometheus(source.text)).get(served) for source in (before, after)]
    earlier, later = taken
    if later is None:
        return None
    earlier = earlier or _Counters()
    _check_rising(earlier, later, before, after)
    moved = _difference(earlier, later)
    return _of_counters(moved, str(after.path), ImportOptions()) if moved.total("drafts") else None


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
    """Name of a counter here; None of one that says nothing of rounds."""
    name = sample.name.replace("vllm_spec", "vllm:spec", 1).removesuffix("_total")
    if not name.startswith(_PREFIX):
        return _BESIDE.get(name)
    name = name.removeprefix(_PREFIX)
    if name == _PER_POSITION:
        return f"{name}:{as_record(Index, sample.labels.get('position', '0'), sample.name, 'position', written=True)}"
    return name if name in _COUNTERS else None


class _Metric(Excerpt):
    """A counter of ``llm.get_metrics()``: a number, or a vector by position."""

    name: str
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    value: WrittenAmount | None = None
    values: Annotated[list[WrittenAmount], Meta(max_length=MOST_TOKENS)] | None = None

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
    if not printed and is_json(text):
        try:
            named = list(found_with(parse_json(text, "metrics"), ("name",)))
        except InputError:  # lines of JSON, which are no counters
            return []
        printed += [record for record in named if str(record["name"]).startswith(_PREFIX)]
    metrics = [as_record(_Metric, record, "llm.get_metrics()", "metric", written=True) for record in printed]
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


def _of_counters(counters: _Counters, where: str, asked: ImportOptions) -> Counts:
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
