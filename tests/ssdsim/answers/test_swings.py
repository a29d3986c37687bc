"""How far a ratio of two strategies moves with what is not sure, against predictions at the ends themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ssdsim import predict, recommend
from ssdsim.answers.swings import swings
from ssdsim.question.configuration import configure
from ssdsim.question.options import ALL
from tests.calibration.pairs import sample

FIXED = {"t_sd": 0.2, "k": 5, "fl": [3, 3, 3, 3, 3, 3], "b": 8, "backup": "fast"}

PLAUSIBLE = {name: ALL[name].plausible for name in ("alpha", "hit_c", "hit_r")}
"""Of the placeholders behind SSD and SD."""


def ratio_of(**options: Any) -> float:
    """SSD's tokens/s over SD's at the values that are shown."""
    ssd, sd = (predict(**options).estimates[name] for name in ("ssd", "sd"))
    return float(ssd.tokens_per_second / sd.tokens_per_second)


def test_the_ends_of_placeholders_are_what_predict_says_there() -> None:
    scenarios = configure(**FIXED).scenarios
    named = {each.over: each for each in swings(scenarios["ssd"], scenarios["sd"])}
    assert len(named) == len(PLAUSIBLE)
    for name, (low, high) in PLAUSIBLE.items():
        swing = named[f"{low:g} to {high:g}"]
        assert swing.standing == "placeholder"
        at_low, at_high = (ratio_of(**FIXED, **{name: value}) for value in (low, high))
        assert (swing.at_lower, swing.at_upper) == pytest.approx((at_low, at_high))
    widths = [each.width for each in swings(scenarios["ssd"], scenarios["sd"])]
    assert widths == sorted(widths, reverse=True)


def test_what_is_given_is_sure() -> None:
    scenarios = configure(**FIXED, alpha=0.8, hit_c=0.4, hit_r=0.7).scenarios
    assert swings(scenarios["ssd"], scenarios["sd"]) == []


def test_a_pairs_rates_swing_within_their_intervals(tmp_path: Path) -> None:
    held: dict[str, Any] = {"b": 8, "k": 6, "f": 3}
    scenarios = configure(pair=sample.written(tmp_path), **held).scenarios
    moved = swings(scenarios["ssd"], scenarios["sd"])
    assert moved
    assert {each.standing for each in moved} == {"measured"}
    ratio = ratio_of(pair=str(tmp_path / "pair.json"), **held)
    for each in moved:
        assert min(each.at_lower, each.at_upper) < ratio < max(each.at_lower, each.at_upper)


@pytest.mark.parametrize("k", [2, 5])
def test_the_bounds_hold_the_ratio_itself_where_both_ends_are_above_it(k: int) -> None:
    """With settings held, SSD's lead over SD falls with alpha and rises again."""
    options = {
        "t_sd": 0.2,
        "t_p": 0.8,
        "k": k,
        "f": 3,
        "b": 8,
        "backup": "fast",
        "alpha": 0.8,
        "ranges": {"alpha": (0.5, 0.9)},
    }
    scenarios = configure(**options).scenarios
    ratio = ratio_of(**options)
    named = {each.what: each for each in swings(scenarios["ssd"], scenarios["sd"])}
    alpha = named["acceptance rate α"]
    assert ratio < min(alpha.at_lower, alpha.at_upper)
    for each in named.values():
        assert each.lowest <= ratio * (1.0 + 1e-12)
        assert each.highest >= ratio * (1.0 - 1e-12)
        assert each.lowest <= min(each.at_lower, each.at_upper) <= max(each.at_lower, each.at_upper) <= each.highest


@pytest.mark.long
def test_a_recommendation_says_what_to_measure_first() -> None:
    recommendation = recommend(gpus=5, b=16, tp=4, k=[4, 6])
    assert {each.standing for each in recommendation.swings} == {"placeholder"}
    assert len(recommendation.swings) == len(PLAUSIBLE)
    assert recommend(gpus=5, b=16, tp=4, k=4, alpha=0.8, hit_c=0.4, hit_r=0.7).swings == ()
