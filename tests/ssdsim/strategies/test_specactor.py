"""SpecActor against printed rows, a literal loop apart from this code, and PEARL at one target and one draft."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibration.machine.ranks import Ranks
from ssdsim.pricing.cost import TimingErrors
from ssdsim.question.configuration import configure
from ssdsim.question.many import rates
from ssdsim.question.scenario import Scenario
from tests.calibration.executor.run import ROUNDS, overlap_s, run, small, spans
from tests.refusals import refused
from tests.ssdsim.strategies.checks import deviation, deviations_are_chance


def actor(alpha: float, window: int, targets: int, drafts: int, of_target: int, d: float, **options: Any) -> Scenario:
    """In units of T_v, with a draft step of ``d`` over the sequences of a draft."""
    given: dict[str, Any] = {"specactor_targets": targets, "specactor_drafts": drafts, "b": targets * of_target}
    given |= {"alpha": alpha, "k": window, "t_sd": window * d}
    return configure(strategies="specactor", **given, **options).scenarios["specactor"]


def rate(case: Scenario) -> float:
    return float(case.estimate.tokens_per_second)


@pytest.mark.parametrize(
    ("targets", "drafts", "expected"), [(1, 1, 7.306), (4, 1, 8.595), (8, 1, 5.903), (8, 2, 8.595)]
)
def test_the_printed_tokens_a_gpu(targets: int, drafts: int, expected: float) -> None:
    """T_d(n) = 0.1 (1 + n / 64) over the sequences of a draft, gamma 5, alpha 0.8, 16 a target, TP 4."""
    case = actor(0.8, 5, targets, drafts, 16, 0.1 * (1.0 + 16 * targets / drafts / 64))
    assert case.gpus == targets + drafts
    assert rate(case) / (4 * targets + drafts) == pytest.approx(expected, abs=1.1e-3)
    drawn, error = (1.5220, 0.0011) if (targets, drafts) == (8, 1) else (2.2830, 0.0016)
    assert abs(rate(case) / case.batch - drawn) < 2.576 * error


@given(alpha=st.floats(0.0, 1.0), window=st.integers(1, 12), b=st.integers(1, 20), d=st.floats(0.0, 1.0))
@settings(deadline=None, max_examples=25)
def test_one_target_and_one_draft_are_pearl(alpha: float, window: int, b: int, d: float) -> None:
    pearl = configure(strategies="pearl", alpha=alpha, k=window, t_sd=window * d, b=b).scenarios["pearl"]
    assert rate(actor(alpha, window, 1, 1, b, d)) == pytest.approx(rate(pearl))


def test_each_target_and_draft_is_priced_and_fits_with_its_own_sequences() -> None:
    options: dict[str, Any] = {"target": "llama-3.1-8b", "tp": 1, "k": 4, "b": 9}
    case = configure(strategies="specactor", specactor_targets=4, specactor_drafts=2, **options).scenarios["specactor"]
    assert case.devices.target == 4
    assert case.devices.draft == 2
    assert case.steps["verify"].passes[0].forward.tokens == 3 * 4  # of nine sequences the fullest target has three
    assert case.steps["draft"].passes[0].forward.tokens == 5
    with refused("--b", "4"):
        configure(strategies="specactor", specactor_targets=4, **{**options, "b": 2})


def test_one_target_and_one_draft_share_what_pearls_description_leaves_out() -> None:
    """Their round is taken to be PEARL's: the ratio had an interval as of two rounds that are wrong each for itself."""
    options: dict[str, Any] = {"target": "llama-3.1-8b", "tp": 1, "k": 4, "alpha": 0.8, "engine": "sglang"}
    found = configure(strategies="pearl,specactor,ssd", **options).scenarios
    errors = TimingErrors(400, 1)
    drawn = {name: rates([each], errors)[0] for name, each in found.items()}
    spread = {name: float(np.std(np.log(drawn["specactor"] / each))) for name, each in drawn.items()}
    assert spread["pearl"] < 0.01
    assert spread["ssd"] > 0.04


@cache  # the engines are held against the same loops
def literal(alpha: float, window: int, b: int, step: float, seed: int) -> tuple[float, float]:
    """Tokens a T_v and their standard error over 20 batches."""
    rng = np.random.default_rng(seed)
    pending = np.zeros((20, b), dtype=bool)
    made = np.zeros(20)
    for number in range(300):
        right = (rng.random((20, b, window)) < alpha).cumprod(axis=2).sum(axis=2)
        if number >= 100:  # the first are the start's
            made += np.where(pending, np.minimum(right + 1, window), 1).sum(axis=1)
        pending = np.where(pending, right == window, right >= 1)
    rates = made / (200 * step)
    return float(rates.mean()), float(np.std(rates, ddof=1) / math.sqrt(len(rates)))


@pytest.mark.long
@pytest.mark.parametrize("solver", ["closed", "mc", "des"])
def test_its_rate_is_that_of_a_literal_loop(solver: Any) -> None:
    off = []
    for seed, (alpha, window, targets, drafts, of_target, d) in enumerate(
        (alpha, window, *shape)
        for alpha in (0.5, 0.7, 0.9)
        for window in (2, 5)
        for shape in ((1, 1, 4, 0.1), (4, 1, 3, 0.4), (3, 2, 2, 0.25))
    ):
        case = actor(alpha, window, targets, drafts, of_target, d)
        expected, error = literal(alpha, window, targets * of_target, max(1.0, window * d), seed)
        off.append(deviation(case, solver, expected, error, rounds=1_500))
    deviations_are_chance(off)


@pytest.mark.ranks
def test_on_real_ranks_two_targets_verify_while_one_draft_works(trio: Ranks) -> None:
    scenario = small("specactor", specactor_targets=2).scenarios["specactor"]
    first, second, draft = run(trio, scenario)
    for target in (first, second):
        assert len(spans(target, "verify")) == ROUNDS
    assert len(spans(draft, "draft step")) == 3 * ROUNDS
    beside_s = [overlap_s(spans(target, "verify"), spans(draft, "draft step")) for target in (first, second)]
    assert max(beside_s) > 0.0  # of one: which, busy cores decide
