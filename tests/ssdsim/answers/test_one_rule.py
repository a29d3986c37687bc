"""One rule of what is said, whoever is asked: the same decision, interval and P; what it forbids is not said."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ssdsim import compare, evaluate, export, predict, recommend, sweep
from ssdsim.answers.evidence import condition
from ssdsim.answers.sweep_plan import simulate_each
from ssdsim.answers.turning import bounds_of
from ssdsim.pricing.cost import TimingErrors
from ssdsim.question.configuration import configure
from ssdsim.question.scenario import Scenario
from ssdsim.question.token_errors import averages_under
from ssdsim.reports.build import report
from tests.calibration.pairs import sample

BOTH = ("sd", "ssd")
HERE: dict[str, Any] = {"target": "llama-3.1-8b", "tp": 1, "k": 4, "b": 1, "budget": 15, "backup": "fast"}
CASES: dict[str, dict[str, Any]] = {
    "nothing given": {},
    "a range given": {"alpha": "0.6:0.9", "p_hit": 0.8},
    "ranges apart": {"ranges": {"alpha": (0.3, 0.7), "hit_c": (0.3, 1.0)}, "hit_r": 0.5},
    "all given": {"alpha": 0.8, "p_hit": 0.8},
    "a measured pair": {"pair": "PAIR"},
}


def asked(case: str, folder: Path) -> dict[str, Any]:
    named = {**HERE, **CASES[case]}
    if named.get("pair") == "PAIR":
        named["pair"] = sample.written(folder)
    if "p_hit" in named:
        named.pop("budget")
    return named


@pytest.mark.long
@pytest.mark.parametrize("case", CASES)
def test_every_verb_has_the_same_interval_and_probability_and_decides_alike(case: str, tmp_path: Path) -> None:
    options = asked(case, tmp_path)
    predicted = predict(**options, strategies=BOTH)
    verdict = predicted.verdict
    versus = verdict.over["sd"]
    searched = {**options, "gpus": 2, "strategies": BOTH, "draft_gpus": 1, "sd_draft": "colocated"}

    (answer,) = recommend(**searched).answers
    (compared,) = compare(**searched).answers
    assert answer.decision == compared.decision
    for name in BOTH:
        interval = predicted.intervals[name]
        assert interval is not None
        own = answer.rate(name).interval
        assert (own.low, own.high) == pytest.approx((interval.low, interval.high), rel=1e-9)

    (row,) = evaluate([{**options, "strategies": BOTH}], draws=1000).to_dict("records")
    (swept,) = sweep(**{**options, "b": [options["b"]]}, strategies=BOTH, draws=1000).to_dict("records")
    for table in (row, swept):
        assert table["probability_ssd_beats_sd"] == pytest.approx(versus.probability_faster, abs=1e-9)
        for name in BOTH:
            interval = predicted.intervals[name]
            assert interval is not None
            ends = (table[f"{name}_low"], table[f"{name}_high"])
            assert ends == pytest.approx((interval.low, interval.high), rel=1e-9)


@pytest.mark.long
@pytest.mark.parametrize("case", CASES)
def test_reports_and_exports_say_what_a_prediction_says(case: str, tmp_path: Path) -> None:
    options = asked(case, tmp_path)
    predicted = predict(**options, strategies=BOTH)
    sweep(**{**options, "b": [options["b"]]}, strategies=BOTH, folder=tmp_path / "run")
    assert report(tmp_path / "run").sentence == predicted.verdict.sentence
    given = {name: value for name, value in options.items() if name not in ("budget", "backup")}
    cells = json.loads(export("json", **given, f=3 if "p_hit" not in options else None, strategies=BOTH).text)["cells"]
    cell = cells[0]
    settled = {name: cell["settings"][name] for name in ("k", "budget", "backup") if name in cell["settings"]}
    again = predict(**{**given, **settled, "strategies": (cell["strategy"],)}).intervals[cell["strategy"]]
    assert again is not None
    assert (cell["low"], cell["high"]) == pytest.approx((again.low, again.high), rel=1e-9)


def test_a_simulation_is_moved_by_the_same_draws() -> None:
    point = {**HERE, "strategies": BOTH}
    closed = predict(**point).verdict.over["sd"]
    (row,) = simulate_each([point], "mc", precision=0.001).rows()
    assert row["probability_ssd_beats_sd"] == pytest.approx(closed.probability_faster, abs=0.02)


def test_positions_that_somebody_published_do_not_end_a_search() -> None:
    """One position of DeepSeek-R1's MTP is published of vLLM; its speed-ups at K 2 to 5 are above what K 1 can give."""
    here: dict[str, Any] = {"target": "deepseek-r1", "hardware": "b200-sxm", "drafter": "mtp", "engine": "trtllm"}
    here |= {"dtype": "nvfp4", "draft_dtype": "bfloat16", "draft_set": "vLLM, QPS 1", "tp": 8, "b": 1}
    (answer,) = recommend(gpus=8, strategies=("ar", "sd"), **here).answers
    assert answer.best is not None
    prediction = predict(strategies=("ar", "sd"), **here)
    assert dict(prediction.decision.best_of["sd"][1])["k"] == answer.best.lookahead > 1
    versus = prediction.verdict.over["ar"]
    assert versus.low is not None
    assert versus.high is not None
    assert versus.low < 2.28 < versus.high  # as TensorRT-LLM's blog has it at K 3


