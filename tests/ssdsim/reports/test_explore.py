"""The grid behind the page: its axes, what it holds at its points, between them, and its sentences."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ssdsim import predict
from ssdsim.base.intervals import quantiles
from ssdsim.pricing.cost import TimingErrors
from ssdsim.reports.explorer.doubts import Basis, Doubt, drawn_at
from ssdsim.reports.explorer.grid import ExplorerGrid, explorer_grid, limits
from ssdsim.reports.explorer.space import space_of
from ssdsim.reports.explorer.table import Floats, GridTable, chosen_nodes, interpolated, weights
from tests.refusals import refused

PAIR = Path(__file__).parents[3] / "models/pairs/smollm2-135m-28-layers.json"
SMALL: dict[str, Any] = {"b": [1, 16], "k": [3, 6], "f": [3], "context": [1024]}


@pytest.fixture(scope="module")
def small() -> ExplorerGrid:
    return explorer_grid(checked=300, **SMALL)


START = {"alpha": 0.79, "hit_c": 0.4, "hit_r": 0.7}


def drawn(found: ExplorerGrid, name: str, place: dict[str, Any], doubts: list[str]) -> Floats:
    """Tokens/s in each draw, as the page has them; all doubts but these are ended."""
    kept = [each for each in found.doubts if each.name in doubts]
    return np.exp(drawn_at(place, found.rates[name].table, found.errors[name], found.basis, kept))


def sentence(found: ExplorerGrid, **at: Any) -> str:
    assert found.stops is not None
    number = 0
    for name, stops in found.stops.stops.items():
        number = number * len(stops) + (stops.index(at[name]) if name in at else 0)
    return found.stops.texts[number].sentence


def numbers(text: str) -> list[float]:
    return [float(each) for each in re.findall(r"\d+(?:\.\d+)?", text)]


def numberless(text: str) -> str:
    return re.sub(r"\d+(?:\.\d+)?", "n", text)


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
    assert [each.name for each in space.doubts] == ["alpha"]
    unit_free = space_of({"t_sd": 0.2, "alpha": [0.6, 0.9]})
    assert unit_free.unit_free
    assert unit_free.axis("alpha").values == (0.6, 0.9)
    assert "context" not in [axis.name for axis in unit_free.axes]
    assert space_of({"strategies": "ar,sd"}).read["ar"] == ("b", "context")
    assert [axis.name for axis in space_of({}).axes if axis.continuous] == ["alpha", "hit_c", "hit_r"]
    assert space_of({"hit_r": 1.1}).axis("hit_r").values == (0.4, 1.1)
    assert space_of({"t_sd": 0.2, "k": "auto"}) == space_of({"t_sd": 0.2})


def test_lists_of_a_pairs_sets_and_temperatures_are_stops() -> None:
    asked = {"t_sd": 0.2, "pair": "smollm2-135m-28-layers", "strategies": "ar,sd"}
    space = space_of({**asked, "pair_set": ["chat", "code"], "temperature": [0.0, 1.0]})
    stops = {axis.name: axis.values for axis in space.axes}
    assert stops["pair_set"] == ("chat", "code")
    assert stops["temperature"] == (0.0, 1.0)


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
        ({"k": ["auto", 3]}, "--k, stands alone"),
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
@pytest.mark.parametrize("known", [[], ["alpha"], ["alpha", "hit_c", "hit_r"]])
def test_points_of_the_grid_are_what_predict_says(small: ExplorerGrid, known: list[str]) -> None:
    """A tick ends one doubt alone: the others stay as nobody said them."""
    for b, k, backup in ((1, 6, "jit"), (16, 3, "fast")):
        options = {"b": b, "k": k, "f": 3, "backup": backup, "context": 1024}
        exact = predict(**options, **{name: START[name] for name in known})
        assert exact.draws is not None
        for name, estimate in exact.estimates.items():
            rate = small.rates[name].table.at({**options, **START})["log_rate"]
            assert np.exp(rate) == pytest.approx(float(estimate.tokens_per_second), rel=1e-9)
            found = drawn(small, name, {**options, **START}, [each for each in START if each not in known])
            assert found == pytest.approx(exact.draws[name].joint, rel=0.1)  # what is cached is planned anew there
            for share in (0.1, 0.5, 0.9):
                (shown,), (said,) = quantiles(found, share), quantiles(exact.draws[name].joint, share)
                assert shown == pytest.approx(float(said), rel=0.02)


@pytest.mark.long
def test_a_slider_moves_a_range_with_its_middle(small: ExplorerGrid) -> None:
    options: dict[str, Any] = {"b": 16, "k": 3, "f": 3, "backup": "jit", "context": 1024}
    at = {**options, **START, "alpha": 0.65}
    exact = predict(**options, alpha=0.65, ranges=[("alpha", 0.3, 0.8)]).draws  # the slider begins at 0.3
    assert exact is not None
    for name in ("sd", "ssd"):
        for share in (0.1, 0.5, 0.9):
            (shown,), (said,) = quantiles(drawn(small, name, at, [*START]), share), quantiles(exact[name].joint, share)
            assert shown == pytest.approx(float(said), rel=0.01)


def test_a_range_ends_where_its_slider_does_and_its_middle_stays_the_median() -> None:
    space = space_of({})
    errors, (alpha, *_) = TimingErrors(100, 0), space.doubts
    doubt = Doubt.of(alpha, space.axis("alpha"), errors)
    for value in (0.35, 0.79, 0.93):
        (low, high), looks = doubt.about(value)
        assert 0.3 <= low < value < high <= 0.95
        assert looks.min() >= low - 1e-3
        assert looks.max() <= high + 1e-3
        assert np.median(looks) == pytest.approx(value, abs=0.01)


def test_a_basis_makes_up_the_errors_it_was_made_of_and_none_of_nothing() -> None:
    rng = np.random.default_rng(0)
    errors = rng.normal(size=(20, 3)) @ rng.normal(size=(3, 500)) / 10.0
    basis = Basis.of(errors)
    assert len(basis.vectors) == 3
    assert basis.numbers(errors) @ basis.vectors == pytest.approx(errors, abs=1e-9)
    assert len(Basis.of(np.zeros((4, 500))).vectors) == 0


@pytest.mark.long
def test_sentences_are_those_of_predict(small: ExplorerGrid) -> None:
    for b, k in ((1, 6), (16, 3)):
        said = sentence(small, b=b, k=k, f=3, context=1024, backup="auto")
        assert numberless(said) == numberless(predict(b=b, k=k, f=3, context=1024).verdict.sentence)
        for one, other in zip(
            numbers(said), numbers(predict(b=b, k=k, f=3, context=1024).verdict.sentence), strict=True
        ):
            assert one == pytest.approx(other, abs=1.0 if one > 10.0 else 0.01)


@pytest.mark.long
def test_the_best_stop_is_each_strategys_own(small: ExplorerGrid) -> None:
    """SD is at its best at K 3 at batch 16, where SSD is at K 3, too; neither is held to the other's."""
    assert "best" in small.space.axis("k").stops
    said = {sentence(small, b=16, k=k, f=3, context=1024, backup="auto") for k in (3, 6, "best")}
    assert len(said) >= 2


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
        assert exact.draws is not None
        assert not found.doubts
        for name in ("sd", "ssd"):
            assert np.exp(found.rates[name].table.at(at)["log_rate"]) == pytest.approx(
                float(exact.estimates[name].tokens_per_second), rel=1e-9
            )
            assert drawn(found, name, at, []) == pytest.approx(exact.draws[name].joint, rel=0.02)


