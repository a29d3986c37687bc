"""Replicas behind a router, and the timeline of a run."""

import json
from pathlib import Path

import numpy as np
import pytest

from ssdsim.base.errors import InputError
from ssdsim.question.configuration import configure
from ssdsim.serving.batching import Batching
from ssdsim.serving.fleet import SharedDraft, simulate_fleet
from ssdsim.serving.journal import Requests, Run, timeline
from ssdsim.serving.options import Fleet
from ssdsim.serving.policies import policies
from ssdsim.serving.replica import Replica, simulate
from tests.refusals import refused
from tests.ssdsim.serving.checks import every_token_was_made, time_adds_up
from tests.ssdsim.serving.sample_runs import SMALL, policy, requests

WORKLOAD = requests(120, 6.0, inputs="uniform:50,600", outputs="uniform:5,90")


@pytest.mark.parametrize("name", ["ar", "sd", "ssd"])
@pytest.mark.parametrize("rate", [6.0, np.inf])
def test_one_replica_on_simpys_clock_is_the_loop(name: str, rate: float) -> None:
    workload, batching = WORKLOAD.at_rate(rate), Batching()
    one = simulate(policy(name, workload, batching, **SMALL), workload, batching)
    other = simulate_fleet(policy(name, workload, batching, **SMALL), workload, batching, Fleet(1))
    assert np.allclose(one.requests.last_s, other.requests.last_s, rtol=1e-9)
    assert np.array_equal(one.requests.rounds, other.requests.rounds)


@pytest.mark.parametrize("router", ["round-robin", "least-loaded"])
def test_replicas_share_the_requests_and_lose_none(router: str) -> None:
    workload = WORKLOAD.at_rate(40.0)
    run = simulate_fleet(policy("ssd", workload, Batching(), **SMALL), workload, Batching(), Fleet(3, router))  # type: ignore[arg-type]
    every_token_was_made(run)
    time_adds_up(run)
    counts = np.bincount(run.requests.replica, minlength=3)
    assert counts.min() > 20
    assert run.gpus == 3 * policy("ssd", workload, Batching(), **SMALL).gpus


def test_least_loaded_waits_no_longer_than_round_robin_where_answers_differ() -> None:
    workload = requests(400, 1.0, inputs="200", outputs="lognormal:60,120").at_rate(60.0)
    waits = []
    for router in ("round-robin", "least-loaded"):
        batching = Batching(max_batch=8)
        run = simulate_fleet(policy("ar", workload, batching, **SMALL), workload, batching, Fleet(4, router))  # type: ignore[arg-type]
        waits.append(float((run.requests.scheduled_s - run.requests.arrival_s).mean()))
    assert waits[1] < waits[0]


def test_an_unknown_router_is_refused() -> None:
    with refused("--router", "least-load", "least-loaded"):
        Fleet(2, "least-load")  # type: ignore[arg-type]


