"""Sweeps: the right points, in the right order, once each, whatever dies."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
import time
import tomllib
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from pandas.testing import assert_frame_equal

from ssdsim.answers.columns import intervals
from ssdsim.answers.grid import evaluate
from ssdsim.answers.predict import predict
from ssdsim.answers.sweep import sweep
from ssdsim.answers.sweep_plan import PRESETS, PlanPart, number_columns, plan_of
from ssdsim.base.errors import InputError
from ssdsim.cli.main import cli
from ssdsim.hardware.catalog import find_hardware
from ssdsim.hardware.what_if import scale
from ssdsim.question.checked_options import checked_table
from ssdsim.reports.study import Study
from ssdsim.runs.report_folder import read_run_folder
from ssdsim.strategies import DEFAULT
from tests.refusals import assert_refused, refused
from tests.ssdsim.cli.in_process import asked

pytestmark = pytest.mark.long

# 40 points of Monte Carlo: 10 parts
SIMULATED: dict[str, Any] = {
    "strategies": "sd,ssd",
    "t_sd": 0.2,
    "alpha": [0.6, 0.8],
    "k": [3, 5],
    "p_hit": [0.5, 0.6, 0.7, 0.8, 0.9],
    "b": [1, 4],
    "solver": "mc",
    "precision": 0.004,
}


def run(*arguments: str, timeout: float = 120.0) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ssdsim", "sweep", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)


@pytest.fixture(scope="module")
def undisturbed() -> pd.DataFrame:
    return sweep(**SIMULATED)


def test_every_combination_is_there_once_and_in_order() -> None:
    table = sweep(t_sd=0.2, alpha=[0.5, 0.9], k=range(2, 5), p_hit=np.linspace(0.5, 1.0, 3), b=8)
    expected = [
        {"t_sd": 0.2, "b": 8, "k": k, "alpha": alpha, "p_hit": p_hit}
        for k in (2, 3, 4)
        for alpha in (0.5, 0.9)
        for p_hit in (0.5, 0.75, 1.0)
    ]
    assert list(table.columns[:3]) == ["k", "alpha", "p_hit"]
    assert table[["k", "alpha", "p_hit"]].to_dict("records") == [
        {name: point[name] for name in ("k", "alpha", "p_hit")} for point in expected
    ]
    assert np.array_equal(table["ssd_over_sd"], evaluate(expected)["ssd_over_sd"])


def test_a_rival_stands_at_its_own_best_k_and_ranks_the_points_so() -> None:
    """SSD at K 9 was ranked by 1.64x SD at K 9, where SD at its own K 6 makes it 1.56x."""
    ks = range(4, 11)
    table = sweep(k=ks, b=[1, 16], alpha=0.8, hit_c=0.4, hit_r=0.7)
    for b, rows in table.groupby("b"):
        honest = rows["ssd_tokens_per_second"] / rows["sd_tokens_per_second"].max()
        assert rows["ssd_over_sd_at_best_k"].to_numpy() == pytest.approx(honest.to_numpy()), b
    assert table["ssd_over_sd_at_best_k"].max() < table["ssd_over_sd"].max()
    best = table.sort_values("ssd_over_sd_at_best_k", ascending=False).iloc[0]
    shown = CliRunner().invoke(cli, "sweep --k 4:10 --b 1,16 --alpha 0.8 --hit-c 0.4 --hit-r 0.7 --top 1".split())
    assert "SSD/SD at its best K" in shown.stdout
    assert shown.stdout.splitlines()[2].split()[:2] == [str(best["b"]), str(best["k"])]
    assert "ssd_over_sd_at_best_k" not in sweep(k=[3, 5], t_sd=0.2, alpha=0.8)  # no K costs more than another there


def test_a_part_of_a_grid_has_its_points_wherever_it_begins() -> None:
    grid: dict[str, Any] = {"k": [2, 3, 4], "alpha": [0.5, 0.9], "p_hit": [0.5, 0.75, 1.0]}
    plan = plan_of(None, {"t_sd": 0.2, **grid})
    whole = [{"t_sd": 0.2, **dict(zip(grid, at, strict=True))} for at in product(*grid.values())]
    for start in range(plan.size):
        assert list(plan.points(PlanPart(0, start, plan.size))) == whole[start:]


def test_a_fan_out_beside_a_hit_rate_is_the_drafts_work() -> None:
    table = sweep(f=[1, 8], k=[4, 6], p_hit=[0.7, 0.9], b=16)
    for _, row in table.iterrows():
        f, k, p_hit = int(row["f"]), int(row["k"]), float(row["p_hit"])
        alone = predict(k=k, p_hit=p_hit, budget=f * (k + 1), b=16, solver="closed")
        assert row["ssd_tokens_per_second"] == pytest.approx(float(alone.estimates["ssd"].tokens_per_second), rel=1e-12)
        assert row["budget"] == f * (k + 1)


def test_a_grid_of_fan_outs_beside_a_hit_rate_lies_in_columns() -> None:
    """Each of its points was read by itself."""
    given: dict[str, Any] = {"f": [1, "window", 8], "k": [4, 6], "p_hit": [0.7, 0.9]}
    points = plan_of(None, given).points(PlanPart(0, 1, 11))
    table, errors = checked_table(points)
    alone, wrong = checked_table(list(points))
    assert [str(error) for error in errors] == [str(error) for error in wrong]
    names = ("k", "p_hit", "f")
    given = [[{name: each.values(name)[row] for name in names} for row in range(len(each))] for each in (table, alone)]
    assert given[0] == given[1]
    assert {"k": 4, "p_hit": 0.9, "f": 8} in given[0]


def test_a_result_with_the_name_of_an_axis_gets_another() -> None:
    """A stationary hit rate differs from the given one, and so may the fallback."""
    table = sweep(t_sd=0.9, p_hit=[0.8], p_hit_backup=0.4, backup=["fast", "jit", "auto"], b=32)
    fast, jit, auto = (row for _, row in table.iterrows())
    assert fast["p_hit"] == 0.8
    assert fast["effective_p_hit"] == pytest.approx(0.4 / (1 + 0.4 - 0.8))
    assert jit["effective_p_hit"] == pytest.approx(0.8)  # the backup is the primary
    assert pd.isna(jit["error"])
    assert (auto["backup"], auto["effective_backup"]) == ("auto", "fast")


def test_lists_that_are_values_and_lists_of_them() -> None:
    one = sweep(t_sd=0.2, k=2, fl=[4, 3, 2])
    assert len(one) == 1
    two = sweep(t_sd=0.2, k=2, fl=[[4, 3, 2], [1, 1, 1]], alpha=[[0.9, 0.5], [0.7, 0.7]])
    assert len(two) == 4
    assert two["p_hit"].is_monotonic_decreasing is False
    curves = sweep(t_sd=0.2, fan_out_policy="optimal", hit_curve=[[(1, 0.5)], [(1, 0.5), (4, 0.9)]])
    assert curves["p_hit"][1] > curves["p_hit"][0]
    mixed = sweep(f=[2, "window"], b=4)
    assert mixed["f"].tolist() == ["2", "window"]
    assert mixed["budget"][1] > mixed["budget"][0]


def test_points_that_are_not_possible_keep_their_reason() -> None:
    table = sweep(tp=[3, 4], b=[1, 4])
    assert table["error"].notna().tolist() == [True, False, True, False]
    assert table["ssd_over_sd"].isna().tolist() == [True, False, True, False]
    with refused("2 points", "tp 3"):
        sweep(tp=3, b=[1, 4])


@pytest.mark.parametrize(
    "how",
    [{"alpha": [step / 2048 for step in range(2048)]}, {"solver": "mc", "precision": 0.1, "alpha": [0.5, 0.9]}],
    ids=["closed", "mc"],
)
def test_parts_without_a_possible_point_or_of_other_strategies_join(how: dict[str, Any]) -> None:
    """The first of the parts holds mistakes only; a word's column has no word there."""
    for strategies in ("ar,sd", [["ar", "sd"], ["ssd"]]):
        table = sweep(t_sd=0.2, b=[0, -1, 1], strategies=strategies, **how)
        possible = table["error"].isna()
        assert possible.tolist() == (table["b"] == 1).tolist()
        assert table.loc[possible, "sd_over_ar"].notna().sum() == len(how["alpha"])
        assert ("ssd_tokens_per_second" in table) == ("backup" in table) == isinstance(strategies, list)
        if isinstance(strategies, list):
            assert table.loc[possible, "backup"].notna().sum() == len(how["alpha"])


