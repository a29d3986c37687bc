"""Some rounds as bars on tracks of target, link and draft: simulated, and measured if there is a trace."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from ssdsim.answers.simulation.simulate import trace_rounds
from ssdsim.answers.simulation.trace import Trace
from ssdsim.base.record import Record, replace
from ssdsim.question.scenario import Scenario
from ssdsim.reports.figure import Figure, LeftOut, enumerated, rounded
from ssdsim.reports.study import Study
from ssdsim.reports.style import WORK_COLOUR, WORK_PATTERN, new_plot
from ssdsim.rounds.round import PART_TITLES

_ROUNDS = 4
_SIMULATED_ROUNDS = 60  # enough that a miss is among them, if there are misses at all
_ROLES = ("target", "link", "draft")
_MEANING = {
    "verify": "target pass",
    "draft": "drafting",
    "fallback": PART_TITLES["fallback"],
    "communicate": "messages",
    "host": "sampling, host",
}


class _Slice(Record):
    """A piece of work of a track, in seconds, and the part of a round that it belongs to."""

    track: str
    what: str
    part: str
    start_s: float
    seconds: float

    @property
    def end_s(self) -> float:
        return self.start_s + self.seconds


class _Group(Record):
    """The tracks of one strategy; ``leads`` if its rounds set the time shown."""

    title: str
    slices: Sequence[_Slice]
    leads: bool


def timeline(study: Study) -> list[Figure | LeftOut]:
    """Four rounds of the subject (one with a miss, if there is one), and the others over the same time."""
    groups = [group for group in (*_simulated(study), *_measured(study)) if _round_starts(group.slices)]
    if not groups:
        return [LeftOut("rounds in time", "the folder's traces hold no pass of a target")]
    shown = _shown(groups)
    scale, unit = (1e3, "ms") if not study.unit_free else (1.0, "T_v")
    table = pd.DataFrame(
        [(s.track, s.what, scale * s.start_s, scale * s.seconds) for s in shown],
        columns=["track", "what", f"start {unit}", f"duration {unit}"],
    )
    return [
        Figure(
            key="timeline",
            section="Rounds in time",
            title=_title(study, groups, shown),
            about=f"One device of each kind{_alongside(study, groups)}.{_too_short(shown)} {_setting(study)}",
            plot=_plot(shown, scale, unit),
            table=table,
            provenance=f"{_origin(study)} Timings: {study.timings}.",
            interval="No interval: these are single rounds, not means.",
            wide=True,
        )
    ]


def _lead(study: Study) -> Scenario:
    """The subject, or the last strategy if the subject has no room."""
    scenarios = study.configuration.scenarios
    return scenarios.get(study.subject) or list(scenarios.values())[-1]


def _title(study: Study, groups: Sequence[_Group], shown: Sequence[_Slice]) -> str:
    how = ", simulated and measured" if any(group.title.startswith("measured") for group in groups) else ""
    leading = [group.title for group in groups if group.leads]
    drafts = [s for s in shown if s.part == "draft" and s.track in [f"{title} draft" for title in leading]]
    passes = [s for s in shown if s.part == "verify" and s.track in [f"{title} target" for title in leading]]
    together_s = (min(d.end_s, p.end_s) - max(d.start_s, p.start_s) for d in drafts for p in passes)
    if max(together_s, default=0.0) < 1e-6 * max(s.end_s for s in shown):  # slices that touch, but for rounding
        return f"{_ROUNDS} rounds{how}"
    miss = ", a miss waits for the backup" if any(s.part == "fallback" for s in shown) else ""
    return f"{_ROUNDS} rounds of {_lead(study).strategy.title}{how}: the draft works while the target verifies{miss}"


def _alongside(study: Study, groups: Sequence[_Group]) -> str:
    others = list(dict.fromkeys(group.title.removeprefix("measured ") for group in groups if not group.leads))
    if not others:
        return ""
    lead, are, their = _lead(study).strategy.title, *(("are", "their") if len(others) > 1 else ("is", "its"))
    return f"; {enumerated(others)} {are} drawn over {their} own first rounds for the time that the {lead} rounds take"


def _setting(study: Study) -> str:
    """A sentence on whose rounds these are; a trace that another command wrote does not say."""
    if study.folder.trace is not None:
        return "The simulated rounds are of the run that wrote trace.json, which does not hold its settings."
    also = " The measured ones are of the run that wrote measured_trace.json." if study.folder.measured_trace else ""
    return f"At {study.setting()}.{also}"


def _too_short(shown: Sequence[_Slice]) -> str:
    """A note on bars too narrow to be seen."""
    total = max(s.end_s for s in shown)
    widest = {part: max(s.seconds for s in shown if s.part == part) / total for part in {s.part for s in shown}}
    narrow = [_MEANING[part] for part in _MEANING if widest.get(part, 1.0) < 0.001]
    return f" Too short to be seen: {', '.join(narrow)}." if narrow else ""


def _origin(study: Study) -> str:
    simulated = (
        f"Event engine, seed {study.seed}." if study.folder.trace is None else "Simulated: the run's trace.json."
    )
    return simulated + (" Measured: measured_trace.json." if study.folder.measured_trace is not None else "")


def _simulated(study: Study) -> Iterator[_Group]:
    """The folder's own timeline, or else one per strategy."""
    lead = _lead(study)
    if study.folder.trace is not None:
        yield _Group(
            "simulated", _slices(study.folder.trace, _parts([lead, *study.configuration.scenarios.values()])), True
        )
        return
    for scenario in study.configuration.scenarios.values():
        trace = Trace()
        trace_rounds(trace, scenario, _SIMULATED_ROUNDS, study.seed)
        yield _Group(scenario.strategy.title, _slices(trace.to_json(), _parts([scenario])), scenario is lead)


