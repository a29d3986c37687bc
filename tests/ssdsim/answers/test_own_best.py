"""Each strategy at its own best: one answer to the same options, whichever verb is asked."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import plotly.graph_objects as go
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ssdsim import evaluate, predict, sweep
from ssdsim.answers.own_best import searched_options
from ssdsim.answers.predict import Prediction
from ssdsim.answers.predict import as_json as predicted_json
from ssdsim.reports.study import Study
from ssdsim.runs.report_folder import read_run_folder
from tests.refusals import refused
from tests.ssdsim.cli.in_process import asked

PLACES: tuple[dict[str, Any], ...] = (
    {},
    {"target": "llama-3.1-8b", "tp": 1},
    {"target": "qwen3-32b", "tp": 2, "engine": "vllm", "drafter": "eagle3", "strategies": "ar,sd"},
    {"hardware": "v100-sxm2-16gb", "dtype": "float16", "target": "llama-3.1-8b", "tp": 4},
)


@st.composite
def options(draw: st.DrawFn) -> dict[str, Any]:
    """Options of a call, each given or left to the answer."""
    place = draw(st.sampled_from(PLACES))
    free: dict[str, st.SearchStrategy[Any]] = {
        "b": st.integers(1, 64),
        "alpha": st.floats(0.4, 0.95).map(lambda rate: round(rate, 2)),
        "k": st.integers(1, 12),
    }
    if "strategies" not in place:
        free["backup"] = st.sampled_from(["jit", "fast", "auto"])
        free |= draw(
            st.sampled_from(
                [
                    {"p_hit": st.floats(0.3, 1.0).map(lambda rate: round(rate, 2)), "f": st.integers(1, 8)},
                    {"f": st.integers(1, 8)},
                    {"budget": st.integers(1, 60)},
                    {"strategies": st.sampled_from(["ar,sd,ssd,tree,treessd", "ssd,treessd"])},
                ]
            )
        )
    names = draw(st.lists(st.sampled_from(sorted(free)), unique=True))
    return {**place, **{name: draw(free[name]) for name in sorted(names)}}


def variants(answer: Prediction) -> dict[str, dict[str, Any]]:
    """The K of each strategy, and what else was searched."""
    return {
        name: {
            "k": each.strategy.lookahead(each.settings) if each.strategy.drafts else None,
            "settings": {option: each.settings[option] for option in searched_options(each.settings, each.strategy)},
        }
        for name, each in answer.configuration.scenarios.items()
    }


@settings(max_examples=8, deadline=None)
@given(options())
def test_a_prediction_and_a_sweep_of_one_point_are_one_answer(given: dict[str, Any]) -> None:
    """K, fan-out and backup were the defaults in a sweep; a prediction searched those that were not given."""
    answer, row = predict(**given), sweep(**given).iloc[0]
    for name, found in variants(answer).items():
        rate = float(answer.estimates[name].tokens_per_second)
        assert row[f"{name}_tokens_per_second"] == pytest.approx(rate, rel=1e-9)
        if found["k"] is not None:
            assert row[f"{name}_k"] == found["k"]
    if "ssd" in answer.estimates:
        for option in ("budget", "backup"):
            column = option if option in row else f"ssd_{option}"
            assert row[column] == answer.configuration.scenarios["ssd"].settings[option]


@settings(max_examples=3, deadline=None)
@given(options().filter(lambda given: given.get("b", 1) <= 16))
def test_a_simulation_is_at_the_k_of_a_prediction(given: dict[str, Any]) -> None:
    answer = predict(**given)
    words = [f"--{name.replace('_', '-')}={value}" for name, value in given.items()]
    run = json.loads(asked("simulate", *words, "--solver", "mc", "--rounds", "3000", "--quiet", "--json").stdout)
    for name, found in variants(answer).items():
        told = run["strategies"][name]
        assert {"k": told["k"], "settings": told["settings"]} == found
        rate = float(answer.estimates[name].tokens_per_second)
        assert told["tokens_per_second"]["mean"] == pytest.approx(rate, rel=0.1)


def test_points_side_by_side_are_as_each_alone() -> None:
    """Points that give other options stand in one grid: each is searched by itself."""
    points: list[dict[str, Any]] = [
        {},
        {"b": 64},
        {"k": 3},
        {"b": 16, "p_hit": 0.85},
        {"b": 16, "alpha": [0.8, 0.7, 0.5]},
        {"b": 4, "budget": 9, "backup": "jit"},
        {"t_sd": 0.2, "b": 2},
        {"strategies": "sd,tree", "b": 8},
        {"hardware": "v100-sxm2-16gb", "dtype": "float16", "target": "llama-3.1-8b", "tp": 1, "b": 4000},
    ]
    together = evaluate(points)
    for point, (_, row) in zip(points, together.iterrows(), strict=True):
        alone = evaluate([point], names=("ar", "sd", "ssd", "tree")).iloc[0]
        rates = [name for name in together if name.endswith(("_tokens_per_second", "_k"))]
        assert np.array_equal(row[rates].to_numpy(float), alone[rates].to_numpy(float), equal_nan=True)
        assert row["error"] == alone["error"]
    assert "not even one sequence fits" in together["error"].iloc[-1]


def test_a_k_that_is_given_is_that_of_all_and_durations_that_are_given_leave_it() -> None:
    assert set(sweep(k=6, b=[1, 32])[["sd_k", "ssd_k"]].to_numpy().ravel()) == {6.0}
    assert set(sweep(t_sd=0.2, b=[1, 32])[["sd_k", "ssd_k"]].to_numpy().ravel()) == {6.0}
    own = sweep(b=[1, 32])
    assert (own["sd_k"] < own["ssd_k"]).all()
    assert (own["ssd_tokens_per_second"] > sweep(k=6, f=3, b=[1, 32])["ssd_tokens_per_second"]).all()


def test_a_fan_out_beside_a_hit_rate_means_the_same_in_every_verb() -> None:
    """A sweep took it for the draft's work, and a prediction refused it."""
    given: dict[str, Any] = {"b": 16, "p_hit": 0.85, "f": 4}
    scenario = predict(**given).configuration.scenarios["ssd"]
    assert scenario.settings["budget"] == 4 * (scenario.settings["k"] + 1) == sweep(**given)["budget"].iloc[0]
    with refused("--f", "--t-sd"):
        predict(t_sd=0.2, p_hit=0.85, f=4)


