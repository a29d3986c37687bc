"""Calibration for real on this machine's CPU: its accuracy, its resuming, and its behaviour when things die."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import torch

from calibration.machine.devices import backend_of, parse_devices
from calibration.machine.ranks import RankError, Ranks
from calibration.machine.timing import summarise, time_action
from calibration.timings.measure import wanted
from calibration.timings.plan import CalibrationWorkload, plan
from site_generator.json_reference import undescribed
from ssdsim import strategies
from ssdsim.base.errors import InputError
from ssdsim.hardware.catalog import find_transformer
from ssdsim.hardware.profile import load_profile
from tests.calibration.timings.few_visits import few_visits
from tests.calibration.timings.process import PAIR, SHORT_GRID, calibrating, lines_in, logged_keys
from tests.refusals import assert_refused
from tests.ssdsim.cli.in_process import asked

pytestmark = pytest.mark.ranks

TINY = [*PAIR, *"--b 2 --k 2".split()]
SMALL = "--target transformer-shaped-768x3 --draft transformer-shaped-384x2 --context 256 --b 2 --k 3".split()
LARGER = "--target transformer-shaped-1536x4 --draft transformer-shaped-768x2 --context 256 --b 2 --k 3".split()


ECHO = "tests.calibration.timings.echo:make_echo"
STEADY = 0.1  # range of the slowness of visits, beyond which it is said


@pytest.mark.alone
@pytest.mark.slow
def test_a_calibration_adds_up_to_passes_that_it_never_fitted(tmp_path: Path) -> None:
    """The bars of the CPU path, in the better of two calibrations; a machine that is no bench fails it, and says so.

    That sums are right whatever a machine is like is tested on a made-up one (``test_build.py``).
    """
    complaints = []
    for attempt in range(2):
        output = tmp_path / f"cpu{attempt}.json"
        answer, _ = calibrated(output, "ssdsim", *LARGER, "--minutes", "20")
        complaint = what_is_off(output, answer)
        if complaint is None:
            return
        complaints.append(f"{complaint}, and the machine's speed wandered by {answer['instability']:.0%}")
    pytest.fail("; ".join(complaints))


def test_every_pass_is_timed_and_priced_from_operations_alone(tmp_path: Path) -> None:
    """How well is a matter of the machine, which says how steady it was."""
    output = tmp_path / "cpu.json"
    answer, err = calibrated(output, "tests.calibration.timings.few_visits", *SMALL, "--strategies", "ar,sd")
    passes = {(p["role"], p["name"]) for p in answer["passes"]}
    assert {("target", name) for name in ("decode one", "decode", "verify one", "verify")} <= passes
    assert {("draft", "draft step"), ("link", "round trip")} <= passes
    assert all(p["measured_s"] > 0.0 and p["predicted_s"] > 0.0 for p in answer["passes"])
    assert ("wandered" in err) == (answer["instability"] > STEADY)


def calibrated(output: Path, program: str, *plan: str) -> tuple[dict[str, Any], str]:
    with calibrating(output, *plan, "--json", "--quiet", program=program) as process:
        out, err = process.communicate(timeout=1500)
    assert process.returncode == 0, err
    answer = json.loads(out)
    assert undescribed("calibrate", answer) == []
    (source,) = load_profile(output).sources.values()
    assert source.kind == "measured"
    assert f" for {', '.join(strategies.ALL.named(name).title for name in answer['strategies'])}, " in source.note
    return answer, err


def what_is_off(output: Path, answer: dict[str, Any]) -> str | None:
    """The first bar that a calibration misses, or None."""
    profile = load_profile(output)
    (source,) = profile.sources.values()
    assert "partial" not in source.note
    gemm = profile.gemm["float32"].report
    assert gemm is not None
    errors = {(p["role"], p["name"]): abs(p["error"]) for p in answer["passes"]}
    of_target = [errors[key] for name in ("decode one", "verify one", "verify") if (key := ("target", name)) in errors]
    if gemm.median_error > 0.05:
        return f"held-out median error {gemm.median_error:.1%}"
    if np.median(list(errors.values())) > 0.08:
        return f"median error of a pass {np.median(list(errors.values())):.1%}"
    return f"error of a target pass {max(of_target):.1%}" if max(of_target) > 0.16 else None


def test_stopped_three_times_and_resumed_every_visit_is_there_once(
    calibration: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few_visits(monkeypatch.setitem)
    counts = logged_keys(calibration / "validation-profile.jsonl")
    assert set(counts.values()) == {1}
    target, draft = find_transformer("transformer-shaped-128x2"), find_transformer("transformer-shaped-64x1")
    workload = CalibrationWorkload(target, draft, batch=2, lookahead=3, branches=4, context=32, tp=1, dtype="float32")
    visits = {point: range(1, wanted(point, "cpu:0") + 1) for point in plan(workload, ranks=2)}
    assert set(counts) == {f"{point.key} visit {visit}" for point, numbers in visits.items() for visit in numbers}


def test_a_calibration_whose_minutes_are_over_leaves_a_partial_profile(calibration: Path, tmp_path: Path) -> None:
    """Of the points there are a few visits each, and it wants more: no minutes at all are left for one."""
    shutil.copy(calibration / "validation-profile.jsonl", tmp_path / "cpu.jsonl")
    before = lines_in(tmp_path / "cpu.jsonl")
    done = asked("calibrate", "--device", "cpu", *SHORT_GRID, "--minutes", "1e-9", "-o", str(tmp_path / "cpu.json"))
    assert done.returncode == 0, done.stderr
    assert lines_in(tmp_path / "cpu.jsonl") == before
    (source,) = load_profile(tmp_path / "cpu.json").sources.values()
    assert source.note.startswith("partial: ")


def test_an_interrupted_calibration_leaves_a_partial_profile(calibration: Path) -> None:
    assert "partial" in (calibration / "interrupted.txt").read_text()
    (source,) = load_profile(calibration / "interrupted.json").sources.values()
    assert source.note.startswith("partial: ")


def test_a_rank_killed_in_a_calibration_is_told(calibration: Path) -> None:
    told = (calibration / "rank-lost.txt").read_text()
    assert "died: killed by SIGKILL" in told
    assert "run again to resume" in told
    assert "Traceback" not in told


def test_two_calibrations_do_not_work_in_one_log(calibration: Path) -> None:
    assert "another calibration is at work in it" in (calibration / "second.txt").read_text()


def test_a_log_of_another_workload_is_refused(tmp_path: Path) -> None:
    (tmp_path / "cpu.jsonl").write_text('{"schema": 2, "machine": {"device": "another"}}\n')
    done = asked("calibrate", "--device", "cpu", *TINY, "-o", str(tmp_path / "cpu.json"))
    assert_refused(done, "another machine or for another workload")


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (["--gpus", "0-4"], "CUDA" if not torch.cuda.is_available() else "is not there"),
        ([], "--device cpu, --gpus"),
        (["--device", "tpu"], "tpu, cpu"),
        (["--device", "cpu", "--target", "llama-2-70b"], "GiB on cpu"),
        (["--gpus", "x"], "--gpus x"),
        (["--device", "cpu", "--tp", "3", "--target", "transformer-shaped-128x2"], "tp 3"),
    ],
)
def test_what_cannot_be_calibrated_is_one_line(tmp_path: Path, arguments: list[str], names: str) -> None:
    assert_refused(asked("calibrate", *arguments, "-o", str(tmp_path / "x.json")), *names.split(", "))


def test_under_torchrun_the_first_process_works_and_the_others_end(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ssdsim", "calibrate", "--device", "cpu", *TINY, "-o", str(tmp_path / "x.json")]
    options: dict[str, Any] = {"capture_output": True, "text": True, "timeout": 60, "check": False}
    idle = subprocess.run(command, env=os.environ | {"LOCAL_RANK": "1", "WORLD_SIZE": "2"}, **options)
    assert (idle.returncode, idle.stdout, idle.stderr) == (0, "", "")
    assert not list(tmp_path.iterdir())
    many = subprocess.run(command, env=os.environ | {"GROUP_WORLD_SIZE": "2"}, **options)
    assert many.returncode == 2
    assert "torchrun spans several machines" in many.stderr


def test_ranks_are_pinned_processes_that_answer_in_order() -> None:
    with Ranks(["cpu:0", "cpu:1"], ECHO, {}) as ranks:
        first, second = ranks.ask({})
        assert (first[0], second[0]) == (0, 1)
        assert first[1] != second[1]
        assert len(first[2]) == 1
        assert ranks.ask({"reduce": True}) == [3.0, 3.0]
    assert all(not Path(f"/proc/{pid}").exists() for pid in (first[1], second[1]))


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_while_ranks_start_leaves_none() -> None:
    """Nor a zombie: the interrupt may come when a process has just started and nobody has its number yet."""
    with Ranks(["cpu:0"], ECHO, {}):
        pass  # now those who stay are there: Python's own child, and the process that ranks are forked from
    before = set(psutil.Process().children(recursive=True))
    ranks = Ranks(["cpu:0", "cpu:1"] * 4, ECHO, {})

    def interrupt() -> None:
        while not any(ranks.pids):
            time.sleep(0.001)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt), ranks:
        pytest.fail("the ranks were up before the interrupt")
    assert any(ranks.pids)
    assert set(psutil.Process().children(recursive=True)) - before == set()


def test_a_killed_rank_is_named() -> None:
    with Ranks(["cpu:0", "cpu:1", "cpu:0"], ECHO, {}) as ranks:
        pids = ranks.pids
        os.kill(pids[1], signal.SIGKILL)
        with pytest.raises(RankError, match=r"rank 1 \(cpu:1\) died: killed by SIGKILL"):
            ranks.ask({"sleep_on": 1, "seconds": 1})
    assert all(not Path(f"/proc/{pid}").exists() for pid in pids)


_HELD_UP = """
from calibration.machine.ranks import Ranks
with Ranks(["cpu:0", "cpu:1"], "tests.calibration.timings.echo:make_echo", {}) as ranks:
    print(*ranks.pids, flush=True)
    ranks.ask({"sleep_on": 1, "seconds": 600}, 600)