def test_draws_give_intervals() -> None:
    table = sweep(b=[1, 16], p_hit=0.85, draws=200)
    assert (table["ssd_low"] < table["ssd_tokens_per_second"]).all()
    assert {*intervals(DEFAULT), "ssd_low", "probability_ssd_beats_sd"} <= set(table.columns)


def test_simulated_points_agree_with_the_closed_form(undisturbed: pd.DataFrame) -> None:
    """None of 80 differs by four standard errors; how many by two says little, since all are of one seed."""
    closed = sweep(**{name: value for name, value in SIMULATED.items() if name not in ("solver", "precision")})
    assert len(undisturbed) == len(closed) == 40
    for name in ("sd", "ssd"):
        rate = closed[f"{name}_tokens_per_second"]
        half = (undisturbed[f"{name}_high"] - undisturbed[f"{name}_low"]) / 2
        assert (half / rate).max() < 1.1 * SIMULATED["precision"]
        assert ((undisturbed[f"{name}_tokens_per_second"] - rate).abs() <= 2 * half).all()


def test_processes_of_this_machine_give_the_same(undisturbed: pd.DataFrame, tmp_path: Path) -> None:
    assert_frame_equal(sweep(**SIMULATED, jobs=2, folder=tmp_path / "run"), undisturbed)