@pytest.mark.long
def test_saguaros_c_is_searched_where_the_pair_and_the_engine_know_it() -> None:
    """Each strategy has its own best C of three stops, plain sampling the simplest of them."""
    known = {"pair": str(PAIR), "temperature": 1.0}
    axis = space_of(known).axis("saguaro_c")
    assert axis.values == (1.0, 0.7, 0.3)
    assert (axis.opens, axis.start) == ("best", 1.0)
    without: list[dict[str, Any]] = [{"temperature": 0.0}, {"engine": "vllm"}, {"saguaro_c": 0.5}]
    for beside in without:
        assert "saguaro_c" not in {each.name for each in space_of({**known, **beside}).axes}
    options: dict[str, Any] = {"b": 16, "k": 3, "f": 3, "backup": "fast", "context": 1024}
    found = explorer_grid(**known, b=[16], k=[3], f=[3], context=[1024])
    table = found.rates["ssd"].table
    exact = predict(**known, **options, saguaro_c=0.3).estimates["ssd"].tokens_per_second
    assert np.exp(table.at({**options, "pair_set": None, "saguaro_c": 0.3})["log_rate"]) == pytest.approx(
        float(exact), rel=1e-9
    )
    assert np.isnan(table.at({**options, "pair_set": "chat", "saguaro_c": 0.3})["log_rate"])


