"""The one rule of decision: its laws, its ties and its words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from ssdsim.answers.decision import RULES, TIED, Candidate, Decision, decide

NAMES = ("ar", "sd", "ssd", "pearl")
SPEEDS = arrays(float, st.tuples(st.integers(1, 6), st.integers(1, 60)), elements=st.floats(0.01, 1e4))


def candidates(count: int) -> list[Candidate[int]]:
    """So many, of four strategies in turn, each on more GPUs than the last."""
    return [Candidate.of(i, NAMES[i % 4], i + 1, i) for i in range(count)]


def decided(speeds: Any, **how: Any) -> Decision[int]:
    return decide(candidates(len(speeds)), dict(enumerate(speeds)), **how)


@given(SPEEDS, st.integers(-9, 9))
def test_the_unit_of_speed_does_not_matter(speeds: Any, power: int) -> None:
    expected, found = decided(speeds), decided(speeds * 2.0**power)
    assert found.by_rule == expected.by_rule
    assert found.loss.mean == pytest.approx(expected.loss.mean, abs=1e-9)


@given(SPEEDS, st.floats(0.01, 100.0))
def test_the_order_of_two_does_not_depend_on_a_third(speeds: Any, faster: float) -> None:
    """A third that is added is chosen itself, or the choice stays: but where ties hide who is best."""
    means = np.log(speeds).mean(axis=1)
    third = speeds[0] * faster + speeds[-1]
    apart = np.abs(np.subtract.outer(*[[*means, np.log(third).mean()]] * 2))[np.triu_indices(len(means) + 1, 1)]
    if (apart > 2.0 * TIED).all():
        assert decided([*speeds, third]).chosen in (decided(speeds).chosen, len(speeds))


@given(SPEEDS, st.integers(0, 2**32 - 1))
def test_losses_are_shares_and_knowing_never_loses(speeds: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = speeds.shape[1]
    known = {"constant": np.ones(n), "one": rng.random(n), "two": rng.random((n, 2)), "speeds": speeds.T}
    decision = decided(speeds, known=known)
    assert all(0.0 <= loss < 1.0 for loss in decision.losses.values())
    assert decision.loss.mean == decision.losses[decision.chosen]
    assert sum(decision.best_in.values()) == pytest.approx(1.0)
    assert decision.gain_of_knowing.keys() == known.keys()
    assert all(gain >= 0.0 for gain in decision.gain_of_knowing.values())
    assert decision.gain_of_knowing["constant"] == 0.0
    assert decision.runner_up is None or NAMES[decision.runner_up % 4] != NAMES[decision.chosen % 4]


@given(SPEEDS)
def test_nothing_loses_less_in_log_speed_than_what_is_chosen(speeds: Any) -> None:
    means = np.log(speeds).mean(axis=1)
    assert means[decided(speeds).chosen] >= means.max() - TIED


@given(SPEEDS)
def test_what_is_run_is_ahead_no_more_often_than_its_strategy_is_the_best(speeds: Any) -> None:
    """A strategy's best changes from draw to draw; what is run has one lookahead."""
    decision = decided(speeds)
    assert 0.0 <= decision.ahead_in <= decision.best_in[NAMES[decision.chosen % 4]] + 1e-9


def test_a_lookahead_that_loses_where_another_would_win_is_not_clear() -> None:
    """SD wins each draw with one of two lookaheads, but neither can be had for both."""
    made = [Candidate.of(name, name[:2], 1.0, k) for name, k in [("ar", 0), ("sd 3", 3), ("sd 1", 1)]]
    speeds = {"ar": np.full(10, 1.0), "sd 3": np.array([3.0] * 6 + [0.9] * 4), "sd 1": np.array([1.2] * 6 + [1.1] * 4)}
    decision = decide(made, speeds)
    assert (decision.chosen, decision.best_in["sd"], decision.ahead_in) == ("sd 3", 1.0, 0.6)
    assert decision.word != "clear"


def test_of_ties_the_simplest_is_chosen() -> None:
    """Fewer GPUs, then AR, SD, SSD, the rest, then the smaller K."""
    made = [
        Candidate.of((name, gpus, k), name, gpus, k)
        for name, gpus, k in [("pearl", 5, 1), ("ssd", 5, 4), ("ssd", 5, 3), ("sd", 5, 4), ("ar", 8, 0), ("sd", 6, 1)]
    ]
    speeds = {each.key: np.array([100.0 + i / 8.0]) for i, each in enumerate(made)}
    assert decide(made, speeds).chosen == ("sd", 5, 4)
    assert decide(made[:3], speeds).chosen == ("ssd", 5, 3)
    assert decide(made, {**speeds, ("ar", 8, 0): np.array([102.0])}).chosen == ("ar", 8, 0)


def test_to_know_what_decides_gains_what_the_better_half_is_worth() -> None:
    """Two that swap with an input: whoever knows it gains half of what they differ by, else nothing."""
    x = np.linspace(-1.0, 1.0, 1000)
    noise = np.random.default_rng(0).permutation(x)
    decision = decided([np.exp(0.2 * x), np.exp(-0.2 * x)], known={"it": x, "not it": noise})
    assert decision.gain_of_knowing["it"] == pytest.approx(0.1, rel=0.1)
    assert decision.gain_of_knowing["not it"] < 0.005
    assert (decision.word, decision.worth_knowing) == ("measure first", "it")


def test_nothing_is_worth_knowing_that_gains_nothing() -> None:
    assert decided(np.ones((2, 9)), known={"it": np.arange(9.0)}).worth_knowing is None
    assert decided(np.ones((2, 9))).worth_knowing is None


def test_each_rule_has_its_choice() -> None:
    speeds = [np.array([10.0, 10.0, 10.0, 10.0]), np.array([1.0, 11.0, 11.0, 11.0]), np.array([1.0, 1.0, 1.0, 90.0])]
    points = {0: 2.0, 1: 1.0, 2: 5.0}
    assert [decided(speeds, rule=rule, points=points).chosen for rule in RULES] == [0, 2, 2, 1]
    assert decided(speeds, rule="point").chosen == 1


@pytest.mark.parametrize(
    ("ratio", "share", "word"),
    [(1.5, 1.0, "clear"), (1.1, 0.05, "clear"), (0.9, 0.3, "lean"), (0.5, 0.48, "toss-up"), (0.5, 0.35, "lean")],
)
def test_the_word_goes_by_loss_and_share(ratio: float, share: float, word: str) -> None:
    """SD is twice as fast in some draws, and SSD ``ratio`` times as fast in a ``share`` of them."""
    draws = np.arange(1000) < 1000 * share
    sd, ssd = np.ones(1000), np.where(draws, 1.0 / ratio, ratio)
    assert decided([sd / 9.0, sd, ssd]).word == word
