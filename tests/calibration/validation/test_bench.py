"""Strategies measured on CPU ranks and predicted: what is compared, kept, shown and refused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from calibration.machine.executor import drift
from calibration.machine.executor.plan import Event, Timeline
from calibration.machine.inventory import device_names
from calibration.validation.bench import RoundsBench, check_profile, check_runs, run_grid, spent_s
from calibration.validation.comparison import GRIDS, GridPoint, interval, speedups
from calibration.validation.run import Real, _run
from site_generator.json_reference import undescribed
from ssdsim import strategies
from ssdsim.base.errors import InputError
from ssdsim.base.progress import nobody
from ssdsim.base.record import replace
from ssdsim.hardware.catalog import find_hardware
from ssdsim.hardware.profile import load_profile
from ssdsim.pricing.drafter import Drafter
from ssdsim.pricing.occupancy import Devices
from ssdsim.reports.build import report
from ssdsim.rounds.round import PARTS
from ssdsim.strategies.pearl import PEARL
from tests.calibration.timings.few_visits import few_visits
from tests.calibration.timings.process import PAIR
from tests.refusals import refused
from tests.ssdsim.cli.in_process import asked

CARDS = {"target": "transformer-shaped-128x2", "draft": "transformer-shaped-64x1"}


def bench(hardware: str = "h100-sxm", dtype: str = "bfloat16", **changed: Any) -> RoundsBench:
    """Two cores, and a profile that matters where something is timed."""
    return RoundsBench(
        **{
            **CARDS,
            "strategies": ("ar", "pearl"),
            "target_devices": ("cpu:0",),
            "draft_devices": ("cpu:1",),
            "hardware": hardware,
            "draft_hardware": None,
            "context": 32,
            "dtype": dtype,
            "rounds": 4,
            "repeats": 2,
            "seed": 0,
            **changed,
        }
    )


POINT = GridPoint(3, 1, 0.8, 0.5, 1, "jit", "separate")


class Refusing(PEARL):
    name = "refusing"
    title = "Refusing"

    def cannot_run(self, options: object) -> str | None:
        return "it is a made-up one"


class Wide(PEARL):
    name = "wide"
    title = "Wide"

    def devices(self, options: Mapping[str, Any], tp: int, drafter: Drafter) -> Devices:
        return Devices(tp, 2)


@pytest.fixture(autouse=True)
def _short_drifts(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a machine drifts by is timed between any two runs. No test here asks how exactly."""
    monkeypatch.setattr(drift, "_AT_LEAST_S", 0.01)


@pytest.fixture
def _toys() -> Iterator[None]:
    toys = (Refusing(), Wide())
    for strategy in toys:
        strategies.ALL.register(strategy)
    yield
    for strategy in toys:
        strategies.ALL.forget(strategy.name)


@pytest.mark.ranks
@pytest.mark.usefixtures("_toys")
def test_any_strategy_is_measured_predicted_and_held_against_its_rival(
    calibration: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PEARL, "rival", "ar")
    here, trace = bench(str(calibration / "validation-profile.json"), "float32"), tmp_path / "trace.json"
    ran = run_grid(here, [POINT, POINT], tmp_path / "log.jsonl", lambda done, total: None, trace)
    compared = next(ran)
    ran.close()  # as Ctrl-C does, after the first of several points
    assert [(c.strategy, c.devices) for c in compared] == [("ar", (1, 0)), ("pearl", (1, 1))]
    for c in compared:  # parts lie between marks of the round, which is timed around them: other work may come between
        assert set(c.parts) <= set(PARTS)
        assert sum(measured for measured, _ in c.parts.values()) == pytest.approx(c.measured.value, rel=0.05)
        # parts are of whole rounds, the prediction is the mean over a simulated run with its two ends
        assert sum(predicted for _, predicted in c.parts.values()) == pytest.approx(c.predicted_s, rel=1e-3)
        assert c.parts["verify"][0] > 0.0
    assert [each[:2] for each in speedups(compared)] == [("pearl", "ar")]
    named = [event for event in json.loads(trace.read_text())["traceEvents"] if event["name"] == "thread_name"]
    assert {event["args"]["name"] for event in named if event["args"]["name"].startswith("measured")} == {
        *("measured PEARL target 0 (cpu:0)", "measured PEARL draft (cpu:1)"),
    }
    monkeypatch.setattr("calibration.validation.bench.Ranks", None)  # nothing is left to run
    again = run_grid(here, [POINT], tmp_path / "log.jsonl", lambda done, total: None, None)
    assert list(again) == [compared]
    with pytest.raises(InputError, match="measured with another setting or profile"):
        list(
            run_grid(replace(here, strategies=("ar",)), [POINT], tmp_path / "log.jsonl", lambda done, total: None, None)
        )


