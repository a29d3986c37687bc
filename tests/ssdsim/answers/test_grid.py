"""Columns of predictions against predictions one by one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ssdsim.answers.grid import evaluate
from ssdsim.answers.predict import DRAWS, Prediction, predict, predicted
from ssdsim.base.errors import InputError
from ssdsim.base.record import replace
from ssdsim.question.configuration import configure
from ssdsim.strategies import DEFAULT


def maybe(**options: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Any subset of the options."""
    return st.fixed_dictionaries({}, optional=options)


def merged(*parts: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    return st.tuples(*parts).map(lambda each: {name: value for part in each for name, value in part.items()})


STRATEGIES = DEFAULT
rates = st.floats(0.0, 1.0)
alphas = st.one_of(st.floats(0.0, 1.05), st.lists(rates, min_size=4, max_size=7))
shape = maybe(
    b=st.sampled_from([0, 1, 2, 16, 400]),
    k=st.integers(1, 7),
    sd_k=st.integers(1, 7),
    alpha=alphas,
    backup=st.sampled_from(["jit", "fast", "auto"]),
    alpha_backup=rates,
    alpha_concentration=st.sampled_from([2.0, 20.0]),
    output_tokens=st.sampled_from([16, 64]),
)
given_hits = maybe(p_hit=rates, p_hit_backup=rates)
cached_hits = maybe(
    f=st.sampled_from([1, 3, 8]),
    fl=st.lists(st.integers(0, 6), min_size=4, max_size=6),
    fan_out_policy=st.sampled_from(["uniform", "geometric", "optimal"]),
    hit_c=rates,
    hit_r=st.floats(0.0, 2.0),
    hit_curve=st.just([(1.0, 0.5), (4.0, 0.75)]),
)
unit_free = merged(st.fixed_dictionaries({"t_sd": st.floats(0.0, 2.0)}), maybe(t_p=rates, t_b=rates))
on_hardware = maybe(
    f=st.sampled_from([1, 4, "window"]),
    budget=st.sampled_from([7, 40, 100_000]),
    tp=st.sampled_from([2, 3, 4, 8]),
    draft_gpus=st.sampled_from([1, 2]),
    sd_draft=st.sampled_from(["colocated", "separate"]),
    context=st.sampled_from([512, 4096, 1_000_000]),
    temperature=st.sampled_from([0.0, 0.7]),
    dtype=st.sampled_from(["bfloat16", "float16"]),
    draft_hardware=st.sampled_from(["h100-sxm", "v100-sxm2-32gb", "h100-sxn"]),
    backup_ms=st.floats(0.0, 3.0),
    spread=st.sampled_from([0.0, 0.1, "profile"]),
)
points = merged(shape, st.one_of(given_hits, cached_hits), st.one_of(unit_free, on_hardware))
fitting = merged(  # most of the above are refused; these are mostly possible
    maybe(b=st.sampled_from([1, 8, 64]), alpha=rates, k=st.integers(1, 9), backup=st.sampled_from(["jit", "fast"])),
    st.one_of(
        maybe(tp=st.sampled_from([2, 4]), sd_draft=st.just("separate"), temperature=st.just(1.0)),
        maybe(draft_gpus=st.sampled_from([2, 4, 5]), draft_hardware=st.sampled_from(["v100-sxm2-32gb", "h100-sxn"])),
        maybe(context=st.sampled_from([64, 200_000, 130_000]), dtype=st.sampled_from(["bfloat16", "float16"])),
        maybe(spread=st.sampled_from([0.1, "profile"]), tp=st.sampled_from([1, 3, 8])),
        st.just({"tp": 8}),  # a draft has no device of its own left
    ),
    st.one_of(maybe(f=st.integers(1, 9)), maybe(p_hit=rates, budget=st.integers(1, 60))),
)


def expected(prediction: Prediction) -> Mapping[str, Any]:
    """The columns of one row: NaN or None where a strategy has no room."""
    e, settings = prediction.estimates, prediction.configuration.settings
    nothing = float("nan")
    rate = {name: float(e[name].tokens_per_second) if name in e else nothing for name in STRATEGIES}
    values: dict[str, Any] = {f"{name}_tokens_per_second": rate[name] for name in STRATEGIES}
    values |= {f"{name}_gpus": e[name].gpus if name in e else nothing for name in STRATEGIES}
    values |= {f"{name}_round_s": float(e[name].round_s) if name in e else nothing for name in STRATEGIES}
    values |= {f"tokens_per_round_{n}": e[n].tokens_per_round if n in e else nothing for n in ("sd", "ssd")}
    values |= {f"{x}_over_{y}": rate[x] / rate[y] for x, y in (("ssd", "sd"), ("ssd", "ar"), ("sd", "ar"))}
    if "ssd" not in e:
        return values | {"p_hit": nothing, "p_all_hit": nothing, "budget": nothing, "backup": None}
    values |= {"p_hit": e["ssd"].p_hit, "p_all_hit": e["ssd"].p_all_hit}
    return values | {"budget": settings["budget"], "backup": settings["backup"]}


def refusal(point: Mapping[str, Any]) -> str | None:
    """Why nothing can be predicted at a point."""
    try:
        predicted(point, solver="closed")
    except InputError as error:
        return str(error)
    return None


def assert_same(row: Any, point: Mapping[str, Any]) -> None:
    refused = refusal(point)
    if refused is not None:
        assert row["error"] == refused
        assert row.drop("error").isna().all()
        return
    prediction = predicted(point, solver="closed")
    why = prediction.configuration.refused
    assert row["error"] == (why.get("ssd") or next(iter(why.values()), None))
    for name, value in expected(prediction).items():
        if name == "backup":
            assert row[name] == value or (value is None and pd.isna(row[name]))
        else:
            assert row[name] == pytest.approx(value, rel=1e-12, abs=1e-300, nan_ok=True), name


@pytest.mark.long
@given(some=st.lists(st.one_of(points, fitting), min_size=1, max_size=6))
@settings(derandomize=True, deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
def test_a_row_is_the_prediction_of_its_point(some: list[dict[str, Any]]) -> None:
    """Values, the better fallback, and the error line of what is not possible, or of the strategy that has no room."""
    frame = evaluate(some)
    assert len(frame) == len(some)
    for (_, row), point in zip(frame.iterrows(), some, strict=True):
        assert_same(row, point)


@pytest.mark.long
def test_the_random_points_are_of_both_sorts() -> None:
    """Else the property above would compare errors only."""
    errors: list[Any] = []
    partly: list[bool] = []

    @given(point=st.one_of(points, fitting))
    @settings(derandomize=True, deadline=None, max_examples=250, database=None)
    def collect(point: dict[str, Any]) -> None:
        row = evaluate([point]).iloc[0]
        errors.append(row["error"])
        partly.append(row["error"] is not None and row.filter(like="_tokens_per_second").notna().any())

    collect()
    assert 0.25 < np.mean([error is None for error in errors]) < 0.9
    assert len({error for error in errors if error}) > 10
    assert sum(partly) > 2, "no point at which some strategies have room and others have not"


def test_intervals_are_those_of_a_prediction() -> None:
    some: list[dict[str, Any]] = [
        {"b": 16, "k": 6, "p_hit": 0.85},
        {"b": 16, "k": 6, "p_hit": 0.85, "backup": "jit"},
        {"b": 1, "k": 6, "alpha": 0.6, "f": 2, "temperature": 1.0, "sd_draft": "separate", "backup": "fast"},
        {"t_sd": 0.2, "f": 3},
        {"t_sd": 0.2, "alpha": 0.8, "p_hit": 0.85},
        {"tp": 3},
    ]
    frame = evaluate(some, draws=DRAWS, seed=5)
    for (_, row), point in zip(frame.iloc[:4].iterrows(), some[:4], strict=True):
        prediction = predict(seed=5, **point)
        for name in STRATEGIES:
            interval = prediction.intervals[name]
            assert interval is not None
            assert row[f"{name}_low"] == pytest.approx(interval.low, rel=1e-9)
            assert row[f"{name}_high"] == pytest.approx(interval.high, rel=1e-9)
        assert row["probability_ssd_beats_sd"] == prediction.verdict.over["sd"].probability_faster
    assert frame.loc[4:, ["ar_low", "sd_high", "ssd_low", "probability_ssd_beats_sd"]].isna().all(axis=None)
    assert frame["error"].notna().tolist() == [False, False, False, False, False, True]


def test_warnings_of_extrapolation_are_kept() -> None:
    point = {"b": 64, "p_hit": 0.8, "budget": 60}
    assert evaluate([point, {"tp": 3}]).attrs["warnings"] == predict(**point).configuration.warnings != []


def test_no_points_and_no_possible_points_are_tables_too() -> None:
    assert len(evaluate([])) == 0
    frame = evaluate([{"tp": 3}], draws=10)
    assert isinstance(frame, pd.DataFrame)
    assert frame["ssd_over_sd"].isna().all()


def test_only_the_strategies_that_are_asked_for_have_columns() -> None:
    frame = evaluate([{"t_sd": 0.2, "strategies": "ar,sd"}, {"t_sd": 0.3, "strategies": ("sd",)}])
    assert frame["error"].isna().all()
    assert [name for name in frame if str(name).endswith("_tokens_per_second")] == [
        "ar_tokens_per_second",
        "sd_tokens_per_second",
    ]
    assert "p_hit" not in frame
    assert frame["ar_tokens_per_second"].isna().tolist() == [False, True]
    for number, t_sd in enumerate((0.2, 0.3)):
        whole = evaluate([{"t_sd": t_sd}])
        assert frame["sd_tokens_per_second"][number] == whole["sd_tokens_per_second"][0]


def test_strategies_that_no_point_asks_for_have_columns_where_they_are_wanted() -> None:
    frame = evaluate([{"k": 0}], draws=10, names=("ar", "sd"))
    assert frame[["ar_tokens_per_second", "sd_over_ar", "sd_low", "probability_sd_beats_ar"]].isna().all(axis=None)
    assert "ssd_over_sd" not in frame
    assert list(evaluate([{"k": 0}], draws=10)) == list(evaluate([{"b": 16}], draws=10)) == list(evaluate([], draws=10))


def test_a_mistake_in_one_strategy_refuses_the_whole_point() -> None:
    """As in a prediction: timings that the draft's device lacks are no lack of room."""
    point = {"draft_hardware": "v100-sxm2-32gb"}
    row = evaluate([{}, point]).iloc[1]
    assert "no bfloat16 gemm timings" in row["error"]
    assert_same(row, point)


def test_rows_whose_rounds_have_other_steps_are_each_their_own_prediction() -> None:
    """One sequence has no second half; a look-up of n-grams decodes where it finds nothing, a model never does."""
    halves: list[dict[str, Any]] = [{"strategies": "minedraft", "t_sd": 0.5, "b": b, "k": 4} for b in (1, 8, 1, 3)]
    found: list[dict[str, Any]] = [
        {"strategies": "sd", "target": "llama-3.1-8b", "tp": 1, "b": 4, "k": 4, "alpha": 0.5, "drafter": drafter}
        for drafter in ("model", "ngram")
    ]
    for points, column in ((halves, "minedraft"), (found, "sd")):
        together, alone = evaluate(points, draws=50), [evaluate([point], draws=50) for point in points]
        for name in (f"{column}_tokens_per_second", f"{column}_low", f"{column}_high"):
            assert together[name].to_list() == [each[name][0] for each in alone]


def test_the_papers_formula_stands_for_one_target_beside_rows_of_several() -> None:
    scenario = configure(t_sd=0.3, p_hit=0.9, strategies="ssd").scenarios["ssd"]
    rows = scenario.strategy.closed_form(replace(scenario.round, targets=np.array([1, 2])))
    several = scenario.strategy.closed_form(replace(scenario.round, targets=2))
    alone, beside = np.asarray(rows.paper_tokens_per_second)
    assert alone == scenario.estimate.paper_tokens_per_second
    assert np.isnan(beside)
    assert several.paper_tokens_per_second is None
