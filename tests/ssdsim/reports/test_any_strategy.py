"""The report shows whatever strategies a run compares, a new one as well as none of the usual ones."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

from calibration.machine.executor.plan import Event, Timeline
from calibration.validation.bench import draw
from ssdsim import strategies
from ssdsim.answers.predict import predict
from ssdsim.answers.simulation.simulate import simulate
from ssdsim.answers.simulation.trace import Trace
from ssdsim.reports.build import Report, report
from ssdsim.reports.build import figure as one_figure
from ssdsim.reports.figure import Figure
from ssdsim.reports.study import Study
from ssdsim.reports.style import colour_of, symbol_of
from ssdsim.reports.sweep_controls import grid_json
from ssdsim.runs.report_folder import read_run_folder
from tests.refusals import refused
from tests.ssdsim.reports.run_folders import write_run
from tests.ssdsim.reports.sleepy import Sleepy

ALL_FOUR = ("ar", "sd", "ssd", "sleepy")
OPTIONS = {"strategies": list(ALL_FOUR), "context": 512}
GRID = {"b": [1, 4, 16], "k": [3, 6]}


@pytest.fixture(scope="module")
def toy() -> Iterator[Sleepy]:
    sleepy = Sleepy()
    strategies.ALL.register(sleepy)
    yield sleepy
    strategies.ALL.forget(sleepy.name)


@pytest.fixture(scope="module")
def folder(toy: Sleepy, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run(tmp_path_factory.mktemp("four"), OPTIONS, GRID)


@pytest.fixture(scope="module")
def made(folder: Path) -> Report:
    return report(folder)


def figure(made: Report, key: str) -> Figure:
    return next(each for each in made.figures if each.key == key)


def keys(made: Report) -> list[str]:
    return [each.key for each in made.figures]


def test_the_toys_engines_agree(toy: Sleepy) -> None:
    """Or the report would show a strategy that is none."""
    scenario = predict(strategies=("sleepy",), b=2, context=512, backup="jit").configuration.scenarios["sleepy"]
    exact = float(scenario.estimate.tokens_per_second)
    for engine in ("mc", "des"):
        assert simulate(scenario, solver=engine, rounds=4000, confidence=0.999).tokens_per_second.covers(exact)


@pytest.mark.long
def test_a_new_strategy_is_in_every_figure(made: Report) -> None:
    assert {"speedup-b", "hit-rate", "fallback", "fallback-2", "timeline", "roofline", "pareto"} <= set(keys(made))
    assert "Sleepy: draft" in figure(made, "fallback-2").title or "Sleepy: the fast" in figure(made, "fallback-2").title
    assert {"Sleepy target", "Sleepy draft"} <= set(figure(made, "timeline").table["track"])
    assert {"this run, SSD", "this run, Sleepy"} <= {trace.name for trace in figure(made, "hit-rate").plot.data}
    assert "Sleepy" in {trace.name for trace in figure(made, "pareto").plot.data}


@pytest.mark.long
def test_the_header_holds_the_subject_against_the_new_strategy_too(made: Report) -> None:
    prediction = predict(**OPTIONS, b=1, k=6, f=3)
    assert made.sentence == prediction.verdict.sentence
    assert f"{prediction.verdict.sure}." in made.html
    gpus = {name: prediction.estimates[name].gpus for name in ALL_FOUR}
    assert f"GPUs: AR {gpus['ar']}, SD {gpus['sd']}, SSD {gpus['ssd']}, Sleepy {gpus['sleepy']}." in made.html
    ratio = prediction.estimates["sleepy"].tokens_per_second / prediction.estimates["ar"].tokens_per_second
    row = re.search(r'<tr[^>]*><th scope="row">Sleepy</th>.*?</tr>', made.html)
    assert row is not None
    assert f"{ratio:.2f}x" in row.group()
    assert '<th scope="col">vs Sleepy</th>' in made.html


def test_the_subject_is_drawn_over_each_rival_and_these_over_the_first(made: Report, folder: Path) -> None:
    results = pd.read_parquet(folder / "results.parquet").query("k == 6").set_index("b")
    table = figure(made, "speedup-b").table.set_index("b")
    pairs = ("ssd/sd", "ssd/sleepy", "ssd/ar", "sd/ar", "sleepy/ar")
    assert [name for name in table.columns if name.count("/") == 1 and " " not in name] == list(pairs)
    for above, below in (pair.split("/") for pair in pairs):
        expected = results[f"{above}_tokens_per_second"] / results[f"{below}_tokens_per_second"]
        assert table[f"{above}/{below}"].tolist() == pytest.approx(expected.tolist(), rel=1e-9)


def test_the_page_redraws_every_line_from_the_grid(made: Report, folder: Path) -> None:
    grid = grid_json(Study(read_run_folder(folder)))
    assert grid is not None
    lines = {trace.meta for trace in figure(made, "speedup-b").plot.data} - {"band"}
    assert lines == set(grid["ratios"])


@pytest.mark.long
def test_another_subject_leads(toy: Sleepy, tmp_path: Path) -> None:
    made = report(write_run(tmp_path, {"strategies": list(ALL_FOUR), "subject": "sleepy", "t_sd": 0.3}, {}))
    assert figure(made, "speedup-b").title.startswith("Over batch size b: Sleepy ")
    assert figure(made, "fallback").about.startswith("Sleepy over SD against the batch.")
    assert f'class="verdict" style="--strategy: {colour_of("sleepy")}"' in made.html
    # its draft works when the target does not
    assert figure(made, "timeline").title == "4 rounds"
    assert "AR, SD and SSD are drawn over their own first rounds" in figure(made, "timeline").about


def test_colours_and_symbols_follow_the_place_in_the_list(toy: Sleepy) -> None:
    assert [colour_of(name) for name in strategies.DEFAULT] == ["#808080", "#2b82c9", "#d55e00"]
    looks = {(colour_of(name), symbol_of(name)) for name in strategies.ALL.names}
    assert len(looks) == len(strategies.ALL)


@pytest.mark.long
def test_without_a_cache_nothing_is_said_of_one(tmp_path: Path) -> None:
    made = report(write_run(tmp_path, {"strategies": ["ar", "sd"]}, {"b": [1, 4], "k": [3, 6]}))
    assert keys(made) == ["speedup-b", "speedup-k", "speedup-alpha", "boundary", "timeline", "roofline", "pareto"]
    left_out = {item.what: item.why for item in made.left_out}
    assert left_out["speedups over p_hit"] == "--p-hit has no effect on AR and SD"
    assert left_out["speedups over f"] == "--f has no effect on AR and SD"
    assert "caches" in left_out["hit rate against F"]
    assert "falls back" in left_out["batch and backup"]
    assert "Hit rate" not in made.html[: made.html.index("<main ")]
    assert figure(made, "speedup-b").about == "At K 6, alpha 0.79."


def test_a_strategy_alone_has_its_ways_to_run(tmp_path: Path) -> None:
    made = report(write_run(tmp_path, {"strategies": ["sd"]}, {}))
    assert keys(made) == ["timeline", "roofline", "pareto"]
    assert ("speedups", "SD stands alone: --strategies names rivals") in [(i.what, i.why) for i in made.left_out]


@pytest.mark.long
def test_the_others_are_shown_where_the_subject_has_no_room(tmp_path: Path) -> None:
    """Eight GPUs hold the target alone."""
    made = report(write_run(tmp_path, {"tp": 8}, {}))
    assert made.sentence.startswith("No room for SSD: ")
    assert "GPUs: AR 8, SD 8." in made.html
    table = figure(made, "speedup-k").table
    assert "ssd/sd" not in table
    assert figure(made, "speedup-k").title.startswith("Over lookahead K: SD is ")
    assert set(figure(made, "pareto").table["strategy"]) <= {"ar", "sd"}


def test_a_folder_with_a_strategy_that_is_not_here_is_one_line(tmp_path: Path) -> None:
    write_run(tmp_path, {"t_sd": 0.2}, {})
    measured = '"measured": {"value": 1.0, "low": 0.9, "high": 1.1}, "predicted_s": 1.0'
    (tmp_path / "validation.jsonl").write_text(
        f'{{"comparisons": [{{"point": {{}}, "strategy": "sleepier", {measured}}}]}}\n'
    )
    with refused("validation.jsonl", "sleepier"):
        report(tmp_path)


@pytest.mark.long
def test_what_a_validation_draws_of_any_strategy_is_shown_beside_its_simulation(toy: Sleepy, tmp_path: Path) -> None:
    options, trace = {"strategies": list(strategies.ALL.names), "t_sd": 0.3}, Trace()
    scenarios = predict(**options).configuration.scenarios.values()
    for scenario in scenarios:
        step = next(name for name, step in scenario.steps.items() if step.part == "verify")
        rounds = [Event(step, step, 0.02 * n, 0.02 * n + 0.01) for n in range(6)]
        draw(trace, scenario.strategy.title, [Timeline(0.0, rounds)], 1, ["cpu:0"])
    write_run(tmp_path, options, {})
    document = trace.to_json()
    document["traceEvents"].append({"ph": "M", "pid": 1})  # of another tool: it names nothing, and is skipped
    (tmp_path / "measured_trace.json").write_text(json.dumps(document))
    shown = set(one_figure(tmp_path, "timeline").table["track"])
    assert {f"{how}{each.strategy.title} target" for each in scenarios for how in ("", "measured ")} <= shown
