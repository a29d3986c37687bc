"""PEARL against its closed form, its paper's limits, and other systems that it equals at some points."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ssdsim import predict, recommend, sweep
from ssdsim.answers.simulation.simulate import simulate
from ssdsim.answers.simulation.trace import Trace
from ssdsim.question.configuration import configure
from ssdsim.question.scenario import Scenario
from tests.refusals import refused


def pearl(alpha: float, gamma: int, d: float, **options: Any) -> Scenario:
    """Unit-free, with a draft step of ``d``."""
    return configure(strategies="pearl", alpha=alpha, k=gamma, t_sd=gamma * d, **options).scenarios["pearl"]


def rate(case: Scenario) -> float:
    return float(case.estimate.tokens_per_second)


# From the chain's closed form, checked against a literal event loop apart from this code: (alpha, gamma, d, R)
PUBLISHED = [(0.8, 5, 0.2, 2.283199), (0.9, 4, 0.3, 2.303910), (0.7, 10, 0.05, 1.937592)]


@pytest.mark.parametrize(("alpha", "gamma", "d", "expected"), PUBLISHED)
def test_the_closed_form_is_that_of_the_chain(alpha: float, gamma: int, d: float, expected: float) -> None:
    assert rate(pearl(alpha, gamma, d)) == pytest.approx(expected, abs=5e-7)


@pytest.mark.long
@pytest.mark.parametrize(
    ("solver", "rounds"), [("mc", 100_000), ("des", 20_000), pytest.param("des", 100_000, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize(("alpha", "gamma", "d", "expected"), PUBLISHED)
def test_events_and_monte_carlo_agree(
    alpha: float, gamma: int, d: float, expected: float, solver: Any, rounds: int
) -> None:
    run = simulate(pearl(alpha, gamma, d), solver=solver, rounds=rounds, confidence=0.999)
    assert run.tokens_per_second.covers(expected)


@given(alpha=st.floats(0.0, 0.999), gamma=st.integers(1, 16), d=st.floats(0.001, 2.0))
@settings(deadline=None)
def test_it_is_the_papers_rate(alpha: float, gamma: int, d: float) -> None:
    all_accepted = alpha**gamma
    step = max(gamma * d, 1.0)
    expected = (1.0 - all_accepted) / ((1.0 - alpha) * (1.0 + alpha - all_accepted) * step)
    assert rate(pearl(alpha, gamma, d)) == pytest.approx(expected, rel=1e-9)


@given(alpha=st.floats(0.0, 1.0), gamma=st.integers(1, 16), share=st.floats(0.0, 1.0))
@settings(deadline=None)
def test_it_is_never_slower_than_decoding_without_a_draft_that_keeps_up(alpha: float, gamma: int, share: float) -> None:
    assert rate(pearl(alpha, gamma, share / gamma)) >= 1.0 - 1e-12


def test_limits() -> None:
    assert rate(pearl(1.0, 4, 0.2)) == pytest.approx(4.0)
    assert rate(pearl(0.0, 4, 0.2)) == pytest.approx(1.0)
    assert rate(pearl(0.8, 1, 0.2)) == pytest.approx(1.0)
    assert rate(pearl(0.8, 64, 1e-9)) == pytest.approx(1.0 / (1.0 - 0.8**2), rel=1e-5)


def test_a_batch_is_not_stalled_by_one_rejection() -> None:
    """A step's length does not depend on outcomes, so a batch keeps each sequence's rate: no p^b."""
    one, many = pearl(0.8, 5, 0.2), pearl(0.8, 5, 0.2, b=16)
    assert rate(many) == pytest.approx(16.0 * rate(one))


def test_its_best_gamma_is_the_ratio_of_speeds() -> None:
    """Floor or ceiling of T_v / T_d at every acceptance rate (the paper's rule)."""
    for alpha in (0.5, 0.8, 0.95):
        rates = {gamma: rate(pearl(alpha, gamma, 0.23)) for gamma in range(1, 17)}
        assert max(rates, key=lambda gamma: rates[gamma]) in (4, 5)


def test_both_sides_work_at_the_same_time_and_a_rejection_costs_a_pass_of_one_row() -> None:
    trace = Trace()
    case = configure(strategies="pearl", alpha=0.6, gamma=4).scenarios["pearl"]
    simulate(case, rounds=50, trace=trace)
    events = [event for event in trace.to_json()["traceEvents"] if event["ph"] == "X"]
    assert {event["name"] for event in events} >= {"verify", "pre-verify", "draft step 4", "speculation", "outcome"}
    assert case.seconds["pre-verify"] < case.seconds["verify"]


def test_its_memory_and_devices_are_a_draft_on_one_more() -> None:
    configuration = configure(strategies=("sd", "pearl"))
    assert (configuration.scenarios["sd"].gpus, configuration.scenarios["pearl"].gpus) == (4, 5)
    assert configure(strategies=("sd", "pearl"), tp=8).no_room["pearl"].startswith("PEARL needs 8 target and 1 draft")


@pytest.mark.long
def test_gamma_is_swept_and_searched() -> None:
    table = sweep(strategies="sd,pearl", gamma=[2, 5, 10], t_sd=0.5, k=5, alpha=0.9)
    assert table["pearl_tokens_per_second"].idxmax() == 2
    assert np.allclose(table["pearl_over_sd"], table["pearl_tokens_per_second"] / table["sd_tokens_per_second"])
    recommendation = recommend(gpus=5, strategies="ar,pearl", subject="pearl", tp=4)
    best = recommendation.answers[0].by_strategy["pearl"]
    assert best.shape.strategy == "pearl"
    assert best.shape.gpus == 5
    rates = {gamma: rate(configure(strategies="pearl", gamma=gamma).scenarios["pearl"]) for gamma in range(1, 17)}
    assert best.per_user == pytest.approx(max(rates.values()))
    assert rates[best.shape.settings["gamma"]] == pytest.approx(best.per_user)


def adaptive(**options: Any) -> Scenario:
    return configure(strategies="pearl", gamma="adaptive", **options).scenarios["pearl"]


def searched(**options: Any) -> dict[int, float]:
    """Tokens/s of each gamma that a search tries."""
    return {g: rate(configure(strategies="pearl", gamma=g, **options).scenarios["pearl"]) for g in range(1, 17)}


@given(alpha=st.floats(0.0, 0.999), d=st.floats(0.01, 3.0), b=st.sampled_from([1, 3, 16, 64]))
@settings(deadline=None, max_examples=50)
def test_adaptive_gamma_is_never_better_than_the_searched_best(alpha: float, d: float, b: int) -> None:
    """It is the ratio of the models' speeds, rounded, of those that are searched."""
    options: dict[str, Any] = {"alpha": alpha, "t_sd": 5 * d, "k": 5, "b": b}
    case = adaptive(**options)
    assert abs(case.settings["gamma"] - min(16.0, max(1.0, 1.0 / d))) <= 0.5 + 1e-9
    assert rate(case) <= max(searched(**options).values()) * (1.0 + 1e-12)


@given(alpha=st.floats(0.01, 0.999), gamma=st.integers(1, 16))
@settings(deadline=None)
def test_adaptive_gamma_is_the_best_where_the_ratio_of_speeds_is_a_whole_number(alpha: float, gamma: int) -> None:
    """The paper's theorem: gamma of the most tokens/s is the ratio."""
    options: dict[str, Any] = {"alpha": alpha, "t_sd": 1.0, "k": gamma}
    case = adaptive(**options)
    assert case.settings["gamma"] == gamma
    assert rate(case) == pytest.approx(max(searched(**options).values()), rel=1e-12)
    assert "gamma_behind" not in case.settings


@pytest.mark.long
@pytest.mark.parametrize("solver", ["mc", "des"])
@pytest.mark.parametrize("options", [{"b": 8, "draft_link_us": 400.0, "draft_link_gbs": 1.0}, {"t_sd": 0.9, "b": 4}])
def test_events_and_monte_carlo_agree_on_adaptive_gamma(options: dict[str, Any], solver: Any) -> None:
    case = adaptive(alpha=0.8, **options)
    run = simulate(case, solver=solver, rounds=20_000, confidence=0.999)
    assert run.tokens_per_second.covers(rate(case))


def test_adaptive_gamma_follows_the_batch_by_the_table_that_engines_time() -> None:
    """As many sequences as the next larger of 1, 2, 4, ... 32: nano-PEARL's table, and TensorRT-LLM's."""
    draft_bound = {"alpha": 0.8, "t_sd": 1.0, "k": 4, "t_v": [(1, 1.0), (32, 4.0)]}
    found = {b: adaptive(b=b, **draft_bound).settings for b in (1, 2, 3, 4, 17, 32, 64)}
    assert {b: each["gamma_profiled"] for b, each in found.items()} == {1: 1, 2: 2, 3: 4, 4: 4, 17: 32, 32: 32, 64: 32}
    assert {b: each["gamma"] for b, each in found.items()} == {1: 4, 2: 4, 3: 5, 4: 5, 17: 16, 32: 16, 64: 16}
    assert found[3].source("gamma") == "adaptive: drafted and sent in a pass of the target at batch 4"


@given(b=st.integers(1, 64), latency_us=st.floats(0.0, 20_000.0), alpha=st.floats(0.3, 0.95))
@settings(deadline=None, max_examples=15)
def test_on_hardware_and_over_a_link_it_is_no_better_either(b: int, latency_us: float, alpha: float) -> None:
    options: dict[str, Any] = {"alpha": alpha, "b": b, "draft_link_us": latency_us, "draft_link_gbs": 1.0}
    case, best = adaptive(**options), max(searched(**options).values())
    assert rate(case) <= best * (1.0 + 1e-12)
    assert ("gamma_behind" in case.settings) == (best >= rate(case) * 1.01)


def test_messages_shorten_what_fills_a_pass() -> None:
    """A draft of gamma tokens and its message end with the target's pass, as near as whole tokens can."""
    gammas = []
    for link_us in (1.0, 1_000.0, 3_000.0):
        case = adaptive(alpha=0.8, b=1, draft_link_us=link_us, draft_link_gbs=1.0)
        gamma, t = case.settings["gamma"], case.seconds
        late = t["draft"] + t["speculation"] - t["pre-verify"]
        assert abs(late) <= 0.55 * t["draft"] / gamma, "half a token, and what both slow each other"
        gammas.append(gamma)
    assert gammas[0] > gammas[1] > gammas[2]


def test_it_says_what_another_gamma_would_gain() -> None:
    """Over a link that takes longer than a pass nothing fills it, and a longer draft shares the message."""
    slow: dict[str, Any] = {"alpha": 0.9, "b": 1, "draft_link_us": 20_000.0, "draft_link_gbs": 1.0}
    far, rates = adaptive(**slow), searched(**slow)
    assert far.settings["gamma"] == 1
    best = max(rates, key=lambda gamma: rates[gamma])
    gain = rates[best] / rate(far) - 1.0
    (told,) = (each for each in far.warnings if each.startswith("PEARL"))
    assert told == f"PEARL's adaptive gamma at batch 1 is 1: {best} makes {100 * gain:.0f} % more tokens/s"
    assert not any(each.startswith("PEARL") for each in adaptive(alpha=0.9, b=1).warnings)


def test_a_slow_link_moves_gamma_and_the_verdict() -> None:
    options: dict[str, Any] = {"alpha": 0.8, "strategies": ("sd", "pearl"), "b": 1, "target": "llama-3.1-8b", "tp": 1}
    near, far = predict(**options), predict(**options, draft_link_us=1_000.0, draft_link_gbs=1.0)
    assert (near.verdict.best, far.verdict.best) == ("pearl", "sd")
    gammas = [each.configuration.scenarios["pearl"].settings["gamma"] for each in (near, far)]
    assert gammas[1] < gammas[0]


def test_adaptive_gamma_needs_acceptance_as_far_as_it_drafts() -> None:
    with refused("--alpha", "2 rates", "lookahead"):
        adaptive(alpha=[0.9, 0.8])


@pytest.mark.long
def test_adaptive_gamma_is_swept_beside_numbers() -> None:
    table = sweep(strategies="sd,pearl", gamma=[2, "adaptive", 5], b=[1, 32], alpha=0.8)
    assert table["pearl_k"].tolist()[:3] != table["pearl_k"].tolist()[3:]
    alone = adaptive(b=32, alpha=0.8)
    found = table[(table["b"] == 32) & (table["gamma"] == "adaptive")]
    assert float(found["pearl_tokens_per_second"].iloc[0]) == pytest.approx(rate(alone))


@pytest.mark.parametrize(("alpha", "gamma", "d"), [(0.8, 5, 0.1), (0.9, 5, 0.3), (0.6, 3, 0.3)])
def test_tensorrt_llms_pearl_is_ssd_with_one_cached_outcome(alpha: float, gamma: int, d: float) -> None:
    """Its branch's loop, literally: the next gamma tokens are there only after a window that was accepted whole.

    There is no bonus token: of a window of gamma, gamma tokens at most. So SSD with K = gamma - 1 has its rounds.
    """
    rng, rounds = np.random.default_rng(5), 200_000
    run = np.minimum(rng.geometric(1.0 - alpha, rounds) - 1, gamma)  # accepted in a row
    tokens = np.minimum(run + 1, gamma)
    seconds = np.where(run == gamma, max(1.0, gamma * d), max(1.0, gamma * d) + gamma * d)
    drafted: dict[str, Any] = {"k": gamma - 1, "t_sd": (gamma - 1) * d, "t_p": gamma * d, "t_b": gamma * d}
    cached: dict[str, Any] = {"fl": [0] * (gamma - 1) + [1], "hit_curve": [(1, alpha)], "backup": "jit"}
    case = configure(strategies="ssd", alpha=alpha, **drafted, **cached).scenarios["ssd"]
    assert rate(case) == pytest.approx(tokens.sum() / seconds.sum(), rel=0.005)
