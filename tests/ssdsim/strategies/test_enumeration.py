"""SSD by enumeration against the rates that its source's rule has, a literal loop apart from this code, and limits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibration.machine.ranks import Ranks
from ssdsim.answers.predict import predict
from ssdsim.answers.simulation.simulate import simulate
from ssdsim.question.configuration import configure
from ssdsim.question.scenario import Scenario
from tests.calibration.executor.run import ROUNDS, overlap_s, run, small, spans
from tests.refusals import refused

# alpha, K, b, p, p_m and tokens of a sequence a pass, T_v flat: systems-2026, §4.3
PRINTED = [(0.8, 7, 1, 0.85, 0.95, 3.7301), (0.8, 7, 16, 0.85, 0.95, 3.7301), (0.8, 5, 8, 0.6, 0.8, 2.7929)]


def enumerated(alpha: float, k: int, b: int, p: float, p_m: float, draft: float = 0.5, **options: Any) -> Scenario:
    given: dict[str, Any] = {"alpha": alpha, "k": k, "b": b, "p_hit": p, "p_hit_backup": p_m, "t_sd": draft}
    return configure(strategies="enumeration", **given, **options).scenarios["enumeration"]


def rate(case: Scenario) -> float:
    """Tokens of a sequence a T_v."""
    return float(case.estimate.tokens_per_second) / case.batch


def looped(alpha: float, k: int, b: int, p: float, p_m: float, verify: Any, rounds: int) -> tuple[float, float]:
    """Tokens of a sequence a second, and its standard error over 40 parts: each sequence on its own, round by round."""
    rng = np.random.default_rng(7)
    holds = np.ones(b, dtype=bool)
    tokens, seconds = np.empty(rounds), np.empty(rounds)
    for number in range(rounds):
        seconds[number] = verify(b + k * holds.sum())
        kept = np.where(holds, np.minimum(rng.geometric(1.0 - alpha, b) - 1, k), 0)
        tokens[number] = (kept + 1).mean()
        holds = rng.random(b) < np.where(holds, p, p_m)
    parts = tokens.reshape(40, -1).sum(axis=1) / seconds.reshape(40, -1).sum(axis=1)
    return float(tokens.sum() / seconds.sum()), float(parts.std(ddof=1) / np.sqrt(40))


@pytest.mark.parametrize("solver", ["closed", "mc", "des"])
@pytest.mark.parametrize(("alpha", "k", "b", "p", "p_m", "expected"), PRINTED)
def test_its_rate_is_the_printed_one(
    alpha: float, k: int, b: int, p: float, p_m: float, expected: float, solver: Any
) -> None:
    case = enumerated(alpha, k, b, p, p_m)
    if solver == "closed":
        assert rate(case) == pytest.approx(expected, abs=5e-5)
    else:
        drawn = simulate(case, solver=solver, rounds=20_000, seed=3, confidence=0.99)
        assert drawn.tokens_per_second.covers(b * expected)


@pytest.mark.long
@pytest.mark.parametrize("solver", ["mc", "des"])
def test_ragged_rows_are_those_of_a_loop_apart_from_this_code(solver: Any) -> None:
    """T_v = 0.4 + 0.6 rows / 48: each round has the rows of the sequences that hold a draft."""
    setting = (0.8, 5, 8, 0.6, 0.8)
    case = enumerated(*setting, draft=0.1, enum_rows="ragged", t_v=[(0, 0.4), (48, 1.0)])
    truth, error = looped(*setting, lambda rows: 0.4 + 0.6 * rows / 48, 40_000)
    drawn = simulate(case, solver=solver, rounds=40_000, seed=5).tokens_per_second
    own = (drawn.high - drawn.low) / 2 / 1.96
    assert abs(drawn.value / 8 - truth) < 3.3 * np.hypot(error, own / 8)
    assert rate(case) == pytest.approx(truth, rel=0.002)


@pytest.mark.parametrize(("b", "p", "p_m"), [(8, 0.6, 0.8), (3, 0.3, 0.5), (40, 0.9, 0.4)])
def test_ragged_rows_count_each_number_where_t_v_has_a_knee(b: int, p: float, p_m: float) -> None:
    """T_v of the mean number of rows would be up to 4 % too short."""
    pi = p_m / (1.0 - p + p_m)
    knee = b * (1 + 5 * pi)
    case = enumerated(0.8, 5, b, p, p_m, draft=0.1, enum_rows="ragged", t_v=[(1, 1.0), (knee, 1.0), (2 * knee, 2.0)])
    truth, error = looped(0.8, 5, b, p, p_m, lambda rows: max(1.0, rows / knee), 20_000)
    assert rate(case) == pytest.approx(truth, abs=4.0 * error)


@pytest.mark.parametrize("solver", ["mc", "des"])
def test_ragged_rows_are_drawn_where_requests_differ(solver: Any) -> None:
    """It was a traceback: rounds of several kinds of requests did not say their rows."""
    kinds: dict[str, Any] = {"alpha_concentration": 3.0, "output_tokens": 60}
    case = enumerated(0.7, 4, 4, 0.6, 0.6, draft=0.1, enum_rows="ragged", t_v=[(4, 0.5), (20, 1.0)], **kinds)
    drawn = simulate(case, solver=solver, rounds=4_000, confidence=0.999).tokens_per_second
    assert drawn.value == pytest.approx(float(case.estimate.tokens_per_second), rel=0.02)


@given(alpha=st.floats(0.0, 1.0), k=st.integers(1, 12), b=st.integers(1, 40), draft=st.floats(0.0, 3.0))
@settings(deadline=None, max_examples=30)
def test_where_all_hit_it_is_sds_tokens_in_the_slower_sides_time(alpha: float, k: int, b: int, draft: float) -> None:
    found = configure(strategies="sd", alpha=alpha, k=k, b=b, t_sd=0.0).scenarios["sd"]
    assert rate(enumerated(alpha, k, b, 1.0, 1.0, draft)) == pytest.approx(rate(found) / max(1.0, draft))


@given(alpha=st.floats(0.0, 1.0), k=st.integers(1, 12), b=st.integers(1, 40), p=st.floats(0.0, 0.99))
@settings(deadline=None, max_examples=30)
def test_after_a_miss_without_hits_it_goes_at_ars_pace(alpha: float, k: int, b: int, p: float) -> None:
    assert rate(enumerated(alpha, k, b, p, 0.0)) == pytest.approx(1.0)


@given(late=st.floats(0.0, 1.0), p=st.floats(0.0, 0.99), p_m=st.floats(0.01, 1.0))
@settings(deadline=None, max_examples=30)
def test_late_buffers_are_misses(late: float, p: float, p_m: float) -> None:
    scaled = enumerated(0.8, 5, 4, p * (1.0 - late), p_m * (1.0 - late))
    assert rate(enumerated(0.8, 5, 4, p, p_m, enum_late=late)) == pytest.approx(rate(scaled))


def test_nobody_waits_for_a_miss() -> None:
    """Tokens of a sequence do not depend on the batch, where just-in-time drafting stalls all of it."""
    rates = [rate(enumerated(0.8, 7, b, 0.85, 0.95)) for b in (1, 4, 16, 64)]
    assert rates == pytest.approx([rates[0]] * 4)


def test_messages_are_hidden_while_the_target_verifies() -> None:
    """Only their sum with the draft must be shorter than the pass."""
    case = configure(strategies="enumeration", target="llama-3.1-70b", tp=4, k=5, f=2, b=4).scenarios["enumeration"]
    assert case.steps["outcome"].seconds > 0.0
    assert float(case.estimate.breakdown_s["draft"]) == 0.0
    assert float(case.estimate.breakdown_s["communicate"]) == 0.0


def test_ragged_rows_cost_less_on_hardware() -> None:
    given: dict[str, Any] = {"target": "llama-3.1-70b", "tp": 4, "k": 5, "f": 2, "b": 64}
    padded, ragged = (
        configure(strategies="enumeration", enum_rows=rows, **given).scenarios["enumeration"]
        for rows in ("padded", "ragged")
    )
    assert rate(ragged) > rate(padded)


def test_ragged_rows_change_no_law_of_tokens_and_no_input_that_is_open() -> None:
    """The rows' mean asks for the hits before the tokens do; hits by position and their ranges stay."""
    given: dict[str, Any] = {"hit_c": 0.3, "hit_c_all": 0.95, "b": 8, "target": "llama-3.1-8b", "tp": 1}
    padded, ragged = (
        configure(strategies="enumeration", enum_rows=rows, **given).scenarios["enumeration"]
        for rows in ("padded", "ragged")
    )
    assert np.array_equal(padded.tokens.p, ragged.tokens.p)  # type: ignore[union-attr]
    sure = {"target": "llama-3.1-8b", "tp": 1, "b": 16, "strategies": "ar,enumeration", "subject": "enumeration"}
    wide, open_ = (predict(**sure, k=6, enum_rows=rows).verdict.over["ar"].interval for rows in ("padded", "ragged"))
    assert open_ is not None
    assert wide is not None
    assert open_.high - open_.low > 0.5 * (wide.high - wide.low)


