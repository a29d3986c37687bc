"""Requests that arrive at a target over pipeline stages: its rounds, its prompts, its GPUs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from site_generator.shown import PROJECT
from ssdsim import serve
from ssdsim.base.errors import CannotRun
from ssdsim.question.configuration import configure
from ssdsim.serving.batching import Batching
from ssdsim.serving.journal import ROUND, Run
from ssdsim.serving.replica import simulate
from ssdsim.serving.workload import Workload
from tests.refusals import refused
from tests.ssdsim.serving.sample_runs import ELSEWHERE, policies_of, policy, requests, shared

LLAMA: dict[str, Any] = {"target": "llama-3.1-70b", "hardware": "h100-sxm", "tp": 4, "alpha": 0.8}
MIXED = Batching(prefill="chunked", max_batch=64)


def ran(workload: Workload, batching: Batching, name: str, pp: int) -> Run:
    return simulate(policy(name, workload, batching, pp=pp, **LLAMA), workload, batching)


def ttft_s(run: Run) -> float:
    return float(np.mean(run.requests.first_s - run.requests.arrival_s))


@pytest.mark.parametrize(("name", "more"), [("ar", {}), ("sd", {"k": 4}), ("sd", {"k": 4, "acceptance_floor": 0.7})])
@pytest.mark.parametrize("pp", [1, 2])
def test_a_full_server_runs_at_the_pace_that_is_predicted_over_stages(name: str, more: dict[str, Any], pp: int) -> None:
    workload = requests(48, outputs="1000", concurrency=15)
    asked = {**LLAMA, **more, "pp": pp}
    run = simulate(policy(name, workload, ELSEWHERE, **asked), workload, ELSEWHERE)
    at = {**asked, "b": 15, "context": round(workload.context), "strategies": name}
    predicted = configure(**at).scenarios[name].estimate
    assert float(run.round_s[run.decoding == 15].mean()) == pytest.approx(float(predicted.round_s), rel=0.02)


@pytest.mark.parametrize("tokens", [300, 1024, 3000, 5000, 8192])
def test_a_lone_prompt_goes_through_all_stages(tokens: int) -> None:
    """Parts of a long one follow each other through the stages, so that it is done sooner. A last part that is small
    waits for those before: it was done as soon as the first stage let it go.
    """
    workload = requests(1, inputs=str(tokens), outputs="20")
    one, two = (ttft_s(ran(workload, MIXED, "ar", pp)) for pp in (1, 2))
    assert two == pytest.approx(one * (tokens + min(tokens, MIXED.token_budget)) / (2 * tokens), rel=0.1)


def test_prompts_follow_each_other_through_the_stages() -> None:
    workload = requests(60, rate=1e4, inputs="2048", outputs="1")
    one, two = (float(np.max(ran(workload, MIXED, "ar", pp).requests.last_s)) for pp in (1, 2))
    assert 0.5 * one < two < 0.58 * one


@pytest.mark.parametrize("name", ["ar", "sd"])
@pytest.mark.parametrize("prefill", ["chunked", "priority", "none"])
def test_the_closed_form_is_of_the_same_rounds(name: str, prefill: Any) -> None:
    batching = Batching(prefill=prefill, max_batch=64)
    workload = requests(600, rate=3.0, inputs="1024", outputs="geometric:200", seed=3)
    one, two = (shared(policy(name, workload, batching, pp=pp, **LLAMA), workload, batching) for pp in (1, 2))
    assert 1.05 < float(two.capacity / one.capacity) < 2.1
    run, mean = ran(workload, batching, name, 2), two.served(3.0)
    took = run.requests.last_s - run.requests.first_s
    assert float(took.mean()) == pytest.approx(float(mean.decode_s), rel=0.1)
    assert ttft_s(run) == pytest.approx(float(mean.ttft_s), rel=0.2, abs=5e-3)


@pytest.mark.parametrize("pp", [1, 2, 4])
def test_each_pass_of_a_round_has_room_for_prompts(pp: int) -> None:
    """Full rounds held the prompts of one pass: four stages served 2.4 times the requests of one."""
    batching = Batching(prefill="chunked")
    workload = requests(300, inputs="4096", outputs="256", concurrency=256)
    one, served = (policy("sd", workload, batching, pp=each, pp_link="rdma", k=5, **LLAMA) for each in (1, pp))
    run = simulate(served, workload, batching)
    of_prompts = run.columns[ROUND.index("prompt_tokens")]
    tokens = of_prompts + run.decoding * served.variants[0].table.queries
    assert np.max(tokens[run.decoding > 0]) == pp * batching.token_budget
    more = float(shared(served, workload, batching).capacity / shared(one, workload, batching).capacity)
    assert 0.75 * pp < more < 1.05 * pp


def test_gpus_are_those_of_all_stages() -> None:
    asked = {"requests": 300, "rate": [4.0], "slo": "ttft:1s,tpot:30ms", "strategies": "ar,sd", "engine": "kernels"}
    found = serve(**asked, pp=2, **LLAMA)
    assert found.plan is not None
    assert {need.gpus for need in found.plan.needs.values()} == {8}
    assert {need.tp for need in found.plan.needs.values()} == {4}


def test_a_cache_of_drafts_over_stages_is_not_described_where_requests_arrive() -> None:
    load = requests(10)
    found = policies_of(load, ELSEWHERE, strategies="ar,sd,ssd", pp=2, **LLAMA | {"tp": 2})
    assert [*found.by_name] == ["ar", "sd"]
    assert [*found.configuration.cannot_run] == ["ssd"]
    with refused("--pp", error=CannotRun):
        policies_of(load, ELSEWHERE, strategies="sd", sd_draft="separate", pp=2, **LLAMA | {"tp": 2})


def test_what_the_page_says_of_one_stage_is_so() -> None:
    at = {"drafter": "eagle3", "engine": "vllm", "strategies": "ar,sd", "rate": [8.0], "solver": "closed"}
    full_at, _ = serve(requests=2000, **at, **LLAMA).capacities["ar"]
    page = " ".join((PROJECT / "docs/how-to/parallelism.md").read_text(encoding="utf-8").split())
    assert f"four alone are full at {full_at:.1f} a second with AR" in page
