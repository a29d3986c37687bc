"""Calibrate, predict, validate: each takes from the one before what nobody says."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from calibration.machine import other_programs
from calibration.machine.inventory import Gpu
from calibration.machine.other_programs import OtherPrograms, busy_ticks
from calibration.timings import answer
from calibration.timings.setup import CalibrationOptions, _from_anywhere
from calibration.validation.run import Real
from ssdsim import find_hardware
from ssdsim.base.errors import InputError
from ssdsim.hardware.profile import Calibrated
from ssdsim.reports.build import report
from tests.calibration.timings.process import PAIR
from tests.refusals import assert_refused
from tests.ssdsim.cli.in_process import asked

SHORT = (*PAIR, *"--b 2 --k 3 --budget 8 --minutes 0.05".split())
STAT = """cpu  9 9 9 9 9 9 9 9 9 9
cpu0 50 1 30 1500 60 2 3 4 0 0
cpu1 20 0 10 500 10 0 0 0 0 0
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in, and one for data."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SSDSIM_DATA", str(tmp_path / "data"))
    return tmp_path


@pytest.mark.ranks
def test_calibrate_predict_and_validate_need_no_further_option(folder: Path) -> None:
    done = asked("calibrate", "--device", "cpu", *SHORT)
    assert done.returncode == 0, done.stderr
    (word,) = re.findall(r"found by the name (my-[a-z0-9-]+)", " ".join(done.stdout.split()))
    assert (folder / "data" / f"{word}.json").is_file()
    assert f"ssdsim validate run --hardware {word}" in " ".join(done.stdout.split())

    told = asked("predict", "--hardware", word)
    assert told.returncode == 0, told.stderr
    assert f"transformer-shaped-128x2 + transformer-shaped-64x1 on {word}, TP 1" in " ".join(told.stdout.split())
    assert re.search(r" cores +drafts", told.stdout)

    ran = asked("validate", "run", "--hardware", word, "--rounds", "2", "--repeats", "2")
    assert ran.returncode == 0, ran.stderr
    assert "transformer-shaped-128x2 + transformer-shaped-64x1, float32, context 32" in " ".join(ran.stdout.split())
    assert re.search(r"other programs took \d+% of the cores", ran.stdout)
    page = report(folder / "validation")
    assert page.sentence.startswith("Predictions of 9 mean rounds that ran on this machine are off by ")
    assert page.figures[0].key == "validation"
    assert "GPUs" not in page.html.split("<script")[0].split("</header>")[0]

    other = asked("calibrate", "--device", "cpu", *SHORT, "--context", "64")
    assert_refused(other, "transformer-shaped-128x2 + transformer-shaped-64x1, float32, TP 1, context 32")


def test_a_profile_in_the_users_folder_is_called_by_the_device(folder: Path) -> None:
    named = {
        "Tesla V100-SXM2-32GB": "my-v100-sxm2-32gb",
        "NVIDIA H100 80GB HBM3": "my-h100-80gb-hbm3",
        "Intel(R) Xeon(R) Processor @ 2.80GHz": "my-xeon-2-80ghz",
    }
    for device, word in named.items():
        assert answer.own_file(device) == folder / "data" / f"{word}.json"


def test_five_v100s_need_no_further_option(monkeypatch: pytest.MonkeyPatch) -> None:
    """What they say of themselves, and what is free on them, decides what is timed."""
    names = [f"cuda:{n}" for n in range(8)]
    v100 = Gpu("Tesla V100-SXM2-32GB", "", (7, 0), 32 << 30, 31 << 30, 80, frozenset())
    monkeypatch.setattr("calibration.machine.inventory.gpus", lambda devices: dict.fromkeys(devices, v100))
    monkeypatch.setattr("calibration.machine.inventory.check_kernels", lambda devices: None)
    monkeypatch.setattr("calibration.timings.setup._here", lambda text: names[: int(text[-1]) + 1])
    setup = CalibrationOptions(gpus="0-4").setup()
    assert setup.devices == tuple(names[:5])
    assert str(setup.calibrated) == (
        "transformer-shaped-8192x40 + transformer-shaped-2048x6, float16, TP 4, context 512"
    )
    assert CalibrationOptions(gpus="0-7").setup().calibrated == setup.calibrated
    own = CalibrationOptions(gpus="0-4", target="llama-3.1-70b")
    with pytest.raises(
        InputError, match=r"llama-3.1-70b with llama-3.2-1b needs 35.\d GiB on cuda:0, 31.0 GiB are free"
    ):
        own.setup()


