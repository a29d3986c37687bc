"""The page of rows that an engine ran: a scatter, errors by axis, and no verdict of a scenario."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from calibration.validation.measured import ValidatedRows, check_rows
from ssdsim.readers.row import Row
from ssdsim.reports.build import report
from tests.refusals import refused
from tests.ssdsim.readers.engines import BATCHES, HIDDEN, MODEL_IDS, measured, served
from tests.ssdsim.reports.browser import CHROMIUM, Browser
from tests.ssdsim.reports.run_folders import write_run

KEYS = ("measured", "measured-2", "measured-batch", "measured-tp", "measured-model")


def rows() -> list[Row]:
    made = [
        measured(served(model, batch, tp=tp), off_by=1.1 if model == "llama-3.1-8b" else 0.98)
        for model in MODEL_IDS
        for batch in BATCHES
        for tp in (2, 4)
    ]
    return [*made, measured(served(batch=8, tp=2, metric="tokens_per_s"))]


def write_measured(folder: Path, rows: Sequence[Row]) -> Path:
    """A folder as ``ssdsim validate rows -o`` leaves it."""
    checked = check_rows(rows, HIDDEN)
    folder.mkdir(exist_ok=True)
    (folder / "measured.json").write_text(json.dumps(ValidatedRows(checked).as_json()))
    if not (folder / "config.toml").exists():
        (folder / "config.toml").write_text('schema = 1\nverb = "validate"\n')
    return folder


def test_a_folder_of_rows_alone_has_a_page_without_a_scenario(tmp_path: Path) -> None:
    made = report(write_measured(tmp_path / "run", rows()))
    assert tuple(figure.key for figure in made.figures) == KEYS
    assert made.sentence.startswith("Predictions of 21 measured rows are off by ")
    assert made.left_out == ()
    scatter = made.figures[0]
    assert len(scatter.table) == 20
    assert scatter.plot.data[0].name == "equal"
    assert len(scatter.plot.data) == 1 + 4  # two models at two degrees
    assert scatter.plot.layout.xaxis.type == scatter.plot.layout.yaxis.type == "log"


@pytest.mark.long
def test_rows_beside_a_run_join_its_page(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", {"t_sd": 0.2, "alpha": 0.9, "k": 5, "p_hit": 0.85}, {})
    before = report(folder).figures
    after = report(write_measured(folder, rows()[:2])).figures
    assert [figure.key for figure in after] == [*(figure.key for figure in before), "measured", "measured-tp"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"rows": []}, "rows: must have at least 1 item"),
        ({"summaries": 3}, "summaries: must be a list"),
        ({"rows": [{"model": "m"}]}, "rows.0: lacks hardware"),
    ],
)
def test_what_no_validation_wrote_is_one_line(change: dict[str, Any], said: str, tmp_path: Path) -> None:
    folder = write_measured(tmp_path / "run", rows()[:1])
    document = json.loads((folder / "measured.json").read_text())
    (folder / "measured.json").write_text(json.dumps({**document, **change}))
    with refused("measured.json") as error:
        report(folder)
    assert said in str(error.value)


@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine (apt install chromium)")
def test_every_figure_is_drawn_and_nothing_is_fetched(tmp_path: Path) -> None:
    made = report(write_measured(tmp_path / "run", rows()))
    page = tmp_path / "report.html"
    made.save(page)
    with Browser(tmp_path / "profile") as browser:
        browser.screen(1200, 900)
        browser.open(page)
        for figure in made.figures:
            drawn = ", ".join(f"#{figure.key} .{kind}layer > .trace" for kind in ("scatter", "bar"))
            traces = browser.evaluate(
                f"""[...document.querySelectorAll('{drawn}')]
                .filter((trace) => trace.getBoundingClientRect().width > 0).length"""
            )
            assert traces == len(figure.plot.data), figure.key
        assert browser.problems == []
        assert {address.split(":")[0] for address in browser.requests} <= {"file", "data", "blob"}
