"""What to deploy: the first lines of a recommendation hold it, and its command can be pasted."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ssdsim import configure, recommend
from ssdsim.advise.recommend.command import Command, launch
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


def labels(lines: list[str]) -> dict[str, str]:
    """Labelled lines, each whole."""
    told: dict[str, str] = {}
    for line in lines:
        if found := re.match(r"(\S+(?: \S+)?)  +(\S.*)", line):
            told[found[1]] = found[2]
        elif told and line.startswith("  "):
            told[[*told][-1]] += f" {line.strip()}"
    return told


@pytest.mark.parametrize(
    "arguments",
    [
        "--gpus 5xh100 --b 4,16",
        "--gpus 5xh100 --b 4,16 --engine vllm",
        "--gpus 5 --b 4 --all",
        "--gpus 5 --b 1,2,...,9",
    ],
)
def test_the_first_screen_has_fifteen_lines_of_eighty_columns(arguments: str) -> None:
    lines = shown(*arguments.split())
    assert len(lines) <= 15, lines
    assert max(map(len, lines)) <= 80
    assert labels(lines).keys() >= {"Assumed", "Next"}
    assert "tokens/s" in " ".join(lines)


def test_several_batches_keep_what_is_gained_over_no_speculation() -> None:
    """The headline says it of one batch; of several nothing did."""
    gained = labels(shown("--gpus", "5xh100", "--b", "4,16"))["Over AR"]
    assert re.fullmatch(r"\d\.\d\dx at 4, \d\.\d\dx at 16", gained)


def test_what_is_asked_of_requests_is_told_at_once_and_the_rest_is_explained() -> None:
    arguments = "--gpus 5xh100 --b 4,16 --engine vllm --gpu-hour 2.5 --rate 2".split()
    assert "a token takes SD" in labels(shown(*arguments))["2/s"]
    everything = shown(*arguments, "--explain")
    text = " ".join(" ".join(everything).split())
    assert "SD takes less time per output token than AR on the same 4 GPUs below" in text
    assert "if the 1 idle ones are paid for (--use all)" in text
    assert "apart: with SSD, which vLLM does not have: 1." in text
    for heading in ("Strategies at 4", "Frontier", "Break-even", "What to improve first", "What to measure first"):
        assert any(line.startswith(heading) for line in everything)


def test_what_is_pasted_is_the_command_and_nothing_else(tmp_path: Path) -> None:
    (line,) = shown("--gpus", "5xh100", "--b", "4,16", "--paste", "vllm")
    command = served(line)
    assert (command.model, command.tensor_parallel_size) == ("meta-llama/Llama-3.1-70B-Instruct", 4)
    check_vllm(command.speculative_config, tp=4)
    file = tmp_path / "serve.sh"
    assert shown("--gpus", "5xh100", "--b", "4,16", "--engine", "vllm", "--paste", "-o", str(file)) == []
    assert file.read_text() == f"{line}\n"
    (config,) = shown("--gpus", "5xh100", "--b", "4,16", "--engine", "vllm", "--paste", "speculative-config")
    check_vllm(json.loads(config), tp=4)
    with refused("--paste", "--engine"):
        shown("--gpus", "5", "--paste")


def pasted(b: Sequence[int] = (1, 256), engine: str = "vllm", **asked: Any) -> Command:
    found = recommend(b=b, engine=engine, **asked)
    started = launch(found.answers, found.request)
    assert started is not None
    assert started.command is not None
    return started.command


def test_what_is_pasted_serves_every_batch() -> None:
    """The table ended at the largest batch at which the strategy won: 32 of 128."""
    command = pasted(gpus=2, target="qwen3-32b", drafter="eagle3", alpha=0.624)
    config = served(command.text.strip()).speculative_config
    assert config["num_speculative_tokens_per_batch_size"][-1][1] == 256
    assert command.text.startswith("VLLM_USE_V2_MODEL_RUNNER=1 vllm serve")
    assert not any("14 %" in note or "another choice" in note for note in command.notes)


@pytest.mark.parametrize(
    ("engine", "named", "batches"),
    [
        ("vllm", r'"num_speculative_tokens": (\d+)', (1, 8, 200)),
        ("sglang", r"--speculative-num-steps (\d+)", (8,)),
        ("trtllm", r"max_draft_len: (\d+)", (64,)),
    ],
)
def test_of_one_batch_the_command_has_the_k_of_the_answer(engine: str, named: str, batches: tuple[int, ...]) -> None:
    """It had the K that is best over all batches up to it: 5 beside an answer of 4, or a table."""
    asked: dict[str, Any] = {"gpus": 2, "target": "qwen3-32b", "drafter": "eagle3", "engine": engine}
    for b in batches:
        (answer,) = recommend(b=b, **asked).answers
        assert answer.best is not None
        text = pasted(b=[b], **asked).text
        assert re.findall(named, text) == [str(answer.best.lookahead)]
        assert "batch_size" not in text


def test_of_one_batch_at_which_nothing_should_be_drafted_the_command_drafts_nothing() -> None:
    assert "specul" not in pasted(b=[64], gpus=1, target="llama-3.1-8b", alpha=0.2).text


def test_a_table_that_costs_more_than_it_gains_is_not_pasted() -> None:
    """It was pasted with a note that it takes 14 % of the speed, for a gain of 0.5 %."""
    command = pasted(gpus=1, target="llama-3.1-8b", alpha=0.4)
    assert "per_batch_size" not in command.text
    assert command.notes[0].startswith("K 1 at all batch sizes: a table over them would gain 0.")
    assert command.notes[0].endswith("and cost 14%")


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


def test_without_an_engine_the_line_says_how_to_name_one() -> None:
    plan = launch_plan(recommend(gpus=5, **SMALL))
    assert plan is not None
    assert plan.command is None
    assert "--paste vllm" in labels(shown("--gpus", "5"))["Next"]


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
