"""The roofline reads the same passes and the same timings as every prediction."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

import pandas as pd
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from ssdsim import InputError, configure, find_hardware
from ssdsim.answers.roofline import BOUNDS, COLUMNS, of_steps, roofline, summarise
from ssdsim.cli.main import cli
from ssdsim.pricing.passes import cost_between_kernels, cost_of_operations, streaming_share
from ssdsim.pricing.step import Pass, Step
from ssdsim.transformer.operations import Gemm
from tests.refusals import refused

PASSES = ("decode", "verify", "draft step", "glue", "branch step")
CELLS = {"b": st.integers(1, 48), "k": st.integers(1, 10), "context": st.integers(64, 4096)}  # all of these fit


def rounds(**options: object) -> list[Mapping[str, Step]]:
    """The steps of each strategy's round."""
    configuration = configure(**options, p_hit=0.8, budget=21, sd_draft="separate")
    assert not configuration.no_room
    return [scenario.steps for scenario in configuration.scenarios.values()]


def passes_of(steps: Iterable[Mapping[str, Step]]) -> dict[str, Pass]:
    works = [work for round_steps in steps for step in round_steps.values() for work in step.passes]
    by_name = {work.name: work for work in works}
    assert all(by_name[work.name] == work for work in works), "one name, one pass"
    assert set(by_name) == set(PASSES)
    return {name: by_name[name] for name in PASSES}


@pytest.mark.long
@settings(max_examples=20, deadline=None)
@given(**CELLS)
def test_the_operations_and_the_fixed_cost_are_the_pass(b: int, k: int, context: int) -> None:
    steps = rounds(b=b, k=k, context=context)
    frame = of_steps(steps)
    assert tuple(frame.columns) == COLUMNS
    assert frame.groupby("pass")["share_of_pass"].sum().to_list() == pytest.approx([1.0] * len(PASSES))
    for name, work in passes_of(steps).items():
        forward, profile = work.forward, work.profile
        operations = frame[(frame["pass"] == name) & (frame["kind"] != "fixed")]
        seconds = (operations["count"] * operations["seconds"]).sum()
        assert seconds == pytest.approx(cost_of_operations(forward.counted, profile).seconds)
        fixed_s = cost_between_kernels(
            forward, cost_of_operations(forward.counted, profile), work.runtime, work.model
        ).seconds
        assert seconds == pytest.approx(work.cost.seconds - fixed_s)
        assert (operations["count"] * operations["flops"]).sum() == pytest.approx(forward.flops)


@pytest.mark.long
@settings(max_examples=20, deadline=None)
@given(**CELLS)
def test_nothing_beats_a_roof_unless_it_is_flagged(b: int, k: int, context: int) -> None:
    steps = rounds(b=b, k=k, context=context)
    frame = of_steps(steps)
    devices = {work.profile.name: work.profile.device for work in passes_of(steps).values()}
    for _, row in frame[~frame["kind"].isin(["fixed", "all_reduce", "all_gather"])].iterrows():
        device = devices[row["device"]]
        faster = row["bytes_per_second"] > device.memory_bandwidth
        faster |= row["flops_per_second"] > device.peak_flops["bfloat16"]
        assert faster == row["above_roof"]
    known = frame.dropna(subset=["share_of_roof"])
    assert ((known["share_of_roof"] > 1) == known["above_roof"]).all()


@pytest.mark.long
@settings(max_examples=20, deadline=None)
@given(**CELLS)
def test_a_passes_summary_is_what_the_cost_model_says(b: int, k: int, context: int) -> None:
    steps = rounds(b=b, k=k, context=context)
    summary = summarise(of_steps(steps)).set_index("pass")
    assert summary.index.to_list() == list(PASSES)
    for name, work in passes_of(steps).items():
        seconds = work.cost.seconds
        assert summary.loc[name, "seconds"] == pytest.approx(seconds)
        streamed = streaming_share(work.forward, seconds, work.profile)
        assert summary.loc[name, "streaming_share"] == pytest.approx(streamed)
    assert summary[[f"{bound}_share" for bound in BOUNDS]].sum(axis=1).to_list() == pytest.approx([1.0] * len(PASSES))


def test_the_passes_are_those_of_a_round() -> None:
    options = {"b": 8, "k": 5, "budget": 18}
    scenarios = configure(**options, p_hit=0.8, backup="jit").scenarios
    ar, ssd = (scenarios[name].seconds for name in ("ar", "ssd"))
    summary = summarise(roofline(**options)).set_index("pass")
    assert summary["times"].to_dict() == {"decode": 1, "verify": 1, "draft step": 5, "glue": 1, "branch step": 5}
    seconds = summary["times"] * summary["seconds"]
    assert seconds["decode"] == pytest.approx(ar["decode"])
    assert seconds["verify"] == pytest.approx(ssd["verify"])
    assert seconds["draft step"] == pytest.approx(ssd["fallback"])
    glue, branch = scenarios["ssd"].steps["pre-speculate"].pieces
    assert seconds["glue"] == pytest.approx(glue.cost.seconds)
    assert seconds["branch step"] == pytest.approx(5 * branch.cost.seconds)


def bounds(**options: object) -> pd.Series:
    frame = roofline(**options)
    return frame.set_index(["pass", "operation"])["bound"]


