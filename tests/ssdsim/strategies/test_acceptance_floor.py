"""``--acceptance-floor``: below it SD is AR, in every solver and every draw; above it nothing changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ssdsim.answers.predict import predict
from ssdsim.answers.simulation.simulate import simulate
from ssdsim.question.configuration import configure
from ssdsim.question.scenario import Scenario
from tests.refusals import refused

SITE: dict[str, Any] = {"target": "llama-3.1-70b", "b": 32, "k": 4}


def sd(**options: Any) -> Scenario:
    return configure(strategies="ar,sd", **{"t_sd": 0.2, "b": 4, **options}).scenarios["sd"]


def rate(case: Scenario) -> float:
    return float(case.estimate.tokens_per_second)


@given(alpha=st.floats(0.0, 1.0), floor=st.floats(0.0, 1.0), k=st.integers(1, 8), spread=st.sampled_from([None, 3.0]))
@settings(deadline=None, max_examples=60)
def test_it_is_ar_where_less_of_what_is_drafted_is_accepted(
    alpha: float, floor: float, k: int, spread: float | None
) -> None:
    more = {"alpha": alpha, "k": k, "alpha_concentration": spread, "output_tokens": None if spread is None else 16}
    plain, gated = sd(**more), sd(**more, acceptance_floor=floor)
    share = (float(plain.tokens.averages.tokens_per_round) - 1.0) / k
    assume(abs(share - floor) > 1e-9)
    assert rate(gated) == pytest.approx(4.0 if share < floor else rate(plain), rel=1e-12)


@pytest.mark.parametrize("drafter", ["model", "ngram"])
def test_a_draw_is_ars_or_sds_and_the_loss_is_shorter(drafter: str) -> None:
    """Of the draws of all errors, at a batch where a bad draft loses a third."""
    asked = {**SITE, "drafter": drafter, "strategies": "ar,sd", "alpha": 0.6, "ranges": (("alpha", 0.2, 0.95),)}
    plain, gated = predict(**asked), predict(**asked, acceptance_floor=0.4)
    assert plain.draws is not None
    assert gated.draws is not None
    sds, ars, made = plain.draws["sd"].joint, plain.draws["ar"].joint, gated.draws["sd"].joint
    assert (
        np.isclose(made, sds, rtol=0.02) | np.isclose(made, ars, rtol=0.02)
    ).all()  # draws are centred on the median
    assert np.isclose(made, ars, rtol=1e-9).mean() > 0.1
    losses = [np.quantile(of / ars, 0.1) for of in (sds, made)]
    assert losses[0] < 0.8
    assert losses[1] > 0.95


@pytest.mark.parametrize("solver", ["mc", "des"])
@pytest.mark.parametrize("floor", [0.2, 0.9])
def test_drawn_rounds_are_those_of_the_closed_form(solver: Any, floor: float) -> None:
    case = sd(alpha=0.7, k=4, acceptance_floor=floor)
    run = simulate(case, solver=solver, rounds=2_000, seed=3, confidence=0.99).tokens_per_second
    assert run.low - 1e-9 <= rate(case) <= run.high + 1e-9


def test_it_is_of_a_draft_beside_its_target() -> None:
    with refused("--sd-draft"):
        configure(**SITE, strategies="sd", sd_draft="separate", acceptance_floor=0.4)
