"""The report of a run about a measured pair: its curves, rates, batches and sets, as the file has them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from ssdsim import figures
from ssdsim.reports.build import Report, report
from ssdsim.reports.figure import Figure
from ssdsim.tokens.pair_file import AtTemperature, Mean
from tests.calibration.pairs import sample
from tests.ssdsim.reports.run_folders import LINKED, write_linked, write_run

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def of_pair(tmp_path_factory: pytest.TempPathFactory) -> Report:
    folder = tmp_path_factory.mktemp("pair")
    run = write_run(folder / "run", {"pair": sample.written(folder, sample.rich())}, {"b": [1, 16]})
    (folder / "pair.json").unlink()  # the run folder has its own
    return report(run)


def figure(report: Report, key: str) -> Figure:
    return next(each for each in report.figures if each.key == key)


def test_hit_curves_stand_beside_their_laws(of_pair: Report) -> None:
    plot = figure(of_pair, "pair-hits")
    rejected = plot.table[plot.table["hits"] == "after a rejection"]
    assert rejected["measured"].to_list() == pytest.approx(rejected["law"].to_list())
    assert (rejected["low"] < rejected["measured"]).all()
    assert {"after all accepted", "after backup random"} < set(plot.table["hits"])
    assert "after all accepted c 0.12, r 0.9 (misfits)" in plot.about
    dashes = {trace.name: trace.line.dash for trace in plot.plot.data if trace.mode == "lines"}
    assert dashes["after all accepted, law"] == "dot"
    assert dashes["after a rejection, law"] == "solid"


def test_acceptance_stands_by_position_and_set(of_pair: Report) -> None:
    table = figure(of_pair, "pair-acceptance").table
    assert table[table["set"] == "all requests"]["accepted"].to_list() == list(sample.RATES)
    assert set(table["set"]) == {"all requests", "code"}
    assert "rises from 76% at the first position to 82%" in figure(of_pair, "pair-acceptance").title


def test_batches_stand_beside_independent_ones(of_pair: Report) -> None:
    plot = figure(of_pair, "pair-batches")
    assert plot.table["independent"].to_list() == pytest.approx([0.7**b for b in (2, 4, 8, 16)])
    assert [trace.name for trace in plot.plot.data][:2] == ["measured in lockstep", "p^b"]
    assert "intraclass correlation of hits +0.08" in plot.about


def test_sets_are_compared(of_pair: Report) -> None:
    assert figure(of_pair, "pair-sets").title == "Accepted: 90% of code, 76% of all requests"


def test_the_page_says_what_the_tokens_rest_on(of_pair: Report) -> None:
    assert "pair.json: measured on 64 requests, temperature 0" in of_pair.html
    assert "placeholders" not in figure(of_pair, "hit-rate").about


def test_a_name_of_a_file_is_no_markup(tmp_path: Path) -> None:
    """A click on a link in a plot went to whoever made the pair."""
    run = write_linked(tmp_path / "run")
    drawn = {each.key: each.plot_json() for each in report(run).figures}
    shown = LINKED.replace("&", "&amp;").replace("<", "&lt;")
    assert shown in {trace["name"] for trace in drawn["pair-acceptance"]["data"]}
    for text in [json.dumps(drawn), figures.figure(run, "pair-sets").to_json()]:
        assert not re.search("(<|u003c)(a|span)", text)


def test_what_a_log_does_not_know_is_left_out_with_a_reason(tmp_path: Path) -> None:
    log = AtTemperature(temperature=0.0, alpha=Mean(mean=0.7))
    run = write_run(tmp_path / "run", {"pair": "pair.json"}, {})
    sample.written(run, sample.pair(how="sglang-server", requests=None, by_temperature=(log,)))
    page = report(run)
    reasons = {each.what: each.why for each in page.left_out}
    assert reasons["hit curves"] == "pair.json knows no hit rates: an engine's log has none, ssdsim measure has"
    assert {"acceptance by position", "batches", "sets"} < set(reasons)
    assert not any(each.key.startswith("pair-") for each in page.figures)


def test_a_run_without_a_pair_says_nothing_of_one(tmp_path: Path) -> None:
    page = report(write_run(tmp_path / "run", {"t_sd": 0.2}, {}))
    assert not any(each.key.startswith("pair-") for each in page.figures)
    assert "hit curves" not in {each.what for each in page.left_out}