def test_a_process_that_dies_is_one_line_and_the_rest_is_kept(tmp_path: Path, undisturbed: pd.DataFrame) -> None:
    import psutil

    def kill_one(done: int, size: int) -> None:
        if done == 4:
            children = [child for child in psutil.Process().children() if child.status() != psutil.STATUS_ZOMBIE]
            next(child for child in children if "popen_loky" in " ".join(child.cmdline())).kill()

    with pytest.raises(InputError, match="one of the processes died"):
        sweep(**SIMULATED, jobs=2, folder=tmp_path, progress=kill_one)
    assert parts_in(tmp_path) >= 1
    assert_frame_equal(sweep(**SIMULATED, folder=tmp_path), undisturbed)


def test_a_run_folder_holds_options_grid_and_results(tmp_path: Path) -> None:
    table = sweep(t_sd=0.2, b=4, alpha=[0.5, 0.7], folder=tmp_path)
    config = tomllib.loads((tmp_path / "config.toml").read_text())
    assert config == {"schema": 1, "verb": "sweep", "options": {"b": 4, "t_sd": 0.2}, "grid": {"alpha": [0.5, 0.7]}}
    assert_frame_equal(pd.read_parquet(tmp_path / "results.parquet"), table)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["config.toml", "results.parquet", "sweep.json"]
    progress: list[tuple[int, int]] = []
    again = sweep(t_sd=0.2, b=4, alpha=[0.5, 0.7], folder=tmp_path, progress=lambda *seen: progress.append(seen))
    assert_frame_equal(again, table)
    assert progress == [(2, 2)]


