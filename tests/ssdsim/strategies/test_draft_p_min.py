"""``--draft-p-min``: a draft ends at the first token of less confidence."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ssdsim.answers.predict import predict
from ssdsim.answers.simulation.simulate import simulate
from ssdsim.question.configuration import configure
from ssdsim.question.scenario import Scenario
from ssdsim.strategies.protocols.gate import Gate
from tests.refusals import refused

BENDS = [(1, 1.0), (8, 1.0), (80, 5.0)]  # T_v(m)
CARD: dict[str, Any] = {
    "target": "qwen3.5-27b", "drafter": "mtp", "dtype": "int4", "tp": 1, "engine": "llama-cpp", "context": 512,
    "k": 5, "alpha": (0.885, 0.81, 0.78, 0.75, 0.75), "strategies": "ar,sd",
}  # fmt: skip


def sd(b: int = 1, **options: Any) -> Scenario:
    return configure(strategies="sd", b=b, **{"t_sd": 0.3, "t_v": BENDS, "alpha": 0.7, "k": 5, **options}).scenarios[
        "sd"
    ]


def rate(case: Scenario) -> float:
    return float(case.estimate.tokens_per_second)


@given(
    b=st.integers(1, 8),
    k=st.integers(1, 6),
    alpha=st.floats(0.0, 1.0),
    least=st.floats(0.0, 1.0),
    spread=st.floats(0.1, 50.0),
)
@settings(deadline=None, max_examples=60)
def test_a_gate_only_leaves_out(b: int, k: int, alpha: float, least: float, spread: float) -> None:
    plain, gated = sd(b, k=k, alpha=alpha), sd(b, k=k, alpha=alpha, draft_p_min=least, confidence_spread=spread)
    if least == 0.0:
        assert rate(gated) == rate(plain)
    for part in ("verify", "draft"):
        assert gated.seconds[part] <= plain.seconds[part] * (1.0 + 1e-9)
    tokens = float(gated.tokens.averages.tokens_per_round)
    assert 1.0 <= tokens <= float(plain.tokens.averages.tokens_per_round) * (1.0 + 1e-9)
    gate = Gate(np.full(k, alpha), spread, least)
    assert gate.proposed.sum() == pytest.approx(1.0)
    proposed = float(gate.proposed @ np.arange(k + 1))
    assert tokens - 1.0 <= proposed * (1.0 + 1e-9) + 1e-9
    assert 1.0 - 1e-12 <= gate.passes(b) <= k + 1e-9
    assert sum(rows * chance for rows, chance in gate.rows(b).items()) == pytest.approx(b * (1.0 + proposed), rel=1e-6)


def test_without_a_least_confidence_it_is_sd() -> None:
    for b in (1, 4):
        assert rate(sd(b, draft_p_min=0.0)) == pytest.approx(rate(sd(b)), rel=1e-12)
        assert rate(sd(b, draft_p_min=1e-12)) == pytest.approx(rate(sd(b)), rel=1e-6)


def test_a_draft_that_knows_the_outcome_proposes_what_is_accepted() -> None:
    """Confidences of 0 and 1: every token of a pass is kept, one for each that was accepted."""
    gate = Gate(np.full(5, 0.7), 0.0, 0.5)
    assert gate.proposed == pytest.approx([0.3 * 0.7**n for n in range(5)] + [0.7**5])
    assert gate.accepted_pmf == pytest.approx(gate.proposed)


@pytest.mark.parametrize("solver", ["mc", "des"])
@pytest.mark.parametrize(("b", "least"), [(1, 0.3), (1, 0.85), (6, 0.5)])
def test_drawn_rounds_are_those_of_the_closed_form(solver: Any, b: int, least: float) -> None:
    case = sd(b, draft_p_min=least)
    run = simulate(case, solver=solver, rounds=4_000, seed=3, confidence=0.999)
    assert run.tokens_per_second.low <= rate(case) <= run.tokens_per_second.high
    assert run.tokens_per_round.value == pytest.approx(float(case.tokens.averages.tokens_per_round), rel=0.05)


def test_a_draft_on_a_device_of_its_own_is_drawn_without_a_clock() -> None:
    """Its actor does not know the outcomes that its target draws."""
    case = configure(strategies="sd", b=4, draft_p_min=0.7, k=5, alpha=0.6, sd_draft="separate").scenarios["sd"]
    run = simulate(case, solver="mc", rounds=2_000, seed=3, confidence=0.999).tokens_per_second
    assert run.low <= rate(case) <= run.high
    with refused("--solver mc"):
        simulate(case, solver="des", rounds=10)


def test_it_pays_at_a_low_confidence_and_costs_at_a_high_one_as_llama_cpp_users_found() -> None:
    """MTP at K 5: 103.5 tokens/s at 0, 115.5 at 0.3 and 99.2 at 0.8 on one card; 130 and, at 0.85, 96 on another."""
    for card in ("rtx-pro-6000", "rtx-5090"):
        plain, low, high, higher = (
            rate(configure(**CARD, hardware=card, draft_p_min=least).scenarios["sd"]) for least in (0.0, 0.3, 0.8, 0.85)
        )
        assert higher < high < plain < low


def test_the_spread_of_confidences_is_an_input_that_moves_the_price() -> None:
    prediction = predict(t_sd=0.3, t_v=BENDS, alpha=0.7, k=5, b=4, strategies="ar,sd", draft_p_min=0.5)
    assert "confidence_spread" in {each.name for each in prediction.configuration.inputs}
    likely = prediction.rates.likely("sd")
    assert likely is not None
    assert likely[1] > likely[0]


def test_it_is_refused_where_nothing_states_a_confidence() -> None:
    with refused("--draft-p-min"):
        configure(strategies="sd", drafter="ngram", k=4, draft_p_min=0.5)
    with refused("--draft-p-min", "--acceptance-floor"):
        configure(strategies="sd", t_sd=0.2, acceptance_floor=0.4, draft_p_min=0.5)


def test_requests_that_differ_are_taken_with_the_rates_of_all_their_rounds() -> None:
    differ: dict[str, Any] = {"alpha_concentration": 4.0, "output_tokens": 512}
    assert rate(sd(2, draft_p_min=1e-12, **differ)) == pytest.approx(rate(sd(2, **differ)), rel=0.01)
    assert rate(sd(2, draft_p_min=0.9, **differ)) < rate(sd(2, **differ))
