"""Rounds that are made many at a time against the replica that makes one after the other: the same to the bit."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ssdsim.serving import ahead, loop, outcome_rows
from ssdsim.serving.ahead import Ahead
from ssdsim.serving.arithmetic import written
from ssdsim.serving.batching import Batching
from ssdsim.serving.journal import Requests, Run
from ssdsim.serving.loop import drive, run_of
from ssdsim.serving.policy import Policy
from ssdsim.serving.replica import Replica
from ssdsim.serving.workload import Workload
from ssdsim.strategies import ALL
from tests.ssdsim.serving.sample_runs import SMALL, policies_of, requests

FEW = requests(150, 1.0, inputs="lognormal:700,400", outputs="lognormal:120,60")
MANY = requests(200, 40.0, inputs="lognormal:700,400", outputs="lognormal:60,30")
PILED = requests(150, 60.0, inputs="lognormal:700,400", outputs="lognormal:400,100")
ENGINE = Batching()
OTHERS = [s.name for s in ALL if s.most_sequences is None and s.name not in ("ar", "sd", "ssd", "spectre")]


def run(policy: Policy, workload: Workload, batching: Batching, is_long: bool) -> tuple[Run, int]:
    """A run, and how many of its rounds the replica made itself."""
    of_requests = Requests(workload)
    replica = Replica(policy, batching, workload, of_requests, seed=1)
    goes_ahead = Ahead.of(replica, workload.arrival_s) if is_long else None
    assert not is_long or goes_ahead is not None
    own, step = [0], replica.step

    def counted(horizon_s: float) -> None:
        own[0] += 1
        step(horizon_s)

    replica.step = counted  # type: ignore[method-assign]
    drive(replica, workload.arrival_s, goes_ahead)
    return run_of(policy, workload, of_requests, [replica]), own[0]


def check(policy: Policy, workload: Workload, batching: Batching = ENGINE, most: float = 0.25) -> Run:
    run(policy, workload, batching, False)  # works out the prices
    expected, every = run(policy, workload, batching, False)
    made, own = run(policy, workload, batching, True)
    assert np.array_equal(made.columns, expected.columns)
    assert (made.misses, made.lookups, made.wasted_tokens) == (
        expected.misses,
        expected.lookups,
        expected.wasted_tokens,
    )
    for name, column in vars(expected.requests).items():
        assert np.array_equal(vars(made.requests)[name], column, equal_nan=column.dtype.kind == "f"), name
    assert own <= most * every, "most rounds are made ahead"
    return made


@pytest.mark.long
@pytest.mark.parametrize("workload", [FEW, MANY], ids=["few", "many"])
@pytest.mark.parametrize("name", ["ar", "sd", "ssd", "auto"])
def test_rounds_made_ahead_are_the_replicas(name: str, workload: Workload) -> None:
    check(policies_of(workload, ENGINE, **SMALL).by_name[name], workload)


@pytest.mark.long
@pytest.mark.parametrize("name", OTHERS)
def test_they_are_of_other_strategies(name: str) -> None:
    workload = FEW if name == "minedraft" else MANY  # its steps follow the batch: prompts are priced by the replica
    check(policies_of(workload, ENGINE, **SMALL, strategies=name).by_name[name], workload)


@pytest.mark.long
@pytest.mark.parametrize(
    "options",
    [{"sd_draft": "separate"}, {"alpha_concentration": 3.0}, {"drafter": "ngram"}, {"backup": "auto"}],
    ids=str,
)
def test_they_are_with_other_settings(options: dict[str, Any]) -> None:
    for policy in policies_of(MANY, ENGINE, **SMALL, strategies="sd,ssd", **options).fixed.values():
        check(policy, MANY)


@pytest.mark.long
@pytest.mark.parametrize("name", ["ar", "ssd"])
def test_they_are_where_little_fits(name: str) -> None:
    """Prompts in parts, a full batch, and one in a pass of its own."""
    batching = Batching(max_batch=5, token_budget=100)
    made = check(policies_of(MANY, batching, **SMALL).by_name[name], MANY, batching)
    assert made.columns[3].max() == 5


@pytest.mark.long
@pytest.mark.parametrize(("workload", "kv_fraction"), [(FEW, 0.9), (MANY, 0.9), (PILED, 0.2)])
@pytest.mark.parametrize("name", ["ar", "ssd", "auto"])
def test_they_are_wherever_what_is_made_at_a_time_ends(
    name: str, workload: Workload, kv_fraction: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A journal of few rounds, few arrivals at a time, few random numbers, and a full cache."""
    monkeypatch.setattr(loop, "_LEAST_ARRIVALS", 37)
    monkeypatch.setattr(ahead, "_LOGGED", 200)
    monkeypatch.setattr(outcome_rows, "_DRAWN", 500)
    batching = Batching(kv_fraction=kv_fraction)
    most = 1.0 if workload is PILED else 0.25
    made = check(policies_of(workload, batching, **SMALL).by_name[name], workload, batching, most)
    assert made.requests.preemptions.any() == (workload is PILED)


def test_a_replica_whose_rounds_are_not_made_ahead_is_seldom_asked() -> None:
    """It was asked before each round while its cache was full, which took thrice as long as the rounds."""
    policy = policies_of(FEW, ENGINE, **SMALL, strategies="sd").by_name["sd"]
    replica, asked = Replica(policy, ENGINE, FEW, Requests(FEW), seed=0), [0]

    def never(came: int, until: int) -> int:
        asked[0] += 1
        return came

    drive(replica, FEW.arrival_s, SimpleNamespace(run=never))  # type: ignore[arg-type]
    assert replica.rounds_done > 1000
    assert asked[0] < replica.rounds_done / 20


def test_what_is_not_made_ahead_says_so() -> None:
    for batching, name, is_made in (
        (Batching(prefill="none"), "ssd", False),
        (Batching(hold=2), "auto", False),
        (Batching(hold=2), "sd", True),  # which never changes
        (Batching(first_speculation="prefill"), "ssd", False),
    ):
        policy = policies_of(FEW, batching, **SMALL).by_name[name]
        made = Ahead.of(Replica(policy, batching, FEW, Requests(FEW), seed=0), FEW.arrival_s)
        assert (made is not None) == is_made
    retried = policies_of(FEW, ENGINE, **SMALL, strategies="spectre").by_name["spectre"]  # its rounds share chances
    assert Ahead.of(Replica(retried, ENGINE, FEW, Requests(FEW), seed=0), FEW.arrival_s) is None


def test_arithmetic_is_written_down_as_it_is_done() -> None:
    does = lambda t: 0 + np.maximum(0.0, t["a"] - t["b"]) + np.float64(2.0) * t["b"]  # noqa: E731
    rows = written(("a", "b"), does)
    assert rows is not None
    for a, b in ((3.0, 1.25), (1.0, 4.5)):
        register = [a, b]
        for operation, left, right, value in rows.tolist():
            x, y = register[int(left)], register[int(right)]
            register.append((value, x + y, x - y, x * y, max(x, y))[int(operation)])
        assert register[-1] == does({"a": a, "b": b})
    assert written(("a",), lambda t: t["a"] / 2.0) is None
    assert written(("a",), lambda t: t["a"] if t["a"] == 0.0 else 2.0 * t["a"]) is None
    assert written(("a",), lambda t: np.asarray(t["a"]) * 1.0) is None