@pytest.mark.ranks
def test_halves_of_a_batch_and_rows_that_vary_are_measured_and_predicted(calibration: Path, tmp_path: Path) -> None:
    """MineDraft and adaptive verification, whose predicted rounds yield the tokens of those that ran."""
    names = ("sd", "minedraft", "adaptive")
    here = bench(str(calibration / "validation-profile.json"), "float32", strategies=names)
    point = GridPoint(3, 1, 0.6, 0.8, 2, "jit", "separate")
    assert here.configuration(point).scenarios["adaptive"].settings["confidence_spread"] == 0.0
    (compared,) = run_grid(here, [point], tmp_path / "log.jsonl", lambda done, total: None, None)
    assert [(c.strategy, c.devices) for c in compared] == [(name, (1, 1)) for name in names]
    for c in compared:
        assert c.tokens_per_round == pytest.approx(sum(c.tokens_repeats) / len(c.tokens_repeats))
        assert c.predicted_s > 0.0


@pytest.mark.ranks
def test_a_machine_with_one_device_measures_what_needs_no_other(calibration: Path, tmp_path: Path) -> None:
    alone = {"strategies": ("ar", "sd"), "draft_devices": ()}
    here = bench(str(calibration / "validation-profile.json"), "float32", **alone)
    point = replace(POINT, sd_draft="colocated")
    (compared,) = run_grid(here, [point], tmp_path / "log.jsonl", lambda done, total: None, None)
    assert [(c.strategy, c.devices) for c in compared] == [("ar", (1, 0)), ("sd", (1, 0))]
    assert all(c.measured.value > 0.0 for c in compared)
    with refused("SD"):
        here.configuration(POINT)


def test_one_gpu_runs_what_needs_no_other_unless_strategies_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    settled = {}
    for gpus in (1, 2):
        monkeypatch.setattr(torch.cuda, "device_count", lambda gpus=gpus: gpus)
        settled[gpus] = Real(target_device="cuda:0").settled()
        named = Real(target_device="cuda:0", strategies=("sd", "ssd")).settled()
        assert tuple(named.strategies) == ("sd", "ssd")
    assert (tuple(settled[1].strategies), settled[1].sd_draft) == (("ar", "sd"), "colocated")
    assert (tuple(settled[2].strategies), settled[2].sd_draft) == (("ar", "sd", "ssd"), None)


@pytest.mark.usefixtures("_toys")
def test_what_cannot_run_here_is_refused_before_anything_is_timed() -> None:
    with refused("Refusing"):
        check_runs(("ar", "refusing"), [POINT], 1)
    with refused("--strategies", "perl", "pearl"):
        check_runs(("ar", "perl"), [POINT], 1)
    with refused("Wide"):
        bench(strategies=("wide",)).configuration(POINT)