def test_where_an_answer_turns_is_one_number() -> None:
    """To predict, to recommend, and to a break-even that moves acceptance alone."""
    here: dict[str, Any] = {"target": "qwen3-30b-a3b", "drafter": "eagle3", "engine": "sglang", "tp": 1, "b": 1}
    found = recommend(gpus=1, **here)
    assert found.focus_answer is not None
    assert found.focus_answer.choice is not None
    (turn,) = found.focus_answer.choice.turns
    (at,) = [each.value for each in found.break_evens if each.what == "acceptance rate alpha"]
    assert (turn.what, turn.above) == ("acceptance", False)
    assert turn.value == pytest.approx(at, abs=0.02)
    assert predict(**here).verdict.turns == f"AR is faster than SD only if {turn}"


# what the rule forbids, and what must not happen


def log_width(**options: Any) -> float:
    versus = predict(**options, strategies=BOTH).verdict.over["sd"]
    if versus.low is None or versus.high is None:
        return 0.0  # nothing is in doubt
    return math.log(versus.high / versus.low)


WIDENED = {
    "name": st.sampled_from(["alpha", "p_hit"]),
    "middle": st.floats(0.2, 0.8),
    "half": st.floats(0.0, 0.1),
    "wider": st.floats(0.0, 0.1),
    "b": st.sampled_from([1, 16]),
}


def widths(name: str, middle: float, half: float, wider: float, **here: Any) -> tuple[float, float]:
    """Of the ratio's interval with an input in a range, and in a wider one around the same value."""
    given = {"alpha": 0.7, "p_hit": 0.8, "backup": "fast", **here, name: middle}
    narrow = log_width(**given, ranges={name: (middle - half, middle + half)})
    return narrow, log_width(**given, ranges={name: (middle - half - wider, middle + half + wider)})


@pytest.mark.long
@given(**WIDENED)
@settings(derandomize=True, deadline=None, max_examples=60)
def test_widening_a_range_narrows_no_interval(**asked: Any) -> None:
    narrow, wide = widths(t_sd=0.3, t_p=0.9, k=4, **asked)
    assert wide >= narrow * (1.0 - 1e-9)


@pytest.mark.long
@given(**WIDENED)
@settings(derandomize=True, deadline=None, max_examples=30)
def test_nor_does_it_beside_errors_of_timings_but_by_the_wander_of_a_thousand_draws(**asked: Any) -> None:
    """How far timings err moves with the inputs, too, and where these hardly matter that is all there is."""
    narrow, wide = widths(hardware="h100-sxm", **asked)
    assert wide >= narrow * 0.97


# coverage


