"""The report's content: its numbers are the predictions', and what a folder cannot show is left out with a reason."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ssdsim.answers.predict import Prediction, predict
from ssdsim.base.errors import InputError
from ssdsim.hardware.catalog import find_hardware
from ssdsim.hardware.what_if import scale
from ssdsim.reports.build import Report, report
from ssdsim.reports.figure import Figure
from ssdsim.reports.frame import plotlyjs
from ssdsim.reports.pareto import _points
from ssdsim.reports.speedups import speedup
from ssdsim.reports.study import Study
from ssdsim.reports.sweep_controls import grid_json
from ssdsim.rounds.kernel import Kernel
from ssdsim.runs.report_folder import read_run_folder
from ssdsim.tokens.theory import critical_batch_size
from tests.refusals import assert_refused
from tests.ssdsim.cli.in_process import asked
from tests.ssdsim.reports.run_folders import thousandths, write_measurements, write_run

pytestmark = pytest.mark.long

GRID = {"b": [1, 4, 16, 4096], "k": [2, 6, 9], "alpha": [0.6, 0.8], "f": [1, 3]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = write_run(tmp_path_factory.mktemp("run"), {"context": 512}, GRID)
    write_measurements(made)
    return made


@pytest.fixture(scope="module")
def made(folder: Path) -> Report:
    return report(folder)


def figure(made: Report, key: str) -> Figure:
    return next(each for each in made.figures if each.key == key)


def test_the_page_is_small_and_refers_to_no_network(made: Report) -> None:
    assert len(made.html.encode()) <= 6e6
    own = made.html.replace(plotlyjs(), "")
    assert len(own) < len(made.html) - 4e6, "plotly.js is embedded once"
    assert not re.search(r"https?:|//cdn|@import|url\(|src=", own)
    assert re.findall(r'href="([^"]*)"', own) == ["data:,", "#main"]


def test_every_figure_comes_with_its_title_data_provenance_and_interval(made: Report) -> None:
    keys = [each.key for each in made.figures]
    assert keys == [
        *("speedup-b", "speedup-k", "speedup-alpha", "speedup-p_hit", "speedup-f"),
        *("boundary", "hit-rate", "fallback", "all-hit", "timeline", "roofline", "pareto", "validation"),
    ]
    for each in made.figures:
        assert each.title in made.html.replace("&#x27;", "'")
        assert each.provenance
        assert each.interval
        assert len(each.table)
        read = pd.read_csv(io.StringIO(each.csv()))
        assert list(read.columns) == [str(name) for name in each.table.columns]
        drawn = [trace for trace in each.plot.data if trace.x is not None and len(trace.x)]
        assert len(drawn) == len(each.plot.data), f"{each.key} has an empty trace"


def test_the_verdict_is_that_of_predict_at_the_base_point(made: Report) -> None:
    """F 3, K 6 and b 1 are defaults that the grid holds, alpha 0.8 is in its middle."""
    expected = predict(context=512, b=1, k=6, alpha=0.8, f=3)
    assert made.sentence == expected.verdict.sentence
    assert f"{expected.verdict.sure}." in made.html
    assert "GPUs: AR 4, SD 4, SSD 5." in made.html


@pytest.mark.parametrize("axis", ["b", "k", "alpha", "f"])
def test_speedups_are_those_of_the_results_at_the_base_point(made: Report, folder: Path, axis: str) -> None:
    results = pd.read_parquet(folder / "results.parquet")
    base = {"b": 1, "k": 6, "alpha": 0.8, "f": 3}
    for name in set(base) - {axis}:
        results = results[results[name] == base[name]]
    table = figure(made, f"speedup-{axis}").table.merge(results, on=axis, how="left")
    for above, below in (("ssd", "sd"), ("ssd", "ar"), ("sd", "ar")):
        ratio = table[f"{above}/{below}"]
        np.testing.assert_allclose(ratio, table[f"{above}_over_{below}"], rtol=1e-9)
        there = ratio.notna()
        assert (table[f"{above}/{below} low"] <= ratio)[there].all()
        assert (ratio <= table[f"{above}/{below} high"])[there].all()


def test_bands_are_the_intervals_of_predict(made: Report) -> None:
    row = figure(made, "speedup-b").table.set_index("b").loc[16]
    interval = predict(context=512, b=16, k=6, alpha=0.8, f=3).verdict.over["sd"].interval
    assert interval is not None
    # predict takes 1000 draws, a band 400
    assert row["ssd/sd low"] == pytest.approx(interval.low, rel=0.03)
    assert row["ssd/sd high"] == pytest.approx(interval.high, rel=0.03)


def ratio_of(prediction: Prediction, name: str = "ssd", rival: str = "sd") -> float:
    """Of the rates at the values that are shown: figures know no medians."""
    return float(prediction.estimates[name].tokens_per_second / prediction.estimates[rival].tokens_per_second)


@pytest.mark.parametrize("backup", ["auto", "jit", "fast"])
def test_the_chart_over_the_hit_rate_passes_through_the_base_point(tmp_path: Path, backup: str) -> None:
    """Here the cache hits more often after a fast backup (0.95 against 0.86), and keeps doing so."""
    options = {"b": 8, "k": 4, "f": 4, "backup": backup}
    study = Study(read_run_folder(write_run(tmp_path, options, {})))
    (drawn,) = speedup(study, "p_hit")
    assert isinstance(drawn, Figure)
    table = drawn.table
    prediction = predict(**options)
    row = table.set_index("p_hit").loc[prediction.configuration.settings["p_hit"]]
    assert row["ssd/sd"] == pytest.approx(ratio_of(prediction), rel=1e-9)


def test_the_base_point_is_a_possible_one(tmp_path: Path) -> None:
    """Tp 4, the default, does not fit with a batch of 4096: the nearest point that does is one step away."""
    folder = write_run(tmp_path, {"p_hit": 0.8}, {"tp": [1, 2, 4], "b": [64, 4096, 8192]})
    study = Study(read_run_folder(folder))
    assert {name: study.base[name] for name in ("tp", "b")} == {"tp": 4, "b": 64}
    assert report(folder).sentence == predict(p_hit=0.8, b=64).verdict.sentence


def test_a_batch_that_does_not_fit_is_a_gap_with_its_reason(made: Report) -> None:
    row = figure(made, "speedup-b").table.set_index("b").loc[4096]
    assert np.isnan(row["ssd/sd"])
    assert "GiB" in row["not possible"]
    assert "of 48 grid points are not possible" in made.html


def test_the_page_holds_every_grid_point(folder: Path) -> None:
    grid = grid_json(Study(read_run_folder(folder)))
    assert grid is not None
    shape = [len(values) for values in grid["axes"].values()]
    decoded = {key: thousandths(values).reshape(shape) / 1000 for key, values in grid["ratios"].items()}
    for _, row in pd.read_parquet(folder / "results.parquet").iterrows():
        at = tuple(values.index(f"{row[name]:g}") for name, values in grid["axes"].items())
        if pd.notna(row["error"]):
            assert decoded["ssd/sd"][at] == 65.535
            continue
        assert decoded["ssd/sd"][at] == pytest.approx(row["ssd_over_sd"], abs=0.0006)
        assert decoded["ssd/ar"][at] == pytest.approx(row["ssd_over_ar"], abs=0.0006)
        assert decoded["sd/ar"][at] == pytest.approx(row["sd_over_ar"], abs=0.0006)


def test_hit_rates_are_those_of_predictions(made: Report) -> None:
    table = figure(made, "hit-rate").table.set_index("F")
    for policy in ("uniform", "geometric", "optimal"):
        options = {"context": 512, "k": 6, "alpha": 0.8, "f": 4, "fan_out_policy": policy, "backup": "jit"}
        expected = predict(**options).estimates["ssd"].p_hit
        assert table.loc[4, policy] == pytest.approx(expected, rel=1e-9)
    assert (table["optimal"] >= table[["uniform", "geometric"]].max(axis=1) - 1e-12).all()


def test_the_fallbacks_cross_where_full_predictions_do(made: Report) -> None:
    shown = figure(made, "fallback")
    rate = {
        backup: [ratio_of(predict(context=512, b=b, backup=backup, alpha=0.8, k=6, f=3)) for b in (1, 2, 3, 4)]
        for backup in ("jit", "fast")
    }
    crossing = next(b for b, jit, fast in zip((1, 2, 3, 4), *rate.values(), strict=True) if fast >= jit)
    assert shown.title.startswith(f"Draft just in time below batch {crossing};")
    jit, fast = (
        predict(context=512, b=1, backup=backup, alpha=0.8, k=6, f=3).configuration.scenarios["ssd"]
        for backup in ("jit", "fast")
    )
    t_b = jit.seconds["fallback"] / jit.seconds["verify"]
    assert isinstance(jit.tokens, Kernel)
    b_star = critical_batch_size(fast.settings["p_hit"], t_b, jit.tokens.expected_tokens[0], 1.0)
    assert f"b* = {b_star:.2f}" in [note.text for note in shown.plot.layout.annotations]


def test_tracks_of_the_timeline_never_overlap(made: Report) -> None:
    table = figure(made, "timeline").table
    tracks = list(table["track"].unique())
    assert tracks == [
        *("AR target", "SD target", "SD link", "SSD target", "SSD link", "SSD draft"),
        *("measured SD target", "measured SSD target", "measured SSD draft"),
    ]
    assert table["start ms"].min() == 0.0
    for track in tracks:
        rows = table[table["track"] == track].sort_values("start ms")
        ends = rows["start ms"] + rows["duration ms"]
        assert (ends.iloc[:-1].to_numpy() <= rows["start ms"].iloc[1:].to_numpy() + 1e-9).all(), track
    ssd = table[table["track"] == "SSD target"]
    assert (ssd["what"] == "verify").sum() == 4
    assert (table[table["track"] == "SSD draft"]["what"].str.startswith("fallback")).any(), "a miss is shown"
    measured = table[table["track"] == "measured SSD target"]
    assert (measured["what"] == "verify").sum() == 4
    assert measured["duration ms"].max() == pytest.approx(30.0)
    alternating = table[table["track"] == "measured SD target"]["what"].tolist()
    assert alternating[:5] == ["draft step", "draft step", "draft step", "verify", "draft step"]


def test_nothing_beats_the_frontier_and_the_frontier_is_of_the_points(made: Report, folder: Path) -> None:
    frontier = figure(made, "pareto").table
    results = pd.read_parquet(folder / "results.parquet")
    results = results[results["error"].isna() & (results["alpha"] == 0.8)]
    points = [
        (row[f"{name}_tokens_per_second"] / row["b"], row[f"{name}_tokens_per_second"] / row[f"{name}_gpus"])
        for _, row in results.iterrows()
        for name in ("ar", "sd", "ssd")
    ]
    ends = list(zip(frontier["tokens/s per user"], frontier["tokens/s per GPU"], strict=True))
    best = {p for p in points if not any(q[0] >= p[0] and q[1] >= p[1] and q != p for q in points)}
    np.testing.assert_allclose(sorted(ends), sorted(best), rtol=1e-9)
    assert (frontier["low / mean"] < 1).all()
    assert (frontier["high / mean"] > 1).all()


def test_the_frontier_knows_sd_with_a_draft_on_other_hardware(tmp_path: Path) -> None:
    """SD's own draft device counts, and its kind changes SD's speed."""
    slow = tmp_path / "slow.json"
    scale(find_hardware("h100-sxm"), "slow", memory_bandwidth=0.3).save(slow)
    options = {"p_hit": 0.1, "sd_draft": "separate", "backup": "jit"}
    folder = write_run(tmp_path / "run", options, {"b": [1, 2], "draft_hardware": [str(slow), "h100-sxm"]})
    results = pd.read_parquet(folder / "results.parquet")
    points = _points(Study(read_run_folder(folder)))
    sd = points[points["strategy"] == "sd"].merge(results, on=["b", "draft_hardware"])
    assert len(sd) == 4
    assert set(sd["gpus"]) == {5}
    assert sd["rate"].tolist() == sd["sd_tokens_per_second"].tolist()
    assert sd["rate"].nunique() == 4
    assert (points["strategy"] == "ar").sum() == 2


def test_the_scatter_shows_what_validate_logged(made: Report) -> None:
    shown = figure(made, "validation")
    table = shown.table.set_index("strategy")
    assert table["error"].to_dict() == pytest.approx({"ar": 0.01, "sd": -0.04, "ssd": 0.1025})
    assert shown.title == "Rounds are predicted within 4.0% (median) and 10.3% (worst)"


def test_what_is_given_is_not_drawn(tmp_path: Path) -> None:
    given = report(write_run(tmp_path / "given", {"p_hit": 0.85}, {"b": [1, 2], "alpha": [0.7, 0.8]}))
    left_out = {item.what: item.why for item in given.left_out}
    assert set(left_out) == {"hit rate against F", "validation"}
    assert "--p-hit" in left_out["hit rate against F"]
    assert "F is the draft's work only" in figure(given, "speedup-f").about
    keys = [each.key for each in given.figures]
    assert "hit-rate" not in keys
    assert {"speedup-p_hit", "pareto", "fallback"} <= set(keys)


def test_a_folder_with_options_alone_is_computed(tmp_path: Path) -> None:
    made = report(write_run(tmp_path, {"b": 4}, {}))
    assert [each.key for each in made.figures if each.key.startswith("speedup")] == [
        f"speedup-{axis}" for axis in ("b", "k", "alpha", "p_hit", "f")
    ]
    assert "select data-axis" not in made.html.replace(plotlyjs(), "").split("<script>")[0]
    table = figure(made, "speedup-alpha").table.set_index("alpha")
    assert table.loc[0.9, "ssd/sd"] == pytest.approx(ratio_of(predict(b=4, alpha=0.9)), rel=1e-9)


def test_unit_free_runs_have_no_roofs_and_no_bands(tmp_path: Path) -> None:
    options = {"t_sd": 0.3, "t_p": 0.7, "p_hit": 0.85, "alpha": 0.8}
    made = report(write_run(tmp_path, options, {"b": [1, 2, 4], "k": [3, 6]}))
    assert {"roofline", "hit rate against F"} <= {item.what for item in made.left_out}
    table = figure(made, "speedup-b").table
    assert list(table.columns) == ["b", "ssd/sd", "ssd/ar", "sd/ar"]
    assert table["ssd/sd"].iloc[1] == pytest.approx(predict(b=2, **options).verdict.over["sd"].ratio)
    assert "T_v" in figure(made, "timeline").table.columns[-1]


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "no config.toml in it, so it is not a run folder"),
        ({"config.toml": "schema = 2"}, "schema must be 1, got 2"),
        ({"config.toml": "schema = 1\n[optoins]"}, "unknown key 'optoins'; did you mean 'options'?"),
        ({"config.toml": "schema = 1\n[options]\nalfa = 0.8"}, "unknown option 'alfa'; did you mean 'alpha'?"),
        (
            {"config.toml": "schema = 1\n[options]\nstrategy = 'ssd'"},
            "config.toml: written by an older ssdsim, whose 'strategy' is 'strategies' now: sweep anew",
        ),
        ({"config.toml": "schema = 1\n[options]\nstrategies = ['ssb']"}, "unknown strategy 'ssb'; did you mean"),
        ({"config.toml": "schema = 1\n[grid]\nb = 4"}, "grid.b must be a list of values, got 4"),
        ({"config.toml": "schema = 1\n[options]\nb = 1\n[grid]\nb = [1]"}, "'b' is both an option and a grid axis"),
        ({"config.toml": "schema = 1", "trace.json": "{"}, "not JSON, or cut short"),
        ({"config.toml": "schema = 1", "trace.json": "{}"}, "not a Chrome trace"),
        ({"config.toml": "schema = 1", "results.parquet": "rows"}, "not a Parquet file"),
        (
            {"config.toml": "schema = 1", "validation.jsonl": '{"comparisons": [{"point": {}}]}'},
            "comparison 1: lacks strategy",
        ),
        ({"config.toml": "schema = 1\n[options]\nb = 0"}, "--b must be a whole number of at least 1, got 0"),
    ],
)
def test_what_is_not_a_run_folder_is_one_clear_line(tmp_path: Path, files: dict[str, str], message: str) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=re.escape(message)):
        report(tmp_path)


def test_the_command(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", {"t_sd": 0.2}, {})
    assert_refused(asked("report", str(tmp_path / "none")), str(tmp_path / "none"))
    done = asked("report", str(folder), "-o", str(tmp_path / "page.html"), "--json")
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    assert set(answer) == {"schema", "report", "unfinished", "verdict", "figures", "left_out"}
    assert answer["unfinished"] is None
    assert answer["verdict"]["sentence"] in (tmp_path / "page.html").read_text()
    plain = asked("report", str(folder))
    assert plain.returncode == 0
    assert plain.stdout.splitlines()[1].startswith(f"{folder / 'report.html'}: ")
    assert "not shown: roofline" in plain.stderr
    assert asked("report", str(folder), "--quiet").stderr == ""


def test_a_mixture_s_verification_is_drawn_over_k(tmp_path: Path) -> None:
    sizes = {"hidden_size": 2048, "layers": 4, "heads": 16, "kv_heads": 4, "head_dim": 128, "intermediate_size": 4096}
    text = "".join(
        f"{name} = {value}\n" for name, value in {**sizes, "vocab_size": 151936, "max_context": 8192}.items()
    )
    experts = "[experts]\ncount = 64\nper_token = 4\nwidth = 1024\nlayers = 4\n"
    folder = write_run(
        tmp_path / "run", {"target": "mixture.toml", "draft": "qwen3-0.6b", "hardware": "h100-sxm", "tp": 2, "b": 4}, {}
    )
    card = folder / "mixture.toml"
    card.write_text(f'name = "mixture"\narchitecture = "qwen3_moe"\nsource = "a test"\n{text}{experts}')
    made = report(folder)
    shown = figure(made, "verification")
    table = shown.table
    assert set(table["b"]) == {1, 4, 16, 64}
    for _, rows in table.groupby("b"):
        assert rows["T_v/T_ar"].iloc[0] == 1.0
        assert rows["experts touched"].is_monotonic_increasing
        assert (rows["low"] <= rows["T_v/T_ar"] + 1e-9).all()
        assert (rows["high"] >= rows["T_v/T_ar"] - 1e-9).all()
    assert (table[table["K"] == 7]["T_v/T_ar"] > 1.1).all()
    assert len(shown.plot.data) == 8


def test_the_title_of_ar_alone_names_no_draft(tmp_path: Path) -> None:
    made = report(write_run(tmp_path, {"strategies": ["ar"], "target": "llama-3.1-8b", "tp": 1}, {}))
    assert "<h1>llama-3.1-8b on h100-sxm, TP 1</h1>" in made.html
