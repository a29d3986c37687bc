"""A calibration on busy cores: what is timed first, when it goes on beyond its minutes, and what it then says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from calibration.timings import measure as measuring
from calibration.timings.answer import calibrate
from calibration.timings.build import build_profile
from calibration.timings.plan import TimingPoint, plan
from calibration.timings.rows import CalibrationLog, law_of, missing_timings, rows_of
from ssdsim.base.errors import InputError
from ssdsim.base.progress import nobody
from ssdsim.hardware.profile import HardwareProfile, load_profile
from ssdsim.transformer.operations import Gemm
from tests.calibration.timings.test_build import DEVICES, WORKLOAD, result

NEEDED = {"gemm": 10, "attention": 10, "masked attention": 10, "all_reduce": 8, "link": 8}
PAIR: dict[str, Any] = {"target": "transformer-shaped-128x2", "draft": "transformer-shaped-64x1", "context": 32}


class BusyRanks:
    """Ranks whose every answer takes ``seconds`` of a made-up clock, and is noisy: some take twenty times as long."""

    now_s = 0.0
    begin_s = 0.0
    seconds = 1.0
    spread = 0.5

    def __init__(self, *arguments: object) -> None:
        self._random = np.random.default_rng(0)

    def __enter__(self) -> BusyRanks:
        return self

    def __exit__(self, *arguments: object) -> None:
        pass

    def ask(self, request: Mapping[str, Any], timeout_s: float) -> list[dict[str, Any] | None]:
        if request["benchmark"] == "prepare":
            BusyRanks.now_s += self.begin_s
            return [None]
        BusyRanks.now_s += self.seconds
        point = TimingPoint.of(request["benchmark"], **{n: v for n, v in request.items() if n != "benchmark"})
        outlier = 20.0 if self._random.random() < 0.05 else 1.0
        answer = result(point)
        answer["seconds"] *= outlier * float(np.exp(self.spread * self._random.standard_normal()))
        return [None, answer]


@pytest.fixture
def busy(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Sets how long each answer takes."""
    monkeypatch.setattr(measuring, "Ranks", BusyRanks)
    monkeypatch.setattr(BusyRanks, "now_s", 0.0)
    clock = SimpleNamespace(monotonic=lambda: BusyRanks.now_s, time=lambda: BusyRanks.now_s)
    monkeypatch.setattr(measuring, "time", clock)
    return lambda seconds: monkeypatch.setattr(BusyRanks, "seconds", seconds)


def measured(log: CalibrationLog, minutes: float) -> list[TimingPoint]:
    with nobody("calibrate", "timings") as progress:
        return measuring.measure(WORKLOAD, DEVICES, log, minutes=minutes, seed=0, progress=progress)


def profile_of(log: CalibrationLog, points: list[TimingPoint]) -> HardwareProfile:
    return build_profile("busy", WORKLOAD, DEVICES, points, rows_of(log, points), "a busy core", "made up")


@pytest.mark.long
def test_what_a_profile_needs_is_timed_first_and_beyond_the_minutes(
    tmp_path: Path, busy: Callable[[float], None]
) -> None:
    """A minute has time for thirty points, which are too few."""
    busy(2.0)
    log = CalibrationLog(tmp_path / "cpu.jsonl", {}).open()
    points = measured(log, minutes=1.0)
    timed = [point for point in points if log.count(point)]
    assert {law: sum(law_of(point) == law for point in timed) for law in NEEDED} == NEEDED
    assert len(timed) == sum(NEEDED.values())
    profile_of(log, points).save(tmp_path / "cpu.json")
    profile = load_profile(tmp_path / "cpu.json")
    assert profile.link is not None
    assert set(profile.collectives) == {"all_reduce"}
    assert profile.message_seconds(1024).seconds > 0.0
    assert profile.seconds(Gemm("qkv", 4, 2304, 1536, "float32")).seconds > 0.0


@pytest.mark.long
def test_however_noisy_the_timings_every_law_is_fitted(tmp_path: Path, busy: Callable[[float], None]) -> None:
    busy(0.1)
    log = CalibrationLog(tmp_path / "cpu.jsonl", {}).open()
    points = measured(log, minutes=1.5)
    assert not missing_timings(points, log.count)
    fitted = profile_of(log, points).models()
    assert len(fitted) == len(NEEDED)
    assert all(model.report is not None for model in fitted.values())


def test_what_ranks_take_to_begin_is_no_timing(
    tmp_path: Path, busy: Callable[[float], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On loaded cores torch took longer to load than the minutes that were asked for, and nothing was timed."""
    busy(0.1)
    monkeypatch.setattr(BusyRanks, "begin_s", 500.0)
    log = CalibrationLog(tmp_path / "cpu.jsonl", {}).open()
    assert not missing_timings(measured(log, minutes=1.0), log.count)


def test_a_resumed_run_times_first_what_is_missing(tmp_path: Path, busy: Callable[[float], None]) -> None:
    busy(10.0)
    log = CalibrationLog(tmp_path / "cpu.jsonl", {}).open()
    points, before = plan(WORKLOAD, len(DEVICES)), 0
    for _ in range(20):
        if not missing_timings(points, log.count):
            break
        measured(log, minutes=0.5)
        timed = sum(map(log.count, points))
        assert timed > before
        before = timed
    assert before <= sum(NEEDED.values()) + 1


def test_too_few_timings_are_one_line_that_names_them_and_no_profile(
    tmp_path: Path, busy: Callable[[float], None]
) -> None:
    """Where all takes minutes a calibration ends, and leaves a profile of before as it was."""
    busy(100.0)
    output = tmp_path / "cpu.json"
    output.write_text("of before")
    with pytest.raises(
        InputError, match=r"^too few timings for a profile: gemm \(\d of 10\).*, link \(\d of 8\); "
    ) as e:
        calibrate(output, minutes=5.0, device="cpu", b=2, k=3, budget=4, **PAIR)
    assert f"kept in {output.with_suffix('.jsonl')}, run again to go on" in str(e.value)
    assert output.read_text() == "of before"
    assert BusyRanks.now_s <= 2 * 300.0 + 100.0