def test_heads_of_the_target_are_refused() -> None:
    with refused("draft model"):
        configure(strategies="enumeration", drafter="eagle3", target="llama-3.1-8b", tp=1)


@pytest.mark.ranks
def test_on_real_ranks_the_draft_works_while_the_target_verifies(pair: Ranks) -> None:
    scenario = small("enumeration").scenarios["enumeration"]
    target, draft = run(pair, scenario)
    assert len(target.tokens) == ROUNDS
    verified = spans(target, "verify")
    drafted = [span for piece in scenario.steps["pre-speculate"].pieces for span in spans(draft, piece.name)]
    assert len(verified) == ROUNDS
    assert overlap_s(verified, drafted) > 0.0


def test_the_draft_s_work_is_that_of_the_outcomes_however_they_are_told() -> None:
    """A list of fan-outs is as much work as its sum; what only SSD takes from the machine is the default here."""
    given = {"strategies": "ssd,enumeration", "k": 6}
    listed, by_f, window, default = (
        configure(**given, **more).scenarios["enumeration"]
        for more in ({"fl": [9] * 7}, {"f": 9}, {"f": "window"}, {"f": 3})
    )
    assert listed.settings["budget"] == by_f.settings["budget"] == 63
    assert listed.seconds == by_f.seconds != default.seconds
    assert window.settings["budget"] == default.settings["budget"] == 21
