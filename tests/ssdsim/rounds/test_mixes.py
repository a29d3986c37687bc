"""Requests that differ: renewal over their rounds a token at a time, and many mixes at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ssdsim.base.checks import Array
from ssdsim.base.record import replace
from ssdsim.pricing.cost import TimingErrors
from ssdsim.question.configuration import configure
from ssdsim.question.token_errors import averages_under, each_of
from ssdsim.rounds.kernel import Kernel, Mix


def _mix(seed: int, kinds: tuple[int, ...], states: int, most: int, output_tokens: int) -> Mix:
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(most * states, 0.3), (*kinds, states)).reshape(*kinds, states, most, states)
    p = np.concatenate([np.zeros((*kinds, states, 1, states)), p], axis=-2)
    names = tuple(f"state {number}" for number in range(states))
    return Mix(rng.uniform(0.1, 1.0, kinds[0]), output_tokens, Kernel(names, p))


def _a_token_at_a_time(p: Array, tokens: int) -> Array:
    """Rounds of one kind that begin with n tokens made, by the sum over the rounds before."""
    states, width, _ = p.shape
    began = np.zeros((tokens, states))
    began[0, 0] = 1.0
    for n in range(1, tokens):
        for made in range(1, min(width - 1, n) + 1):
            began[n] += began[n - made] @ p[:, made]
    return began


mixes = {
    "seed": st.integers(0, 99),
    "states": st.integers(1, 3),
    "most": st.integers(1, 9),
    "output_tokens": st.integers(1, 150),
}


@settings(deadline=None, max_examples=60, derandomize=True)
@given(**mixes)
def test_rounds_of_a_request_follow_from_those_before(seed: int, states: int, most: int, output_tokens: int) -> None:
    mix = _mix(seed, (2,), states, most, output_tokens)
    by_token = np.array([_a_token_at_a_time(p, output_tokens) for p in mix.p])
    assert mix.began == pytest.approx(by_token, rel=1e-12, abs=1e-15)
    rounds = mix.weights @ by_token.sum(axis=(1, 2))
    assert mix.averages.tokens_per_round == pytest.approx(output_tokens * mix.weights.sum() / rounds, rel=1e-12)


@settings(deadline=None, max_examples=40, derandomize=True)
@given(**mixes)
def test_many_mixes_at_once_are_what_each_is(seed: int, states: int, most: int, output_tokens: int) -> None:
    many = _mix(seed, (3, 4), states, most, output_tokens)
    for case in range(4):
        alone = replace(many, kernel=replace(many.kernel, p=many.p[:, case])).averages
        assert np.asarray(many.averages.tokens_per_round)[case] == pytest.approx(alone.tokens_per_round, rel=1e-12)
        for at_once, one in ((many.averages.inside, alone.inside), (many.averages.to, alone.to)):
            assert {state: np.asarray(of)[case] for state, of in at_once.items()} == pytest.approx(one, rel=1e-12)


@pytest.mark.parametrize("strategy", ["sd", "ssd", "pearl", "minedraft"])
@pytest.mark.parametrize("more", [{}, {"acceptance_rule": "fly"}], ids=["token rule", "another rule"])
def test_looks_over_ranges_of_requests_that_differ_are_one_kernel(
    strategy: str, more: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = configure(b=4, strategies=(strategy,), subject=strategy, alpha_concentration=4.0, **more)
    known, kernel = scenario.scenarios[strategy].known, type(scenario.scenarios[strategy].strategy).kernel
    made = []
    monkeypatch.setattr(
        type(scenario.scenarios[strategy].strategy), "kernel", lambda *given: made.append(1) or kernel(*given)
    )
    looks = known.at_looks(TimingErrors(64, 0))
    assert len(made) == 1
    for look, change in list(enumerate(each_of(looks.changes)))[::16]:
        alone = averages_under(known.strategy, known.settings, scenario.scenarios[strategy].drafter, change)
        found = np.asarray(looks.averages.tokens_per_round)[look]
        assert found == pytest.approx(alone.tokens_per_round, rel=1e-12)
