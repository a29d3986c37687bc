"""Saguaro's C: what a pair's table makes of it, and the C that each strategy chooses."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssdsim import predict
from ssdsim.advise.recommend.recommendation import recommend
from ssdsim.answers.predict import as_json
from ssdsim.question.configuration import configure
from ssdsim.tokens.hit_models import MeasuredHits, PowerLawHits
from ssdsim.tokens.pair_file import load_pair
from ssdsim.tokens.saguaro import DraftScale, known_cs, scale_of
from tests.refusals import refused

NAME = "smollm2-135m-28-layers"
PAIR: dict[str, Any] = {"pair": NAME, "temperature": 1.0}
AT_HAND: dict[str, Any] = {**PAIR, "t_sd": 0.3, "k": 6, "f": 3, "fan_out_policy": "uniform"}
ROWS = [row for row in load_pair(NAME).by_temperature[-1].saguaro if row.f in (1, 3, 8)]


@pytest.mark.quick
@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"C {row.c:g}, F {row.f}")
def test_a_round_is_that_of_the_table(row: Any) -> None:
    given = {**AT_HAND, "f": row.f, "backup": "jit"}
    scaled, plain = (configure(**given, saguaro_c=c).scenarios["ssd"] for c in (row.c, 1.0))
    tokens, before = (float(each.known.tokens.averages.tokens_per_round) for each in (scaled, plain))
    measured = next(each.tokens for each in ROWS if (each.c, each.f) == (1.0, row.f))
    assert tokens / before == pytest.approx(row.tokens / measured, rel=0.004)
    assert scaled.settings["p_hit"] == pytest.approx(row.p_hit, abs=0.012)


@pytest.mark.quick
def test_the_numbers_of_the_paper_s_trade_are_those_of_the_file() -> None:
    by_c = {row.c: row for row in ROWS if row.f == 3}
    assert (by_c[1.0].alpha, by_c[1.0].p_hit) == (pytest.approx(0.715, abs=1e-3), pytest.approx(0.373, abs=1e-3))
    assert (by_c[0.3].alpha, by_c[0.3].p_hit) == (pytest.approx(0.726, abs=1e-3), pytest.approx(0.513, abs=1e-3))


@pytest.mark.quick
@pytest.mark.parametrize("b", [1, 16])
def test_auto_is_the_best_of_a_search_by_hand(b: int) -> None:
    given = {**AT_HAND, "b": b}
    auto = predict(**given)
    by_hand = {c: predict(**given, saguaro_c=c) for c in known_cs(PAIR)}
    for name in ("sd", "ssd"):
        levels = {c: float(np.log(each.draws[name].joint).mean()) for c, each in by_hand.items() if each.draws}
        best = max(levels.values())
        assert auto.c(name) == max(c for c, level in levels.items() if level >= best - 0.01)  # of ties the plainest
        gains = {each.c: each.gain for each in auto.over_c[name]}
        assert gains == pytest.approx({c: math.expm1(level - levels[1.0]) for c, level in levels.items()})


def test_auto_is_the_best_on_hardware() -> None:
    """A host that takes most of a round leaves C less to gain than kernels alone do."""
    auto, *by_hand = (predict(**PAIR, b=16, saguaro_c=c) for c in ("auto", *known_cs(PAIR)))
    speeds = {each.c("ssd"): float(np.log(each.draws["ssd"].joint).mean()) for each in by_hand if each.draws}
    assert auto.c("ssd") == max(speeds, key=speeds.__getitem__) == 0.5
    gain = next(each.gain for each in auto.over_c["ssd"] if each.c == 0.5)
    assert gain == pytest.approx(math.expm1(speeds[0.5] - speeds[1.0]), abs=0.005)
    assert gain == pytest.approx(0.04, abs=0.01)
    document = as_json(auto)
    assert document["strategies"]["ssd"]["settings"]["saguaro_c"] == 0.5
    assert [each["c"] for each in document["strategies"]["ssd"]["over_c"]] == list(known_cs(PAIR))
    assert document["scenario"]["saguaro_c"]["value"] == "auto"


@pytest.mark.quick
def test_a_greedy_draft_has_no_c() -> None:
    assert known_cs({"pair": NAME, "temperature": 0.0}) == ()
    greedy = predict(pair=NAME, t_sd=0.3, k=6)
    assert not greedy.over_c
    assert "saguaro_c" not in dict(greedy.decision.best_of["ssd"][1])


@pytest.mark.quick
def test_c_is_searched_only_where_the_engine_has_it() -> None:
    chosen = {
        engine: {
            name
            for name in ("sd", "ssd")
            if predict(**PAIR, k=6, f=3, engine=engine, strategies="sd,ssd").over_c.get(name)
        }
        for engine in ("ssd-engine", "vllm")
    }
    assert chosen == {"ssd-engine": {"ssd"}, "vllm": set()}


@pytest.mark.quick
@given(c=st.floats(0.3, 1.0), f=st.floats(1.0, 30.0))
def test_between_values_of_the_table_the_effect_lies_between(c: float, f: float) -> None:
    def effect(at: float) -> tuple[float, float]:
        scale = scale_of({**PAIR, "saguaro_c": at, "extrapolate": False})
        if scale is None:
            return 0.0, 1.0
        move = np.interp(math.log(f), np.log(scale.fan_outs), scale.moves)
        return float(move), float(1.0 - scale.hits(PowerLawHits(r=0.5))(f))

    below, above = max(a for a in known_cs(PAIR) if a <= c), min(a for a in known_cs(PAIR) if a >= c)
    if above == 1.0 or c == 1.0:
        return  # plain sampling has no scale to ask
    for between, *ends in zip(effect(c), effect(below), effect(above), strict=True):
        assert min(ends) - 1e-9 <= between <= max(ends) + 1e-9


@pytest.mark.quick
@given(f=st.lists(st.integers(0, 64), min_size=1), by=st.floats(0.2, 1.0))
def test_fewer_misses_are_more_hits_and_none_beyond_what_was_measured(f: list[int], by: float) -> None:
    curve = MeasuredHits((1.0, 4.0, 64.0), (0.2, 0.5, 0.9))
    hits = DraftScale(0.5, (1.0, 8.0), (0.0, 0.0), (by, by)).hits(curve)(f)
    assert np.all(hits >= curve(np.minimum(f, 8)) - 1e-12)
    assert np.all(hits[np.array(f) == 0] == 0.0)
    assert np.all(hits <= 1.0 - by * (1.0 - curve(8.0)) + 1e-12)


@pytest.mark.quick
@pytest.mark.parametrize(
    ("more", "names"),
    [
        ({"pair": None}, ("--saguaro-c", "--pair")),
        ({"saguaro_c": 0.1}, ("--saguaro-c", "0.3")),
        ({"saguaro_c": 1.5}, ("--saguaro-c", "1.5")),
        ({"alpha": 0.8}, ("--alpha", "--saguaro-c")),
        ({"p_hit": 0.8}, ("--p-hit", "--saguaro-c")),
        ({"pair_set": "code"}, ("--saguaro-c", "code", "ssdsim measure")),
        ({"f": 16}, (NAME, "8", "16", "--extrapolate")),
        ({"temperature": 0.0}, ("--saguaro-c",)),
        ({"temperature": 0.3, "extrapolate": True}, ("--saguaro-c", "temperature 0: no table of C")),
    ],
)
def test_a_c_that_the_pair_does_not_know_is_refused(more: dict[str, Any], names: tuple[str, ...]) -> None:
    with refused(*names):
        predict(**{**PAIR, "t_sd": 0.3, "k": 6, "saguaro_c": 0.5, **more})


@pytest.mark.quick
def test_c_is_one_of_the_settings_that_a_recommendation_searches() -> None:
    found = recommend(gpus=5, b=16, **PAIR, strategies="ssd", k=[6], budget=[21], tp=[4])
    best = found.answers[0].best
    assert best is not None
    assert dict(best.shape.speculation)["saguaro_c"] == 0.5
    assert best.settings.endswith("C 0.5")
    held = recommend(gpus=5, b=16, **PAIR, strategies="ssd", k=[6], budget=[21], tp=[4], saguaro_c=1.0).answers[0].best
    assert held is not None
    assert best.per_user / held.per_user == pytest.approx(1.041, abs=0.01)
    assert "C" not in held.settings


@pytest.mark.quick
def test_what_was_measured_is_told_as_it_was_measured() -> None:
    """What C makes of it is a setting's effect."""
    scaled, plain = (configure(**AT_HAND, saguaro_c=c) for c in (0.3, 1.0))
    assert scaled.settings["alpha"] == plain.settings["alpha"]
    assert scaled.settings["p_hit"] > plain.settings["p_hit"]