def test_what_binds_moves_with_the_batch() -> None:
    """One sequence streams the weights; 64 x 7 tokens pass the H100's ridge (295 FLOP/B) in the wide GEMMs."""
    assert bounds(b=1)["verify", "gate_up"] == "memory"
    assert bounds(b=64)["verify", "gate_up"] == "compute"
    assert bounds(b=64)["decode", "gate_up"] == "memory"
    assert bounds(b=1)["verify", "post_norm"] == "latency"
    assert bounds(b=1)["verify", "mlp_all_reduce"] == "communication"


def test_latency_bound_means_that_the_floor_and_not_the_roof_explains_the_time() -> None:
    frame, profile = roofline(b=1), find_hardware("h100-sxm")
    waiting = frame[frame["bound"] == "latency"]
    assert not waiting.empty
    assert (waiting["share_of_roof"] < 0.5).all()
    working = frame[frame["bound"].isin(["memory", "compute"]) & (frame["share_of_roof"] < 0.5)]
    for _, row in working.iterrows():  # slow, but not by waiting for launches
        m, n, k = map(int, row["shape"].split("x"))
        assert profile.launch_seconds(Gemm("", m, n, k, "bfloat16")) < row["roof_s"]


def test_the_draft_on_another_device_is_held_against_its_own_roofs() -> None:
    frame = roofline(target="llama-3.1-8b", tp=4, hardware="v100-sxm2-32gb", dtype="float16")
    assert set(frame["device"]) == {"v100-sxm2-32gb"}
    gemms = frame[frame["kind"] == "gemm"]
    expected = (gemms["bytes"] / 900e9).combine(gemms["flops"] / 125e12, max)
    assert gemms["roof_s"].to_numpy() == pytest.approx(expected.to_numpy())


def test_a_target_on_every_device_has_a_roofline() -> None:
    """No device of the node is left for a draft, whose passes have roofs of their own all the same."""
    wide, narrow = roofline(tp=8), roofline(tp=4)
    assert wide["pass"].unique().tolist() == list(PASSES)
    of_draft = ["draft step", "glue", "branch step"]
    columns = ["operation", "seconds"]
    draft = [frame.loc[frame["pass"].isin(of_draft), columns].reset_index(drop=True) for frame in (wide, narrow)]
    pd.testing.assert_frame_equal(*draft)
    gate_up = [frame.set_index(["pass", "operation"]).loc[("decode", "gate_up"), "bytes"] for frame in (wide, narrow)]
    assert gate_up[0] < 0.6 * gate_up[1]


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"alpha": 0.5}, "roofline has no option 'alpha'"),
        ({"tp": 3}, "tp 3"),
        (
            {"target": "transformer-shaped-2048x4", "dtype": "bfloat16", "tp": 16},
            "16 target devices, h100-sxm has 8",
        ),
        ({"draft_gpus": 9, "strategies": "ssd"}, "9 draft devices, h100-sxm has 8"),
        ({"f": 3, "budget": 10}, "--f, --budget"),
    ],
)
def test_mistakes_are_errors(options: dict[str, object], names: str) -> None:
    with refused(*names.split(", ")):
        roofline(**options)


def test_a_strategy_without_room_is_told_of() -> None:
    frame = roofline(draft_gpus=9)
    assert frame["pass"].unique().tolist() == ["decode", "verify", "draft step"]
    assert "SSD needs 9 draft devices, h100-sxm has 8" in frame.attrs["warnings"]
    assert roofline(strategies="sd")["pass"].unique().tolist() == ["verify", "draft step"]


def test_json_and_a_choice_of_passes() -> None:
    done = CliRunner().invoke(cli, ["roofline", "--pass", "glue", "--json"])
    assert done.exit_code == 0
    answer = json.loads(done.stdout)
    assert [summary["pass"] for summary in answer["passes"]] == ["glue"]
    assert {row["pass"] for row in answer["operations"]} == {"glue"}
    assert set(answer["operations"][0]) == set(COLUMNS)
    for spelling in ("branch step", "branch_step"):
        done = CliRunner().invoke(cli, ["roofline", "--pass", spelling, "--json"])
        (summary,) = json.loads(done.stdout)["passes"]
        assert (summary["pass"], summary["times"]) == ("branch step", 6)
    wrong = CliRunner().invoke(cli, ["roofline", "--pass", "verfy"])
    assert isinstance(wrong.exception, InputError)
    assert "did you mean 'verify'" in str(wrong.exception)


def test_the_verification_of_sd_has_its_own_lookahead() -> None:
    frame = roofline(strategies="sd", sd_k=3, b=2)
    assert frame[frame["pass"] == "verify"].set_index("operation").loc["gate_up", "shape"].startswith("8x")


def test_sparse_attention_is_held_against_its_engines_own_kernels() -> None:
    glm = {"target": "glm-5.2", "hardware": "b200-sxm", "tp": 8, "drafter": "mtp", "context": 32768, "b": 4, "k": 3}
    of_engine = {each: roofline(**glm, strategies="ar", engine=each) for each in ("vllm", "sglang-v2")}
    steps = {
        each: frame[frame["kind"].isin(("indexer", "sparse_attention"))]["seconds"].sum()
        for each, frame in of_engine.items()
    }
    assert steps["sglang-v2"] < 0.8 * steps["vllm"]
    for frame in of_engine.values():
        assert (frame[frame["kind"] == "fixed"]["seconds"] >= 0.0).all()
