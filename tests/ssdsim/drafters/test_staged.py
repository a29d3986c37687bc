"""A draft that is itself drafted: against a literal loop apart from this code, its formula, and SD where it is off."""

from __future__ import annotations

import math
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ssdsim import simulate
from ssdsim.base.errors import InputError
from ssdsim.pricing.step import Repeats, drawn_rounds, rounds_until
from ssdsim.question.configuration import configure
from ssdsim.question.scenario import Scenario
from ssdsim.tokens.acceptance import accepted_length_pmf, expected_tokens_of_pmf
from tests.calibration.executor.run import ROUNDS, executing, run, small, spans
from tests.refusals import refused
from tests.ssdsim.strategies.checks import deviation, deviations_are_chance

PAIR: dict[str, Any] = {"target": "llama-3.1-70b", "draft": "llama-3.1-8b", "k": 6, "alpha": 0.8}
NGRAMS: dict[str, Any] = {"staged_by": "ngram", "staged_k": [3], "staged_alpha": [0.6]}
TWICE: dict[str, Any] = {"staged_by": "llama-3.2-1b+ngram", "staged_k": [4, 2], "staged_alpha": [0.8, 0.5]}


def scenario(name: str = "sd", **options: Any) -> Scenario:
    return configure(strategies=(name,), **{**PAIR, **options}).scenarios[name]


def mean(pmf: tuple[float, ...]) -> float:
    return float(np.arange(len(pmf)) @ pmf)