@pytest.mark.long
def test_a_timeline_of_a_burst_shows_joins_forced_misses_late_drafts_and_a_switch(tmp_path: Path) -> None:
    workload = requests(150, 1.0, inputs="400", outputs="80").at_rate(60.0)
    batching = Batching()
    auto = policies({"strategies": "ar,ssd,auto", "backup": "jit", "f": 8}, workload, batching).by_name["auto"]
    run = simulate_fleet(auto, workload, batching, Fleet(2))
    timeline(run, auto).save(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    tracks = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    names: dict[str, set[str]] = {}
    for event in events:
        if event["ph"] == "X":
            names.setdefault(tracks[event["tid"]], set()).add(event["name"])
    for number in range(2):
        assert any("joins, forced miss" in name for name in names[f"replica {number} prompts 0"])
        assert any("of prompts" in name and "miss" in name for name in names[f"replica {number} rounds"])
        assert {"verify", "draft, exposed or late", "fallback"} <= names[f"replica {number} parts"]
        assert len(names[f"replica {number} strategy"]) > 1
    assert any(event["ph"] == "C" for event in events)


def _shared(targets: int, name: str = "ssd", replicas: int = 4) -> Run:
    workload, batching = WORKLOAD.at_rate(20.0), Batching()
    of = {"backup": "jit", "targets": targets, "draft_serves": "in-turn"}
    served = policy(name, workload, batching, **SMALL, **of)
    return simulate_fleet(served, workload, batching, Fleet(replicas))


def test_a_draft_that_replicas_share_is_waited_for_and_is_one_gpu() -> None:
    runs = {targets: _shared(targets) for targets in (1, 2, 4)}
    assert [runs[targets].gpus for targets in (1, 2, 4)] == [8, 6, 5]
    times = [float((run.requests.last_s - run.requests.first_s).mean()) for run in runs.values()]
    assert times[0] < times[1] < times[2]
    for run in runs.values():
        every_token_was_made(run)
        time_adds_up(run)


def test_nobody_waits_for_a_draft_beside_its_target() -> None:
    alone, shared = _shared(1, "sd"), _shared(4, "sd")
    assert np.array_equal(alone.requests.last_s, shared.requests.last_s)
    assert alone.gpus == shared.gpus


def test_nobody_books_a_shared_draft_where_nothing_runs() -> None:
    """The last request has its only token where its prompt is processed."""
    workload, batching = requests(2, outputs="9"), Batching(prefill="none")
    workload.output_tokens[1] = 1
    of = {"backup": "jit", "targets": 2, "draft_serves": "in-turn"}
    replica = Replica(
        policy("ssd", requests(2), batching, **SMALL, **of), batching, workload, Requests(workload), seed=0
    )
    replica.offer(0, 1)
    booked = []
    while replica.is_busy:
        booked.append(replica.step_with_draft(np.inf, 0.0))
    replica.offer(1, 2)
    assert min(booked) > 0.0
    assert replica.step_with_draft(np.inf, 0.0) == 0.0
    assert not replica.is_busy


def test_a_shared_draft_is_booked_in_turn() -> None:
    draft = SharedDraft()
    draft.book(0.0, 5.0)
    assert draft.wait_s(1.0) == 4.0
    draft.book(1.0, 1.0)  # begins at 5
    assert draft.wait_s(1.5) == 4.5
    assert draft.wait_s(7.0) == 0.0


def test_those_who_wait_for_a_shared_draft_may_be_served_together() -> None:
    draft = SharedDraft(together=True)
    draft.book(0.0, 5.0)
    draft.book(1.0, 1.0)  # both begin at 5
    draft.book(2.0, 1.0)
    assert draft.wait_s(4.0) == 1.0
    assert draft.wait_s(5.0) == 1.0
    assert draft.wait_s(6.0) == 0.0


@pytest.mark.parametrize(
    ("name", "serves", "targets", "near"),
    [
        ("sd", "in-turn", 2, 0.01),
        ("sd", "in-turn", 4, 0.01),
        ("ssd", "in-turn", 2, 0.01),
        ("ssd", "in-turn", 4, 0.01),
        ("ssd", "together", 2, 0.01),
        ("sd", "together", 2, 0.08),
    ],
)
def test_full_replicas_wait_for_a_shared_draft_as_predicted(name: str, serves: str, targets: int, near: float) -> None:
    """Rounds of full batches against the closed form at their mean context."""
    batch, batching = 8, Batching(prefill="none", max_batch=8, first_speculation="prefill")
    load = requests(40 * targets, 1.0, outputs="400").at_rate(np.inf)
    of = {"targets": targets, "draft_serves": serves, "k": 3, **SMALL}
    of |= {"sd_draft": "separate"} if name == "sd" else {"f": 1, "backup": "jit"}
    run = simulate_fleet(policy(name, load, batching, **of), load, batching, Fleet(targets))
    full = [end - start for rounds in run.rounds for start, end, running, *_ in rounds if running == batch]
    predicted = configure(strategies=name, b=batch, context=712, **of).scenarios[name].estimate
    assert float(np.mean(full)) == pytest.approx(float(predicted.round_s), rel=near)


def test_replicas_that_are_left_over_are_refused() -> None:
    with pytest.raises(InputError, match="3 are no multiple"):
        _shared(2, replicas=3)
