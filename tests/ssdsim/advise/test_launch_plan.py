"""What to deploy: the first lines of a recommendation hold it, and its command can be pasted."""

from __future__ import annotations

import json
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ssdsim import configure, recommend
from ssdsim.advise.recommend.launch_plan import launch_plan
from ssdsim.cli.main import cli
from ssdsim.hardware.catalog import full_hardware_name, hardware_names
from tests.refusals import refused
from tests.ssdsim.advise.test_export import bench_commands, check_vllm, served

pytestmark = pytest.mark.long
SMALL: dict[str, Any] = {"k": [2, 4, 6], "tp": 4, "draft_gpus": 1}
ARGS = ["--k", "2,4,6", "--tp", "4", "--draft-gpus", "1", "--quiet"]


def shown(*arguments: str) -> list[str]:
    done = CliRunner().invoke(cli, ["recommend", *arguments, *ARGS], catch_exceptions=False, standalone_mode=False)
    return done.output.splitlines()


def test_the_first_ten_lines_hold_what_to_deploy() -> None:
    arguments = "--gpus 5xh100 --b 4,16 --engine vllm --gpu-hour 2.5 --rate 2".split()
    everything = shown(*arguments)
    lines = everything[:10]
    labels = {line.split()[0]: line for line in lines if not line.startswith(" ")}
    assert labels.keys() >= {"Verdict", "Run", "Worth", "Apart", "Pays", "Cost", "Command"}
    assert "on 4 of 5 h100-sxm for 16 in flight: llama-3.1-70b drafted by llama-3.2-1b" in labels["Run"]
    assert "x AR TP 4 (95 %:" in labels["Worth"]
    assert "with SSD, which vLLM does not have: 1." in labels["Apart"]
    assert "SD takes less time per output token than AR below" in " ".join(" ".join(everything[:12]).split())
    assert "if the 1 idle ones are paid for (--use all)" in labels["Cost"]
    command = served(labels["Command"].removeprefix("Command  "))
    assert (command.model, command.tensor_parallel_size) == ("meta-llama/Llama-3.1-70B-Instruct", 4)
    check_vllm(command.speculative_config, tp=4)
    assert any("requests/s" in line and line.startswith("2/s") for line in everything)


@pytest.mark.parametrize(
    ("runtime", "begins"),
    [("vllm", "vllm serve "), ("sglang", "python -m sglang.launch_server "), ("trtllm", "cat > speculative.yaml")],
)
def test_every_engine_has_a_command_for_what_is_recommended(runtime: str, begins: str) -> None:
    recommendation = recommend(gpus=4, b=4, engine=runtime, **SMALL)
    plan = launch_plan(recommendation)
    assert plan is not None
    assert plan.command is not None
    assert plan.command.text.startswith(begins)
    assert "meta-llama/Llama-3.2-1B-Instruct" in plan.command.text


def test_the_ssd_engines_command_is_exactly_the_deployment() -> None:
    recommendation = recommend(gpus=5, b=4, engine="ssd-engine", **SMALL)
    plan = launch_plan(recommendation)
    assert plan is not None
    assert plan.command is not None
    (command,) = bench_commands(plan.command.text)
    settings = plan.deployment.scenario.settings
    assert (command.b, command.k, command.gpus) == (4, settings["k"], 5)
    assert command.flh == list(settings["fan_outs"])


def test_without_an_engine_the_line_says_which_there_are() -> None:
    plan = launch_plan(recommend(gpus=5, **SMALL))
    assert plan is not None
    assert plan.command is None
    lines = shown("--gpus", "5")
    assert any(line.startswith("Command  add --engine vllm|sglang") for line in lines[:10])


def test_all_gpus_are_paid_for_where_that_is_asked() -> None:
    """`--rank cost` named one GPU of eight, and left the idle ones to cost nothing."""
    costs = {}
    for use in ("needed", "all"):
        recommendation = recommend(gpus=8, b=16, rank="cost", gpu_hour=2.5, use=use, tp=[2, 8], k=[4, 6], draft_gpus=1)
        best = recommendation.answers[0].best
        assert best is not None
        plan = launch_plan(recommendation)
        assert plan is not None
        assert plan.cost is not None
        counted = best.gpus if use == "needed" else 8
        costs[use] = best.cost_per_million(2.5)
        assert costs[use] == pytest.approx(2.5 / 3600 * counted / best.total * 1e6)
        assert plan.cost == pytest.approx([2.5 / 3600 * n / best.total * 1e6 for n in (best.gpus, 8)])
        if use == "all":
            assert best.total == max(d.total for d in recommendation.answers[0].by_strategy.values())
    assert costs["needed"] < costs["all"]
    with refused("--use", "needed", "all", "some"):
        recommend(gpus=2, use="some")


def test_gpus_may_name_their_profile() -> None:
    assert full_hardware_name("h200") == "h200-sxm"
    assert full_hardware_name("H100") == "h100-sxm"  # not its variant that torch timed
    assert full_hardware_name("v100") == "v100"  # there are two
    assert all(full_hardware_name(name) == name for name in hardware_names())
    recommendation = recommend(gpus="2xh200", target="llama-3.1-8b", k=4, strategies="ar,sd")
    assert (recommendation.request.gpus, recommendation.request.options["hardware"]) == (2, "h200-sxm")
    with refused("--hardware l40s"):
        recommend(gpus="2xh200", hardware="l40s")
    with refused("h999"):
        recommend(gpus="2xh999")


def test_an_slo_is_searched_in_the_same_call() -> None:
    recommendation = recommend(gpus=1, b=4, target="llama-3.1-8b", k=4, strategies="ar,sd", engine="vllm")
    plan = launch_plan(recommendation, slo="tpot:8")
    assert plan is not None
    assert plan.paying is not None
    assert plan.paying.within_slo["sd"] > plan.paying.within_slo["ar"]
    with refused("--slo", "tpt", "tpot"):
        launch_plan(recommendation, slo="tpt:8")


def test_a_folder_keeps_the_answer_its_command_and_a_page(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shown("--gpus", "4", "--b", "4", "--engine", "vllm", "-o", str(folder))
    kept = json.loads((folder / "recommendation.json").read_text())
    assert kept["deploy"]["command"]["text"] == (folder / "command.sh").read_text().splitlines()[-1] + "\n"
    assert shlex.split(kept["deploy"]["command"]["text"])[:2] == ["vllm", "serve"]
    options = tomllib.loads((folder / "config.toml").read_text())["options"]
    best = kept["deploy"]["deployment"]
    rate = configure(**options).scenarios[best["strategy"]].estimate.tokens_per_second
    assert float(rate) == pytest.approx(best["tokens_per_second"])
    page = (folder / "report.html").read_text()
    assert kept["verdict"]["sentence"] in page
    (tmp_path / "config.toml").write_text("schema = 1\n")
    with refused("another run"):
        shown("--gpus", "4", "-o", str(tmp_path))