def test_a_report_is_at_the_k_of_a_prediction(tmp_path: Any) -> None:
    sweep(b=[16], folder=tmp_path)
    shown = Study(read_run_folder(tmp_path))
    assert variants(shown.prediction) == variants(predict(b=16))
    assert predicted_json(shown.prediction)["strategies"] == predicted_json(predict(b=16))["strategies"]


def test_a_folder_of_before_keeps_the_k_that_its_rows_have(tmp_path: Any) -> None:
    """Up to 0.3.0 a sweep took K 6 and F 3 for all."""
    sweep(k=6, f=3, b=[1, 16], folder=tmp_path)
    for name, was in (("sweep.json", '"schema": 2'), ("config.toml", "k = 6\n"), ("config.toml", "f = 3\n")):
        text = (tmp_path / name).read_text()
        assert was in text
        (tmp_path / name).write_text(text.replace(was, was.replace("2", "1") if "schema" in was else ""))
    shown = Study(read_run_folder(tmp_path))
    assert {each["k"] for each in variants(shown.prediction).values()} == {None, 6}
    rows = shown.folder.results
    assert rows is not None
    at_base = rows[rows["b"] == shown.base["b"]].iloc[0]
    assert at_base["ssd_tokens_per_second"] == pytest.approx(
        float(shown.prediction.estimates["ssd"].tokens_per_second), rel=1e-9
    )


def test_a_bare_plot_of_a_sweep_is_the_ratio_over_what_varies() -> None:
    """Plotly asked for x and y."""
    pytest.importorskip("plotly")
    drawn = sweep(b=[1, 4, 16], t_sd=[0.2, 0.3], alpha=0.8, p_hit=0.85).plot(backend="ssdsim.reports.table_plots")
    assert isinstance(drawn, go.Figure)
    assert (drawn.layout.xaxis.title.text, drawn.layout.yaxis.title.text) == ("b", "ssd_over_sd")
    assert [line.name for line in drawn.data] == ["0.2", "0.3"]
    assert list(drawn.data[0].x) == [1, 4, 16]
    over_k = sweep(k=[2, 4], b=16, strategies="ar,sd").plot(backend="ssdsim.reports.table_plots")
    assert (over_k.layout.xaxis.title.text, over_k.layout.yaxis.title.text) == ("k", "sd_over_ar")
    other = sweep(b=[1, 4], t_sd=0.2).plot(x="b", y="sd_over_ar", backend="ssdsim.reports.table_plots")
    assert other.layout.yaxis.title.text == "sd_over_ar"
    with refused():
        sweep(b=1, t_sd=0.2).plot(backend="ssdsim.reports.table_plots")