@given(tokens=st.integers(1, 20), drafted=st.integers(1, 6), alpha=st.floats(0.0, 1.0), chains=st.integers(1, 64))
@settings(deadline=None, max_examples=60)
def test_numbers_of_rounds_are_a_distribution_between_the_fewest_and_one_a_token(
    tokens: int, drafted: int, alpha: float, chains: int
) -> None:
    pmf = rounds_until(tokens, drafted, alpha, chains)
    assert sum(pmf) == pytest.approx(1.0)
    assert min(pmf) >= -1e-12
    fewest = -(-tokens // (drafted + 1))
    assert max(pmf[:fewest], default=0.0) <= 1e-12
    assert fewest - 1e-9 <= mean(pmf) <= tokens + 1e-9
    assert mean(pmf) <= mean(rounds_until(tokens, drafted, alpha, chains + 1)) + 1e-9


@pytest.mark.parametrize(("alpha", "drafted"), [(0.5, 2), (0.8, 4), (0.3, 6)])
def test_many_tokens_take_what_the_formula_says(alpha: float, drafted: int) -> None:
    """``[K_2 T_d2 + T_v2] / E_2`` a token; a whole last round is at most one more."""
    each = expected_tokens_of_pmf(accepted_length_pmf(alpha, drafted))
    assert mean(rounds_until(400, drafted, alpha, 1)) == pytest.approx(400 / each, abs=1.0)


def test_rounds_within_rounds_have_the_products_mean() -> None:
    pmf = rounds_until(6, 3, 0.6, 1), rounds_until(3, 2, 0.5, 1)
    outer, inner = drawn_rounds(pmf, np.random.default_rng(0), 200_000)
    assert outer.mean() == pytest.approx(Repeats(pmf[:1], 1).mean, rel=5e-3)
    assert inner.mean() == pytest.approx(Repeats(pmf, 1).mean, rel=5e-3)


@pytest.mark.parametrize(
    "name", ["sd", "ssd", "pearl", "minedraft", "adaptive", "dsi", "amusd", "specbranch", "hybrid"]
)
def test_with_the_inner_level_off_it_is_the_strategy_itself(name: str) -> None:
    off = scenario(name, staged_by="ngram", staged_k=[0], staged_alpha=[0.9])
    plain = scenario(name)
    assert float(off.estimate.tokens_per_second) == pytest.approx(float(plain.estimate.tokens_per_second), rel=1e-12)
    assert off.gpus == plain.gpus


def test_its_passes_are_the_stages_and_the_drafts_over_what_they_made() -> None:
    case = scenario(**TWICE)
    one, eight = case.steps["draft"].pieces  # look-ups take no time
    assert one.work.forward.tokens == 3  # type: ignore[union-attr]
    assert eight.work.forward.tokens == 5  # type: ignore[union-attr]
    assert eight.times == pytest.approx(mean(rounds_until(6, 4, 0.8, 1)))
    assert one.times == pytest.approx(eight.times * mean(rounds_until(4, 2, 0.5, 1)))
    plain = scenario(**NGRAMS)
    of_both, of_one = (each.drafter.demand(each.site, 6, 0).weights_bytes for each in (case, plain) if each.site)
    assert of_both > of_one, "the stage's model lies beside the draft"


Stage = tuple[int, float, float, float]


@cache  # the engines are held against the same loops
def literal(rest_s: float, stages: tuple[Stage, ...], b: int, seed: int) -> tuple[float, float]:
    """SD's tokens a second and their standard error, each token accepted or not by a draw of its own.

    A round takes ``rest_s`` beside its drafts. ``stages`` are (tokens drafted, acceptance, seconds of the pass that
    verifies them, seconds of one of its own passes where nothing drafts for it), of the draft first.
    """
    rng = np.random.default_rng(seed)

    def drafting_s(level: int, tokens: int) -> float:
        k, alpha, verify_s, step_s = stages[level]
        if level == len(stages) - 1:
            return tokens * step_s
        k = min(k, tokens - 1)
        if k == 0:
            return tokens * step_s
        have, took = np.zeros(b), 0.0
        while have.min() < tokens:
            took += (drafting_s(level + 1, k) if stages[level + 1][3] else 0.0) + verify_s
            have += 1 + (rng.random((b, k)) < alpha).cumprod(axis=1).sum(axis=1)
        return took

    batches: list[tuple[float, float]] = []
    for _ in range(20):
        made = took = 0.0
        for _ in range(150):
            made += b + float((rng.random((b, 6)) < 0.8).cumprod(axis=1).sum())
            took += rest_s + drafting_s(0, 6)
        batches.append((made, took))
    made_s, took_s = np.array(batches).T
    value = made_s.sum() / took_s.sum()
    return float(value), float(np.std(made_s - value * took_s, ddof=1) / took_s.mean() / math.sqrt(len(batches)))


def _rest_s(case: Scenario) -> float:
    return float(case.estimate.round_s) - case.seconds["draft"]


def _seconds(case: Scenario, draft: str, queries: int, b: int) -> float:
    """Of a pass of a model of the draft's place, priced by another scenario of which it is the draft."""
    plain = scenario(draft=draft, b=b)
    assert plain.site is not None
    return plain.site.cost(plain.site.draft_beside_target("draft step", queries)).seconds


@pytest.mark.long
@pytest.mark.parametrize("solver", ["closed", "mc", "des"])
def test_its_rate_is_that_of_a_literal_loop(solver: Any) -> None:
    off = []
    for seed, (k, alpha, b, twice) in enumerate(product((1, 3, 5), (0.3, 0.7), (1, 3), (False, True))):
        options: dict[str, Any] = {"staged_by": "ngram", "staged_k": [k], "staged_alpha": [alpha]}
        if twice:
            options = {"staged_by": "llama-3.2-1b", "staged_k": [k], "staged_alpha": [alpha]}
        case = scenario(b=b, **options)
        first = (k, alpha, _seconds(case, "llama-3.1-8b", min(k, 5) + 1, b), _seconds(case, "llama-3.1-8b", 1, b))
        below = (0, 0.0, 0.0, _seconds(case, "llama-3.2-1b", 1, b) if twice else 0.0)
        off.append(deviation(case, solver, *literal(_rest_s(case), (first, below), b, seed), rounds=1_500))
    deviations_are_chance(off)


@pytest.mark.long
@pytest.mark.parametrize("solver", ["closed", "mc", "des"])
def test_stages_of_stages_are_drawn_as_a_literal_loop_draws_them(solver: Any) -> None:
    off = []
    for seed, (b, alpha) in enumerate(product((1, 2), (0.5, 0.8))):
        case = scenario(b=b, staged_by="llama-3.2-1b+ngram", staged_k=[4, 2], staged_alpha=[alpha, 0.5])
        first = (4, alpha, _seconds(case, "llama-3.1-8b", 5, b), 0.0)
        second = (2, 0.5, _seconds(case, "llama-3.2-1b", 3, b), 1.0)
        stages = first, second, (0, 0.0, 0.0, 0.0)
        off.append(deviation(case, solver, *literal(_rest_s(case), stages, b, seed), rounds=1_500))
    deviations_are_chance(off)


def test_where_a_draft_works_beside_the_target_drawn_rounds_are_longer_than_the_means() -> None:
    """The closed form takes a draft's mean time; PEARL ends a step with the later side, which varies."""
    case = scenario("pearl", **NGRAMS)
    drawn = simulate(case, solver="mc", rounds=20_000, seed=1)
    assert 1.0 <= drawn.round_s.value / float(case.estimate.round_s) < 1.15


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"staged_by": "ngram"}, "--staged-alpha"),
        ({"staged_by": "ngram+llama-3.2-1b", "staged_alpha": [0.5, 0.5]}, "--staged-by"),
        ({"staged_by": "ngram", "staged_alpha": [0.5, 0.5]}, "--staged-alpha"),
        ({"staged_by": "a+b+c", "staged_alpha": [0.5]}, "--staged-by"),
        ({"staged_by": "llama-2-7b", "staged_alpha": [0.5]}, "--staged-by"),
        ({"staged_alpha": [0.5]}, "--staged-alpha"),
    ],
)
def test_stages_that_nobody_could_run_are_refused(options: dict[str, Any], message: str) -> None:
    with refused(message):
        scenario(**options)


def test_a_tree_is_not_drafted_by_stages() -> None:
    with pytest.raises(InputError, match="what it would do for a tree is not described"):
        scenario("tree", **NGRAMS, tree_nodes=8, tree_depth=3)


@pytest.mark.ranks
def test_on_real_ranks_the_draft_runs_as_many_passes_as_were_drawn() -> None:
    case = small("sd", k=5, sd_draft="separate", b=1, **NGRAMS).scenarios["sd"]
    with executing(1, 1) as ranks:
        target, draft = run(ranks, case)
    passes = len(spans(draft, "draft step"))
    assert len(spans(target, "verify")) == ROUNDS
    assert 2 * ROUNDS <= passes < 5 * ROUNDS
    assert case.drafter.cannot_run(case.settings) is None
    assert "stages" in str(scenario(**TWICE).drafter.cannot_run(TWICE))
