"""Run folders of serving: resumed after a kill, shown as a page."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import numpy as np
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from ssdsim.base.errors import InputError
from ssdsim.base.parquet import write_table
from ssdsim.cli.main import cli
from ssdsim.reports.build import report
from ssdsim.runs.answer_folders import opened_for_serving
from ssdsim.serving.serve import serve
from tests.mutations.folders import SERVE
from tests.mutations.values import changed_document
from tests.ssdsim.reports.browser import CHROMIUM, Browser
from tests.ssdsim.serving.sample_runs import SMALL, requests

pytestmark = pytest.mark.long

ARGUMENTS = (
    "serve --rate 2,5 --requests 150 --input-len 200 --output-len 60 --strategies sd,ssd,auto --target llama-3.1-8b "
    "--tp 1 --engine kernels --slo tpot:6,ttft:200 --quiet --json"
).split()


def answer(folder: Path) -> dict[str, object]:
    done = CliRunner().invoke(cli, [*ARGUMENTS, "-o", str(folder)])
    assert done.exit_code == 0, done.output
    document: dict[str, object] = json.loads(done.stdout)
    return document


@pytest.fixture(scope="module")
def _answered(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, object]]:
    folder = tmp_path_factory.mktemp("answered")
    return folder, answer(folder)


@pytest.fixture
def run(_answered: tuple[Path, dict[str, object]], tmp_path: Path) -> Path:
    """A folder of its own in which the answer lies."""
    return Path(shutil.copytree(_answered[0], tmp_path / "run"))


@pytest.fixture
def shown(_answered: tuple[Path, dict[str, object]]) -> dict[str, object]:
    """The answer that lies there."""
    return _answered[1]


def test_a_killed_run_goes_on_where_it_was_and_gives_the_same_answer(shown: dict[str, object], tmp_path: Path) -> None:
    killed = tmp_path / "killed"
    process = subprocess.Popen(
        [sys.executable, "-m", "ssdsim", *ARGUMENTS, "-o", str(killed)], stdout=subprocess.DEVNULL, env=os.environ
    )
    while not list((killed / "parts").glob("*.json")) and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = {path.name: path.stat().st_mtime_ns for path in (killed / "parts").glob("*.json")}
    assert before
    assert answer(killed) == shown
    after = {path.name: path.stat().st_mtime_ns for path in (killed / "parts").glob("*.json")}
    assert before.items() <= after.items()  # nothing was run again
    assert len(after) == 6
    lines = pq.read_table(killed / "requests.parquet").to_pandas()
    assert len(lines) == 6 * 150
    for point in shown["points"]:  # type: ignore[attr-defined]
        for name, found in point["strategies"].items():
            mine = lines[(lines["strategy"] == name) & np.isclose(lines["rate"], point["rate"])]
            assert mine["tpot_ms"].iloc[found["dropped"] :].mean() == pytest.approx(found["tpot_ms"]["mean"]["mean"])
            assert (mine["rounds"] <= mine["output_tokens"]).all()
            if name == "ssd":
                assert (mine["forced_misses"] >= 1).all()


def test_a_kept_part_that_is_no_text_is_worked_out_again(run: Path, shown: dict[str, object]) -> None:
    for part in (run / "parts").glob("*.json"):
        part.write_bytes(b"\xc8" + part.read_bytes())
    assert answer(run) == shown


def test_a_kept_run_with_other_columns_is_one_line(run: Path) -> None:
    file = next((run / "parts").glob("*.requests"))
    write_table(pq.read_table(file).drop_columns(["ttft_ms"]), file)
    done = CliRunner().invoke(cli, [*ARGUMENTS, "-o", str(run)])
    assert isinstance(done.exception, InputError)
    assert "other columns than the others" in str(done.exception)


def test_a_search_for_a_capacity_is_kept(tmp_path: Path) -> None:
    search = {"capacity": True, "slo": "tpot:12", "strategies": "ar,sd", **SMALL}
    workload = requests(150, inputs="200", outputs="60")
    listed = []
    for _ in range(2):
        with opened_for_serving(tmp_path) as folder:
            listed.append(serve(workload=workload, folder=folder, **search).within_slo)
            times = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "parts").glob("*.json")}
            assert len(times) == 2
    assert listed[0] == listed[1]
    assert all(path.stat().st_mtime_ns == times[path.name] for path in (tmp_path / "parts").glob("*.json"))


def test_a_plan_that_kept_its_runs_says_the_same_to_the_byte(tmp_path: Path) -> None:
    """GPUs that were read from a kept run were 1.0 where they had been 1."""
    written = []
    for _ in range(2):
        done = CliRunner().invoke(cli, [*SERVE.split()[:-1], str(tmp_path / "run")])
        assert done.exit_code == 0, done.output
        written.append((tmp_path / "run" / "serving.json").read_bytes())
    assert written[0] == written[1]


def test_one_process_at_a_time(tmp_path: Path) -> None:
    with opened_for_serving(tmp_path / "run"):
        done = CliRunner().invoke(cli, [*ARGUMENTS, "-o", str(tmp_path / "run")])
    assert isinstance(done.exception, InputError)
    assert "another serve is at work" in str(done.exception)


def test_the_page_shows_crossing_goodput_and_a_minute(run: Path, shown: dict[str, object]) -> None:
    page = report(run)
    assert page.sentence == shown["verdict"]["sentence"]  # type: ignore[index]
    keys = {figure.key for figure in page.figures}
    assert keys == {"serving-tpot", "serving-ttft", "serving-crossing", "serving-goodput", "serving-minute"}
    for figure in page.figures:
        assert len(figure.table) > 0
        assert figure.provenance.startswith("Predicted.")


def test_a_page_of_capacities_alone_says_so(run: Path) -> None:
    path = run / "serving.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "points": []}))
    made = report(run)
    assert made.figures == ()
    assert "capacities alone" in made.left_out[0].why


def test_a_damaged_answer_ends_in_a_page_or_in_one_line(run: Path) -> None:
    path = run / "serving.json"
    whole = json.loads(path.read_text())
    refused = 0
    for seed in range(30):
        path.write_text(json.dumps(changed_document(whole, Random(seed))))
        try:
            report(run)
        except InputError:
            refused += 1
    assert 5 < refused < 30


@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium")
def test_a_browser_draws_the_page_and_asks_nobody(run: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    page.write_text(report(run).html, encoding="utf-8")
    with Browser(tmp_path / "profile") as browser:
        browser.screen(1200, 900)
        browser.open(page)
        for key, lines in (("tpot", 6), ("ttft", 6), ("crossing", 3), ("goodput", 3), ("minute", 2)):
            drawn = f"document.querySelectorAll('#serving-{key} .scatterlayer .trace').length"
            assert browser.evaluate(drawn) == lines
        assert browser.problems == []
        assert {address.split(":")[0] for address in browser.requests} <= {"file", "data", "blob"}


def test_a_comparison_that_an_older_version_made_opens(tmp_path: Path) -> None:
    answer = {
        "schema": 1,
        "strategy": "sd",
        "workload": {"source": "bench.json (vLLM)"},
        "compared": [],
        "quantiles": {},
    }
    with opened_for_serving(tmp_path) as folder:
        folder.finish(answer)
    page = report(tmp_path)
    assert "SD against bench.json (vLLM)" in page.html
    assert page.left_out[0].why == "an older version made it; ssdsim validate rows compares"
