"""SPECTRE against printed rows, a literal loop apart from this code, and PEARL where nothing is retried."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibration.machine.ranks import Ranks
from ssdsim.answers.simulation.simulate import simulate
from ssdsim.question.configuration import configure
from ssdsim.question.scenario import Scenario
from ssdsim.strategies.spectre import PEARLS, RETRIES
from ssdsim.tokens.chains import Retrying
from tests.calibration.executor.run import ROUNDS, run, small, spans
from tests.refusals import refused
from tests.ssdsim.strategies.checks import deviation, deviations_are_chance


def spectre(alpha: float, k: int, b: int, d: float = 0.1, **options: Any) -> Scenario:
    """In units of T_v, with a draft step of ``d``."""
    return configure(strategies="spectre", alpha=alpha, k=k, t_sd=k * d, b=b, **options).scenarios["spectre"]


def rate(case: Scenario) -> float:
    """Tokens a T_v and sequence."""
    return float(case.estimate.tokens_per_second) / case.batch


# alpha, K, sequences, PEARL's rate, drawn rounds without the rule and with it, each with its error, and all retried
PRINTED = [
    (0.8, 4, 4, 2.2832, 2.2831, 0.0033, 2.2831, 0.0033, 2.4011),
    (0.8, 4, 16, 2.2832, 2.2804, 0.0012, 2.3895, 0.0010, 2.4011),
    (0.8, 4, 64, 2.2832, 2.2839, 0.0009, 2.4004, 0.0006, 2.4011),
    (0.9, 4, 64, 3.1272, 3.1281, 0.0011, 3.1281, 0.0011, 2.9251),
    (0.6, 4, 64, 1.5146, 1.5147, 0.0005, 1.6466, 0.0004, 1.6469),
]


def test_the_printed_rows() -> None:
    """Drawn rounds are given with their standard errors."""
    off = []
    for alpha, k, b, pearl, free, free_error, drawn, error, retried in PRINTED:
        assert rate(spectre(alpha, k, b, spectre_ratio=1.0)) == pytest.approx(pearl, abs=5e-5)
        always = (1.0 - alpha ** (k + 1)) / (1.0 - alpha) / (1.0 + 0.1 * k)
        assert always == pytest.approx(retried, abs=5e-5)
        off += [(rate(spectre(alpha, k, b, spectre_ratio=1.0)) - free) / free_error]
        off += [(rate(spectre(alpha, k, b)) - drawn) / error]
    deviations_are_chance(off)


@given(alpha=st.floats(0.0, 0.99), k=st.integers(1, 8), b=st.sampled_from([1, 4, 12]), d=st.floats(0.0, 0.5))
@settings(deadline=None, max_examples=25)
def test_without_retries_it_is_pearl_of_one_token_more(alpha: float, k: int, b: int, d: float) -> None:
    pearl = configure(strategies="pearl", alpha=alpha, gamma=k + 1, k=k, t_sd=k * d, b=b).scenarios["pearl"]
    assert rate(spectre(alpha, k, b, d, spectre_ratio=1.0)) == pytest.approx(rate(pearl), rel=1e-9)
    few = configure(strategies="pearl", alpha=alpha, gamma=k + 1, k=k, t_sd=k * d, b=4).scenarios["pearl"]
    assert rate(spectre(alpha, k, 4, d)) == pytest.approx(rate(few), rel=1e-9)


def test_where_every_round_is_retried_it_is_sd_and_a_draft_that_was_wasted() -> None:
    """E / (max(1, (K + 1) d) + K d)."""
    expected = (1.0 - 0.6**5) / 0.4 / 1.4
    assert rate(spectre(0.6, 4, 256)) == pytest.approx(expected, rel=1e-4)
    assert spectre(0.6, 4, 256).settings["spectre_branch"] == RETRIES
    assert spectre(0.95, 2, 256).settings["spectre_branch"] == PEARLS


def test_both_branches_may_last() -> None:
    """Where PEARL fails less than the ratio and a round after a retry more: 0.416 < 0.5 < 0.594 at alpha 0.835."""
    alpha = 0.835
    pearl = alpha / (1.0 + alpha - alpha**5)
    assert 1.0 - (1.0 - pearl) * alpha - pearl * alpha**5 < 0.5 < 1.0 - alpha**5
    assert str(spectre(alpha, 4, 256).settings["spectre_branch"]).startswith("two branches last")
    assert spectre(alpha, 4, 8).settings["spectre_branch"] in (PEARLS, RETRIES), "small batches leave both soon"
    stays, begins = Retrying(256, alpha**5, alpha, 0.5, 4).branches
    assert max(1.0 - stays, begins) < 0.01


def test_a_warning_says_which_branch_lasts_with_hardware_or_without() -> None:
    """Without hardware it was lost."""
    given: dict[str, Any] = {"strategies": "spectre", "k": 4, "b": 64}
    for where in ({"t_sd": 0.4}, {"target": "llama-3.1-8b", "tp": 1}):
        said = configure(**given, **where, alpha=0.6).warnings
        assert any(RETRIES in warning for warning in said), said
        assert not any(
            "SPECTRE" in warning for warning in configure(**given, **where, alpha=0.6, spectre_ratio=1.0).warnings
        )


@given(b=st.integers(1, 24), drafts=st.floats(0.0, 1.0), none=st.floats(0.0, 1.0), ratio=st.floats(0.0, 1.0))
@settings(deadline=None, max_examples=40)
def test_the_chain_of_batches_is_one_and_its_sequences_move_as_the_kernel_says(
    b: int, drafts: float, none: float, ratio: float
) -> None:
    retrying = Retrying(b, drafts, none, ratio, 2)
    assert retrying.long_run.sum() == pytest.approx(1.0)
    assert retrying.long_run @ retrying._chain == pytest.approx(retrying.long_run, abs=1e-9)
    assert 0.0 <= retrying.retries <= 1.0


@cache  # the engines are held against the same loops
def literal(alpha: float, k: int, b: int, d: float, ratio: float, seed: int) -> tuple[float, float]:
    """Tokens a T_v and sequence, with their standard error over 20 batches; every sequence by itself, then the rule."""
    rng = np.random.default_rng(seed)
    drafts = np.zeros((20, b), dtype=bool)
    made, took = np.zeros(20), np.zeros(20)
    for number in range(300):
        longest = (rng.random((20, b, k + 1)) < alpha).cumprod(axis=2).sum(axis=2)
        kept = np.where(drafts, longest == k + 1, longest >= 1)
        tokens = np.where(drafts, np.minimum(longest, k) + 1, 1).sum(axis=1)
        retried = (b > 4) & (b - kept.sum(axis=1) > ratio * b + 1e-9)
        drafts = kept | retried[:, None]
        if number >= 100:  # the first are the start's
            made += tokens / b
            took += max(1.0, (k + 1) * d) + k * d * retried
    value = made.sum() / took.sum()
    return float(value), float(np.std(made - value * took, ddof=1) / took.mean() / math.sqrt(len(made)))


CASES = [
    (alpha, k, b, d, ratio)
    for alpha in (0.5, 0.7, 0.8, 0.9)
    for k, d in ((3, 0.1), (6, 0.2))
    for b in (4, 10, 32)
    for ratio in (0.4, 0.6)
]


def test_a_batch_for_which_another_stands_is_retried_by_its_own_number() -> None:
    """More than 256 sequences are held against --spectre-least as they are."""
    few, many, never = (rate(spectre(0.8, 6, 300, spectre_least=least)) for least in (4, 280, 300))
    assert many == pytest.approx(few)
    assert never != pytest.approx(few, rel=1e-3)


@pytest.mark.long
@pytest.mark.parametrize("solver", ["closed", "mc", "des"])
def test_its_rate_is_that_of_a_literal_loop(solver: Any) -> None:
    off = []
    for seed, (alpha, k, b, d, ratio) in enumerate(CASES):
        case = spectre(alpha, k, b, d, spectre_ratio=ratio)
        if str(case.settings["spectre_branch"]).startswith("two branches last"):
            continue
        expected, error = literal(alpha, k, b, d, ratio, seed)
        off.append(deviation(case, solver, b * expected, b * max(error, 1e-6), rounds=1_500))
    assert len(off) > 40
    deviations_are_chance(off)


def test_a_draft_that_its_own_tenant_uses_too_takes_longer() -> None:
    idle, busy = (spectre(0.8, 4, 16, 0.2, spectre_load=load) for load in (0.0, 0.5))
    assert busy.seconds["draft"] == pytest.approx(2.0 * idle.seconds["draft"])
    assert rate(busy) < rate(idle)


def test_requests_that_differ_are_refused() -> None:
    with refused("SPECTRE", "requests"):
        spectre(0.8, 4, 16, alpha_concentration=3.0)


@pytest.mark.ranks
def test_on_real_ranks_the_draft_works_beside_the_target_and_anew_where_many_failed(pair: Ranks) -> None:
    scenario = small("spectre", alpha=0.6, spectre_least=1).scenarios["spectre"]
    target, draft = run(pair, scenario)
    simulated = simulate(scenario, rounds=ROUNDS, seed=3)
    assert sum(target.tokens) / (2 * ROUNDS) == simulated.tokens_per_round.value
    inline = len(spans(draft, "inline step")) / 3
    assert 0 < inline < ROUNDS
    assert len(spans(draft, "draft step")) == 4 * ROUNDS
