"""The grid behind the page: its axes, what it holds at its points, between them, and its sentences."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ssdsim import predict
from ssdsim.answers.grid import Evaluator
from ssdsim.base.record import replace
from ssdsim.reports.explorer.contests import contests
from ssdsim.reports.explorer.grid import ExplorerGrid, explorer_grid, limits
from ssdsim.reports.explorer.space import space_of
from ssdsim.reports.explorer.strategy_grid import ErrorDraws, PricedPoints, StrategyGrid
from ssdsim.reports.explorer.table import Floats, GridTable, chosen_nodes, interpolated, weights
from tests.refusals import refused

PAIR = Path(__file__).parents[3] / "models/pairs/smollm2-135m-28-layers.json"
SMALL: dict[str, Any] = {"b": [1, 16], "k": [3, 6], "f": [3], "context": [1024]}


@pytest.fixture(scope="module")
def small() -> ExplorerGrid:
    return explorer_grid(checked=300, **SMALL)


def column(table: GridTable, name: str) -> Floats:
    return np.asarray(table.values[..., table.columns.index(name)])


def test_a_cubic_is_interpolated_exactly_and_weights_sum_to_one() -> None:
    nodes = [0.1, 0.3, 0.4, 0.8, 0.9]
    cubic = np.poly1d([2.0, -1.0, 0.5, 3.0])
    for at in (0.1, 0.35, 0.65, 0.9):
        assert weights(nodes, at).sum() == pytest.approx(1.0)
        assert interpolated(cubic(nodes), [(nodes, at)]) == pytest.approx(cubic(at))


def test_nodes_stand_where_a_curve_bends() -> None:
    places = np.linspace(0.0, 1.0, 65)
    curve = 1.0 + np.maximum(0.0, places - 0.8) ** 2 * 20.0
    nodes = chosen_nodes(places.tolist(), curve[None, :], most=9)
    assert sum(node >= 0.7 for node in nodes) > len(nodes) / 2


@pytest.mark.long
def test_axes_follow_what_is_given() -> None:
    space = space_of({"p_hit": 0.8, "b": 5})
    names = [axis.name for axis in space.axes]
    assert {"p_hit", "alpha", "b", "k"} <= {*names}
    assert not {"f", "hit_c"} & {*names}
    assert space.axis("b").start == 5
    assert 5 in space.axis("b").values
    assert space.assumed == {"alpha": 0.8}
    unit_free = space_of({"t_sd": 0.2, "alpha": [0.6, 0.9]})
    assert unit_free.unit_free
    assert unit_free.axis("alpha").values == (0.6, 0.9)
    assert "context" not in [axis.name for axis in unit_free.axes]
    assert space_of({"strategies": "ar,sd"}).read["ar"] == ("b", "context")
    assert [axis.name for axis in space_of({}).axes if axis.continuous] == ["alpha", "hit_c", "hit_r"]
    assert space_of({"hit_r": 1.1}).axis("hit_r").values == (0.4, 1.1)


@pytest.mark.long
def test_a_page_says_what_limits_it() -> None:
    assert limits(space_of({})) == []
    (of_pair,) = limits(space_of({"pair": str(PAIR)}))
    assert "at most 3,000 points of a strategy" in of_pair
    (of_trees,) = limits(space_of({"strategies": "sd,tree"}))
    assert "against 400 exact answers" in of_trees


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"hardware": ["h100-sxm", "h1000"]}, "h1000"),
        ({"f": [2, 4], "strategies": "ar,sd"}, "--f, --strategies ar,sd"),
        ({"b": 0}, "--b"),
        ({"optoin": 1}, "optoin"),
        ({"strategies": "ar"}, "names only ar"),
        ({"spread": 0.1}, "needs constant durations"),
        ({"fl": [[4], [3], [2], [1]]}, "commas stand between the numbers of a list"),
    ],
)
def test_a_mistake_is_one_line(options: dict[str, Any], names: str) -> None:
    with refused(*names.split(", ")):
        space_of(options)


@pytest.mark.long
def test_points_of_the_grid_are_what_predict_says(small: ExplorerGrid) -> None:
    for b, k, backup in ((1, 6, "jit"), (16, 3, "fast")):
        options = {"b": b, "k": k, "f": 3, "backup": backup, "context": 1024, "alpha": 0.8, "hit_c": 0.4, "hit_r": 0.7}
        exact = predict(**options)
        table = small.rates["ssd"].table.at(options)
        assert np.exp(table["log_rate"]) == pytest.approx(exact.estimates["ssd"].tokens_per_second, rel=1e-9)
        ends = small.measured.table.at(options)
        over = exact.verdict.over["sd"]
        assert over.ratio * np.exp(ends["sd:low"]) == pytest.approx(over.low, rel=1e-6)
        assert over.ratio * np.exp(ends["sd:high"]) == pytest.approx(over.high, rel=1e-6)
        assert small.assumed is not None
        assumed = predict(b=b, k=k, f=3, backup=backup)
        found = small.assumed.table.at(options)
        for name, value in (("low", assumed.verdict.over["sd"].low), ("lowest", assumed.verdict.over["sd"].lowest)):
            assert assumed.verdict.over["sd"].ratio * np.exp(found[f"sd:{name}"]) == pytest.approx(value, rel=1e-6)


@pytest.mark.long
def test_a_page_knows_what_each_of_its_sentences_decides(small: ExplorerGrid) -> None:
    """The title of its ratio says no more than the verdict: where that is undecided, so is it."""
    words = {"wins": "Yes", "loses": "No", "undecided": "Undecided"}
    for each in (small.measured, small.assumed):
        assert each is not None
        assert all(case.sentence.startswith(words[case.outcome]) for case in each.known)
    assert small.assumed is not None
    assert {case.outcome for case in small.assumed.known} >= {"undecided"}


@pytest.mark.long
def test_a_measured_pair_keeps_its_rates() -> None:
    options: dict[str, Any] = {"pair": str(PAIR), "pair_set": "chat", "temperature": 1.0, "k": 3, "backup": "jit"}
    space = space_of({"pair": str(PAIR)})
    names = {axis.name for axis in space.axes}
    assert {"pair_set", "temperature"} <= names
    assert not {"alpha", "hit_c"} & names
    found = explorer_grid(**{**options, "b": [4, 16], "k": [3], "f": [3], "context": [1024]})
    for b in (4, 16):
        exact = predict(**options, b=b, f=3)
        at = {"b": b, "k": 3, "f": 3, "backup": "jit", "context": 1024}
        over, ends = exact.verdict.over["sd"], found.measured.table.at(at)
        assert np.exp(found.rates["ssd"].table.at(at)["log_rate"]) == pytest.approx(
            exact.estimates["ssd"].tokens_per_second, rel=1e-9
        )
        assert over.ratio * np.exp(ends["sd:low"]) == pytest.approx(over.low, rel=1e-6)
        assert over.ratio * np.exp(ends["sd:high"]) == pytest.approx(over.high, rel=1e-6)


@pytest.mark.long
def test_more_points_than_can_be_worked_out_are_refused() -> None:
    with refused("--pair", "3,000"):
        explorer_grid(pair=str(PAIR), b=list(range(1, 65)), k=[2, 3, 4, 5, 6])


@pytest.mark.long
def test_a_point_without_room_says_why() -> None:
    found = explorer_grid(b=[1, 64], k=[6], f=[3], context=[1024, 32768])
    at = {"b": 64, "k": 6, "f": 3, "backup": "jit", "context": 32768, "alpha": 0.8, "hit_c": 0.4, "hit_r": 0.7}
    assert np.isnan(found.rates["ssd"].table.at(at)["log_rate"])
    assert any("needs" in reason for reason in found.rates["ssd"].reasons)
    assert found.memory["ssd"].at(at)["share"] > 1.0


def test_a_rival_without_room_anywhere_leaves_the_others() -> None:
    options: dict[str, Any] = {"subject": "sd", "b": [8, 16], "k": [12], "context": [8192]}
    with_all = explorer_grid(exact=True, **options, f=4096)
    with_ar = explorer_grid(exact=True, **options, strategies="ar,sd")
    assert np.isnan(column(with_all.rates["ssd"].table, "log_rate")).all()
    assert with_all.measured.sets[0] == ("ar", "ssd")
    best, of_ar = column(with_all.measured.table, "best:0"), column(with_ar.measured.table, "best:0")
    assert best.reshape(-1) == pytest.approx(of_ar.reshape(-1))
    assert (with_all.measured.cases[..., 0] >= 0).all()


@pytest.mark.long
def test_interpolation_keeps_within_its_bars(small: ExplorerGrid) -> None:
    errors = {each.what: each for each in small.errors}
    assert errors["tokens/s of SSD"].worst < 0.005
    assert errors["SSD over SD"].worst < 0.005
    assert errors["lower end of SSD over SD"].worst < 0.01
    assert errors["upper end of SSD over SD"].worst < 0.01


@pytest.mark.long
def test_durations_and_tokens_that_are_given_have_no_interval() -> None:
    found = explorer_grid(t_sd=[0.1, 0.3], alpha=[0.6, 0.9], p_hit=[0.5, 0.9], b=[1, 4], k=[3, 5])
    assert found.assumed is None
    assert np.isnan(column(found.measured.table, "sd:low")).all()
    assert any(case.sentence.startswith("Yes") for case in found.measured.known)


@pytest.mark.long
def test_durations_that_are_given_leave_tokens_open_that_nobody_gave() -> None:
    found = explorer_grid(t_sd=[0.1, 0.3], alpha=[0.6, 0.9], b=[1, 4], k=[3, 5], f=[3])
    assert found.assumed is not None
    at = {"t_sd": 0.1, "alpha": 0.6, "b": 4, "k": 5, "f": 3, "backup": "jit"}
    exact = predict(t_sd=0.1, alpha=0.6, b=4, k=5, f=3, backup="jit").verdict.over["sd"]
    assert exact.ratio * np.exp(found.assumed.table.at(at)["sd:low"]) == pytest.approx(exact.low, rel=1e-6)


def test_there_are_no_bounds_over_ranges_where_no_token_lies_in_one() -> None:
    space = space_of({"alpha": "0.7:0.85", "hit_c": 0.4, "hit_r": 0.7, "b": [1, 4]}, exact=True)
    axes, errors, sides = space.axes, ErrorDraws(100, 0), dict[str, StrategyGrid]()
    for name in space.names:
        own = [axis for axis in axes if axis.name in space.read[name]]
        points = PricedPoints.of(name, space.grid(name, space.read[name]), Evaluator())
        sides[name] = StrategyGrid.of(own, points, errors)
    open_ = np.array([True, False])
    closed = {name: replace(side, open=side.open & open_) for name, side in sides.items()}
    for of, known in ((sides, [True, True]), (closed, open_)):
        table = contests(space, of, ["b"]).table
        for end in ("lowest", "highest"):
            assert np.isfinite(column(table, f"sd:{end}")).tolist() == list(known), end