"""


def test_a_killed_command_leaves_no_rank_however_busy() -> None:
    """Neither an idle one nor one in the middle of its work, which does not look at its pipe."""
    with subprocess.Popen([sys.executable, "-c", _HELD_UP], stdout=subprocess.PIPE, text=True) as command:
        assert command.stdout is not None
        ranks = [psutil.Process(int(pid)) for pid in command.stdout.readline().split()]
        time.sleep(1.0)  # the second is asked and sleeps by now
        assert [rank.is_running() for rank in ranks] == [True, True]
        command.kill()
    _, left = psutil.wait_procs(ranks, timeout=30)
    assert not [rank for rank in left if rank.status() != psutil.STATUS_ZOMBIE]


def test_a_hung_rank_is_named_in_bounded_time() -> None:
    with Ranks(["cpu:0", "cpu:1"], ECHO, {}) as ranks:
        with pytest.raises(RankError, match=r"rank 0 \(cpu:0\) did not answer within 1 s"):
            ranks.ask({"sleep_on": 0, "seconds": 60}, timeout_s=1.0)
        pids = ranks.pids
    assert all(not Path(f"/proc/{pid}").exists() for pid in pids)


def test_a_rank_that_dies_in_a_collective_is_blamed_and_not_those_that_wait(capfd: pytest.CaptureFixture[str]) -> None:
    with (
        Ranks(["cpu:0", "cpu:1", "cpu:0"], ECHO, {}) as ranks,
        pytest.raises(RankError, match=r"rank 1 \(cpu:1\) died: killed by SIGKILL"),
    ):
        ranks.ask({"die_on": 1, "reduce": True})
    assert "Traceback" not in capfd.readouterr().err


def test_a_rank_that_hangs_in_a_collective_is_blamed_and_not_those_that_wait() -> None:
    with (
        Ranks(["cpu:0", "cpu:1", "cpu:0"], ECHO, {}, collective_s=2.0) as ranks,
        pytest.raises(RankError, match=r"^rank 1 \(cpu:1\) did not answer"),
    ):
        ranks.ask({"sleep_on": 1, "seconds": 60, "reduce": True})


def test_a_side_that_has_nothing_to_say_is_heard_later() -> None:
    """On loaded cores a side of AMUSD was silent for longer than a collective may take, and its ranks were lost."""
    with Ranks(["cpu:0", "cpu:1"], ECHO, {}, collective_s=1.0) as ranks:
        assert ranks.ask({"silence_s": 3.0}, 60.0) == [7, 7]


def test_a_rank_that_hangs_in_the_targets_group_is_blamed_too() -> None:
    """Torch gives a group of its own half an hour unless told otherwise."""
    with (
        Ranks(["cpu:0", "cpu:1", "cpu:0"], ECHO, {"collective_s": 2.0}, collective_s=2.0) as ranks,
        pytest.raises(RankError, match=r"^rank 1 \(cpu:1\) did not answer"),
    ):
        ranks.ask({"sleep_on": 1, "seconds": 60, "reduce_target": True})


def test_a_ranks_error_is_its_own() -> None:
    with (
        Ranks(["cpu:0", "cpu:1"], ECHO, {}) as ranks,
        pytest.raises(RankError, match=r"rank 1 \(cpu:1\): ValueError: no luck"),
    ):
        ranks.ask({"raise_on": 1})


def test_devices_are_parsed_and_checked() -> None:
    assert parse_devices("cpu:1") == ["cpu:1"]
    assert parse_devices("cpu") == ["cpu:0"]
    assert backend_of(["cpu:0", "cpu:1"]) == "gloo"
    assert backend_of(["cuda:0", "cuda:1"]) == "nccl"
    assert backend_of(["cuda:0", "cpu:0"]) == "gloo"
    for shared in (["cuda:0", "cuda:0"], ["cuda:0", "cuda:0", "cpu:0"]):
        with pytest.raises(InputError, match="share a GPU"):
            backend_of(shared)


def test_a_median_ignores_outliers_and_reports_them() -> None:
    timed = summarise([1.0] * 9 + [5.0, 9.0])
    assert timed.seconds == 1.0
    assert timed.outliers == 2
    assert timed.runs == 11


def test_timing_takes_as_long_as_the_action() -> None:
    """A sleep may last longer on a busy core, never shorter; and half of the runs took the median and more."""
    began_s = time.perf_counter()
    timed = time_action(lambda: time.sleep(0.004), torch.device("cpu"), at_least_s=0.03, clock="wall")
    took_s = time.perf_counter() - began_s
    assert timed.runs >= 7
    assert 0.004 <= timed.seconds <= 2.0 * took_s / timed.runs
