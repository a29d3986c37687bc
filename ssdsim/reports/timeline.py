"""Some rounds as bars on tracks of target, link and draft: simulated, and measured beside them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from ssdsim.engine.simulate import STRATEGIES, simulate
from ssdsim.engine.trace import Trace
from ssdsim.reports.figure import Figure, LeftOut, rounded
from ssdsim.reports.study import Study
from ssdsim.reports.style import STRATEGY_NAME, WORK_COLOUR, WORK_PATTERN, new_plot

_ROUNDS = 4
_SIMULATED_ROUNDS = 60  # enough that a miss is among them, if there are misses at all
_MEASURED = tuple(f"measured {STRATEGY_NAME[name]}" for name in ("sd", "ssd"))
_ALONGSIDE = (STRATEGY_NAME["ar"], STRATEGY_NAME["sd"], _MEASURED[0])
_ROLES = ("target", "link", "draft")
# the first word that a slice's name holds says what the device does
_WORK = (
    ("fallback", "fallback"),
    ("verify", "verify"),
    ("decode", "verify"),
    ("outcome", "communicate"),
    ("speculation", "communicate"),
    ("send", "communicate"),
    ("draft step", "draft"),
    ("glue", "draft"),
    ("branch", "draft"),
    ("pre-speculate", "draft"),
)
_MEANING = {
    "verify": "target pass",
    "draft": "drafting",
    "fallback": "fallback",
    "communicate": "messages",
    "host": "sampling, host",
}


@dataclass(frozen=True)
class _Slice:
    """What a track did, in seconds."""

    track: str
    what: str
    start_s: float
    seconds: float

    @property
    def work(self) -> str:
        return next((work for word, work in _WORK if word in self.what), "host")


def timeline(study: Study) -> list[Figure | LeftOut]:
    """Four rounds of SSD (one with a miss, if there is one), and SD and AR over the same time."""
    groups = dict(_simulated(study))
    if study.folder.measured_trace is not None:
        groups |= {name: _slices(study.folder.measured_trace, f"{name} ") for name in _MEASURED}
    groups = {name: slices for name, slices in groups.items() if _round_starts(slices)}
    if not groups:
        return [LeftOut("rounds in time", "the folder's traces hold no pass of a target")]
    shown, missed = _shown(groups)
    scale, unit = (1e3, "ms") if not study.unit_free else (1.0, "T_v")
    table = pd.DataFrame(
        [(s.track, s.what, scale * s.start_s, scale * s.seconds) for s in shown],
        columns=["track", "what", f"start {unit}", f"duration {unit}"],
    )
    measured = study.folder.measured_trace is not None
    return [
        Figure(
            key="timeline",
            section="Rounds in time",
            title=_title(shown, missed, measured),
            about="One device of each kind; AR and SD are drawn over their own first rounds for the time that the SSD "
            f"rounds take.{_too_short(shown)} {_setting(study)}",
            plot=_plot(shown, scale, unit),
            table=table,
            provenance=f"{_origin(study)} Timings: {study.timings}.",
            interval="No interval: these are single rounds, not means.",
            wide=True,
        )
    ]


def _title(shown: Sequence[_Slice], missed: bool, measured: bool) -> str:
    how = ", simulated and measured" if measured else ""
    if not any(s.track.endswith("draft") and s.work == "draft" for s in shown):
        return f"{_ROUNDS} rounds{how}"
    return f"{_ROUNDS} rounds of SSD{how}: the draft works while the target verifies" + (
        ", a miss waits for its fallback" if missed else ""
    )


def _setting(study: Study) -> str:
    """Whose rounds these are: a trace that another command wrote does not say."""
    if study.folder.trace is not None:
        return "The simulated rounds are of the run that wrote trace.json, which does not hold its settings."
    also = " The measured ones are of the run that wrote measured_trace.json." if study.folder.measured_trace else ""
    return f"At {study.setting()}.{also}"


def _too_short(shown: Sequence[_Slice]) -> str:
    """A note on bars that are there but too narrow to be seen."""
    total = max(s.start_s + s.seconds for s in shown)
    work = {s.work for s in shown}
    widest = {kind: max(s.seconds for s in shown if s.work == kind) / total for kind in work}
    narrow = [_MEANING[kind] for kind in _MEANING if widest.get(kind, 1.0) < 0.001]
    return f" Too short to be seen: {', '.join(narrow)}." if narrow else ""


def _origin(study: Study) -> str:
    simulated = (
        f"Event engine, seed {study.seed}." if study.folder.trace is None else "Simulated: the run's trace.json."
    )
    return simulated + (" Measured: measured_trace.json." if study.folder.measured_trace is not None else "")


def _simulated(study: Study) -> Iterator[tuple[str, list[_Slice]]]:
    """The folder's own timeline, or else one of each strategy."""
    if study.folder.trace is not None:
        yield "simulated", _slices(study.folder.trace)
        return
    for name in STRATEGIES:
        trace = Trace()
        simulate(study.configuration.scenario, name, rounds=_SIMULATED_ROUNDS, seed=study.seed, trace=trace)
        yield STRATEGY_NAME[name], _slices(trace.to_json())