@pytest.mark.quick
@pytest.mark.parametrize("listed", [{"fl": [8] * 7}, {"budget": 56}])
def test_the_tokens_that_c_scales_are_the_guesses_however_they_are_told(listed: dict[str, Any]) -> None:
    given = {**PAIR, "t_sd": 0.3, "k": 6, "saguaro_c": 0.3, "backup": "jit"}
    told, by_f, default = (configure(**given, **more).scenarios for more in (listed, {"f": 8}, {}))
    for name in ("sd", "ssd"):
        tokens, same, other = (float(each[name].estimate.tokens_per_round) for each in (told, by_f, default))
        assert tokens == pytest.approx(same)
        assert tokens != pytest.approx(other)


@pytest.mark.quick
def test_a_c_on_an_engine_that_has_none_is_said() -> None:
    """In one line; of the paper's engine, which scales SSD's draft, for SD alone; of none where nobody gave a C."""

    def said(**more: Any) -> list[str]:
        warnings = configure(**PAIR, k=5, strategies="ar,sd,ssd", **more).warnings
        return [each for each in warnings if "--saguaro-c" in each]

    (vllm,) = said(engine="vllm", saguaro_c=0.3)
    assert vllm == "vLLM does not scale the draft's tokens of SD and SSD (--saguaro-c); this prices it as if it did"
    (own,) = said(engine="ssd-engine", saguaro_c=0.3)
    assert "of SD (" in own
    for asked in ({"engine": "vllm"}, {"engine": "vllm", "saguaro_c": 1.0}, {"saguaro_c": 0.3}):
        assert said(**asked) == []