def _measured(study: Study) -> Iterator[_Group]:
    if study.folder.measured_trace is None:
        return
    for scenario in study.configuration.scenarios.values():
        title = f"measured {scenario.strategy.title}"
        slices = _slices(study.folder.measured_trace, _parts([scenario]), f"{title} ")
        yield _Group(title, slices, scenario is _lead(study))


def _parts(scenarios: Iterable[Scenario]) -> dict[str, str]:
    """The part of a round of each step and of each piece of one; the first scenario's if several say it."""
    parts: dict[str, str] = {}
    for scenario in scenarios:
        for name, step in scenario.steps.items():
            for what in (name, *(piece.name for piece in step.pieces)):
                parts.setdefault(what, step.part)
    return parts


def _part_of(what: str, parts: Mapping[str, str]) -> str:
    """The part of a slice, which is named after its step or piece: alone, with a number or in other words."""
    name = what.rstrip(" 0123456789")
    known = name if name in parts else next((step for step in parts if step in name), None)
    if known is None:
        return "communicate" if name == "send" else "host"
    return parts[known]


def _slices(document: Mapping[str, Any], parts: Mapping[str, str], prefix: str = "") -> list[_Slice]:
    """Slices of the first device of each role, by start, on tracks whose names begin with ``prefix``."""
    events = document["traceEvents"]
    tracks = {e["tid"]: e["args"]["name"] for e in events if e.get("ph") == "M" and e.get("name") == "thread_name"}
    tracks = {tid: name for tid, name in tracks.items() if name.startswith(prefix)}
    first: dict[str, int] = {}
    for tid, track in tracks.items():
        role = next((role for role in _ROLES if role in track), None)
        if role is not None:
            first.setdefault(role, tid)
    roles = {tid: role for role, tid in first.items()}
    slices = [
        _Slice(roles[e["tid"]], e["name"], _part_of(e["name"], parts), 1e-6 * e["ts"], 1e-6 * e["dur"])
        for e in events
        if e.get("ph") == "X" and e["tid"] in roles
    ]
    return sorted(slices, key=lambda s: s.start_s)


def _shown(groups: Sequence[_Group]) -> list[_Slice]:
    """The slices to draw, from time zero: some rounds of the leading groups, and others for the same time."""
    spans = [_some_rounds(group.slices) for group in groups]
    leading = [span for group, span in zip(groups, spans, strict=True) if group.leads]
    longest = max(end - begin for begin, end in leading or spans)
    shown: list[_Slice] = []
    for group, (begin, end) in zip(groups, spans, strict=True):
        until = end if group.leads else begin + longest
        inside = [
            replace(s, start_s=s.start_s - begin, seconds=min(s.seconds, until - s.start_s))
            for s in group.slices
            if begin <= s.start_s < until
        ]
        shown += _labelled(group.title, inside)
    return shown


def _some_rounds(slices: Sequence[_Slice]) -> tuple[float, float]:
    """Begin and end of some rounds, from the round before the first miss if there is one."""
    starts = _round_starts(slices)
    fallback = next((s.start_s for s in slices if s.part == "fallback"), None)
    first = 0 if fallback is None else sum(start <= fallback for start in starts) - 2
    first = max(0, min(first, len(starts) - _ROUNDS - 1))
    end = starts[first + _ROUNDS] if first + _ROUNDS < len(starts) else max(s.end_s for s in slices)
    return starts[first], end


def _round_starts(slices: Sequence[_Slice]) -> list[float]:
    """Starts of rounds: the target, or a draft on its devices, begins anew after a target pass."""
    starts, passed = [], True
    for this in (s for s in slices if s.track == "target"):
        if passed and this.part in ("verify", "draft"):
            starts.append(this.start_s)
            passed = False
        passed |= this.part == "verify"
    return starts


def _labelled(title: str, slices: Sequence[_Slice]) -> list[_Slice]:
    """Tracks named after their group, in the order target, link, draft."""
    ordered = sorted(slices, key=lambda s: (_ROLES.index(s.track), s.start_s))
    return [replace(s, track=f"{title} {s.track}") for s in ordered]


def _plot(shown: Sequence[_Slice], scale: float, unit: str) -> go.Figure:
    tracks = list(dict.fromkeys(s.track for s in shown))
    plot = new_plot(f"time ({unit})", "", height=130 + 42 * len(tracks), barmode="overlay", bargap=0.25)
    for part, meaning in _MEANING.items():
        bars = [s for s in shown if s.part == part]
        if not bars:
            continue
        plot.add_bar(
            orientation="h",
            y=[s.track for s in bars],
            base=rounded(scale * s.start_s for s in bars),
            x=rounded(scale * s.seconds for s in bars),
            name=meaning,
            customdata=[s.what for s in bars],
            marker={
                "color": WORK_COLOUR[part],
                "line": {"width": 0.5, "color": "#ffffff"},
                "pattern": WORK_PATTERN.get(part, {}),
            },
            hovertemplate=f"%{{customdata}}: %{{x:.3g}} {unit}, from %{{base:.4g}}<extra>%{{y}}</extra>",
        )
    plot.update_yaxes(categoryorder="array", categoryarray=tracks, autorange="reversed", title=None)
    return plot