def test_a_run_takes_models_context_and_devices_of_the_profile(folder: Path) -> None:
    made_for = Calibrated(
        target="llama-3.1-8b",
        draft="llama-3.2-1b",
        dtype="bfloat16",
        tp=2,
        context=64,
        devices=("cuda:0", "cuda:2", "cuda:3"),
    )
    find_hardware("h100-sxm").changed(calibrated=made_for).save(folder / "mine.json")
    real = Real(hardware="mine.json").settled()
    assert (real.target, real.draft, real.context) == ("llama-3.1-8b", "llama-3.2-1b", 64)
    assert (real.target_device, real.draft_device) == ("cuda:0,cuda:2", "cuda:3")
    named = Real(hardware="mine.json", target_device="cpu:0", context=32).settled()
    assert (named.target_device, named.draft_device, named.context) == ("cpu:0", None, 32)
    other = Real(hardware="mine.json", target="qwen3-32b").settled()
    assert (other.target, other.draft, other.context) == ("qwen3-32b", "transformer-shaped-768x2", 64)
    usual = Real().settled()
    assert (usual.target, usual.target_device, usual.context) == ("transformer-shaped-1536x4", "cpu:0", 256)


def test_a_folder_called_as_a_bundled_card_is_not_that_card(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which is what the commands that read the profile take, so it is what the profile keeps."""
    monkeypatch.chdir(tmp_path)
    for name in ("llama-3.1-8b", "transformer-shaped-128x2", "own"):
        (tmp_path / name).mkdir()
    kept = [_from_anywhere(name) for name in ("llama-3.1-8b", "transformer-shaped-128x2", "own")]
    assert kept == ["llama-3.1-8b", "transformer-shaped-128x2", str(tmp_path.resolve() / "own")]


def test_what_others_take_of_the_cores_is_what_nobody_of_us_took(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert busy_ticks(STAT, {0}) == 50 + 1 + 30 + 2 + 3 + 4
    assert busy_ticks(STAT, {0, 1}) == 120
    stat, clock = tmp_path / "stat", SimpleNamespace(now_s=0.0, ours_s=0.0)
    monkeypatch.setattr(other_programs, "_STAT", stat)
    monkeypatch.setattr(other_programs, "core_of", lambda name: int(name[-1]))
    monkeypatch.setattr(other_programs.os, "sched_getaffinity", lambda _: {0, 1})
    fake = SimpleNamespace(monotonic=lambda: clock.now_s, process_time=lambda: clock.ours_s)
    monkeypatch.setattr(other_programs, "time", fake)
    ticks = other_programs.os.sysconf("SC_CLK_TCK")

    def at(now_s: float, busy_s: float, ours_s: float) -> None:
        clock.now_s, clock.ours_s = now_s, ours_s
        stat.write_text(f"cpu0 {int(busy_s * ticks)} 0 0 0 0 0 0 0 0 0\ncpu1 0 0 0 0 0 0 0 0 0 0\n")

    at(0.0, 0.0, 0.0)
    others = OtherPrograms(["cpu:0", "cpu:1"], ())
    at(10.0, 7.0, 2.0)
    assert others.share() == pytest.approx(5.0 / 20.0)
    at(20.0, 8.0, 4.0)  # more ours than there was: no more than nothing is theirs
    assert others.share() == 0.0
    monkeypatch.setattr(other_programs, "core_of", lambda name: None)
    assert OtherPrograms(["cuda:0"], ()).share() is None


def test_a_report_of_rounds_says_how_busy_the_cores_were(folder: Path) -> None:
    compared = {"point": {"k": 3}, "strategy": "sd", "measured": {"value": 0.01, "low": 0.009, "high": 0.011}}
    lines = [{"schema": 3}, {"key": "", "comparisons": [compared | {"predicted_s": 0.011, "others": 0.34}]}]
    (folder / "run").mkdir()
    (folder / "run" / "validation.jsonl").write_text("\n".join(map(json.dumps, lines)))
    (folder / "run" / "config.toml").write_text('schema = 1\nverb = "validate"\n[options]\nk = 3\n')
    page = report(folder / "run")
    assert page.sentence == (
        "Predictions of 1 mean rounds that ran on this machine are off by 10.0% (median), at most by 10.0%. "
        "Other programs took 34% of the cores meanwhile."
    )
    assert page.figures[0].key == "validation"
