"""Points that are asked together: the answers of each alone, each step once for all that it reads alike."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from ssdsim import InputError, configure
from ssdsim.answers.sweep import sweep
from ssdsim.base.settings import Settings
from ssdsim.question.checked_options import GridPart, checked, checked_table
from ssdsim.question.point_table import Column, MemoizedStep, PointTable
from ssdsim.question.points import Points

GRID = [
    {"b": b, "alpha": alpha, "k": k, "hardware": hardware}
    for b, alpha, k, hardware in product((1, 8), (0.6, 0.9), (2, 5), ("h100-sxm", "h200-sxm"))
]


def table_of(points: list[dict[str, Any]], defaults: dict[str, Any]) -> PointTable:
    options = {name: Column.of([(point[name], "given") for point in points]) for name in points[0]}
    return PointTable(np.arange(len(points)), defaults, options, {})


def test_each_point_has_the_scenarios_that_it_has_alone() -> None:
    points = Points(GRID)
    for name in ("ar", "sd", "ssd"):
        found = points.scenarios(name)
        assert set(found.rows.tolist()) == set(range(len(GRID)))
        for row, scenario in zip(found.rows.tolist(), found, strict=True):
            alone = configure(**GRID[row], strategies=name, backup=scenario.settings["backup"]).scenarios[name]
            assert scenario.estimate.tokens_per_second == alone.estimate.tokens_per_second
            assert {n: v for n, v in scenario.settings.items() if n != "strategies"} == {
                n: v for n, v in alone.settings.items() if n != "strategies"
            }


def test_a_step_is_taken_once_for_points_that_it_reads_alike() -> None:
    seen = []

    def step(settings: Settings) -> int:
        seen.append((settings["b"], settings["k"] if settings["b"] > 1 else None))
        settings.settle("doubled", 2 * settings["b"], "twice b")
        return int(settings["b"])

    points = [{"b": b, "k": k, "alpha": alpha} for b in (1, 2) for k in (3, 4, 5) for alpha in (0.5, 0.6)]
    memoized = MemoizedStep(step)
    table, errors = table_of(points, {"b": 0, "k": 0}).after("b", memoized)
    assert not errors
    assert sorted(seen, key=str) == [(1, None), (2, 3), (2, 4), (2, 5)]
    assert table.values("doubled") == [2 * point["b"] for point in points]
    memoized.each(table_of(points, {"b": 0, "k": 0}))
    assert len(seen) == 4  # and known the next time


def test_a_mistake_is_that_of_its_points_alone() -> None:
    points = [{"t_sd": 0.2}, {"t_sd": 0.2, "nothing": 1}, {"t_sd": -1.0}, {"t_sd": 0.2, "engine": "vllm"}, {"b": 1e9}]
    errors = Points(points).errors
    assert errors[0] is None
    for point, error in zip(points[1:], errors[1:], strict=True):
        with pytest.raises(InputError) as alone:
            configure(**point)
        assert str(error) == str(alone.value)


def test_values_that_are_equal_but_of_other_kinds_are_told_apart() -> None:
    table = table_of([{"x": 1}, {"x": 1.0}, {"x": True}, {"x": [1]}, {"x": (1,)}], {})
    assert [str(value) for value in table.values("x")] == ["1", "1.0", "True", "[1]", "(1,)"]
    assert checked({"b": np.int64(4), "k": None}) == {"b": 4}


@pytest.mark.parametrize("alpha", [[0.6, 0.9], [0.6, "0.7:0.8"], [0.6, 2.0]])
def test_a_grid_means_what_its_points_mean_one_by_one(alpha: list[Any]) -> None:
    """Also where a value is a range, or a mistake."""
    part = GridPart({"k": 3}, {"b": [1, 2, 4], "alpha": alpha}, start=1, stop=5)
    (table, errors), (one_by_one, others) = checked_table(part), checked_table(list(part))
    assert list(map(str, errors)) == list(map(str, others))
    assert table.rows.tolist() == one_by_one.rows.tolist() == [row for row, error in enumerate(errors) if error is None]
    settings = [[dict(each.settings(point)) for point in range(len(each))] for each in (table, one_by_one)]
    assert settings[0] == settings[1]
    assert [point["b"] for point in part] == [1, 2, 2, 4]


@pytest.mark.parametrize("options", [{"hardware": "h100-sxm"}, {"t_sd": 0.2}])
def test_every_strategy_reads_the_batch(options: dict[str, Any]) -> None:
    scenarios = configure(b=2, strategies="ar,sd,ssd,pearl", **options).scenarios
    assert all("b" in scenario.reads for scenario in scenarios.values())


@pytest.mark.parametrize(
    ("axis", "others"),
    [
        ({"acceptance_rule": ["token", "fly"]}, {"rule_odds": 1.5}),
        ({"acceptance_rule": ["token", "relaxed"], "rule_odds": ["1.2:1.5", 2.0]}, {}),
        ({"backup": ["jit", "fast"]}, {"p_hit_backup": 0.5}),
    ],
)
def test_points_of_a_grid_go_without_what_only_the_other_points_have(
    axis: dict[str, list[Any]], others: dict[str, Any]
) -> None:
    """A sweep over the rules with a factor had no point of the token rule."""
    (name, (without, _)), asked = next(iter(axis.items())), {"t_sd": 0.2, "k": 5, "p_hit": 0.8, **others}
    part = GridPart(asked, axis, 0, 2 * len(axis.get("rule_odds", [None])))
    (excluded,) = (others or axis).keys() - {name}
    _, errors = checked_table(part)
    assert not any(errors)
    ranged = GridPart({"t_sd": 0.2, "p_hit": 0.8, "ranges": {excluded: (0.7, 2.0)}}, {name: axis[name]}, 0, 2)
    assert ["ranges" in point for point in ranged] == [point[name] != without for point in ranged]
    assert [excluded in point for point in part] == [point[name] != without for point in part]
    _, errors = checked_table(GridPart(asked | {excluded: 1.0}, {name: [without]}, 0, 1))
    assert "has no effect" in str(errors[0])
    found = sweep(**asked, **axis)["ssd_tokens_per_second"]
    rates = [configure(**point).scenarios["ssd"].estimate.tokens_per_second for point in part]
    assert found.tolist() == pytest.approx(list(map(float, rates)))
