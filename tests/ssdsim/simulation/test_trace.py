"""Timelines: valid Chrome trace events, no overlaps, every arrow resolved, busy times that add up."""

from __future__ import annotations

import itertools
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from ssdsim.answers.simulation.simulate import SimulatedRounds, simulate
from ssdsim.answers.simulation.trace import Trace
from ssdsim.question.configuration import configure

ROUNDS = 50
CASES: dict[str, dict[str, Any]] = {
    "hits with nothing to wait for": {"t_sd": 0.3, "t_p": 0.6, "p_hit": 1.0},
    "jit misses": {"t_sd": 0.3, "t_p": 0.6, "p_hit": 0.4, "backup": "jit"},
    "late draft": {"t_sd": 0.3, "t_p": 1.4, "p_hit": 0.5, "backup": "jit"},
    "fast misses and jitter": {"t_sd": 0.3, "t_p": 1.0, "t_b": 0.1, "p_hit": 0.4, "backup": "fast", "spread": 0.1},
}


def traced(strategy: str = "ssd", **options: Any) -> tuple[dict[str, Any], SimulatedRounds, Trace]:
    trace = Trace()
    run = simulate(configure(**options).scenarios[strategy], rounds=ROUNDS, trace=trace)
    return json.loads(json.dumps(trace.to_json())), run, trace


def slices_by_track(document: dict[str, Any]) -> dict[int, list[dict[str, Any]]]:
    tracks = defaultdict(list)
    for event in document["traceEvents"]:
        if event["ph"] == "X":
            tracks[event["tid"]].append(event)
    return tracks


@pytest.mark.parametrize("case", CASES)
def test_slices_of_a_track_never_overlap(case: str) -> None:
    document, _, _ = traced(**CASES[case])
    for events in slices_by_track(document).values():
        ordered = sorted(events, key=lambda e: e["ts"])
        for before, after in itertools.pairwise(ordered):
            assert before["ts"] + before["dur"] <= after["ts"] + 1e-6, (before, after)


@pytest.mark.parametrize("case", CASES)
def test_every_arrow_starts_and_ends_in_a_slice(case: str) -> None:
    document, _, _ = traced(**CASES[case])
    tracks = slices_by_track(document)
    ends: dict[int, dict[str, dict[str, Any]]] = defaultdict(dict)
    for event in document["traceEvents"]:
        if event["ph"] in ("s", "f"):
            ends[event["id"]][event["ph"]] = event
    assert len(ends) >= 2 * (ROUNDS - 1)
    last_start = max(e["ts"] for events in tracks.values() for e in events)
    for pair in ends.values():
        assert set(pair) == {"s", "f"}
        assert pair["s"]["ts"] <= pair["f"]["ts"]
        for arrow in pair.values():
            inside = [e for e in tracks[arrow["tid"]] if e["ts"] <= arrow["ts"] <= e["ts"] + e["dur"]]
            assert inside or arrow["ts"] >= last_start, arrow


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("strategy", ["ar", "sd", "ssd"])
def test_busy_times_add_up_to_the_reported_utilisation(case: str, strategy: str) -> None:
    _, run, trace = traced(strategy, **CASES[case])
    total_s = run.round_s.value * run.rounds
    for role, share in run.utilisation.items():
        track = {"target": "target GPU 0", "draft": "draft GPU 0", "link": "link"}[role]
        assert trace.busy_s(track) / total_s == pytest.approx(share, abs=1e-9), role


def test_the_draft_works_while_the_target_verifies() -> None:
    document, _, trace = traced(**CASES["jit misses"])
    names = {e["tid"]: e["args"]["name"] for e in document["traceEvents"] if e["name"] == "thread_name"}
    tracks = {names[tid]: events for tid, events in slices_by_track(document).items()}
    verifying = [(e["ts"], e["ts"] + e["dur"]) for e in tracks["target GPU 0"] if e["name"] == "verify"]
    glue = [e["ts"] for e in tracks["draft GPU 0"] if e["name"] == "glue"]
    assert all(any(start <= at < end for start, end in verifying) for at in glue[:-1])
    branch_steps = [e for e in tracks["draft GPU 0"] if e["name"].startswith("branch step")]
    assert len(branch_steps) >= 6 * (ROUNDS - 1)
    assert trace.tracks[:2] == ["target GPU 0", "draft GPU 0"] or set(trace.tracks) >= {"target GPU 0", "draft GPU 0"}


def test_a_late_draft_keeps_the_target_waiting() -> None:
    document, _, _ = traced(**CASES["late draft"])
    names = {e["tid"]: e["args"]["name"] for e in document["traceEvents"] if e["name"] == "thread_name"}
    tracks = {names[tid]: sorted(events, key=lambda e: e["ts"]) for tid, events in slices_by_track(document).items()}
    verify = [e for e in tracks["target GPU 0"] if e["name"] == "verify"]
    gaps = [b["ts"] - a["ts"] - a["dur"] for a, b in itertools.pairwise(verify)]
    assert min(gaps) == pytest.approx(0.4e6)


def test_a_saved_timeline_is_the_object_that_perfetto_reads(tmp_path: Path) -> None:
    _, _, trace = traced(**CASES["jit misses"])
    trace.save(tmp_path / "trace.json")
    document = json.loads((tmp_path / "trace.json").read_text())
    assert set(document) >= {"traceEvents", "displayTimeUnit"}
    for event in document["traceEvents"]:
        assert event["ph"] in {"M", "X", "s", "f", "C"}
        assert event["ph"] == "M" or event["ts"] >= 0
