"""Joules a token: what devices draw at work and at rest, counted by a replay, priced by the watts of a card."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from site_generator.json_reference import undescribed
from ssdsim import predict
from ssdsim.advise.recommend.recommendation import recommend
from ssdsim.answers.energy import Energy, drawn_by, step_counts
from ssdsim.answers.simulation.simulate import simulate
from ssdsim.base.record import replace
from ssdsim.cli.main import cli
from ssdsim.hardware.catalog import find_hardware
from ssdsim.hardware.power import LoadLaw
from ssdsim.hardware.what_if import scale
from ssdsim.pricing.step import Pass
from ssdsim.question.configuration import configure
from tests.refusals import refused

WORKLOAD: dict[str, Any] = {"target": "llama-3.1-70b", "hardware": "h200-sxm", "tp": 4, "b": 1, "k": 4, "p_hit": 0.8}
H200 = find_hardware("h200-sxm")


@pytest.fixture(scope="module")
def energies() -> dict[str, Energy]:
    return dict(predict(**WORKLOAD, energy=True).energy)


@pytest.mark.quick
@given(st.floats(0, 2), st.floats(0, 2), st.floats(0, 0.5), st.sampled_from(["gemm", "attention", "experts"]))
def test_watts_rise_with_the_load_up_to_the_limit(memory: float, arithmetic: float, more: float, of: str) -> None:
    assert H200.power is not None
    law: LoadLaw = H200.power.kinds[of]  # type: ignore[index]
    limit_w = H200.power.limit_w
    watts = law.watts(memory, arithmetic, limit_w)
    assert law.busy_w <= watts <= limit_w
    assert watts <= law.watts(memory + more, arithmetic, limit_w)
    assert watts <= law.watts(memory, arithmetic + more, limit_w)


@pytest.mark.quick
def test_a_step_that_always_runs_is_counted_once_and_a_backup_as_often_as_hits_miss() -> None:
    scenarios = configure(**WORKLOAD).scenarios
    assert step_counts(scenarios["sd"]) == pytest.approx(dict.fromkeys(step_counts(scenarios["sd"]), 1.0), abs=0.01)
    counts = step_counts(scenarios["ssd"])
    assert counts["draft", "fallback"] == pytest.approx(1.0 - scenarios["ssd"].estimate.p_all_hit, abs=0.12)
    assert counts["target", "verify"] == pytest.approx(1.0, abs=0.01)


@pytest.mark.quick
@pytest.mark.parametrize("name", ["ar", "sd", "ssd", "pearl", "amusd"])
def test_the_counts_keep_devices_as_busy_as_the_event_engine_does(name: str) -> None:
    scenario = configure(**WORKLOAD, strategies=(name,)).scenarios[name]
    run = simulate(scenario, solver="des", rounds=2_000)
    counts = step_counts(scenario)
    for role in {role for role, _ in counts}:
        work_s = sum(n * scenario.steps[step].seconds for (who, step), n in counts.items() if who == role)
        assert work_s / float(scenario.estimate.round_s) == pytest.approx(run.utilisation[role], abs=0.06)


@pytest.mark.quick
def test_watts_are_joules_a_token_times_tokens_a_second(energies: dict[str, Energy]) -> None:
    found = predict(**WORKLOAD, energy=True)
    for name, of in energies.items():
        watts = sum(each.gpus * each.watts for each in of.by_role)
        rate = found.draws[name].joint if found.draws else np.ones(1)
        joules, speed = (float(np.exp(np.log(each).mean())) for each in (of.joules, rate))
        assert joules == pytest.approx(watts / speed, rel=0.05)  # draws of the watts have the point in their middle
        assert of.joules_per_token.interval.low < of.joules_per_token.likely.low < of.joules_per_token.median


@pytest.mark.quick
def test_every_gpu_draws_more_than_at_rest_and_less_than_its_limit(energies: dict[str, Energy]) -> None:
    assert H200.power is not None
    for of in energies.values():
        assert all(H200.power.idle_w < each.watts < H200.power.limit_w for each in of.by_role)
    (target, draft) = energies["ssd"].by_role
    assert (target.role, target.gpus, draft.role, draft.gpus) == ("target", 4.0, "draft", 1.0)
    assert draft.watts < target.watts  # it streams a small model, and waits in between


@pytest.mark.quick
def test_sparse_attention_draws_for_as_long_as_its_engines_own_kernels_run() -> None:
    glm = {"target": "glm-5.2", "hardware": "b200-sxm", "tp": 8, "engine": "sglang-v2", "b": 1, "context": 8192}
    scenario = configure(**glm, strategies="ar").scenarios["ar"]
    steps = {
        name: replace(step, pieces=tuple(replace(each, work=on_own_kernels(each.work)) for each in step.pieces))
        for name, step in scenario.steps.items()
    }
    (drawn,), (own,) = drawn_by(scenario), drawn_by(scenario.with_steps(steps))
    assert drawn.watts == pytest.approx(own.watts)


def on_own_kernels(work: Any) -> Any:
    return replace(work, profile=work.priced_on) if isinstance(work, Pass) else work


@pytest.mark.quick
def test_a_draft_that_targets_share_is_counted_to_each_in_part() -> None:
    shared = configure(**{**WORKLOAD, "tp": 2}, targets=2, strategies=("ssd",)).scenarios["ssd"]
    assert [(each.role, each.gpus) for each in drawn_by(shared)] == [("target", 2.0), ("draft", 0.5)]


@pytest.mark.quick
def test_an_error_of_the_watts_is_common_to_all_that_run_there(energies: dict[str, Energy]) -> None:
    ar, sd = energies["ar"], energies["sd"]
    assert H200.power is not None
    apart = np.log(np.array([sd.over(ar).interval.low, sd.over(ar).interval.high]))
    alone = np.log(np.array([sd.joules_per_token.interval.low, sd.joules_per_token.interval.high]))
    assert np.ptp(apart) < np.hypot(np.ptp(alone), 2 * 1.96 * H200.power.pass_log_sd)


@pytest.mark.quick
def test_without_watts_one_line_says_who_has_them() -> None:
    with refused("--energy", "h100-sxm", "h200-sxm", "b200-sxm"):
        predict(target="llama-3.1-8b", hardware="h100-sxm", tp=1, energy=True)
    with refused("--rank joules", "h100-sxm", "h200-sxm"):
        recommend(gpus="2xh100-sxm", rank="joules", target="llama-3.1-8b")
    with refused("--energy", "--hardware"):
        predict(t_sd=0.2, alpha=0.9, p_hit=0.8, energy=True)


@pytest.mark.quick
def test_a_scaled_device_has_no_watts() -> None:
    assert scale(H200, "faster", clock=1.1).power is None


@pytest.mark.quick
def test_the_fewest_joules_are_those_of_the_one_that_is_recommended() -> None:
    (slow,) = recommend(gpus="4xh200-sxm", target="qwen3-32b", b=1, k=[5], rank="joules").answers
    assert {"ar", "sd", "ssd"} <= slow.by_strategy.keys()  # what takes twice as many is named all the same
    asked: dict[str, Any] = {"gpus": "5xh200-sxm", "target": "llama-3.1-70b", "b": 4, "k": [3, 5], "draft_gpus": 1}
    (answer,) = recommend(**asked, rank="joules", rule="point").answers
    assert answer.best is not None
    assert answer.best.joules == min(d.joules for d in answer.by_strategy.values())
    (by_user,) = recommend(**asked, rule="point").answers
    assert by_user.best is not None
    assert answer.best.joules < by_user.best.joules
    (of_all,) = recommend(**asked, rank="joules", rule="point", use="all").answers
    assert of_all.best is not None
    idle = 5 - of_all.best.gpus
    assert H200.power is not None
    assert float(of_all.best.watts()) >= idle * H200.power.idle_w + of_all.best.gpus * H200.power.idle_w


@pytest.mark.quick
def test_the_command_tells_joules_and_every_key_of_them_is_described() -> None:
    command = "predict --model llama-3.1-70b --hardware h200-sxm --tp 4 --k 4 --energy"
    said = CliRunner().invoke(cli, command.split()).stdout
    assert "J a token" in said
    assert "W a GPU" in said
    assert "takes the fewest a token" in " ".join(said.split())
    answer = json.loads(CliRunner().invoke(cli, [*command.split(), "--json"]).stdout)
    assert not undescribed("predict", answer)
    energy = answer["strategies"]["ssd"]["energy"]
    assert energy["watts"].keys() == energy["watts_at_rest"].keys() == {"target", "draft"}
    unasked = CliRunner().invoke(cli, [*command.split()[:-1], "--json"]).stdout
    assert "energy" not in json.loads(unasked)["strategies"]["ssd"]