def truths(scenario: Scenario, names: list[str], errors: TimingErrors, rng: np.random.Generator) -> np.ndarray:
    """Tokens/s under other draws of the timings' errors, with inputs anywhere in their ranges, each worked out."""
    seconds = {name: step.sample(errors) for name, step in scenario.steps.items()}
    within = {each.name: each.within for each in scenario.known.open}
    places = {name: rng.random(errors.draws) for name in names}
    ratios = np.empty(errors.draws)
    for draw in range(errors.draws):
        change = {n: ends[0] + places[n][draw] * (ends[1] - ends[0]) for n, ends in within.items() if ends}
        averages = averages_under(scenario.strategy, scenario.settings, scenario.drafter, change)
        now = {name: float(np.broadcast_to(each, errors.draws)[draw]) for name, each in seconds.items()}
        drawn = scenario.round.__class__(scenario.batch, scenario.gpus, now, averages)
        ratios[draw] = float(scenario.strategy.closed_form(drawn).tokens_per_second)
    return ratios


@pytest.mark.long
def test_the_truth_lies_in_the_interval_as_often_as_it_says() -> None:
    """2,000 cases: 20 questions, and for each a hundred truths that the draws behind its interval never saw."""
    names, inside, cases = ["alpha", "hit_c", "hit_r", "p_hit"], 0, 0
    rng = np.random.default_rng(7)
    for number in range(20):
        low, high = sorted(rng.uniform(0.3, 0.95, 2))
        here: dict[str, Any] = {"b": int(rng.choice([1, 8, 32])), "k": int(rng.choice([2, 6])), "strategies": BOTH}
        here |= [{}, {"alpha": f"{low}:{high}"}, {"alpha": f"{low}:{high}", "p_hit": 0.8}, {"p_hit": "0.4:0.9"}][
            number % 4
        ]
        here |= {} if "p_hit" in here else {"f": 3}  # else predict has its own best
        versus = predict(**here).verdict.over["sd"]
        assert versus.low is not None
        assert versus.high is not None
        scenarios = configure(**here).scenarios
        errors = TimingErrors(100, 1000 + number)
        ssd, sd = (truths(scenarios[name], names, errors, np.random.default_rng(number)) for name in ("ssd", "sd"))
        inside += int(np.sum((ssd / sd >= versus.low) & (ssd / sd <= versus.high)))
        cases += 100
    assert cases == 2000
    assert 0.93 <= inside / cases <= 0.97


# words


def test_the_mission_s_own_question_has_a_short_answer() -> None:
    verdict = predict(b=16, p_hit=0.85).verdict
    assert re.fullmatch(
        r"SSD is probably the fastest: 1\.\d\dx SD, \d\.\d\dx AR\. "
        r"On 5 GPUs for 4, a token costs (about as much as|\d+ % less than) with SD\.",
        verdict.sentence,
    )
    assert verdict.sure.startswith("faster than SD in 99 of 100 draws, cheaper a token in ")
    assert verdict.decision.word == "lean"


def test_the_sentence_says_what_the_decision_is() -> None:
    """One interval at most, no bare P, and never undecided alone."""
    for options in ({"b": 64}, {"b": 16, "p_hit": 0.5}, {"b": 1, "alpha": "0:0.4"}, {"b": 256, "engine": "vllm"}):
        verdict = predict(**options).verdict
        for text in (verdict.sentence, verdict.sure, verdict.turns):
            assert not re.search(r"\bP\b|[Uu]ndecided|95 %", text)
        heads = {"clear": " is the fastest", "lean": " is probably the fastest", "toss-up": " or "}
        assert heads.get(verdict.decision.word, "Measure ") in verdict.sentence or " is as fast as " in verdict.sentence


def test_nothing_is_assumed_of_strategies_that_do_not_draft() -> None:
    assert configure(strategies="ar").inputs == ()
    assert condition(()) == ""


def test_an_input_that_is_one_number_in_every_draw_tells_no_side() -> None:
    """Hits that a pair knows were to be halved where there is nothing between them."""
    wins = np.array([0.0, 0.0, 1.0, 1.0] * 8)
    assert bounds_of(wins, {"hits": np.full(32, 0.8)}) == ()
    (bound,) = bounds_of(wins, {"hits": np.full(32, 0.8), "acceptance": wins})
    assert bound.what == "acceptance"
