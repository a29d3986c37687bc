"""A calibration's plan for a machine that is described: nothing is asked of this one."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from calibration.timings.plan import plan
from tests.ssdsim.cli.in_process import asked

DGX_1 = ("calibrate", "--dry-run", "--machine", "dgx-1", "--gpus", "0-4")
PAIR = ("--target", "llama-2-13b", "--draft", "llama-2-7b")


def test_the_plan_says_who_holds_and_does_what() -> None:
    document = json.loads(asked(*DGX_1, *PAIR, "--json").stdout)
    ranks = document["ranks"]
    assert [rank["device"] for rank in ranks] == [f"cuda:{n}" for n in range(5)]
    assert ranks[0]["to_draft"] == "2 NVLinks, 48.1 GB/s"
    assert all("no NVLink, through the host" in rank["to_draft"] for rank in ranks[1:4])
    assert ranks[4]["role"] == "draft, llama-2-7b"
    assert ranks[4]["needs_bytes"] > 13 * 2**30  # the draft's weights in float16
    assert all(rank["fits"] for rank in ranks)
    work = {each["name"]: each for each in document["benchmarks"]}
    assert work["gemm"]["who"] == "rank 0"
    assert work["all_reduce"]["who"] == "target ranks"
    assert work["rank link"]["fitted"] == 0
    assert all(each["visits"] == 3 * each["points"] for each in work.values())
    assert document["minutes"] == pytest.approx(1.0 + sum(each["minutes"] for each in work.values()))
    assert document["strategies"] == ["ar", "sd", "ssd"]


def test_the_plan_is_for_the_strategies_that_are_named() -> None:
    def points(*named: str) -> int:
        document = json.loads(asked(*DGX_1, *PAIR, *named, "--json").stdout)
        return sum(each["points"] for each in document["benchmarks"])

    assert points("--strategies", "ar,sd") < points() < points("--strategies", "ar,sd,ssd,tree")
    assert " points for AR, PEARL, " in asked(*DGX_1, *PAIR, "--strategies", "ar,pearl").stdout


def test_a_pair_that_does_not_fit_is_refused() -> None:
    told = asked(*DGX_1, "--target", "llama-2-70b", "--draft", "llama-2-7b", "--tp", "4", "--quiet")
    assert told.returncode == 2
    assert "cuda:0 (target 0 of 4, llama-2-70b) needs 3" in told.stderr
    assert "v100-sxm2-32gb has 32.0 GiB: give a smaller --target, or more --gpus" in told.stderr


def test_a_dtype_that_the_gpu_does_not_compute_is_refused() -> None:
    told = asked(*DGX_1, *PAIR, "--dtype", "bfloat16", "--quiet")
    assert told.stderr == "error: --dtype bfloat16: a Tesla V100-SXM2-32GB has none; give --dtype float16\n"


@pytest.mark.parametrize("machine", ["dgx-1", "dgx1", "DGX-1"])
def test_a_machine_says_which_memory_it_means(machine: str) -> None:
    told = asked("calibrate", "--dry-run", "--machine", machine, "--gpus", "0-4", *PAIR)
    said = f"note: --machine {machine} is taken for v100-sxm2-32gb (another memory: dgx-1-16gb)"
    assert (told.returncode, told.stderr.strip()) == (0, said)


def test_a_machine_of_one_memory_names_no_other() -> None:
    told = asked("calibrate", "--dry-run", "--machine", "h200", "--gpus", "0-4", *PAIR)
    assert told.stderr == "note: --machine h200 is taken for h200-sxm\n"


V100, H100 = "{n}, Tesla V100-SXM2-32GB, 7.0, 32768 MiB", "{n}, NVIDIA H100 80GB HBM3, 9.0, 81559 MiB"


@pytest.mark.parametrize(("line", "profile"), [(V100, "v100-sxm2-32gb"), (H100, "h100-sxm")])
def test_on_the_machine_itself_nobody_describes_it(line: str, profile: str, monkeypatch: pytest.MonkeyPatch) -> None:
    told = "\n".join(line.format(n=n) for n in range(5))
    monkeypatch.setattr("calibration.machine.drivers.nvidia_smi", lambda *arguments: told)
    done = asked("calibrate", "--dry-run", "--gpus", "0-4", *PAIR)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{profile}: 5 x ")
    few = asked("calibrate", "--dry-run", "--gpus", "0-7", *PAIR)
    assert f"{profile} has 5 GPUs, 0-4" in few.stderr


def test_without_models_the_largest_pair_that_fits_is_planned_and_said() -> None:
    told = asked(*DGX_1)
    assert told.returncode == 0, told.stderr
    said = "default models: transformer-shaped-8192x40 + transformer-shaped-2048x6, the largest that fit"
    assert f"note: {said} (--target and --draft name others)" in told.stderr
    assert "target 0 of 4, transformer-shaped-8192x40" in told.stdout
    large = asked("calibrate", "--dry-run", "--machine", "h100-sxm", "--gpus", "0-4")
    assert "default models: llama-3.1-70b + llama-3.2-1b" in large.stderr
    small = asked(*DGX_1[:-1], "0", "--json")
    assert json.loads(small.stdout)["ranks"][0]["role"].startswith("target 0 of 1, llama-3.1-8b and draft, llama-3.2")


def test_of_eight_gpus_as_many_hold_the_target_as_can_share_it() -> None:
    told = asked("calibrate", "--dry-run", "--machine", "dgx-1", "--gpus", "0-7", *PAIR, "--json")
    assert [rank["device"] for rank in json.loads(told.stdout)["ranks"]] == [f"cuda:{n}" for n in range(5)]
    said = "llama-2-13b cannot be shared by 7 ranks: --tp 4 is taken, on cuda:0 to cuda:3, with the draft on cuda:4"
    assert f"note: {said}" in told.stderr
    beside = asked("calibrate", "--dry-run", "--machine", "dgx-1", "--gpus", "0-7", "--draft-gpu", "0", *PAIR, "--json")
    assert [rank["device"] for rank in json.loads(beside.stdout)["ranks"]] == [f"cuda:{n}" for n in (1, 2, 3, 4, 0)]


def test_a_plan_for_cores_obeys_the_device() -> None:
    told = asked("calibrate", "--device", "cpu", "--dry-run", "--json")
    assert told.returncode == 0, told.stderr
    ranks = json.loads(told.stdout)["ranks"]
    assert [rank["device"] for rank in ranks] == ["cpu:0", "cpu:1"]
    assert ranks[1]["role"] == "draft, transformer-shaped-768x2"


@pytest.mark.long
def test_a_plan_needs_no_torch() -> None:
    """In a process where torch cannot be imported."""
    code = (
        "import sys; sys.modules['torch'] = None; sys.argv = ['ssdsim', *sys.argv[1:]]; "
        "from ssdsim.cli.main import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", code, *DGX_1, *PAIR], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "501 points for AR, SD, SSD" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("calibrate", "--dry-run", "--machine", "dgx-1", "--gpus", "0-9"), "v100-sxm2-32gb has 8 GPUs, 0-7"),
        (
            ("calibrate", "--dry-run", "--gpus", "0-4"),
            "--dry-run finds no GPU here (nvidia-smi tells none); describe one, such as --machine dgx-1 --gpus 0-4",
        ),
        (("calibrate", "--dry-run"), "such as --machine dgx-1 --gpus 0-4"),
        (
            ("calibrate", "--dry-run", "--machine", "dgx-1"),
            "give either --device cpu or --gpus 0-4 (v100-sxm2-32gb has 0-7)",
        ),
        (("calibrate", "--machine", "dgx-1", "--gpus", "0-4", "-o", "x.json"), "it needs --dry-run"),
        ((*DGX_1[:-2], "--device", "cpu"), "v100-sxm2-32gb has GPUs: give --gpus"),
        ((*DGX_1, "--strategies", "ar,perl"), "unknown strategy 'perl'; did you mean 'pearl'?"),
    ],
)
def test_mistakes_are_one_line(arguments: tuple[str, ...], message: str) -> None:
    told = asked(*arguments)
    assert told.returncode == 2
    assert message in " ".join(told.stderr.split())


def test_the_plan_is_that_of_a_calibration() -> None:
    from calibration.timings.dry_run import dry_run
    from calibration.timings.plan import CalibrationWorkload
    from ssdsim.hardware.catalog import find_hardware, find_transformer

    pair = find_transformer("llama-2-13b"), find_transformer("llama-2-7b")
    workload = CalibrationWorkload(*pair, batch=2, lookahead=3, branches=12, context=256, tp=2, dtype="float16")
    shown = dry_run(workload, ["cuda:0", "cuda:3", "cuda:5"], find_hardware("v100-sxm2-32gb"))
    assert sum(each.points for each in shown.benchmarks) == len(plan(workload, 3))
    assert [rank.to_draft.split(",")[0] for rank in shown.ranks[:2]] == ["no NVLink", "no NVLink"]