def _slices(document: Mapping[str, Any], prefix: str = "") -> list[_Slice]:
    """The slices of the first device of each role, by start, of the tracks whose names begin with ``prefix``."""
    events = document["traceEvents"]
    tracks = {e["tid"]: e["args"]["name"] for e in events if e.get("ph") == "M" and e["name"] == "thread_name"}
    tracks = {tid: name for tid, name in tracks.items() if name.startswith(prefix)}
    first: dict[str, int] = {}
    for tid, track in tracks.items():
        role = next((role for role in _ROLES if role in track), None)
        if role is not None:
            first.setdefault(role, tid)
    roles = {tid: role for role, tid in first.items()}
    found = [
        _Slice(roles[e["tid"]], e["name"], 1e-6 * e["ts"], 1e-6 * e["dur"])
        for e in events
        if e.get("ph") == "X" and e["tid"] in roles
    ]
    return sorted(found, key=lambda s: s.start_s)


def _shown(groups: Mapping[str, Sequence[_Slice]]) -> tuple[list[_Slice], bool]:
    """The slices to draw, from time zero, and whether a miss is among them.

    Some rounds of what speculates asynchronously; AR and SD for the time that the simulated SSD rounds take.
    """
    spans = {name: _some_rounds(slices) for name, slices in groups.items()}
    longest = max(end - begin for name, (begin, end) in spans.items() if name not in _ALONGSIDE)
    shown, missed = [], False
    for name, slices in groups.items():
        begin, end = spans[name]
        if name in _ALONGSIDE:
            end = begin + longest
        inside = [
            _Slice(s.track, s.what, s.start_s - begin, min(s.seconds, end - s.start_s))
            for s in slices
            if begin <= s.start_s < end
        ]
        missed |= any(s.work == "fallback" for s in inside)
        shown += _labelled(name, inside)
    return shown, missed


def _some_rounds(slices: Sequence[_Slice]) -> tuple[float, float]:
    """Begin and end of some rounds: from the round before the first miss on, if there is one."""
    starts = _round_starts(slices)
    fallback = next((s.start_s for s in slices if s.work == "fallback"), None)
    first = 0 if fallback is None else sum(start <= fallback for start in starts) - 2
    first = max(0, min(first, len(starts) - _ROUNDS - 1))
    end = starts[first + _ROUNDS] if first + _ROUNDS < len(starts) else max(s.start_s + s.seconds for s in slices)
    return starts[first], end


def _round_starts(slices: Sequence[_Slice]) -> list[float]:
    """Where the target (or a draft on its devices) begins anew after a target pass."""
    starts, passed = [], True
    for this in (s for s in slices if s.track == "target"):
        if passed and this.work in ("verify", "draft"):
            starts.append(this.start_s)
            passed = False
        passed |= this.work == "verify"
    return starts


def _labelled(name: str, slices: Sequence[_Slice]) -> list[_Slice]:
    """Tracks named after their group, in the order target, link, draft."""
    present = [role for role in _ROLES if any(s.track == role for s in slices)]
    ordered = sorted(slices, key=lambda s: (present.index(s.track), s.start_s))
    return [_Slice(f"{name} {s.track}", s.what, s.start_s, s.seconds) for s in ordered]


def _plot(shown: Sequence[_Slice], scale: float, unit: str) -> go.Figure:
    tracks = list(dict.fromkeys(s.track for s in shown))
    plot = new_plot(f"time ({unit})", "", height=130 + 42 * len(tracks), barmode="overlay", bargap=0.25)
    for work, meaning in _MEANING.items():
        bars = [s for s in shown if s.work == work]
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
                "color": WORK_COLOUR[work],
                "line": {"width": 0.5, "color": "#ffffff"},
                "pattern": {"shape": WORK_PATTERN.get(work, ""), "size": 5},
            },
            hovertemplate=f"%{{customdata}}: %{{x:.3g}} {unit}, from %{{base:.4g}}<extra>%{{y}}</extra>",
        )
    plot.update_yaxes(categoryorder="array", categoryarray=tracks, autorange="reversed", title=None)
    return plot