@pytest.mark.long
def test_more_points_than_can_be_worked_out_are_refused() -> None:
    with refused("--pair", "3,000"):
        explorer_grid(pair=str(PAIR), b=list(range(1, 65)), k=[2, 3, 4, 5, 6])


@pytest.mark.long
def test_a_point_without_room_says_why() -> None:
    found = explorer_grid(b=[1, 64], k=[6], f=[3], context=[1024, 32768])
    at = {"b": 64, "k": 6, "f": 3, "backup": "jit", "context": 32768, **START}
    assert np.isnan(found.rates["ssd"].table.at(at)["log_rate"])
    assert any("needs" in reason for reason in found.rates["ssd"].reasons)
    assert found.memory["ssd"].at(at)["share"] > 1.0


def test_a_rival_without_room_anywhere_leaves_the_others() -> None:
    options: dict[str, Any] = {"subject": "sd", "b": [8, 16], "k": [12], "context": [8192]}
    with_all = explorer_grid(exact=True, **options, f=4096)
    with_ar = explorer_grid(exact=True, **options, strategies="ar,sd")
    assert np.isnan(column(with_all.rates["ssd"].table, "log_rate")).all()
    assert with_all.stops is not None
    assert with_ar.stops is not None
    assert with_all.stops.texts == with_ar.stops.texts


@pytest.mark.long
def test_interpolation_keeps_within_its_bars(small: ExplorerGrid) -> None:
    errors = {each.what: each for each in small.off}
    assert errors["tokens/s of SSD"].worst < 0.01
    assert errors["SSD over SD"].worst < 0.01
    assert errors["lower end of SSD over SD"].worst < 0.02
    assert errors["upper end of SSD over SD"].worst < 0.02


@pytest.mark.long
def test_durations_and_tokens_that_are_given_have_no_interval() -> None:
    found = explorer_grid(t_sd=[0.1, 0.3], alpha=[0.6, 0.9], p_hit=[0.5, 0.9], b=[1, 4], k=[3, 5])
    assert not found.doubts
    assert found.basis.draws == 0


@pytest.mark.long
def test_durations_that_are_given_leave_tokens_open_that_nobody_gave() -> None:
    found = explorer_grid(t_sd=[0.1, 0.3], alpha=[0.6, 0.9], b=[1, 4], k=[3, 5], f=[3])
    assert [each.name for each in found.doubts] == ["hit_c", "hit_r"]
    at: dict[str, Any] = {"t_sd": 0.1, "alpha": 0.6, "b": 4, "k": 5, "f": 3, "backup": "jit"}
    exact = predict(**at).draws
    assert exact is not None
    place = {**at, "hit_c": 0.4, "hit_r": 0.7}
    assert drawn(found, "ssd", place, ["hit_c", "hit_r"]) == pytest.approx(exact["ssd"].joint, rel=0.01)