def test_a_sequence_waits_for_what_others_do_while_the_leader_waits() -> None:
    """Two rounds: the draft drafts for a second beside the verification, and for another one in the leader's wait."""
    leader = Timeline(
        start_s=0.0,
        events=[
            *(Event("verify", "verify", 0.0, 2.0), Event("reply", "wait for reply", 2.5, 4.0, waits=True)),
            *(Event("verify", "verify", 4.0, 6.0), Event("reply", "wait for reply", 6.0, 7.5, waits=True)),
        ],
        ends_s=[4.0, 7.5],
        tokens=[1, 1],
    )
    other = Timeline(
        events=[
            *(Event("draft", "step", 1.0, 2.0), Event("draft", "step", 2.0, 3.0), Event("ask", "wait", 3.0, 3.5, True)),
            *(Event("draft", "step", 4.0, 5.0), Event("fall back", "step", 6.5, 7.0), Event("fill", "fill", 7.0, 7.1)),
        ]
    )
    part_of = {"verify": "verify", "draft": "draft", "fall back": "fallback", "reply": "communicate"}
    spent = spent_s(part_of, leader, [other])
    assert spent == pytest.approx({"verify": 2.0, "draft": 0.25, "fallback": 0.25, "communicate": 0.0, "host": 0.0})


def test_only_a_measured_profile_is_compared_with_this_machine() -> None:
    imported = find_hardware("h100-sxm")
    with pytest.raises(InputError, match="was not measured on this machine"):
        check_profile(imported, ["cpu:0"])
    by_us = {name: source.changed(kind="measured") for name, source in imported.sources.items()}
    elsewhere = imported.changed(sources=by_us)
    with refused(imported.device.name, "cpu:0"):
        check_profile(elsewhere, ["cpu:0"])
    here = elsewhere.device.changed(name=device_names(["cpu:0"])["cpu:0"])
    check_profile(elsewhere.changed(device=here), ["cpu:0", "cpu:1"])


def test_the_interval_of_repeats_is_students() -> None:
    within = interval([1.0, 2.0, 3.0])
    assert within.value == 2.0
    assert within.high - within.value == pytest.approx(4.303 / 3**0.5, rel=1e-3)


@pytest.mark.ranks
def test_a_validation_keeps_its_points_shows_both_traces_and_judges(
    calibration: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``ssdsim validate`` on two cores: it calibrates, runs the short grid, resumes without measuring, is shown.

    What it would calibrate is there already.
    """
    few_visits(monkeypatch.setitem)
    run = Path(shutil.copytree(calibration, tmp_path / "run"))
    trace, log = run / "measured_trace.json", run / "validation.jsonl"
    few = ["--rounds", "4", "--repeats", "2"]
    command = ["validate", *PAIR, *few, "-o", str(run), "--json"]
    done = asked(*command)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert undescribed("validate", answer) == []
    assert [c["strategy"] for c in answer["comparisons"]] == ["ar", "sd", "ssd"] * len(GRIDS["short"])
    assert all(c["measured"]["value"] > 0 and c["predicted_s"] > 0 for c in answer["comparisons"])
    assert all(c["parts"]["draft"][0] > 0 for c in answer["comparisons"] if c["strategy"] == "sd")  # wherever it is
    tracks = {e["args"]["name"] for e in json.loads(trace.read_text())["traceEvents"] if e["name"] == "thread_name"}
    assert {"target GPU 0", "draft GPU 0"} <= tracks
    assert {name for name in tracks if name.startswith("measured")} == {
        *("measured SD target 0 (cpu:0)", "measured SSD target 0 (cpu:0)", "measured SSD draft (cpu:1)"),
    }  # SD's draft is beside its target at the first point
    profile = load_profile(run / "validation-profile.json")
    assert {source.kind for source in profile.sources.values()} == {"measured"}
    before = log.read_text()
    again = asked(*command, "--max-error", "0")
    assert again.returncode == 1  # no error is within 0
    assert log.read_text() == before
    assert json.loads(again.stdout)["comparisons"] == answer["comparisons"]
    shown = report(run)
    assert {"validation", "timeline"} <= {figure.key for figure in shown.figures}


def test_ctrl_c_says_what_is_kept_and_the_config_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> Iterator[None]:
        raise KeyboardInterrupt
        yield

    monkeypatch.setattr("calibration.validation.bench.run_grid", interrupted)
    (tmp_path / "config.toml").touch()  # which a kill of an earlier version left
    log = tmp_path / "validation.jsonl"
    with pytest.raises(KeyboardInterrupt, match=r"validation\.jsonl keeps each grid point"):
        _run(bench(), [POINT], log, None, nobody)
    assert "verb" in (tmp_path / "config.toml").read_text()
