"""A crossing says what predict says: nothing where the draws of the errors do not agree."""

from __future__ import annotations

import numpy as np
import pytest

from ssdsim.base.record import replace
from ssdsim.pricing.cost import TimingErrors
from ssdsim.question.configuration import configure
from ssdsim.question.many import rates
from ssdsim.serving.closed_form import Sharing
from ssdsim.serving.crossing import RateCurve, advice, crossing
from ssdsim.serving.passes import PromptTables
from ssdsim.serving.round_table import RoundTable
from ssdsim.serving.serve import serve
from tests.ssdsim.serving.sample_runs import requests


@pytest.fixture(scope="module")
def sharing_of_sd() -> Sharing:
    return serve(workload=requests(50, 2.0), solver="closed", prefill="none", strategies="sd", k=6).sharings["sd"]


@pytest.mark.parametrize(("faster", "spread", "open_"), [(1.01, 0.1, True), (0.99, 0.1, True), (1.2, 0.01, False)])
def test_a_sign_that_the_errors_leave_open_is_not_said(
    faster: float, spread: float, open_: bool, sharing_of_sd: Sharing
) -> None:
    one = sharing_of_sd

    def side(name: str, factors: np.ndarray) -> RateCurve:
        scaled = replace(one, tokens_per_s=one.tokens_per_s * factors[:, None], lost_s=one.lost_s / factors[:, None])
        mean = replace(one, tokens_per_s=one.tokens_per_s * np.median(factors), lost_s=one.lost_s / np.median(factors))
        return RateCurve(name, name.upper(), 4, mean, scaled)

    sides = {"ssd": side("ssd", faster * np.linspace(1 - spread, 1 + spread, 41)), "sd": side("sd", np.ones(41))}
    crossed = crossing(sides["ssd"], sides["sd"], "replica")
    assert crossed.decided != open_
    said = advice("ssd", sides, [crossed], [None]).sentence
    assert ("What is not known leaves open who is faster." in said) == open_


def test_rounds_err_under_arrivals_as_they_do_in_a_prediction() -> None:
    scenario = configure(b=1, p_hit=0.05, strategies="ssd").scenarios["ssd"]
    errors = TimingErrors(400, 0)
    table = RoundTable(scenario, PromptTables(), 1024)
    predicted = float(scenario.estimate.tokens_per_second)
    assert table.drawn(1, 1024, errors).joint * predicted == pytest.approx(rates([scenario], errors)[0], rel=1e-12)
