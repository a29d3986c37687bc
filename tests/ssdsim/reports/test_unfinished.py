"""The report of a sweep that was killed says so, and shows the points that are in."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ssdsim.answers.sweep_plan import plan_of
from ssdsim.base.errors import InputError
from ssdsim.reports.build import Report, report
from ssdsim.reports.study import Study
from ssdsim.reports.sweep_controls import NONE, grid_json
from ssdsim.runs.report_folder import read_run_folder
from ssdsim.runs.sweep_folder import opened
from tests.ssdsim.cli.in_process import asked
from tests.ssdsim.reports.run_folders import thousandths

pytestmark = pytest.mark.long

OPTIONS = {"t_sd": 0.3, "p_hit": 0.85, "b": [1, 2, 4], "k": [3, 6], "alpha": [0.7, 0.8]}
SENTENCE = "Unfinished: 8 of 12 points of the sweep are in; the same ssdsim sweep resumes it."


def killed_after(parts: int, path: Path) -> Path:
    """A folder as a killed sweep leaves it; a part has four points."""
    plan = plan_of(None, OPTIONS, solver="mc", precision=0.05)
    with opened(path, plan) as folder:
        for part in plan.parts()[:parts]:
            folder.add(part, plan.results(part))
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return killed_after(2, tmp_path_factory.mktemp("killed"))


@pytest.fixture(scope="module")
def made(folder: Path) -> Report:
    return report(folder)


def test_the_page_says_how_many_points_are_in(made: Report) -> None:
    assert made.unfinished == SENTENCE
    head, body = made.html.split('<p class="verdict"')
    assert f'<p class="unfinished">{SENTENCE}</p>' in head
    assert "unfinished" not in body.split("</header>")[0]


def test_points_that_are_not_in_are_gaps(folder: Path) -> None:
    study = Study(read_run_folder(folder))
    assert study.folder.results is not None
    grid = grid_json(study)
    assert grid is not None
    drawn = thousandths(grid["ratios"]["ssd/sd"])
    assert (drawn != NONE).tolist() == [True] * 8 + [False] * 4
    expected = study.folder.results["ssd_tokens_per_second"] / study.folder.results["sd_tokens_per_second"]
    assert (drawn[:8] / 1000).tolist() == pytest.approx(expected.tolist(), abs=0.0006)


def test_a_sweep_that_has_only_begun_has_a_report(tmp_path: Path) -> None:
    made = report(killed_after(0, tmp_path))
    assert made.unfinished is not None
    assert made.unfinished.startswith("Unfinished: 0 of 12 points")
    assert {"speedup-b", "pareto"} <= {figure.key for figure in made.figures}


def test_a_sweep_that_ended_does_not(tmp_path: Path) -> None:
    plan = plan_of(None, OPTIONS, solver="mc", precision=0.05)
    with opened(killed_after(3, tmp_path), plan) as kept:
        assert read_run_folder(tmp_path).points_in == 12
        kept.join(plan)
    made = report(tmp_path)
    assert made.unfinished is None
    assert 'class="unfinished"' not in made.html


def test_the_command_says_so(folder: Path, tmp_path: Path) -> None:
    output = ("-o", str(tmp_path / "page.html"))
    assert asked("report", str(folder), *output).stdout.startswith(SENTENCE)
    assert json.loads(asked("report", str(folder), *output, "--json").stdout)["unfinished"] == SENTENCE


@pytest.mark.parametrize("path", ["", ".", "/"])
def test_a_page_needs_the_name_of_a_file(made: Report, path: str) -> None:
    with pytest.raises(InputError, match="needs the name of a file"):
        made.save(Path(path))


def test_a_page_that_cannot_be_written_is_one_line(made: Report, tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    with pytest.raises(InputError, match="cannot be written there"):
        made.save(tmp_path / "taken")
    with pytest.raises(InputError, match="cannot be written there"):
        made.save(tmp_path / "nowhere" / "page.html")
