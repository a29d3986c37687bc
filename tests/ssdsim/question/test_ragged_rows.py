"""Passes with as many rows as the inputs of tokens make them are priced anew where these are others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ssdsim.answers.swings import swings
from ssdsim.pricing.cost import TimingErrors
from ssdsim.question.configuration import configure
from ssdsim.question.many import RateDraws
from ssdsim.question.options import ALL
from ssdsim.question.scenario import Scenario
from ssdsim.question.token_errors import LOOKS, look_values

SITE: dict[str, Any] = {"target": "llama-3.1-8b", "tp": 1, "b": 32}
SLOPE: dict[str, Any] = {"t_sd": 0.3, "b": 32, "t_v": [(32, 0.6), (320, 2.4)]}
RAGGED = [
    ("hybrid", "hybrid_found", {"hybrid_alpha": 0.7, "alpha": 0.7}),
    ("lookahead", "lookahead_found", {"lookahead_alpha": 0.4}),
    ("enumeration", "hit_c", {"enum_rows": "ragged", "alpha": 0.7, "hit_r": 0.5, "f": 2}),
]
EACH = pytest.mark.parametrize(("name", "option", "own"), RAGGED)


def scenarios(name: str, **options: Any) -> dict[str, Scenario]:
    return dict(configure(strategies=("ar", name), **options).scenarios)


@EACH
@pytest.mark.parametrize("where", [SITE, SLOPE])
def test_the_ends_of_a_range_are_what_predict_says_there(
    name: str, option: str, own: dict[str, Any], where: dict[str, Any]
) -> None:
    """They had the rows of the point: at batch 64 look-up first was 0.98 times SD where it is 0.94."""
    both = scenarios(name, **where, **own)
    (swing,) = (each for each in swings(both[name], both["ar"]) if each.what == ALL[option].axis)
    plausible = ALL[option].plausible
    assert plausible is not None
    for end, found in zip(plausible, (swing.at_lower, swing.at_upper), strict=True):
        there = scenarios(name, **where, **own, **{option: end})
        assert there[name].seconds["verify"] != pytest.approx(both[name].seconds["verify"], rel=1e-3)
        ratio = there[name].estimate.tokens_per_second / there["ar"].estimate.tokens_per_second
        assert found == pytest.approx(float(ratio), rel=1e-9)


@EACH
def test_draws_over_the_range_are_what_predict_says_there(name: str, option: str, own: dict[str, Any]) -> None:
    """Without hardware nothing else errs: each draw is a look."""
    given = {key: value for key, value in own.items() if key != option}
    case, errors = scenarios(name, **SLOPE, **given)[name], TimingErrors(2 * LOOKS, 3)
    assert [each.name for each in case.known.open] == [option]
    drawn = RateDraws.of(case, errors).over_ranges(case, errors)
    assert drawn.across is not None
    for number in (0, 7, LOOKS + 7):
        value = float(look_values(case.known.open[0], errors)[number % LOOKS])
        expected = float(scenarios(name, **SLOPE, **given, **{option: value})[name].estimate.tokens_per_second)
        assert drawn.joint[number] == pytest.approx(expected, rel=1e-9)
        assert np.isclose(drawn.across, expected, rtol=1e-9).any()


def test_prices_that_read_no_input_of_tokens_stay() -> None:
    for name, change in (("enumeration", {"hit_c": [0.9]}), ("hybrid", {"alpha": [0.5]})):
        priced = scenarios(name, **SITE)[name].priced
        assert priced.over(change) is priced.seconds


def test_outcomes_that_somebody_gave_are_kept_where_rows_are_priced_again() -> None:
    """A fan-out list is derived from them, and of that list they were to be derived once more."""
    options: dict[str, Any] = {"enum_rows": "ragged", "budget": 9, "k": 3, "hit_r": 0.5, "alpha": 0.7}
    case = scenarios("enumeration", **SITE, **options)["enumeration"]
    assert case.settings["budget"] == 9
    assert RateDraws.of(case, TimingErrors(64, 0)).over_ranges(case, TimingErrors(64, 0)).across is not None