def test_another_sweep_does_not_go_into_the_same_folder(tmp_path: Path) -> None:
    sweep(t_sd=0.2, b=4, alpha=[0.5, 0.7], folder=tmp_path)
    before = (tmp_path / "results.parquet").read_bytes()
    for changed in ({"alpha": [0.5, 0.8]}, {"b": 8}, {"k": 3}, {"seed": 1}):
        with refused(*changed):
            sweep(**({"t_sd": 0.2, "b": 4, "alpha": [0.5, 0.7], "folder": tmp_path} | changed))
    assert (tmp_path / "results.parquet").read_bytes() == before


def test_files_that_options_name_are_found_from_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A profile and its namesake, as an axis; the report and a resume from another directory, the profiles gone."""
    work, other = tmp_path / "work", tmp_path / "other" / "place"
    for folder, bandwidth in ((work, 1.0), (work / "slow", 0.5), (other, 1.0)):
        folder.mkdir(parents=True)
        scale(find_hardware("h100-sxm"), "mine", memory_bandwidth=bandwidth).save(folder / "mine.json")
    monkeypatch.chdir(work)
    options: dict[str, Any] = {"p_hit": 0.8, "k": 5, "b": [1, 4], "folder": tmp_path / "run"}
    table = sweep(**options, hardware=["mine.json", "slow/mine.json"])
    assert table["hardware"].tolist() == ["files/mine.json", "files/mine-2.json"] * 2
    found = sweep(p_hit=0.8, k=5, b=1, hardware="slow/mine.json")
    assert table["ssd_over_sd"][1] == found["ssd_over_sd"][0] != table["ssd_over_sd"][0]
    (work / "slow" / "mine.json").rename(other / "slow.json")
    monkeypatch.chdir(other)
    study = Study(read_run_folder(Path("../../run")))
    assert study.base["hardware"] == "files/mine-2.json"
    assert study.prediction.verdict.over["sd"].ratio == pytest.approx(found["ssd_over_sd"][0], rel=1e-12)
    kept = tmp_path / "run" / "files"
    again = sweep(**options, hardware=[kept / "mine.json", "../../run/files/mine-2.json"])
    assert_frame_equal(again, table)
    (kept / "mine.json").write_text((kept / "mine-2.json").read_text())
    with refused("files/mine.json"):
        sweep(**options, hardware=[kept / "mine.json", kept / "mine-2.json"])


def test_two_sweeps_do_not_work_in_one_folder(tmp_path: Path) -> None:
    def second(done: int, size: int) -> None:
        seen.append(done)
        if len(seen) == 1:
            other = run(*"--t-sd 0.2 --b 1,2".split(), "-o", str(tmp_path))
            assert other.returncode == 2
            at_work = "another sweep is at work in it; wait for it or give another -o"
            assert other.stderr == f"error: {tmp_path}: {at_work}\n"

    seen: list[int] = []
    sweep(t_sd=0.2, b=[1, 2], folder=tmp_path, progress=second)
    assert seen == [0, 2]
    assert asked(*"sweep --t-sd 0.2 --b 1,2".split(), "-o", str(tmp_path)).returncode == 0


def test_what_was_done_before_an_interruption_is_not_done_again(tmp_path: Path, undisturbed: pd.DataFrame) -> None:
    def interrupt(done: int, size: int) -> None:
        if done >= 24:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sweep(**SIMULATED, folder=tmp_path, progress=interrupt)
    parts = sorted((tmp_path / "parts").glob("*.parquet"))
    parts[3].write_bytes(parts[3].read_bytes()[:500])  # as if the disk had torn it
    seen: list[int] = []
    resumed = sweep(**SIMULATED, folder=tmp_path, progress=lambda done, size: seen.append(done))
    assert seen[0] == 4 * (len(parts) - 1)
    assert seen[-1] == 40
    assert_frame_equal(resumed, undisturbed)


def test_kill_9_at_random_moments_loses_and_doubles_nothing(tmp_path: Path, undisturbed: pd.DataFrame) -> None:
    folder = tmp_path / "run"
    grid = "--t-sd 0.2 --alpha 0.6,0.8 --k 3,5 --p-hit 0.5:0.9:0.1 --b 1,4 --solver mc --precision 0.004"
    options = [*grid.split(), "--strategies", "sd,ssd"]
    command = [sys.executable, "-m", "ssdsim", "sweep", *options, "-o", str(folder), "--quiet"]
    chance = random.Random(1)
    there: list[int] = []
    for _ in range(3):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wanted = (there[-1] if there else 0) + chance.randint(1, 2)
        deadline = time.monotonic() + 60.0
        while parts_in(folder) < wanted and time.monotonic() < deadline:
            time.sleep(0.001)
        time.sleep(0.02 * chance.random())
        process.kill()
        process.wait()
        there.append(parts_in(folder))
    assert 0 < there[0] < there[1] < there[2] < 10
    done = run(*options, "-o", str(folder))
    assert done.returncode == 0, done.stderr
    assert_frame_equal(pd.read_parquet(folder / "results.parquet"), undisturbed)


def parts_in(folder: Path) -> int:
    return len(list((folder / "parts").glob("*.parquet"))) if folder.exists() else 0


def test_lists_and_ranges_of_the_command_line() -> None:
    done = asked(
        *"sweep --t-sd 0.2 --alpha 0.5,0.7 --k 2:6:2,9 --p-hit 0.5:1:0.25 --backup jit,fast --json --quiet".split()
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    grid = {"k": [2, 4, 6, 9], "alpha": [0.5, 0.7], "p_hit": [0.5, 0.75, 1.0], "backup": ["jit", "fast"]}
    assert answer["grid"] == grid
    assert answer["options"] == {"t_sd": 0.2}
    assert (answer["schema"], answer["unit"], answer["points"], answer["impossible"]) == (4, "T_v", 48, 0)
    expected = sweep(t_sd=0.2, **grid)
    assert [row["ssd_over_sd"] for row in answer["rows"]] == pytest.approx(expected["ssd_over_sd"].tolist(), rel=1e-12)
    assert answer["rows"][0]["error"] is None


def test_a_rate_may_lie_in_a_range_and_a_range_of_a_grid_reaches_its_end() -> None:
    given = "sweep --target llama-3.1-8b --tp 1 --strategies sd,ssd --alpha 0.7,0.8 --b 4 --draws 200 --quiet --json"
    wide, exact = (asked(*given.split(), *more.split()) for more in ("--range p-hit=0.5:0.9", "--p-hit 0.7"))
    assert wide.returncode == exact.returncode == 0, wide.stderr
    (wide_rows, exact_rows) = (json.loads(done.stdout)["rows"] for done in (wide, exact))
    for here, there in zip(wide_rows, exact_rows, strict=True):
        assert here["ssd_over_sd"] == pytest.approx(there["ssd_over_sd"])
        assert here["ssd_high"] - here["ssd_low"] > there["ssd_high"] - there["ssd_low"]
    short = asked(*"sweep --alpha 0.75:0.85 --b 1".split())
    assert "'0.75:0.85' does not reach 0.85 by steps of 1: give a step" in short.stderr


def test_points_are_sorted_from_the_best() -> None:
    """The largest speedup, but the shortest round; and every column that may be asked for is there."""
    options: dict[str, Any] = {"t_sd": [0.1, 0.3], "p_hit": [0.5, 0.9], "b": 1}
    columns = number_columns(plan_of(None, options))
    table = sweep(**options)
    assert set(columns) == {name for name in table if pd.api.types.is_numeric_dtype(table[name])}

    def first(column: str) -> list[str]:
        done = CliRunner().invoke(cli, f"sweep --t-sd 0.1,0.3 --p-hit 0.5,0.9 --sort {column} --top 1".split())
        assert done.exit_code == 0, done.output
        return done.stdout.splitlines()[2].split()[:2]

    assert first("ssd_over_sd") == ["0.9", "0.3"]
    assert first("ssd_round_s") == ["0.9", "0.1"]
    assert first("t_sd")[1] == "0.1"


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        ("--k 5:2", "--k, 5:2"),
        ("--k 2,x", "--k, 2,x"),
        ("--backup jti,fast", "--backup, jti, jit"),
        ("--t-sd 0.2 --k 2,3,2", "--k, 2"),
        ("--preset propsal", "propsal, proposal"),
        ("--t-sd 0.2 --spread 0,0.1", "--solver closed"),
        ("--t-sd 0.2 --precision 0.1", "--precision, --solver closed"),
        ("--t-sd 0.2 --solver mc --draws 9", "--draws, --solver mc"),
        ("--t-sd 0.2 --jobs 2 --cluster tcp://a:1", "--jobs, --cluster"),
        ("--t-sd 0.2 --cluster nonsense", "--cluster, nonsense"),
        ("--t-sd 0.2 --jobs 0", "--jobs"),
        ("--t-sd 0.2 --b 1,2 --sort ssd_over_ds", "--sort, ssd_over_ds, ssd_over_sd"),
        ("--t-sd 0.2 --b 1,2 --sort backup", "--sort backup"),
        ("--t-sd 0.2 --b 1,2 --sort ssd_low", "--sort ssd_low"),
        ("--t-sd 0.2 --b 1,2 --top 3 --json", "--top, --json"),
        ("--t-sd 0.2 --b 1,2 --sort b --top 0", "--sort, --top 0"),
        ("--tp 3,5 --quiet", "none of the 2 points, tp 3"),
        ("--t-sd 0.2 -o pyproject.toml", "pyproject.toml"),
    ],
)
def test_mistakes_are_one_line(arguments: str, names: str) -> None:
    assert_refused(asked("sweep", *arguments.split()), *names.split(", "))


def test_the_proposals_sweep_is_whole() -> None:
    plan = plan_of("proposal", {"tp": [2, 4], "b": 1})
    assert plan.size == 2 * 5 * 3 * 11 * 11
    machine = {name: PRESETS["proposal"][name] for name in ("target", "draft", "hardware", "engine")}
    assert plan.options == {"b": 1, **machine}
    assert plan_of("proposal", {}).size == 10_890
    first = next(iter(plan.points(plan.parts()[0])))
    assert first == {"b": 1, "f": 1, "k": 2, "alpha": 0.5, "p_hit": 0.5, "tp": 2, **machine}


def test_the_verb_is_a_function_whatever_was_imported() -> None:
    code = (
        "import ssdsim; import ssdsim.answers.sweep, ssdsim.reports; from ssdsim.answers.sweep_plan import GridPlan; "
        "ssdsim.predict(t_sd=0.2); ssdsim.predict(t_sd=0.2); "
        "print(len(ssdsim.sweep(t_sd=0.2, b=[1, 2])), len(ssdsim.evaluate([{'t_sd': 0.2}])))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "2 1\n"


def test_a_folder_that_vanishes_between_runs_starts_anew(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    first = sweep(t_sd=0.2, b=[1, 2], folder=folder)
    shutil.rmtree(folder)
    assert_frame_equal(sweep(t_sd=0.2, b=[1, 2], folder=folder), first)


def test_a_table_is_plotted_with_plotly_where_matplotlib_is_not_installed() -> None:
    """In a process of its own: the option is pandas'."""
    program = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "import importlib.util, ssdsim\n"
        "found = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name, *of: None if name == 'matplotlib' else found(name, *of)\n"
        "table = ssdsim.sweep(t_sd=0.3, p_hit=[0.5, 1.0], b=[1, 16])\n"
        "print(type(table.plot(x='b', y='ssd_over_sd', color='p_hit')).__module__)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("plotly")
