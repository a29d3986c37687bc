"""Rounds that numba compiled against the same rounds run by Python: the same to the bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ssdsim.serving import replica as of_replica
from ssdsim.serving.batching import Batching
from ssdsim.serving.flat_tables import written
from ssdsim.serving.journal import Requests, Run
from ssdsim.serving.policy import Policy
from ssdsim.serving.replica import Replica, run_of
from ssdsim.serving.workload import Workload
from ssdsim.strategies import ALL
from tests.ssdsim.serving.sample_runs import SMALL, policies_of, requests

pytest.importorskip("numba")

FEW = requests(150, 1.0, inputs="lognormal:700,400", outputs="lognormal:120,60")
MANY = requests(200, 40.0, inputs="lognormal:700,400", outputs="lognormal:60,30")
PILED = requests(150, 60.0, inputs="lognormal:700,400", outputs="lognormal:400,100")
ENGINE = Batching()
OTHERS = [s.name for s in ALL if s.most_sequences is None and s.name not in ("ar", "sd", "ssd")]


def run(policy: Policy, workload: Workload, batching: Batching, compiled: bool) -> Run:
    of_requests = Requests(workload)
    comes_s = workload.arrival_s + batching.prefill_ms / 1e3
    replica = Replica(policy, batching, workload, of_requests, seed=1, comes_s=comes_s, compiled=compiled)
    replica.run()
    return run_of(policy, workload, batching, of_requests, [replica])


def check(policy: Policy, workload: Workload, batching: Batching = ENGINE) -> Run:
    expected, compiled = (run(policy, workload, batching, compiled) for compiled in (False, True))
    assert np.array_equal(compiled.columns, expected.columns)
    totals = [(each.misses, each.lookups, each.wasted_tokens) for each in (compiled, expected)]
    assert totals[0] == totals[1]
    for name, column in vars(expected.requests).items():
        assert np.array_equal(vars(compiled.requests)[name], column, equal_nan=column.dtype.kind == "f"), name
    return compiled


@pytest.mark.long
@pytest.mark.parametrize("workload", [FEW, MANY], ids=["few", "many"])
@pytest.mark.parametrize("name", ["ar", "sd", "ssd", "auto"])
def test_compiled_rounds_are_those_of_python(name: str, workload: Workload) -> None:
    check(policies_of(workload, ENGINE, **SMALL).by_name[name], workload)


@pytest.mark.long
@pytest.mark.parametrize("name", OTHERS)
def test_they_are_of_other_strategies(name: str) -> None:
    check(policies_of(MANY, ENGINE, **SMALL, strategies=name).by_name[name], MANY)


@pytest.mark.long
@pytest.mark.parametrize(
    "options",
    [
        {"sd_draft": "separate"},
        {"alpha_concentration": 3.0},
        {"drafter": "ngram"},
        {"backup": "auto"},
        {"acceptance_floor": 0.9},
        {"pp": 2},
    ],
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
    compiled = check(policies_of(MANY, batching, **SMALL).by_name[name], MANY, batching)
    assert compiled.columns[3].max() == 5


@pytest.mark.long
@pytest.mark.parametrize(("workload", "kv_fraction"), [(FEW, 0.9), (MANY, 0.9), (PILED, 0.2)])
@pytest.mark.parametrize("name", ["ar", "ssd", "auto"])
def test_they_are_wherever_what_is_made_at_a_time_ends(
    name: str, workload: Workload, kv_fraction: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A journal of few rounds, few random numbers at a time, and a full cache."""
    monkeypatch.setattr(of_replica, "_LOGGED_COMPILED", 200)
    monkeypatch.setattr(of_replica, "_DRAWN", 500)
    batching = Batching(kv_fraction=kv_fraction)
    compiled = check(policies_of(workload, batching, **SMALL).by_name[name], workload, batching)
    assert compiled.requests.preemptions.any() == (workload is PILED)


@pytest.mark.long
@pytest.mark.parametrize("name", ["ssd", "auto"])
@pytest.mark.parametrize(
    "rules",
    [
        {"prefill": "priority"},
        {"prefill": "none", "prefill_ms": 12.0},
        {"hold": 3, "tax": 0.01},
        {"first_speculation": "prefill"},
        {"k_table": "1-16:5,17-64:3,65-:0"},
        {"k_table": "ema"},
    ],
    ids=str,
)
def test_they_are_under_other_rules(name: str, rules: dict[str, Any]) -> None:
    batching = Batching(**rules)
    check(policies_of(MANY, batching, **SMALL, strategies="ssd,auto").by_name[name], MANY, batching)


def test_arithmetic_is_written_down_as_it_is_done() -> None:
    does = lambda t: 0 + np.maximum(0.0, t["a"] - t["b"]) + np.float64(2.0) * t["b"]  # noqa: E731
    rows = written(("a", "b"), does)
    assert rows is not None
    for a, b in ((3.0, 1.25), (1.0, 4.5)):
        register = [a, b]
        for operation, left, right, value in rows:
            x, y = register[int(left)], register[int(right)]
            register.append((value, x + y, x - y, x * y, max(x, y))[int(operation)])
        assert register[-1] == does({"a": a, "b": b})
    assert written(("a",), lambda t: t["a"] / 2.0) is None
    assert written(("a",), lambda t: t["a"] if t["a"] == 0.0 else 2.0 * t["a"]) is None
    assert written(("a",), lambda t: np.asarray(t["a"]) * 1.0) is None
