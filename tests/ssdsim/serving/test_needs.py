"""Long runs say what they take, and how far they are; what does not fit is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ssdsim.answers.workers import Workers
from ssdsim.base import free_memory
from ssdsim.base.errors import InputError
from ssdsim.runs.answer_folders import opened_for_serving
from ssdsim.serving import policy_runs
from ssdsim.serving import serve as of_serve
from ssdsim.serving.batching import Batching
from ssdsim.serving.policy_runs import How, needs, run
from ssdsim.serving.replica import is_long, simulate
from ssdsim.serving.serve import serve
from tests.ssdsim.serving.sample_runs import SMALL, policies_of, requests


@pytest.fixture
def short_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy_runs, "_LONG", 0)
    monkeypatch.setattr(policy_runs, "_FIRST", 50)


@pytest.mark.usefixtures("short_is_long")
def test_rounds_are_those_of_the_first_requests_times_as_many() -> None:
    load, how = requests(1000, rate=4.0, outputs="60"), How(Batching())
    policies = policies_of(load, how.batching, **SMALL, strategies="ar,sd").by_name
    said = needs({name: (policy, 3) for name, policy in policies.items()}, [load], how)
    assert said is not None
    assert said.runs == 6
    assert said.core_s > 0.0
    most = max(run(policy, load, how).columns.shape[1] for policy in policies.values())
    rounds = (said.memory_bytes - 1000 * policy_runs.REQUEST_BYTES) / policy_runs.ROUND_BYTES
    assert rounds == pytest.approx(most, rel=0.3)


@pytest.mark.usefixtures("short_is_long")
def test_needs_are_those_of_the_slowest_load_whichever_comes_first() -> None:
    """They were those of the first one, and fewer that run together take more rounds."""
    how, loads = How(Batching()), [requests(1000, rate=rate, outputs="60") for rate in (16.0, 1.0)]
    policies = policies_of(loads[0], how.batching, **SMALL, strategies="sd").by_name
    asked = {name: (policy, 2) for name, policy in policies.items()}
    slowest, both = needs(asked, loads[1:], how), needs(asked, loads, how)
    assert slowest is not None
    assert both is not None
    assert both.memory_bytes == slowest.memory_bytes


@pytest.mark.usefixtures("short_is_long")
def test_runs_that_grow_to_a_precision_need_what_they_grow_to() -> None:
    """A run of 400 requests was said to need so much, and became one of thousands."""
    load = requests(400, rate=4.0, outputs="60")
    policies = policies_of(load, Batching(), **SMALL, strategies="sd").by_name
    asked = {name: (policy, 1) for name, policy in policies.items()}
    rough, precise = (needs(asked, [load], How(Batching(), precision=precision)) for precision in (None, 0.005))
    assert rough is not None
    assert precise is not None
    assert rough.requests == 400
    assert precise.requests > 4000
    assert precise.memory_bytes > 10 * rough.memory_bytes


@pytest.mark.usefixtures("short_is_long")
def test_no_more_run_beside_each_other_than_memory_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Copies of the process came for idle cores, and nobody counted their memory."""
    rooms: list[int | None] = []
    monkeypatch.setattr(Workers, "each", lambda self, *work, room: rooms.append(room) or {})
    monkeypatch.setattr(of_serve, "free_memory_bytes", lambda: 2_500_000)
    serve(rate=4.0, requests=400, strategies="ar,sd", **SMALL)
    (room,) = rooms
    assert room is not None
    assert 0 < room < 50


