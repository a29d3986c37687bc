"""Acceptance rules: bounds that hold for all of them, what is provable of block verification, what was published."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssdsim.base.checks import Array
from ssdsim.tokens.acceptance import accepted_length_pmf, expected_tokens_of_pmf, rates_of, rates_of_survival
from ssdsim.tokens.accepted import Accepted
from ssdsim.tokens.rules import RULES, AcceptanceRule

EACH = pytest.mark.parametrize("rule", RULES.cards(), ids=lambda each: each.name)
RATES = st.lists(st.floats(0.0, 1.0), min_size=1, max_size=8)
ODDS = st.floats(1.0, 1000.0)


def tokens(rates: list[float], rule: AcceptanceRule, odds: float) -> float:
    accepted = Accepted(accepted_length_pmf(tuple(rates), len(rates))).under(rule, odds)
    return expected_tokens_of_pmf(accepted.pmf)


@EACH
@given(rates=RATES, odds=ODDS, more=ODDS)
def test_no_rule_accepts_less_nor_more_than_all(
    rule: AcceptanceRule, rates: list[float], odds: float, more: float
) -> None:
    token, some, others = (tokens(rates, rule, each) for each in (1.0, odds, odds * more))
    assert token == pytest.approx(1.0 + np.cumprod(rates).sum(), rel=1e-12)
    assert token <= some * (1.0 + 1e-12) <= others * (1.0 + 1e-11) <= (len(rates) + 1) * (1.0 + 1e-10)


@EACH
@given(rates=RATES, odds=ODDS)
def test_columns_of_factors_are_what_each_factor_makes(rule: AcceptanceRule, rates: list[float], odds: float) -> None:
    accepted = Accepted(accepted_length_pmf(tuple(rates), len(rates)))
    rows = accepted.under(rule, np.array([[1.0], [odds]])).pmf
    for row, each in zip(rows, (1.0, odds), strict=True):
        assert row == pytest.approx(accepted.under(rule, each).pmf, abs=1e-12)


@EACH
def test_a_factor_makes_of_its_setting_what_was_published_there(rule: AcceptanceRule) -> None:
    low, median, high = rule.odds
    assert 1.0 <= low <= median <= high
    for k, rate, least, most in rule.settings:
        for times in (least, most):
            made = tokens([rate] * k, rule, rule.factor(k, rate, times))
            assert made / tokens([rate] * k, rule, 1.0) == pytest.approx(times, rel=1e-9)


def test_one_factor_has_the_gain_of_fly_grow_with_the_lookahead_as_it_was_published() -> None:
    """MTP on two GPUs: 4.1 to 11.6 % at K 3, 11 to 22.9 % at K 5, 20.2 to 31 % at K 8, by the median of all rows."""
    fly = RULES.find("fly")
    for k, least, most in ((3, 1.041, 1.116), (5, 1.11, 1.229), (8, 1.202, 1.31)):
        assert least < tokens([0.77] * k, fly, fly.odds[1]) / tokens([0.77] * k, fly, 1.0) < most


def block_survival(target: Array, draft: Array, k: int) -> Array:
    """P(block verification accepts at least i tokens), ``(K+1,)``: E[p_i] of Sun et al., over all drafts."""
    survival = np.zeros(k + 1)
    for tokens in product(range(target.size), repeat=k):
        weight, kept = float(np.prod(draft[list(tokens)])), 1.0
        if weight == 0.0:
            continue
        survival[0] += weight
        for i, token in enumerate(tokens, start=1):
            kept = min(1.0, kept * target[token] / draft[token])
            survival[i] += weight * kept
    return survival


SHARES = st.lists(st.one_of(st.just(0.0), st.floats(0.01, 1.0)), min_size=2, max_size=4)


@given(of_target=SHARES, of_draft=SHARES, k=st.integers(1, 4))
def test_the_block_rule_is_bounded_as_block_verification_provably_is(
    of_target: list[float], of_draft: list[float], k: int
) -> None:
    """Its first token is accepted as often as by the token rule, each later one at least as often."""
    size = min(len(of_target), len(of_draft))
    target, draft = (np.array(each[:size]) for each in (of_target, of_draft))
    if target.sum() < 0.1 or draft.sum() < 0.1:
        return
    target, draft = target / target.sum(), draft / draft.sum()
    alpha, survival = float(np.minimum(target, draft).sum()), block_survival(target, draft, k)
    assert survival[1] == pytest.approx(alpha, abs=1e-9)
    assert np.all(survival >= alpha ** np.arange(k + 1) - 1e-9)
    if alpha > 1e-3:
        law = RULES.find("block").rates(np.full(k, alpha), 1.2)
        assert law[0] == alpha
        assert np.all(rates_of_survival(survival)[1:] >= alpha - 1e-9)


@pytest.mark.parametrize(("target", "draft"), [((1.0, 0.0), (0.7, 0.3)), ((0.6, 0.4), (0.0, 1.0))])
def test_block_verification_gains_nothing_where_one_side_does_not_sample(
    target: tuple[float, ...], draft: tuple[float, ...]
) -> None:
    p, q = np.array(target), np.array(draft)
    alpha = float(np.minimum(p, q).sum())
    if q.max() == 1.0:  # the token is always the same one
        assert block_survival(p, q, 4) == pytest.approx(alpha ** np.arange(5))
    else:  # a wrong token has no chance, and what comes after it has none
        assert block_survival(p, q, 1)[1] == pytest.approx(alpha)


def test_a_single_token_gains_nothing_by_rules_that_need_others() -> None:
    for rule in RULES.cards():
        gains = rates_of(Accepted(accepted_length_pmf(0.7, 1)).under(rule, 3.0).pmf)[0] > 0.7
        assert gains == (rule.same == "none")