@pytest.mark.skipif(not Path("/proc/meminfo").exists(), reason="Linux")
def test_a_cgroup_that_allows_less_than_the_machine_has_is_what_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A container was taken to have the memory of its machine."""
    group = tmp_path / "all" / "of" / "mine"
    group.mkdir(parents=True)
    monkeypatch.setattr(free_memory, "_CGROUPS", tmp_path / "all")
    monkeypatch.setattr(free_memory, "_CGROUP", tmp_path / "cgroup")
    (tmp_path / "cgroup").write_text("1:cpu:/else\n0::/of/mine\n")
    (group / "memory.max").write_text("max\n")
    machine = free_memory.free_memory_bytes()
    (group.parent / "memory.max").write_text("1000000\n")
    (group.parent / "memory.current").write_text("900000\n")
    (group.parent / "memory.stat").write_text("anon 600000\ninactive_file 300000\n")
    assert machine > 10**6
    assert free_memory.free_memory_bytes() == 400_000


@pytest.mark.usefixtures("short_is_long")
@pytest.mark.parametrize(("count", "precision", "long"), [(5000, None, False), (50_000, None, True), (400, 1e-3, True)])
def test_the_pace_is_that_of_runs_as_long_as_they_will_be(
    count: int, precision: float | None, long: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rounds were timed compiled where many short runs, together, were long ones, and each was not."""
    said: list[float] = []

    def spied(policy: Any, load: Any, batching: Any, seed: int, hears: Any, tokens: float | None) -> Any:
        said.append(tokens or float(load.output_tokens.sum()))
        return simulate(policy, load, batching, seed, hears, 1.0)  # else it takes seconds

    monkeypatch.setattr(policy_runs, "simulate", spied)
    load, how = requests(count, rate=4.0, outputs="60"), How(Batching(), precision=precision)
    policies = policies_of(load, how.batching, **SMALL, strategies="sd").by_name
    assert needs({name: (policy, 16) for name, policy in policies.items()}, [load], how) is not None
    assert [is_long(tokens) for tokens in said] == ([False, True, True] if long else [False, False])


def test_short_runs_are_not_measured_before() -> None:
    load, how = requests(1000, rate=4.0, outputs="60"), How(Batching())
    policies = policies_of(load, how.batching, **SMALL).by_name
    assert needs({name: (policy, 1) for name, policy in policies.items()}, [load], how) is None


@pytest.mark.usefixtures("short_is_long")
def test_what_does_not_fit_is_refused_in_one_line_that_says_how_to_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(of_serve, "free_memory_bytes", lambda: 10_000)
    with pytest.raises(InputError, match=r"^a run of 400 requests takes about .* GB, and .* are free: give fewer") as e:
        serve(rate=4.0, requests=400, strategies="ar", **SMALL)
    assert "\n" not in str(e.value)
    assert "--requests" in str(e.value)
    serve(rate=4.0, requests=400, strategies="ar", solver="closed", **SMALL)


@pytest.mark.usefixtures("short_is_long")
def test_runs_that_were_kept_need_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with every run was refused for memory that nothing would take."""
    given: dict[str, Any] = {"rate": 4.0, "requests": 400, "strategies": "ar", **SMALL}
    with opened_for_serving(tmp_path) as folder:
        serve(**given, folder=folder)
        monkeypatch.setattr(of_serve, "free_memory_bytes", lambda: 10_000)
        read: list[str] = []
        part = folder.part
        monkeypatch.setattr(folder, "part", lambda name: read.append(name) or part(name))
        serve(**given, folder=folder)
        assert len(read) == 1  # it was twice, once for its needs
        with pytest.raises(InputError, match="are free: give fewer"):
            serve(**given, folder=folder, seed=1)


@pytest.mark.parametrize("how", [{"rate": 4.0}, {"concurrency": 4}, {"rate": 4.0, "replicas": 2}])
def test_one_long_run_tells_how_far_it_is(how: dict[str, float]) -> None:
    """It said nothing until it was done."""
    heard: list[float] = []
    options = {**SMALL, **how}
    serve(requests=300, strategies="ar", progress=lambda done, of: heard.append(done / of), **options)  # type: ignore[arg-type]
    assert len(heard) > 50
    assert heard == sorted(heard)
    assert heard[-1] == 1.0
